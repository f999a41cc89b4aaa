"""What makes files a checkpoint: a manifest, which is written last and names them all.

A checkpoint is a folder `step-00000020` with one file for each rank and `manifest.json`. Without a
manifest it does not exist: whoever looks for the newest one does not see it.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from dtlib.composition.checkpoint.boxes import missing_from
from dtlib.composition.checkpoint.shards import CheckpointError, Entry
from dtlib.formulas.require import require_count

NAME = "manifest.json"
FORMAT = "dtlib checkpoint 1"
_STEP = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Manifest:
    """The entries of all files of a checkpoint, the step that it follows, and other state.

    `extra` is what the run wants back that is no tensor: whatever JSON can say.
    """

    step: int
    entries: tuple[Entry, ...]
    extra: dict

    def text(self) -> str:
        """The file: one line of JSON with a checksum, and one with all the rest."""
        body = json.dumps(
            {
                "step": self.step,
                "extra": self.extra,
                "entries": [entry.as_json() for entry in self.entries],
            }
        )
        head = json.dumps({"format": FORMAT, "crc": crc32(body.encode())})
        return f"{head}\n{body}\n"

    def tensors(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The whole shape and the dtype of each tensor."""
        return tensors_of(self.entries)

    def check(self) -> None:
        """Raise CheckpointError unless every tensor is whole, and of one shape and dtype."""
        by_name: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_name.setdefault(entry.name, []).append(entry)
        for name, entries in by_name.items():
            if len({(entry.shape, entry.dtype) for entry in entries}) > 1:
                raise CheckpointError(
                    f"{name}: its parts are of tensors of several shapes or kinds"
                )
            hole = missing_from(entries[0].shape, (entry.box for entry in entries))
            if hole is not None:
                raise CheckpointError(f"{name}: no rank has the box {hole} of {entries[0].shape}")


def tensors_of(entries: Iterable[Entry]) -> dict[str, tuple[tuple[int, ...], str]]:
    """The whole shape and the dtype of each tensor that entries are of."""
    return {entry.name: (entry.shape, entry.dtype) for entry in entries}


def folder_of(folder: Path, step: int) -> Path:
    """Where the checkpoint after a step is. Raises ValueError for no step.

    >>> folder_of(Path("runs"), 20).name
    'step-00000020'
    """
    require_count("a checkpoint", 0, step=step)
    return Path(folder) / f"step-{step:08}"


def complete_steps(folder: Path) -> list[int]:
    """The steps after which there is a checkpoint with a manifest, in order."""
    found = (_STEP.fullmatch(path.name) for path in Path(folder).glob("step-*"))
    return sorted(int(m[1]) for m in found if m and (Path(folder) / m[0] / NAME).exists())


def newest_checkpoint(folder: str | Path) -> Path | None:
    """The folder of the newest checkpoint that is complete; None where there is none."""
    steps = complete_steps(Path(folder))
    return folder_of(Path(folder), steps[-1]) if steps else None


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint's folder.

    Raises CheckpointError where there is none, and for one that is of another kind or was changed.
    """
    path = Path(folder) / NAME
    try:
        head, _, body = path.read_text(encoding="utf-8").partition("\n")
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder}: no {NAME}, so no checkpoint: it is written last"
        ) from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: a byte has changed since it was written") from None
    try:
        head = json.loads(head)
    except json.JSONDecodeError:
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise CheckpointError(f"{path}: its first line is not that of a {FORMAT}")
    body = body.removesuffix("\n")
    if crc32(body.encode()) != head.get("crc"):
        raise CheckpointError(f"{path}: a byte has changed since it was written")
    said = json.loads(body)
    entries = tuple(Entry.of_json(entry) for entry in said["entries"])
    return Manifest(said["step"], entries, said["extra"])


def merged(step: int, extra: dict, of_ranks: Iterable[Sequence[Entry]]) -> Manifest:
    """The manifest of all ranks' entries, checked to be whole."""
    manifest = Manifest(step, tuple(e for entries in of_ranks for e in entries), extra)
    manifest.check()
    return manifest
