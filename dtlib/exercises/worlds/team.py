"""A team in memory: runs the reader's ranks, and records every collective that they call.

A program is a function ``program(comm, ...)`` that every rank runs. ``comm`` offers blocking calls
that return what they made and leave their argument alone: ``comm.all_reduce(x, op="sum")``,
``comm.all_gather(x, dim=-1)``, ``comm.reduce_scatter(x)`` of a flat ``x``, and
``comm.all_to_all(x, send, receive)``, which moves rows by counts. They have the hard rule of the
real thing: all ranks make the same calls in the same order, in the backward pass too; what real
ranks would wait for, or turn into nonsense, is an error here that names rank and call.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.worlds import buffers
from dtlib.exercises.worlds.threads import world_of
from dtlib.exercises.worlds.world import TransportError, World, refuse_work_of
from dtlib.later import torch


class Collective(NamedTuple):
    """One call of one rank: what, on how many numbers, and the bytes that it sends for it."""

    operation: str
    numbers: int
    sent_bytes: float

    def __str__(self) -> str:
        return f"{self.operation} of {self.numbers:,} numbers, {self.sent_bytes:,.0f} B sent"


class Team:
    """The calls of one rank, in memory or real, and their count.

    ``calls`` are in order, ``sent_bytes`` of all together. ``gathered_bytes`` are those of
    all-gathered tensors that still exist, ``most_gathered_bytes`` as many as there ever were.
    """

    rank: int
    size: int
    arrays = False

    def __init__(self):
        self.most_gathered_bytes = 0
        self.calls: list[Collective] = []
        self._gathered: list[Any] = []

    def all_reduce(self, x: Any, op: str = "sum") -> Any:
        """The sum ("sum") or the largest ("max") of x over all ranks, number by number."""
        if op not in ("sum", "max"):
            raise TransportError(f"op = {op!r}; it is 'sum' or 'max'")
        self._count("all-reduce", x, 2 * (self.size - 1) / self.size)
        return self._reduced(buffers.detached(x), op)

    def all_gather(self, x: Any, dim: int = -1) -> Any:
        """The x of all ranks, in their order, side by side along ``dim``."""
        self._count("all-gather", x, self.size - 1)
        whole = buffers.joined(self._everybodys(buffers.detached(x)), dim)
        if buffers.is_tensor(whole):
            self._remember(whole)
        return whole

    def reduce_scatter(self, x: Any) -> Any:
        """This rank's part of the sum of all ranks' x, which is flat: the one in its place."""
        self._count("reduce-scatter", x, (self.size - 1) / self.size)
        if len(x.shape) != 1 or len(x) % self.size:
            raise TransportError(
                f"rank {self.rank} gives reduce_scatter a tensor of shape {list(x.shape)}; it "
                f"takes a flat one, as long as {self.size} equal parts"
            )
        return self._scattered(buffers.detached(x))

    def all_to_all(self, x: Any, send: Any, receive: Any) -> Any:
        """Rows of x to every rank, ``send[q]`` to rank q, in order; ``receive[q]`` come from it."""
        send, receive = self._whole_counts(send), self._whole_counts(receive)
        self._check("all-to-all", x)
        if len(x.shape) == 0 or sum(send) != len(x):
            raise TransportError(
                f"rank {self.rank} sends {send}, in all {sum(send)} rows, of an x of shape "
                f"{list(x.shape)}"
            )
        self._count("all-to-all", x[: sum(send) - send[self.rank]], 1)
        return self._swapped(buffers.detached(x), send, receive)

    @property
    def sent_bytes(self) -> float:
        return sum(call.sent_bytes for call in self.calls)

    @property
    def gathered_bytes(self) -> int:
        self._gathered = [whole for whole in self._gathered if not whole.expired()]
        return sum(map(_bytes_now, self._gathered))

    def _remember(self, whole: Any) -> None:
        """Note an all-gathered tensor, which may live as long as it wants."""
        from torch.multiprocessing.reductions import StorageWeakRef

        self._gathered.append(StorageWeakRef(whole.untyped_storage()))
        self.most_gathered_bytes = max(self.most_gathered_bytes, self.gathered_bytes)

    def _count(self, operation: str, x: Any, share: float) -> None:
        """Note a call, which sends ``share`` times its tensor."""
        self._check(operation, x)
        self.calls.append(Collective(operation, math.prod(x.shape), share * x.nbytes))

    def _check(self, operation: str, x: Any) -> None:
        if not (buffers.is_array(x) if self.arrays else buffers.is_tensor(x)):
            kind = type(x).__name__
            raise TransportError(f"rank {self.rank} gives a {kind} to {operation}, not a tensor")

    def _whole_counts(self, counts: Any) -> list[int]:
        """Counts of rows, one for each rank, as a list of ints; a tensor or an array will do."""
        counts = [int(count) for count in counts]
        if len(counts) != self.size or min(counts) < 0:
            raise TransportError(f"counts are one number of rows for each rank, got {counts}")
        return counts

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}: {len(self.calls)} calls"


def record_team(
    program: Callable, size: int, *args: Any, timeout: float = 20.0, arrays: bool = False
) -> list:
    """Run ``program(comm, *args)`` on ``size`` ranks; return their results, in order.

    The collectives take torch tensors; with ``arrays`` they take numpy arrays, and need no torch.
    Raises `TransportError` when a rank raises or the ranks' calls do not fit, and `Deadlock` when a
    rank waits for a call that another one never makes.

    >>> import torch
    >>> record_team(lambda comm: comm.all_reduce(torch.tensor([comm.rank, 1])).tolist(), 3)
    [[3, 3], [3, 3], [3, 3]]
    """
    world = world_of(size)
    group = _Group(world, range(size))
    return world.run(lambda rank: program(RecordedTeam(group, rank, arrays), *args), timeout)


class RecordedTeam(Team):
    """What one rank of a recorded team sees."""

    def __init__(self, group: "_Group", rank: int, arrays: bool):
        super().__init__()
        self.rank, self.size, self._group = rank, len(group.members), group
        self.arrays = arrays

    @property
    def device(self) -> Any:
        """Where a rank's tensors are to be made."""
        return torch.device("cpu")

    def split(self, groups: Any) -> "RecordedTeam":
        """The smaller team of this rank: ``groups`` are lists of ranks, and one of them has it."""
        members = next(tuple(group) for group in groups if self.rank in group)
        part = self._group.part(members)
        return RecordedTeam(part, members.index(self.rank), self.arrays)

    def _check(self, operation: str, x: Any) -> None:
        refuse_work_of("dtlib.parallelism", "dtlib.memory", "torch.distributed")
        super()._check(operation, x)

    def _reduced(self, x: Any, op: str) -> Any:
        stacked = buffers.stacked(self._exchange("all-reduce", op, x))
        return stacked.sum(0) if op == "sum" else buffers.largest(stacked)

    def _everybodys(self, x: Any) -> list:
        return self._exchange("all-gather", "", x)

    def _scattered(self, x: Any) -> Any:
        stacked = buffers.stacked(self._exchange("reduce-scatter", "sum", x))
        return stacked.reshape(self.size, self.size, -1)[:, self.rank].sum(0)

    def _swapped(self, x: Any, send: list[int], receive: list[int]) -> Any:
        call = f"all-to-all of rows of {x.dtype} of shape {list(x.shape[1:])}"
        own = buffers.split(buffers.copy(x), send), send, receive
        everybody = self._group.exchange(self.rank, call, own)
        _check_counts([sent for _, sent, _ in everybody], [due for *_, due in everybody])
        return buffers.joined([parts[self.rank] for parts, *_ in everybody], 0)

    def _exchange(self, operation: str, how: str, x: Any) -> list:
        words = f"{operation} ({how})" if how else operation
        call = f"{words} of shape {list(x.shape)}"
        return self._group.exchange(self.rank, call, buffers.copy(x))


class _Group:
    """Some ranks of a world, and the calls that each of them has made so far."""

    def __init__(self, world: World, members: Any):
        self.world, self.members = world, tuple(members)
        self.made: list[list[tuple[str, Any]]] = [world.diary(rank, []) for rank in self.members]
        self.parts: dict[tuple, _Group] = {}

    def part(self, places: tuple) -> "_Group":
        """The group of the members in these places: the same object for each of them."""
        with self.world.lock:
            if places not in self.parts:
                members = [self.members[place] for place in places]
                self.parts[places] = _Group(self.world, members)
            return self.parts[places]

    def exchange(self, rank: int, call: str, x: Any) -> list:
        """Everybody's x of this call, once all members have made it."""
        with self.world.lock:
            number = len(self.made[rank])
            self.made[rank].append((call, x))
            self.world.lock.notify_all()
            says = f"waits in {call}, its call {number + 1}, for"
            self.world.until(self.members[rank], lambda: self._late(number), says)
        theirs = [made[number] for made in self.made]
        for other, (their_call, _) in enumerate(theirs):
            if their_call != call:
                raise TransportError(
                    f"call {number + 1} is {call} on rank {rank}, but {their_call} on "
                    f"rank {other}: all ranks make the same calls in the same order"
                )
        return [their_x for _, their_x in theirs]

    def _late(self, number: int) -> int | None:
        """The first rank of the world that has not made this call."""
        made = zip(self.members, self.made, strict=True)
        return next((member for member, calls in made if len(calls) <= number), None)


def _check_counts(sent: list[list[int]], due: list[list[int]]) -> None:
    """Every rank finds the same first mistake of an all-to-all, so all say the same."""
    for rank, expected in enumerate(due):
        for other, rows in enumerate(expected):
            if sent[other][rank] != rows:
                raise TransportError(
                    f"rank {rank} expects {rows} rows from rank {other}, which sends "
                    f"{sent[other][rank]}: real ranks would die, or wait for ever"
                )


def _bytes_now(storage: Any) -> int:
    """Of a storage that is known by a weak reference; it may have been emptied."""
    found = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
    return 0 if found is None else found.nbytes()
