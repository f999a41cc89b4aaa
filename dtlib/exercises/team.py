"""A tensor-parallel team in memory: runs the reader's layers on threads, and records every sum.

A program is a function ``program(comm, ...)`` that every rank runs. ``comm`` has ``rank``, ``size``
and ``device`` and two calls that return a new tensor, without a gradient: ``all_reduce(x,
op="sum")`` ("max" as well) and ``all_gather(x, dim=-1)``. All ranks make the same calls in the same
order, in the backward pass too; what real ranks would wait for, or turn into nonsense, is an error
here that names rank and call. `RealTeam` offers the same calls on real ranks.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.trace import Deadlock, TransportError
from dtlib.exercises.transport import called_from, raised
from dtlib.exercises.verdict import NotYet

OTHERS = ("dtlib.parallelism", "torch.distributed")


class Collective(NamedTuple):
    """One call of one rank: what, on how many numbers, and the bytes that it sends for it."""

    operation: str
    numbers: int
    sent_bytes: float

    def __str__(self) -> str:
        return f"{self.operation} of {self.numbers:,} numbers, {self.sent_bytes:,.0f} B sent"


class Team:
    """What both kinds of team count: ``calls``, in order; ``sent_bytes``, all together."""

    rank: int
    size: int

    def __init__(self):
        self.calls: list[Collective] = []

    @property
    def sent_bytes(self) -> float:
        return sum(call.sent_bytes for call in self.calls)

    def _count(self, operation: str, x: Any) -> None:
        n, P = x.numel() * x.element_size(), self.size
        sent = 2 * (P - 1) / P * n if operation == "all-reduce" else (P - 1) * n
        self.calls.append(Collective(operation, x.numel(), sent))


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

        return torch.cat(self._exchange("all-gather", x, dim), dim)

    def _exchange(self, operation: str, x: Any, how: Any) -> list:
        import torch

        for package in OTHERS:
            if called_from(package):
                raise TransportError(f"these collectives come from {package}: write your own")
        if not isinstance(x, torch.Tensor):
            kind = type(x).__name__
            raise TransportError(f"rank {self.rank} gives a {kind} to {operation}, not a tensor")
        self._count(operation, x)
        return self._world.exchange(self.rank, (operation, how, tuple(x.shape)), x.detach().clone())

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"


class RealTeam(Team):
    """The same two calls on real ranks, gloo or NCCL.

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
        return torch.cat(everybody, dim)

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


class _Stopped(BaseException):
    """Unwinds a rank after another has failed."""


class _World:
    def __init__(self, size: int):
        self.size = size
        self.turn = threading.Condition()
        self.made: list[list[tuple]] = [[] for _ in range(size)]
        self.done = [False] * size
        self.failures: dict[int, Exception] = {}

    def run(self, program: Callable, args: tuple, timeout: float) -> list:
        results: list = [None] * self.size
        threads = [
            threading.Thread(target=self._rank, args=(r, program, args, results), daemon=True)
            for r in range(self.size)
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))
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
            while not all(len(made) > number for made in self.made):
                if self.failures:
                    raise _Stopped
                self._check_reachable(rank, number, call)
                self.turn.wait(0.5)
        others = [made[number] for made in self.made]
        for other, (theirs, _) in enumerate(others):
            if theirs != call:
                raise TransportError(
                    f"call {number + 1} is {_words(call)} on rank {rank}, but {_words(theirs)} on "
                    f"rank {other}: all ranks make the same calls in the same order"
                )
        return [their_x for _, their_x in others]

    def _check_reachable(self, rank: int, number: int, call: tuple) -> None:
        for other, made in enumerate(self.made):
            if self.done[other] and len(made) <= number:
                raise Deadlock(
                    f"deadlock: rank {rank} waits in {_words(call)}, its call {number + 1}, which "
                    f"rank {other} never makes"
                )


def _words(call: tuple) -> str:
    operation, how, shape = call
    return f"{operation} ({how}) of shape {list(shape)}"
