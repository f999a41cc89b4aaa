"""All ranks read a checkpoint: each takes what its parts share with those that were written."""

from collections.abc import Sequence
from pathlib import Path

import torch

from dtlib.composition.checkpoint.boxes import common, volume, within
from dtlib.composition.checkpoint.manifest import Manifest, newest_checkpoint, read_manifest
from dtlib.composition.checkpoint.shards import CheckpointError, Part, read_entry
from dtlib.composition.checkpoint.writing import Ranks


def found_manifest(folder: str | Path, ranks: Ranks) -> tuple[Path, Manifest]:
    """The newest complete checkpoint in a folder, or the one whose folder it is; the same on all.

    Raises CheckpointError, on every rank, where there is none or ranks find different ones.
    """

    def find():
        here = newest_checkpoint(folder) or Path(folder)
        return here, read_manifest(here)

    found = ranks.all_did(find)
    steps = [manifest.step for _, manifest in found]
    if len(set(steps)) > 1:
        raise CheckpointError(
            f"{folder}: ranks find checkpoints of steps {steps}: all must see one"
        )
    return found[ranks.rank]


def check_same(parts: Sequence[Part], manifest: Manifest, whole: bool = True) -> None:
    """Raise CheckpointError unless the parts are of the checkpoint's tensors.

    With `whole`, a tensor of the checkpoint that nobody wants is one of another model, too.
    """
    written = manifest.tensors()
    wanted = {p.name: (tuple(p.shape), str(p.tensor.dtype).removeprefix("torch.")) for p in parts}
    for name, (shape, dtype) in wanted.items():
        if name not in written:
            raise CheckpointError(f"{name}: the checkpoint has no such tensor: of another model?")
        if written[name] != (shape, dtype):
            said = f"{written[name][1]} of shape {written[name][0]}"
            raise CheckpointError(f"{name}: is {dtype} of shape {shape} here, and {said} there")
    left = sorted(set(written) - set(wanted)) if whole else ()
    if left:
        raise CheckpointError(f"{left[0]}: is in the checkpoint, and no rank has it here")


def read_parts(here: Path, manifest: Manifest, parts: Sequence[Part], ranks: Ranks) -> None:
    """Fill the parts' tensors from a checkpoint's files; every rank calls it.

    Nothing is changed before all ranks have all: meanwhile a rank has its parts twice. Raises
    CheckpointError, on every rank, as `read_entry` does.
    """
    by_name: dict[str, list] = {}
    for entry in manifest.entries:
        by_name.setdefault(entry.name, []).append(entry)

    def read() -> list[torch.Tensor]:
        return [_assembled(here, by_name[part.name], part) for part in parts]

    kept: list = []
    ranks.all_did(lambda: kept.extend(read()))
    with torch.no_grad():
        for part, value in zip(parts, kept, strict=True):
            part.tensor.copy_(value)


def _assembled(here: Path, entries: Sequence, part: Part) -> torch.Tensor:
    value = torch.empty_like(part.tensor, device="cpu")
    filled = 0
    for entry in _disjoint(entries):
        shared = common(entry.box, part.box)
        if shared is not None:
            there = read_entry(here, entry)
            value[within(shared, part.box)] = there[within(shared, entry.box)]
            filled += volume(shared)
    if filled != volume(part.box):
        raise CheckpointError(f"{part.name}: of the box {part.box} only {filled} numbers are there")
    return value


def _disjoint(entries: Sequence) -> list:
    """One entry for each box."""
    return list({entry.box: entry for entry in entries}.values())
