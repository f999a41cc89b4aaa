"""From and to the format of torch.distributed.checkpoint (DCP), in any layout on both sides.

Its metadata is a manifest like ours: each tensor's whole shape, and boxes (chunks) of it, each with
a place in a file. So its loader reads our files as soon as it is told where the boxes are; and what
it has written is read by its own loader, whole, and written as ours.

Tensors have the names of a state dict `{"model": ..., "optimizer": ...}` that torch's
`get_model_state_dict` and `get_optimizer_state_dict` make:

    here                           there
    model.<name>                   model.<name>
    optimizer.<slot>.<name>        optimizer.state.<name>.<slot>
    random.<rank>                  random.<rank>
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.futures import Future

from dtlib.composition.checkpoint.boxes import sizes, whole_box
from dtlib.composition.checkpoint.reading import found_manifest
from dtlib.composition.checkpoint.shards import CheckpointError, Entry, Part, read_entry
from dtlib.composition.checkpoint.writing import Ranks, write_checkpoint

HYPERPARAMETERS = "optimizer.param_groups."


class CheckpointReader(dcp.StorageReader):
    """A checkpoint of ours as `dcp.load` wants it: into whole tensors, or shards of any layout.

    Each rank reads the files that its shards need, and every checksum is compared.
    Arguments: `folder` with the newest checkpoint, or that of one. Raises CheckpointError where
    there is none; within `dcp.load`, torch's CheckpointException carries it.

        dcp.load({"model": get_model_state_dict(model)}, storage_reader=CheckpointReader(folder))
    """

    def __init__(self, folder: str | Path):
        self.here, manifest = found_manifest(folder, Ranks())
        self.entries: dict[str, list[Entry]] = {}
        for entry in manifest.entries:
            self.entries.setdefault(torch_name(entry.name), []).append(entry)

    def read_metadata(self) -> Metadata:
        """Shape, dtype and boxes of each tensor, under torch's names."""
        return Metadata({name: _described(entries) for name, entries in self.entries.items()})

    def read_data(self, plan, planner) -> Future:
        """Fill what torch has planned: from an entry, what its box shares with a shard."""
        for item in plan.items:
            entry = self.entries[item.storage_index.fqn][item.storage_index.index]
            corner = zip(item.storage_offsets, item.lengths, strict=True)
            shared = read_entry(self.here, entry)[tuple(slice(at, at + n) for at, n in corner)]
            own = planner.resolve_tensor(item).detach()
            own.copy_(shared)
            planner.commit_tensor(item, own)
        done: Future = Future()
        done.set_result(None)
        return done

    def reset(self, checkpoint_id=None) -> None:
        """Nothing to forget: a reader is of one checkpoint."""

    def set_up_storage_reader(self, metadata, is_coordinator) -> None:
        """Nothing to set up."""

    def prepare_local_plan(self, plan):
        """The plan, as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """The plans, as they are."""
        return plans

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """Whether torch may choose this reader by itself: never."""
        return False


def to_torch_checkpoint(folder: str | Path, out: str | Path) -> None:
    """Write a checkpoint of ours as one of DCP, with the whole state in this process's memory.

    Arguments: `folder` as for `CheckpointReader`; `out`, a folder for DCP. Its step and `extra` are
    no tensors, and stay behind (`read_manifest` has them).
    Raises CheckpointError for no checkpoint, and for files that are missing, too short or changed.
    """
    reader = CheckpointReader(folder)
    state = _empty(reader.read_metadata().state_dict_metadata)
    with _one_error(folder):
        dcp.load(state, storage_reader=reader, no_dist=True)
        dcp.save(state, storage_writer=dcp.FileSystemWriter(out), no_dist=True)


def from_torch_checkpoint(
    source: str | Path,
    folder: str | Path,
    *,
    step: int,
    extra: Mapping | None = None,
    group=None,
) -> Path:
    """Write a checkpoint of DCP as one of ours, which `load_checkpoint` reads under any layout.

    torch reads its metadata with pickle, which runs what it is told to: take only what you trust.
    Arguments: `source`, a folder that `dcp.save` wrote; the others as for `save_checkpoint`: every
    rank of `group` calls it, and has some of the tensors in memory, whole. Hyperparameters
    (`optimizer.param_groups`) are the program's, and are left out. Returns the checkpoint's folder.
    Raises CheckpointError, on every rank, for what is no such checkpoint, files that are missing or
    too short, and tensors of other names.
    """
    ranks = Ranks(group)

    def read() -> list[Part]:
        with _one_error(source):
            reader = dcp.FileSystemReader(source)
            there = reader.read_metadata().state_dict_metadata
            kept = sorted(name for name in there if not name.startswith(HYPERPARAMETERS))
            ours = {name: own_name(name, there[name]) for name in kept}
            state = _empty({name: there[name] for name in kept[ranks.rank :: ranks.P]})
            dcp.load(state, storage_reader=reader, no_dist=True)
        return [Part(ours[n], tuple(x.shape), whole_box(x.shape), x) for n, x in state.items()]

    parts: list[Part] = []
    ranks.all_did(lambda: parts.extend(read()))
    return write_checkpoint(folder, step, parts, extra=extra, group=group)


def torch_name(name: str) -> str:
    """What a tensor of a checkpoint of ours is called in a state dict of torch.

    >>> torch_name("model.head.weight"), torch_name("optimizer.exp_avg.head.weight")
    ('model.head.weight', 'optimizer.state.head.weight.exp_avg')
    """
    what, _, rest = name.partition(".")
    if what != "optimizer":
        return name
    slot, _, of = rest.partition(".")
    return f"optimizer.state.{of}.{slot}"


def own_name(name: str, kind) -> str:
    """The inverse. Raises CheckpointError for another name, and for what is no tensor.

    >>> own_name("optimizer.state.head.weight.exp_avg", TensorStorageMetadata(None, None, []))
    'optimizer.exp_avg.head.weight'
    """
    known = name.startswith(("model.", "optimizer.state.", "random."))
    if not known or not isinstance(kind, TensorStorageMetadata):
        raise CheckpointError(
            f"{name}: is neither a tensor model.<name> nor optimizer.state.<name>.<slot>"
        )
    what, _, rest = name.partition(".state.")
    if what != "optimizer":
        return name
    of, _, slot = rest.rpartition(".")
    return f"optimizer.{slot}.{of}"


def _described(entries: list[Entry]) -> TensorStorageMetadata:
    boxes = [(torch.Size(a for a, _ in e.box), torch.Size(sizes(e.box))) for e in entries]
    properties = TensorProperties(dtype=getattr(torch, entries[0].dtype))
    chunks = [ChunkStorageMetadata(corner, size) for corner, size in boxes]
    return TensorStorageMetadata(properties, torch.Size(entries[0].shape), chunks)


def _empty(tensors: Mapping[str, TensorStorageMetadata]) -> dict[str, torch.Tensor]:
    return {
        name: torch.empty(kind.size, dtype=kind.properties.dtype) for name, kind in tensors.items()
    }


@contextmanager
def _one_error(source: str | Path) -> Iterator[None]:
    """Whatever torch or pickle raise about files is one line; and working alone is no warning."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            yield
    except (Exception, CheckpointException) as raised:
        error = raised
        if isinstance(raised, CheckpointException):
            (error, _), *_ = raised.failures.values()
        if isinstance(error, CheckpointError):
            raise error from None
        said = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise CheckpointError(f"{source}: torch's reader refuses it: {said}") from error
