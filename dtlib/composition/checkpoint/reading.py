"""All ranks read a checkpoint: each takes what its parts share with those that were written."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch

from dtlib.composition.checkpoint.boxes import common, volume, within
from dtlib.composition.checkpoint.manifest import Manifest, newest_checkpoint, read_manifest
from dtlib.composition.checkpoint.shards import CheckpointError, Part, dtype_name, read_entry
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


def check_same(
    parts: Sequence[Part], written: Mapping[str, tuple], others: Iterable[str] = ()
) -> None:
    """Raise CheckpointError unless the parts are of the checkpoint's tensors, and it has no more.

    Arguments: `written`, shape and dtype of each tensor there; `others`, the names of those that
    other ranks have, or that nobody needs.
    """
    wanted = {p.name: (tuple(p.shape), dtype_name(p.tensor)) for p in parts}
    for name, (shape, dtype) in wanted.items():
        if name not in written:
            raise CheckpointError(f"{name}: the checkpoint has no such tensor: of another model?")
        if written[name] != (shape, dtype):
            said = f"{written[name][1]} of shape {written[name][0]}"
            raise CheckpointError(f"{name}: is {dtype} of shape {shape} here, and {said} there")
    left = sorted(set(written) - set(wanted) - set(others))
    if left:
        raise CheckpointError(f"{left[0]}: is in the checkpoint, and no rank has it here")


def read_parts(here: Path, manifest: Manifest, parts: Sequence[Part], ranks: Ranks) -> None:
    """Fill the parts' tensors from a checkpoint's files; every rank calls it.

    Nothing is changed before all ranks have all: meanwhile a rank has its parts twice. Raises
    CheckpointError, on every rank, as `read_entry` does.
    """
    values = [torch.empty_like(part.tensor, device="cpu") for part in parts]
    ranks.all_did(lambda: _fill(here, manifest, list(zip(parts, values, strict=True))))
    with torch.no_grad():
        for part, value in zip(parts, values, strict=True):
            part.tensor.copy_(value)


def _fill(here: Path, manifest: Manifest, wanted: Sequence[tuple[Part, torch.Tensor]]) -> None:
    """Each entry is read once, for all parts that share something with it."""
    places: dict[str, list[int]] = {}
    for place, (part, _) in enumerate(wanted):
        places.setdefault(part.name, []).append(place)
    left = [volume(part.box) for part, _ in wanted]
    for entry in {(entry.name, entry.box): entry for entry in manifest.entries}.values():
        boxes = {
            place: common(entry.box, wanted[place][0].box) for place in places.get(entry.name, ())
        }
        sharing = {place: box for place, box in boxes.items() if box is not None}
        there = read_entry(here, entry) if sharing else None
        for place, box in sharing.items():
            part, value = wanted[place]
            value[within(box, part.box)] = there[within(box, entry.box)]
            left[place] -= volume(box)
    for (part, _), lacks in zip(wanted, left, strict=True):
        if lacks:
            raise CheckpointError(f"{part.name}: {lacks} numbers of {part.box} are not there")
