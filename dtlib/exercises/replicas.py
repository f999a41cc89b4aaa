"""Replicas in memory: runs the reader's data parallelism on threads, and records every all-reduce.

A program is a function ``program(comm, ...)`` that every replica runs. ``comm`` offers one call,
``comm.all_reduce(buffer, async_op=False)``, with the hard rules of the real thing: all ranks call
in the same order, with as many numbers; an asynchronous sum is in the buffer only after
``wait()``, the buffer is to be left alone until then, and every handle is to be waited for.
Breaking one is an error that names rank and call, where real ranks hang or compute nonsense.
`ReplicaComm` offers the same call on real ranks.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dtlib.exercises.trace import TransportError
from dtlib.exercises.transport import called_from, raised
from dtlib.runtime.patience import join_patiently

OTHERS = ("dtlib.parallelism", "torch.nn.parallel", "torch.distributed")


class Event(NamedTuple):
    """One line of a rank's log: an all-reduce "starts" or "is waited for", or a "note"."""

    what: str
    number: int
    text: str

    def __str__(self) -> str:
        return self.text if self.what == "note" else f"all-reduce {self.number} {self.text}"


@dataclass(frozen=True)
class ReplicaTrace:
    """What the replicas did: their results, and each one's log."""

    size: int
    results: list
    events: list[list[Event]]
    reduced: list[list[tuple[int, int]]]

    def numbers(self, rank: int = 0) -> list[int]:
        """How many numbers each of a rank's all-reduces had."""
        return [count for count, _ in self.reduced[rank]]

    def nbytes(self, rank: int = 0) -> int:
        """Bytes that a rank gave to all its all-reduces."""
        return sum(size for _, size in self.reduced[rank])

    def __repr__(self) -> str:
        calls = f"{len(self.reduced[0])} all-reduces of {self.nbytes():,} bytes in all"
        return "\n".join([f"rank 0 of {self.size}: {calls}", *map(str, self.events[0])])


def record_replicas(program: Callable, size: int, *args: Any, timeout: float = 20.0):
    """Run ``program(comm, *args)`` on ``size`` replicas; return a `ReplicaTrace`.

    Raises `TransportError` when a replica raises or breaks a rule, or waits for what never comes.

    >>> import torch
    >>> def mean(comm, x):
    ...     total = torch.tensor([x + comm.rank])
    ...     comm.all_reduce(total)
    ...     return float(total / comm.size)
    >>> record_replicas(mean, 2, 5.0).results
    [5.5, 5.5]
    """
    return _World(size).run(program, args, timeout)


class RecordedComm:
    """What a replica sees: its number, how many there are, and the sum over all of them."""

    def __init__(self, world: "_World", rank: int):
        import torch

        self.rank, self.size, self.device = rank, world.size, torch.device("cpu")
        self._world = world

    def all_reduce(self, buffer: Any, async_op: bool = False) -> "Work | None":
        """Replace ``buffer`` by its sum over all ranks: now, or by the time that wait() returns."""
        work = self._world.start(self.rank, buffer)
        if async_op:
            return work
        return work.wait()

    def note(self, text: str) -> None:
        """Write a line of your own into the log."""
        self._world.events[self.rank].append(Event("note", 0, text))

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"


@dataclass(eq=False)
class Work:
    """An all-reduce under way."""

    world: "_World" = field(repr=False)
    rank: int
    number: int
    buffer: Any = field(repr=False)
    addend: Any = field(repr=False)
    waited: bool = False

    def wait(self) -> None:
        """Block until the sum is in the buffer."""
        self.world.wait(self)


class ReplicaComm:
    """The same call on real ranks: a process group that counts.

    Arguments: ``group``, a torch.distributed process group (None: all ranks).
    ``calls`` and ``nbytes`` say how many all-reduces there were, and of how many bytes in all;
    ``log`` has a line (seconds, text) for each start and each `note`.
    """

    def __init__(self, group: Any = None):
        import torch.distributed as dist

        from dtlib.runtime import device

        self.group = group or dist.group.WORLD
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.device = device()
        self.calls = self.nbytes = 0
        self.log: list[tuple[float, str]] = []

    def all_reduce(self, buffer: Any, async_op: bool = False) -> Any:
        """Replace ``buffer`` by its sum over all ranks: now, or by the time that wait() returns."""
        import torch.distributed as dist

        self.calls += 1
        self.nbytes += buffer.nbytes
        self.note(f"all-reduce {self.calls} starts")
        return dist.all_reduce(buffer, group=self.group, async_op=async_op)

    def note(self, text: str) -> None:
        """Write a line of your own into the log."""
        self.log.append((time.perf_counter(), text))

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}: {self.calls} all-reduces, {self.nbytes:,} bytes"


class _Stopped(BaseException):
    """Unwinds a rank after another has failed."""


class _World:
    def __init__(self, size: int):
        self.size = size
        self.lock = threading.Condition()
        self.started: list[list[Work]] = [[] for _ in range(size)]
        self.events: list[list[Event]] = [[] for _ in range(size)]
        self.waiting: dict[int, Work] = {}
        self.finished: set[int] = set()
        self.failures: dict[int, TransportError] = {}
        self.stopped = False

    def run(self, program, args, timeout) -> ReplicaTrace:
        results: list = [None] * self.size
        threads = [
            threading.Thread(target=self._rank, args=(r, program, args, results), daemon=True)
            for r in range(self.size)
        ]
        for thread in threads:
            thread.start()
        join_patiently(threads, timeout)
        if any(thread.is_alive() for thread in threads):
            self._stop(TransportError("a rank neither finishes nor waits: does a loop never end?"))
        if self.failures:
            failure = self.failures[min(self.failures)]
            raise failure from failure.__cause__
        self._check_all_waited()
        sizes = [[(w.addend.numel(), w.addend.nbytes) for w in works] for works in self.started]
        return ReplicaTrace(self.size, results, self.events, sizes)

    def _rank(self, rank, program, args, results) -> None:
        try:
            results[rank] = program(RecordedComm(self, rank), *args)
        except _Stopped:
            return
        except Exception as error:
            self.failures[rank] = raised(rank, error)
        with self.lock:
            self.finished.add(rank)
            self._stop_if_stuck()

    def start(self, rank: int, buffer: Any) -> Work:
        self._check_caller()
        import torch

        if not isinstance(buffer, torch.Tensor):
            kind = type(buffer).__name__
            raise TransportError(f"rank {rank} reduces a {kind}, not a tensor")
        with self.lock:
            if self.stopped:
                raise _Stopped
            number = len(self.started[rank]) + 1
            work = Work(self, rank, number, buffer.detach(), buffer.detach().clone())
            self.started[rank].append(work)
            self._log(work, "starts", f"starts, {buffer.numel():,} numbers")
            if buffer.is_floating_point():
                work.buffer.fill_(float("nan"))
            self.lock.notify_all()
            return work

    def wait(self, work: Work) -> None:
        with self.lock:
            if work.waited:
                return
            self._log(work, "is waited for", "is waited for")
            self.waiting[work.rank] = work
            self._stop_if_stuck()
            while not self._is_there(work) and not self.stopped:
                self.lock.wait()
            del self.waiting[work.rank]
            if self.stopped:
                raise _Stopped
            self._deliver(work)

    def _deliver(self, work: Work) -> None:
        addends = [works[work.number - 1].addend for works in self.started]
        for rank, addend in enumerate(addends):
            ours, theirs = work.addend.numel(), addend.numel()
            if ours != theirs or work.addend.dtype != addend.dtype:
                raise TransportError(
                    f"all-reduce {work.number} has {ours:,} numbers on rank {work.rank}, but "
                    f"{theirs:,} on rank {rank}: all ranks must reduce the same in the same order"
                )
        if work.buffer.is_floating_point() and not work.buffer.isnan().all():
            raise TransportError(
                f"rank {work.rank} changes the buffer of all-reduce {work.number} in flight"
            )
        total = sum(addend.reshape(-1) for addend in addends)
        work.buffer.copy_(total.reshape(work.buffer.shape))
        work.waited = True

    def _is_there(self, work: Work) -> bool:
        return all(len(works) >= work.number for works in self.started)

    def _stop_if_stuck(self) -> None:
        """Once no rank can go on, end the run: with the failures there are, or by naming one."""
        stuck = {r: w for r, w in self.waiting.items() if not self._is_there(w)}
        if not stuck or len(stuck) + len(self.finished) < self.size:
            return
        rank = min(stuck)
        number = stuck[rank].number
        absent = next(r for r, works in enumerate(self.started) if len(works) < number)
        message = f"rank {rank} waits for all-reduce {number}, which rank {absent} never starts"
        self._stop(None if self.failures else TransportError(message))

    def _stop(self, failure: TransportError | None) -> None:
        with self.lock:
            if failure and not self.failures:
                self.failures[0] = failure
            self.stopped = True
            self.lock.notify_all()

    def _log(self, work: Work, what: str, text: str) -> None:
        self.events[work.rank].append(Event(what, work.number, text))

    def _check_caller(self) -> None:
        for package in OTHERS:
            if called_from(package):
                raise TransportError(f"these all-reduces come from {package}: write your own")

    def _check_all_waited(self) -> None:
        for works in self.started:
            for work in works:
                if not work.waited:
                    raise TransportError(
                        f"rank {work.rank} never waits for its all-reduce {work.number}: "
                        "whether the sum is there when it is read is luck"
                    )
