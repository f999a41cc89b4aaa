"""Save a run and load it: any layout to any other, all of its state or an error."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from dtlib.composition.checkpoint.disk import Disk
from dtlib.composition.checkpoint.reading import check_same, found_manifest, read_parts
from dtlib.composition.checkpoint.shards import Part
from dtlib.composition.checkpoint.states import make_state, parts_of
from dtlib.composition.checkpoint.writing import Ranks, write_checkpoint
from dtlib.composition.hybrid.parallel import HybridRun


class Loaded(NamedTuple):
    """What `load_checkpoint` returns: the step after which was saved, and the other state."""

    step: int
    extra: dict


def save_checkpoint(
    folder: str | Path,
    run,
    optimizer=None,
    *,
    step: int,
    extra: Mapping | None = None,
    group=None,
    keep: int = 2,
    disk: Disk | None = None,
) -> Path:
    """Write the whole state of a run after a step; every rank calls it.

    Saved are weights, optimizer state and this rank's generator of random numbers; what else the
    next step depends on (place in the data, schedules, scalers) goes into `extra`.
    Arguments: `folder`, one that all ranks see; `run`, what `parallelize` made, a `FullySharded`
    module, or a plain module of which every rank has all; its `optimizer`; `step`; `extra`, for
    JSON; `group` of the ranks (None: all of a `HybridRun`, else this process alone); `keep`, how
    many checkpoints stay. Returns the checkpoint's folder.
    Raises CheckpointError, on every rank, as `write_checkpoint` does; the checkpoints before it are
    whole then.
    """
    group = group_of(run, group)
    parts = state_of(run, optimizer, group)
    return write_checkpoint(folder, step, parts, extra=extra, group=group, keep=keep, disk=disk)


def load_checkpoint(folder: str | Path, run, optimizer=None, *, group=None) -> Loaded:
    """Fill a run from the newest complete checkpoint of a folder; every rank calls it.

    The layout that wrote it may have been any other. Arguments: `folder`, or that of one
    checkpoint; the others as for `save_checkpoint`. Random numbers go on where this rank's did; a
    rank that was not there takes those of another one.
    Returns the step and the extra state. Raises CheckpointError, on every rank and with the run as
    it was, for no complete checkpoint, one of another model, and files that are missing, too short
    or changed, which it names.
    """
    ranks = Ranks(group_of(run, group))
    here, manifest = found_manifest(folder, ranks)
    written = manifest.tensors()
    if optimizer is not None:
        make_state(run, optimizer, written)
    parts = parts_of(run, optimizer)
    others = set().union(*ranks.told({part.name for part in parts}))
    unasked = ("random.",) if optimizer is not None else ("random.", "optimizer.")
    others.update(name for name in written if name.startswith(unasked))
    ranks.all_did(lambda: check_same(parts, written, others))
    writers = sum(name.startswith("random.") for name in written)
    random = _random(ranks.rank % writers) if writers else None
    read_parts(here, manifest, [*parts, *([random] if random else [])], ranks)
    if random:
        torch.set_rng_state(random.tensor)
    return Loaded(manifest.step, manifest.extra)


def group_of(run, group):
    """The group whose ranks have a run among them: all of a `HybridRun`, else the one given."""
    return run.places.everyone if group is None and isinstance(run, HybridRun) else group


def state_of(run, optimizer, group) -> list[Part]:
    """All that is saved of this rank: parts of weights and optimizer state, and its generator."""
    return [*parts_of(run, optimizer), _random(Ranks(group).rank)]


def _random(rank: int) -> Part:
    """The generator of random numbers of a rank."""
    state = torch.get_rng_state()
    return Part(f"random.{rank}", tuple(state.shape), ((0, len(state)),), state)
