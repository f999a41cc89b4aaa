"""Python for the page, beside the built pages: packs, the worker, and the list of both.

_static/code/engine.js             the page's half, one of the book's scripts
_static/code/python/engine.json    which worker, which packs, how many bytes
_static/code/python/worker-.../    the worker's scripts
_static/code/python/*.pack         what it fetches: some at once, a room when a page opens it
"""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from book._engine import contents
from book._engine.packages import file_of, pinned
from book._engine.packs import Files, Pack, pack
from book._engine.rooms import Folders, divided, rooms

FOLDER = "_static/code/python"
HERE = Path(__file__).parent
ENGINES = ("cowasm", "pyodide")
NO_ENGINE = (
    "no Python in the pages: npm's registry does not answer, or page_engine is empty in "
    "_config.yml; the rest of the site is whole"
)


@dataclass(frozen=True)
class Engine:
    """One engine, ready to be put beside the pages."""

    name: str
    scripts: Files
    packs: tuple[Pack, ...]
    rooms: tuple[tuple[Folders, Pack], ...] = ()

    @property
    def worker(self) -> str:
        """The folder of the scripts, named by what they say."""
        said = b"".join(name.encode() + self.scripts[name] for name in sorted(self.scripts))
        return f"worker-{hashlib.sha256(said).hexdigest()[:10]}"

    @property
    def size(self) -> int:
        """The bytes that come with a reader's first click, before the rooms that it opens."""
        return sum(map(len, self.scripts.values())) + sum(one.size for one in self.packs)

    def listed(self) -> dict:
        """What the page's half reads."""
        return {
            "engine": self.name,
            "worker": f"{self.worker}/worker.js",
            "packs": [one.listed() for one in self.packs],
            "rooms": [one.listed() | {"folders": folders} for folders, one in self.rooms],
        }

    def write(self, site: Path) -> None:
        folder = site / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        for name, script in self.scripts.items():
            target = folder / self.worker / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(script)
        for one in (*self.packs, *(room for _, room in self.rooms)):
            shutil.copyfile(one.file, folder / one.file.name)
        (folder / "engine.json").write_text(json.dumps(self.listed()), encoding="utf-8")


def engine(name: str = "cowasm") -> Engine:
    """An engine with all that it needs. Raises Unreachable, and ValueError for another name."""
    if name not in ENGINES:
        raise ValueError(f"engine {name!r}: it is one of {', '.join(ENGINES)}")
    scripts = {file.name: file.read_bytes() for file in (HERE / "worker").glob("*.js")}
    scripts["xz.js"] = (HERE / "vendor/xz.js").read_bytes()
    if name == "pyodide":
        package = pinned()["pyodide"]
        scripts |= {f"pyodide/{file}": file_of("pyodide", file) for file in package.files}
        return Engine(name, scripts, (pack("dtlib", contents.dtlib()),))
    common, *others = (pack(one, files) for one, files in divided(contents.dtlib()).items())
    packs = pack("python", contents.python()), pack("numpy", contents.numpy()), common
    return Engine(name, scripts, packs, tuple((rooms()[one.name], one) for one in others))
