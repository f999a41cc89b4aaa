"""Packs: files as one, compressed, as the page's worker reads them (book/_engine/worker/packs.js).

A pack is a length of four bytes, the list of paths and sizes as JSON, and the files' bytes, as xz.
Its name has the hash of its content, so that a pack that has not changed is neither compressed nor
fetched again.
"""

import hashlib
import json
import lzma
from dataclasses import dataclass
from pathlib import Path

from book._tools.layout import ROOT

CACHE = ROOT / ".cache/engine"
Files = dict[str, bytes]
LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24}]


@dataclass(frozen=True)
class Pack:
    """A pack in the cache: its bytes as the reader fetches them."""

    name: str
    file: Path

    @property
    def size(self) -> int:
        return self.file.stat().st_size

    def listed(self) -> dict:
        """What the page's half reads of it."""
        return {"file": self.file.name, "size": self.size}


def joined(files: Files) -> bytes:
    """Files as one, those of a kind side by side, which compress best.

    >>> joined({"/b.py": b"B", "/a.py": b"A"})
    b'\\x00\\x00\\x00\\x1c[["/a.py", 1], ["/b.py", 1]]AB'
    """
    paths = sorted(files, key=lambda path: (path.rsplit(".", 1)[-1], path))
    listed = json.dumps([[path, len(files[path])] for path in paths]).encode()
    return len(listed).to_bytes(4, "big") + listed + b"".join(files[path] for path in paths)


def pack(name: str, files: Files) -> Pack:
    """A pack of these files, from the cache where it was made before."""
    content = joined(files)
    mark = hashlib.sha256(content + repr(LZMA).encode()).hexdigest()[:10]
    target = CACHE / f"{name}-{mark}.pack"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        half = target.with_suffix(".half")
        half.write_bytes(lzma.compress(content, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=LZMA))
        half.replace(target)
    return Pack(name, target)
