"""All ranks write one checkpoint: files first, the manifest last, and old ones go after that.

Ranks that hold copies of a part agree who writes it: whoever has least to write so far. What one
rank is told all are told, so that an error on one of them is the same error on all.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex

from dtlib.composition.checkpoint.boxes import volume
from dtlib.composition.checkpoint.disk import Disk, write_safely
from dtlib.composition.checkpoint.manifest import NAME, complete_steps, folder_of, merged
from dtlib.composition.checkpoint.shards import CheckpointError, Entry, Part, blocks_of
from dtlib.formulas.require import require_count
from dtlib.runtime.process_group import ranks_of, told

TOKEN = "written-by"


class Ranks:
    """The ranks of a group, which tell each other things; without a group, this process alone."""

    def __init__(self, group=None):
        self.group = group
        self.rank, self.P = (0, 1) if group is None else ranks_of(group)

    def told(self, thing) -> list:
        """What every rank says, in their order."""
        return [thing] if self.group is None else told(thing, self.group)

    def all_did(self, act) -> list:
        """What `act` returned on every rank. Raises CheckpointError on all if it raised on one."""
        try:
            mine = act(), None
        except CheckpointError as error:
            mine = None, str(error)
        except OSError as error:
            mine = None, f"{type(error).__name__}: {error}"
        everybody = self.told(mine)
        wrong = {rank: said for rank, (_, said) in enumerate(everybody) if said}
        if wrong:
            rank, said = next(iter(wrong.items()))
            others = f" (and {len(wrong) - 1} more ranks)" if len(wrong) > 1 else ""
            raise CheckpointError(f"rank {rank}{others}: {said}")
        return [result for result, _ in everybody]


def write_checkpoint(
    folder: str | Path,
    step: int,
    parts: Sequence[Part],
    *,
    extra: Mapping | None = None,
    group=None,
    keep: int = 2,
    disk: Disk | None = None,
) -> Path:
    """Write all ranks' parts as the checkpoint after a step; every rank of the group calls it.

    Arguments: `folder`, one that all ranks see; `parts` of this rank, of which others may hold
    copies; `extra`, for JSON, of the group's first rank; `keep`, how many checkpoints stay.
    Returns the checkpoint's folder, when it is complete. Raises CheckpointError, on every rank and
    with the checkpoints before it whole, for a tensor of which a part is missing, a file that
    cannot be written, ranks that see other folders, and a step that is complete already.
    """
    require_count("write_checkpoint", 1, keep=keep)
    ranks, disk, here = Ranks(group), disk or Disk(), folder_of(folder, step)
    token = ranks.all_did(lambda: _prepared(here, disk) if ranks.rank == 0 else None)[0]
    ranks.all_did(lambda: _same_folder(here, token))
    own = own_share(parts, ranks)
    file = f"rank-{ranks.rank:05}.bin"
    entries = ranks.all_did(lambda: _written(here / file, own, disk))
    ranks.all_did(lambda: _committed(here, step, extra, entries, disk) if not ranks.rank else None)
    ranks.all_did(lambda: _pruned(Path(folder), keep, disk) if not ranks.rank else None)
    return here


def _prepared(here: Path, disk: Disk) -> str:
    """An empty folder, with a word in it by which the other ranks know it."""
    if (here / NAME).exists():
        raise CheckpointError(f"{here}: there is a complete checkpoint of this step already")
    if here.exists():
        disk.remove(here)
    disk.make_folder(here)
    token = token_hex(8)
    write_safely(disk, here / TOKEN, [token.encode()])
    return token


def _same_folder(here: Path, token: str) -> None:
    try:
        found = (here / TOKEN).read_text(encoding="utf-8")
    except FileNotFoundError:
        found = ""
    if found != token:
        raise CheckpointError(f"{here}: is not the folder that rank 0 writes to: all must see one")


def own_share(parts: Sequence[Part], ranks: Ranks) -> list[Part]:
    """Of this rank's parts those that it writes: of copies one is written. Every rank calls it."""
    mine = {(part.name, part.box): part for part in parts if volume(part.box)}
    sizes = {key: part.tensor.nbytes for key, part in mine.items()}
    holders: dict[tuple, list[int]] = {}
    bytes_of: dict[tuple, int] = {}
    for rank, said in enumerate(ranks.told(sizes)):
        for key, size in said.items():
            holders.setdefault(key, []).append(rank)
            bytes_of[key] = size
    load, writer = [0] * ranks.P, {}
    for key in sorted(holders):
        writer[key] = min(holders[key], key=lambda rank: (load[rank], rank))
        load[writer[key]] += bytes_of[key]
    return [part for key, part in mine.items() if writer[key] == ranks.rank]


def _written(path: Path, parts: Sequence[Part], disk: Disk) -> list:
    entries: list[Entry] = []
    write_safely(disk, path, blocks_of(path.name, parts, entries))
    return entries


def _committed(here: Path, step: int, extra, entries: Sequence, disk: Disk) -> None:
    """From here on the checkpoint exists."""
    manifest = merged(step, dict(extra or {}), entries)
    write_safely(disk, here / NAME, [manifest.text().encode()])


def _pruned(folder: Path, keep: int, disk: Disk) -> None:
    """All but the newest go, each manifest before its files; and what was never completed."""
    steps = complete_steps(folder)
    for step in steps[:-keep]:
        disk.remove(folder_of(folder, step) / NAME)
        disk.remove(folder_of(folder, step))
    for path in folder.glob("step-*"):
        older = path.name < folder_of(folder, steps[-1]).name
        if older and not (path / NAME).exists():
            disk.remove(path)
