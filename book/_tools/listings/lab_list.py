"""The page of the labs: what each builds, what it takes, how to run it, and the zip to take along.

What it says of a lab stands in the lab's own files: the head of its source, its README, its tasks.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from book._tools.layout import ROOT, lab_sources, public_address, site_branch
from book.notebooks.first_cell import hosted
from dtlib.contents import Chapter, chapters
from dtlib.exercises.manifest import exercises_of

ARCHIVES = "_downloads/labs"
TITLE = re.compile(r"^# (?:Lab: )?(.+)$", re.MULTILINE)
POINTS = re.compile(r"^  points: (\d+)$", re.MULTILINE)
NEEDS = re.compile(r"^\*\*You need\*\* (.+?)\.? \*\*Hardware:\*\*", re.MULTILINE)
ABLE = re.compile(r"\*\*Afterwards you can\*\* (.+)")
ABOUT = re.compile(r"^A lab of (?P<time>.+?) to chapters? .+?: (?P<builds>.+)$", re.MULTILINE)
HARDWARE = re.compile(r"^\*\*Hardware:\*\* (.+)$", re.MULTILINE)

HEAD = """# Labs

A lab is a strategy of your own: you write it, check it against one process, break it, and put predicted, simulated and measured side by side, on several real processes of one laptop. Every check says what is wrong and where, never what is right. The same cells run on GPUs where there is one for each rank.

Each zip is complete: the notebook with its stubs, the solved one, the scripts, and the library of this edition.

**On a laptop** with Linux or macOS (Windows through WSL) and Python 3.11 or later, unpack the zip and, in its folder:

```sh
python3 -m venv .venv && source .venv/bin/activate
pip install -r requirements.txt    # the library from the zip; PyTorch and JupyterLab from PyPI
jupyter lab
```

Where there is no GPU, `pip install torch --index-url https://download.pytorch.org/whl/cpu` before the second line saves gigabytes.

**In Colab or Kaggle** open the notebook alone: its first cell installs the library (PyTorch is there), from this book's address or from the wheel that you uploaded beside it. Ranks are processes there, too.

**On a cluster** install as above on a disk that all nodes see, work in the notebook until its checks pass, adapt the first lines of the Slurm template and submit it with your notebook: `torchrun` runs the functions that you wrote on every rank.
"""  # noqa: E501


class LabPageError(ValueError):
    """A lab's file does not say what the page of the labs wants to know."""


@dataclass(frozen=True)
class Lab:
    """What the page says of one lab."""

    source: Path
    chapter: Chapter

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def title(self) -> str:
        return self._said(TITLE, self._source)[1]

    @property
    def points(self) -> int:
        """The points that nbgrader gives for what passes."""
        return sum(map(int, POINTS.findall(self._source)))

    def facts(self) -> dict[str, str]:
        """What it takes, as terms and texts."""
        tasks = exercises_of(self.name)
        about, readme = self._said(ABOUT, self._readme), self._readme
        return {
            "goes with": f"{{ref}}`{self.chapter.label}`",
            "takes": f"{about['time']}; {len(tasks)} tasks, {self.points} points",
            "you need": self._said(NEEDS, self._source)[1],
            "hardware": self._said(HARDWARE, readme)[1],
        }

    @property
    def builds(self) -> str:
        """What a student writes, as its README begins."""
        text = self._said(ABOUT, self._readme)["builds"]
        return text[0].upper() + text[1:]

    @property
    def able(self) -> str:
        """What one can do afterwards, where the lab says so."""
        found = ABLE.search(self._source)
        return f" Afterwards you can {found[1]}" if found else ""

    @property
    def files(self) -> list[str]:
        """The scripts that lie beside the notebook."""
        return sorted(
            f.name for f in self.source.parent.iterdir() if f.suffix in (".py", ".sbatch", ".sh")
        )

    @property
    def _source(self) -> str:
        return self.source.read_text(encoding="utf-8")

    @property
    def _readme(self) -> str:
        return self.source.with_name("README.md").read_text(encoding="utf-8")

    def _said(self, pattern: re.Pattern, text: str) -> re.Match:
        found = pattern.search(text)
        if not found:
            raise LabPageError(f"lab {self.name} lacks {pattern.pattern!r}")
        return found


def labs(root: Path = ROOT) -> list[Lab]:
    """All labs, in the order of the chapters that they go with."""
    files = {f"{f.parent.parent.name}/{f.stem}": f for f in lab_sources(root)}
    return [Lab(files[path], one) for one in chapters() for path in one.labs]


def labs_page(root: Path = ROOT) -> str:
    """The whole page."""
    return HEAD + "".join(f"\n{_section(lab)}" for lab in labs(root))


def _section(lab: Lab) -> str:
    place = f"{ARCHIVES}/{lab.name}"
    links = {f"{lab.name}.zip": f"../{place}.zip", "the notebook alone": f"../{place}.ipynb"}
    if public_address():
        links |= hosted(public_address(), f"{site_branch()}/{place}.ipynb")
    taken = ", ".join(_link(words, address) for words, address in links.items())
    names = [f"`{name}`" for name in lab.files]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    scripts = f"; the zip with {listed}" if listed else ""
    lines = [f"(lab-{lab.name})=", f"## {lab.title}", "", lab.builds + lab.able, ""]
    lines += [":::{container} dt-lab", ""]
    for term, text in lab.facts().items():
        lines += [term, f": {text}", ""]
    lines += [
        "take along",
        f": {taken}{scripts}",
        ":::",
    ]
    return "\n".join(lines) + "\n"


def _link(words: str, address: str) -> str:
    saves = " download" if address.startswith("..") else ""
    return f'<a class="dt-take" href="{address}"{saves}>{words}</a>'
