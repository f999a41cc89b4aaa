"""Copies of a state in the memory of others: a lone loss is undone without any disk.

The nouns:

- **Kept**: the state of one rank after a step, as the bytes of its parts and an entry for each.
- **Buddy**: of a rank, the one that lies `by` after it in the group and keeps its state, too. Where
  ranks are in the order of nodes, with `by` on each, it is on the next node, and a node may go.

To go on from a step all must go back to it: so each rank keeps its own state as well as another's.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
import torch.distributed as dist

from dtlib.composition.checkpoint.manifest import tensors_of
from dtlib.composition.checkpoint.reading import check_same
from dtlib.composition.checkpoint.saving import group_of, state_of
from dtlib.composition.checkpoint.shards import (
    CheckpointError,
    Entry,
    Part,
    blocks_of,
    numbers_of,
)
from dtlib.composition.checkpoint.states import make_state
from dtlib.composition.checkpoint.writing import Ranks
from dtlib.formulas.require import require
from dtlib.runtime.process_group import ranks_of


class Kept(NamedTuple):
    """The bytes of a rank's state in the host's memory, and what and where in them each part is."""

    entries: list[Entry]
    data: torch.Tensor


class BuddyCopies:
    """Each rank's state, kept in its own memory and in that of its buddy; every rank makes one.

    If a rank's state has n bytes, it sends n for each `keep`, holds 2 n, and 4 n during the next.
    Arguments: `run` and `optimizer` as for `save_checkpoint`; `by`, how many ranks further on the
    buddy is; `group` of the ranks (None: all of a `HybridRun`), which sends from the host's memory,
    as gloo does. A job that goes on with new processes sets the attributes `run`, `optimizer` and
    `group` to its new ones. Raises ValueError for a rank that would be its own buddy.
    """

    def __init__(self, run, optimizer=None, *, by: int, group=None):
        self.run, self.optimizer, self.by = run, optimizer, by
        self.group = group_of(run, group)
        self.rank, self.P = ranks_of(self.group)
        require(1 <= by < self.P, "BuddyCopies", "by", by, f"from 1 to {self.P - 1}")
        self.kept: dict[int, tuple[Kept, Kept]] = {}  # by step: its own, and another rank's

    def keep(self, step: int) -> int:
        """Copy the state after a step, here and to the buddy; every rank calls it.

        Older copies go when all ranks have the new ones, so that a failure at any moment leaves all
        of them the copies of one step. Returns the bytes of the state that this rank has sent.
        """
        own = self._packed()
        everybody = Ranks(self.group).told((own.entries, len(own.data)))
        before = (self.rank - self.by) % self.P
        entries, size = everybody[before]
        arrived = torch.empty(size, dtype=torch.uint8)
        self._exchange([(self._buddy(self.rank), own.data)], [(before, arrived)])
        self.kept[step] = own, Kept(entries, arrived)
        Ranks(self.group).told(step)
        self.kept = {step: self.kept[step]}
        return len(own.data)

    def restore(self, lost: bool = False) -> int:
        """Go back to the newest step of which all have copies; every rank calls it.

        Argument: `lost`, whether this rank has lost its memory. Its run and optimizer are fresh
        then, as `parallelize` makes them, and its buddy gives its state back. Afterwards all have
        copies again. Returns the step.
        Raises CheckpointError, on every rank and with the runs as they were, where a rank and its
        buddy are both lost, where nothing was kept, and for a run of other tensors.
        """
        ranks = Ranks(self.group)
        kept = {step: [one.entries for one in two] for step, two in self.kept.items()}
        told = ranks.told(None if lost else kept)
        step = self._common_step(told)
        if self.optimizer is not None:
            of_all = chain.from_iterable(two[step] for two in told if two is not None)
            make_state(self.run, self.optimizer, tensors_of(chain.from_iterable(of_all)))
        own = self._given_back(told, step)
        parts = state_of(self.run, self.optimizer, self.group)
        values: dict[tuple, torch.Tensor] = {}
        ranks.all_did(lambda: values.update(_values(own, parts)))
        _fill(parts, values)
        self.keep(step)
        return step

    def _buddy(self, rank: int) -> int:
        return (rank + self.by) % self.P

    def _packed(self) -> Kept:
        entries: list[Entry] = []
        parts = state_of(self.run, self.optimizer, self.group)
        data = bytearray().join(blocks_of(f"memory of rank {self.rank}", parts, entries))
        return Kept(entries, torch.frombuffer(data, dtype=torch.uint8))

    def _common_step(self, told: Sequence[dict | None]) -> int:
        """The newest step that all who have not lost their memory have kept, if that is enough."""
        for rank, kept in enumerate(told):
            buddy = self._buddy(rank)
            if kept is None and told[buddy] is None:
                raise CheckpointError(
                    f"rank {rank} and its buddy, rank {buddy}, are both lost: load from disk"
                )
        common = set.intersection(*(set(kept) for kept in told if kept is not None))
        if not common:
            raise CheckpointError("no step was kept by all ranks: load a checkpoint from disk")
        return max(common)

    def _given_back(self, told: Sequence[dict | None], step: int) -> Kept:
        """This rank's own state: its own copy, or the one that its buddy sends if it is lost."""
        before, buddy = (self.rank - self.by) % self.P, self._buddy(self.rank)
        if told[self.rank] is None:
            _, entries = told[buddy][step]
            arrived = torch.empty(sum(entry.length for entry in entries), dtype=torch.uint8)
            self._exchange([], [(buddy, arrived)])
            return Kept(entries, arrived)
        own, others = self.kept[step]
        if told[before] is None:
            self._exchange([(before, others.data)], [])
        return own

    def _exchange(self, sent: Sequence, arriving: Sequence) -> None:
        """Send tensors to ranks, and fill others with what comes from ranks."""
        batch = [
            dist.P2POp(call, x, dist.get_global_rank(self.group, rank), self.group)
            for call, messages in ((dist.isend, sent), (dist.irecv, arriving))
            for rank, x in messages
        ]
        for message in dist.batch_isend_irecv(batch):
            message.wait()


def _values(own: Kept, parts: Sequence[Part]) -> dict[tuple, torch.Tensor]:
    """The numbers of each box, whose bytes are unchanged and which the run has, too."""
    check_same(parts, tensors_of(own.entries))
    return {
        (entry.name, entry.box): numbers_of(entry, own.data[entry.offset :][: entry.length])
        for entry in own.entries
    }


def _fill(parts: Sequence[Part], values: dict[tuple, torch.Tensor]) -> None:
    with torch.no_grad():
        for part in parts:
            part.tensor.copy_(values[part.name, part.box])
            if part.name.startswith("random."):
                torch.set_rng_state(part.tensor)
