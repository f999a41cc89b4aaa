"""A team of ranks in memory: runs the reader's layers on threads, and records every collective.

A program is a function ``program(comm, ...)`` that every rank runs. ``comm`` has ``rank``, ``size``
and ``device`` and four calls that return a new tensor, without a gradient: ``all_reduce(x,
op="sum")`` ("max" as well), ``all_gather(x, dim=-1)``, ``reduce_scatter(x)`` of a flat x, and
``all_to_all(x, send, receive)``. All ranks make the same calls in the same order, in the backward
pass too; what real ranks would wait for, or turn into nonsense, is an error here that names rank
and call. `RealTeam` offers the same calls on real ranks.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.trace import Deadlock, TransportError
from dtlib.exercises.transport import called_from, raised
from dtlib.exercises.verdict import NotYet
from dtlib.runtime.patience import join_patiently

OTHERS = ("dtlib.parallelism", "dtlib.memory", "torch.distributed")


class Collective(NamedTuple):
    """One call of one rank: what, on how many numbers, and the bytes that it sends for it."""

    operation: str
    numbers: int
    sent_bytes: float

    def __str__(self) -> str:
        return f"{self.operation} of {self.numbers:,} numbers, {self.sent_bytes:,.0f} B sent"


class Team:
    """What both kinds of team count: ``calls``, in order; ``sent_bytes``, all together.

    ``gathered_bytes`` are those of all-gathered tensors that still exist, and
    ``most_gathered_bytes`` as many as there ever were at a time. ``calls`` is a copy: who edits it
    has edited nothing.
    """

    rank: int
    size: int

    def __init__(self):
        self.most_gathered_bytes = 0
        self._calls: list[Collective] = []
        self._gathered: list[Any] = []

    @property
    def calls(self) -> list[Collective]:
        return list(self._calls)

    @property
    def sent_bytes(self) -> float:
        return sum(call.sent_bytes for call in self._calls)

    @property
    def gathered_bytes(self) -> int:
        self._gathered = [whole for whole in self._gathered if not whole.expired()]
        return sum(map(_bytes_now, self._gathered))

    def _remember(self, whole: Any) -> Any:
        """Note an all-gathered tensor, which may live as long as it wants."""
        from torch.multiprocessing.reductions import StorageWeakRef

        self._gathered.append(StorageWeakRef(whole.untyped_storage()))
        self.most_gathered_bytes = max(self.most_gathered_bytes, self.gathered_bytes)
        return whole

    def _count(self, operation: str, x: Any, rows: int | None = None) -> None:
        """Note a call; ``rows`` are those that an all-to-all sends to other ranks."""
        n, P = x.numel() * x.element_size(), self.size
        if rows is not None:
            numbers = rows * (x[0].numel() if len(x) else 0)
            self._calls.append(Collective(operation, numbers, numbers * x.element_size()))
            return
        share = (P - 1) / P
        sent = {"all-reduce": 2 * share, "reduce-scatter": share}.get(operation, P - 1) * n
        self._calls.append(Collective(operation, x.numel(), sent))


class RecordedTeam(Team):
    """What one rank of a recorded team sees."""

    def __init__(self, world: "_World", rank: int):
        import torch

        super().__init__()
        self.rank, self.size, self.device = rank, world.size, torch.device("cpu")
        self._world = world

    def all_reduce(self, x: Any, op: str = "sum") -> Any:
        """The sum ("sum") or the largest ("max") of x over all ranks, number by number."""
        import torch

        if op not in ("sum", "max"):
            raise TransportError(f"op = {op!r}; it is 'sum' or 'max'")
        stacked = torch.stack(self._exchange("all-reduce", x, op))
        return stacked.sum(0) if op == "sum" else stacked.amax(0)

    def all_gather(self, x: Any, dim: int = -1) -> Any:
        """The x of all ranks, in their order, side by side along ``dim``."""
        import torch

        return self._remember(torch.cat(self._exchange("all-gather", x, dim), dim))

    def reduce_scatter(self, x: Any) -> Any:
        """This rank's part of the sum of all ranks' x, which is flat: the one in its place."""
        import torch

        self._check("reduce-scatter", x)
        _check_parts(x, self.rank, self.size)
        stacked = torch.stack(self._exchange("reduce-scatter", x, "sum"))
        return stacked.chunk(self.size, dim=1)[self.rank].sum(0)

    def all_to_all(self, x: Any, send: Any, receive: Any) -> Any:
        """Rows of x to every rank, ``send[q]`` to rank q, in order; ``receive[q]`` come from it."""
        import torch

        self._check("all-to-all", x)
        send, receive = _whole_counts(send, self.size), _whole_counts(receive, self.size)
        if x.dim() == 0 or sum(send) != len(x):
            raise TransportError(
                f"rank {self.rank} sends {send}, in all {sum(send)} rows, of an x of shape "
                f"{list(x.shape)}"
            )
        self._count("all-to-all", x, sum(send) - send[self.rank])
        call = ("all-to-all", f"rows of {x.dtype}", tuple(x.shape[1:]))
        own = (x.detach().clone().split(send), send, receive)
        everybody = self._world.exchange(self.rank, call, own)
        _check_counts([sent for _, sent, _ in everybody], [due for *_, due in everybody])
        return torch.cat([parts[self.rank] for parts, *_ in everybody])

    def split(self, groups: Any) -> "RecordedTeam":
        """The smaller team of this rank: ``groups`` are lists of ranks, and one of them has it."""
        members = next(tuple(group) for group in groups if self.rank in group)
        return RecordedTeam(self._world.part(members), members.index(self.rank))

    def _exchange(self, operation: str, x: Any, how: Any) -> list:
        self._check(operation, x)
        self._count(operation, x)
        return self._world.exchange(self.rank, (operation, how, tuple(x.shape)), x.detach().clone())

    def _check(self, operation: str, x: Any) -> None:
        import torch

        for package in OTHERS:
            if called_from(package):
                raise TransportError(f"these collectives come from {package}: write your own")
        if not isinstance(x, torch.Tensor):
            kind = type(x).__name__
            raise TransportError(f"rank {self.rank} gives a {kind} to {operation}, not a tensor")

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"


class RealTeam(Team):
    """The same calls on real ranks, gloo or NCCL.

    Arguments: ``group``, a torch.distributed process group (None: all ranks).
    """

    def __init__(self, group: Any = None):
        import torch.distributed as dist

        from dtlib.runtime import device

        super().__init__()
        self.group = group or dist.group.WORLD
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.device = device()

    def all_reduce(self, x: Any, op: str = "sum") -> Any:
        """The sum ("sum") or the largest ("max") of x over all ranks, number by number."""
        import torch.distributed as dist

        self._count("all-reduce", x)
        total = x.detach().clone()
        kind = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[op]
        dist.all_reduce(total, op=kind, group=self.group)
        return total

    def all_gather(self, x: Any, dim: int = -1) -> Any:
        """The x of all ranks, in their order, side by side along ``dim``."""
        import torch
        import torch.distributed as dist

        self._count("all-gather", x)
        mine = x.detach().contiguous()
        everybody = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(everybody, mine, group=self.group)
        return self._remember(torch.cat(everybody, dim))

    def reduce_scatter(self, x: Any) -> Any:
        """This rank's part of the sum of all ranks' x, which is flat: the one in its place."""
        from dtlib.runtime.names import reduce_scatter_single

        _check_parts(x, self.rank, self.size)
        self._count("reduce-scatter", x)
        part = x.new_empty(len(x) // self.size)
        reduce_scatter_single(part, x.detach().contiguous(), group=self.group)
        return part

    def all_to_all(self, x: Any, send: Any, receive: Any) -> Any:
        """Rows of x to every rank, ``send[q]`` to rank q, in order; ``receive[q]`` come from it."""
        import torch.distributed as dist

        send, receive = _whole_counts(send, self.size), _whole_counts(receive, self.size)
        self._count("all-to-all", x, sum(send) - send[self.rank])
        arrived = x.new_empty(sum(receive), *x.shape[1:])
        dist.all_to_all_single(arrived, x.detach().contiguous(), receive, send, group=self.group)
        return arrived

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}: {len(self.calls)} calls"


def record_team(program: Callable, size: int, *args: Any, timeout: float = 20.0) -> list:
    """Run ``program(comm, *args)`` on ``size`` ranks; return their results, in order.

    Raises `TransportError` when a rank raises or the ranks' calls do not fit, and `Deadlock` when a
    rank waits for a call that another one never makes.

    >>> import torch
    >>> record_team(lambda comm: comm.all_reduce(torch.tensor([comm.rank, 1])).tolist(), 3)
    [[3, 3], [3, 3], [3, 3]]
    """
    return _World(size).run(program, args, timeout)


def _bytes_now(storage: Any) -> int:
    """Of a storage that is known by a weak reference; it may have been emptied."""
    import torch

    found = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
    return 0 if found is None else found.nbytes()


def _whole_counts(counts: Any, size: int) -> list[int]:
    """Counts of rows, one for each rank, as a list of ints; a tensor or an array will do."""
    counts = [int(count) for count in counts]
    if len(counts) != size or min(counts) < 0:
        raise TransportError(f"counts are one number of rows for each rank, got {counts}")
    return counts


def _check_parts(x: Any, rank: int, size: int) -> None:
    if x.dim() != 1 or len(x) % size:
        raise TransportError(
            f"rank {rank} gives reduce_scatter a tensor of shape {list(x.shape)}; it takes a flat "
            f"one, as long as {size} equal parts"
        )


def _check_counts(sent: list[list[int]], due: list[list[int]]) -> None:
    """Every rank finds the same first mistake of an all-to-all, so all say the same."""
    for rank, expected in enumerate(due):
        for other, rows in enumerate(expected):
            if sent[other][rank] != rows:
                raise TransportError(
                    f"rank {rank} expects {rows} rows from rank {other}, which sends "
                    f"{sent[other][rank]}: real ranks would die, or wait for ever"
                )


class _Stopped(BaseException):
    """Unwinds a rank after another has failed."""


class _World:
    def __init__(self, size: int):
        self.size = size
        self.turn = threading.Condition()
        self.made: list[list[tuple]] = [[] for _ in range(size)]
        self.done = [False] * size
        self.failures: dict[int, Exception] = {}
        self.parts: dict[tuple, _Part] = {}
        self.members: tuple = tuple(range(size))
        self.blocked: dict[int, tuple] = {}  # rank -> (world, number, call) that it waits in

    def part(self, members: tuple) -> "_Part":
        with self.turn:
            return self.parts.setdefault(members, _Part(self, members))

    def run(self, program: Callable, args: tuple, timeout: float) -> list:
        results: list = [None] * self.size
        threads = [
            threading.Thread(target=self._rank, args=(r, program, args, results), daemon=True)
            for r in range(self.size)
        ]
        for thread in threads:
            thread.start()
        join_patiently(threads, timeout)
        if any(thread.is_alive() for thread in threads):
            self._fail(0, TransportError("a rank never finishes: does a loop never end?"))
        if self.failures:
            failure = self.failures[min(self.failures)]
            raise failure from failure.__cause__
        return results

    def _rank(self, rank: int, program: Callable, args: tuple, results: list) -> None:
        try:
            results[rank] = program(RecordedTeam(self, rank), *args)
        except _Stopped:
            return
        except NotYet as judged:
            self._fail(rank, judged)
        except Exception as error:
            self._fail(rank, raised(rank, error))
        with self.turn:
            self.done[rank] = True
            self.turn.notify_all()

    def _fail(self, rank: int, failure: Exception) -> None:
        with self.turn:
            if not self.failures:
                self.failures[rank] = failure
            self.turn.notify_all()

    def exchange(self, rank: int, call: tuple, x: Any) -> list:
        """Everybody's x of this call, once all ranks have made it."""
        with self.turn:
            number = len(self.made[rank])
            self.made[rank].append((call, x))
            self.turn.notify_all()
            self.blocked[self.members[rank]] = (self, number, call)
            while self.waits_for(number) is not None:
                if self.failures:
                    raise _Stopped
                self._check_deadlock()
                self.turn.wait(0.5)
            del self.blocked[self.members[rank]]
        others = [made[number] for made in self.made]
        for other, (theirs, _) in enumerate(others):
            if theirs != call:
                raise TransportError(
                    f"call {number + 1} is {_words(call)} on rank {rank}, but {_words(theirs)} on "
                    f"rank {other}: all ranks make the same calls in the same order"
                )
        return [their_x for _, their_x in others]

    def waits_for(self, number: int) -> int | None:
        """The first rank that has not made this call, by its number among all ranks."""
        late = (m for m, made in zip(self.members, self.made, strict=True) if len(made) <= number)
        return next(late, None)

    def _check_deadlock(self) -> None:
        """Raise when every rank is done or waits for one that is."""
        stuck = {}
        for rank, (world, number, call) in self.blocked.items():
            late = world.waits_for(number)
            if late is not None:
                stuck[rank] = (number, call, late)
        if len(stuck) + sum(self.done) < len(self.done):
            return
        rank = min(stuck)
        number, call, late = stuck[rank]
        raise Deadlock(
            f"deadlock: rank {rank} waits in {_words(call)}, its call {number + 1}, which "
            f"rank {late} never makes"
        )


class _Part(_World):
    """Some ranks of a world, which fail, wait and finish with it; the calls are their own."""

    def __init__(self, whole: _World, members: tuple):
        super().__init__(len(members))
        self.members, self.turn = members, whole.turn
        self.done, self.failures, self.blocked = whole.done, whole.failures, whole.blocked


def _words(call: tuple) -> str:
    operation, how, shape = call
    return f"{operation} ({how}) of shape {list(shape)}"
