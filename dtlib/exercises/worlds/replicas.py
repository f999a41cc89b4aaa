"""Replicas in memory: runs the reader's data parallelism, and records every all-reduce.

A program is a function ``program(comm, ...)`` that every replica runs. ``comm`` offers one call,
``comm.all_reduce(buffer, async_op=False)``, with the hard rules of the real thing: all ranks call
in the same order, with as many numbers; an asynchronous sum is in the buffer only after
``wait()``, the buffer is to be left alone until then, and every handle is to be waited for.
Breaking one is an error that names rank and call, where real ranks hang or compute nonsense.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dtlib.exercises.worlds.threads import world_of
from dtlib.exercises.worlds.world import TransportError, World, refuse_work_of


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


def record_replicas(
    program: Callable, size: int, *args: Any, timeout: float = 20.0
) -> ReplicaTrace:
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
    log = _Log(world_of(size))
    results = log.world.run(lambda rank: program(RecordedComm(log, rank), *args), timeout)
    log.check_all_waited()
    sizes = [[(w.addend.numel(), w.addend.nbytes) for w in works] for works in log.started]
    return ReplicaTrace(size, results, log.events, sizes)


class RecordedComm:
    """What a replica sees: its number, how many there are, and the sum over all of them."""

    def __init__(self, log: "_Log", rank: int):
        import torch

        self.rank, self.size, self.device = rank, log.world.size, torch.device("cpu")
        self._log = log

    def all_reduce(self, buffer: Any, async_op: bool = False) -> "Work | None":
        """Replace ``buffer`` by its sum over all ranks: now, or by the time that wait() returns."""
        work = self._log.start(self.rank, buffer)
        return work if async_op else work.wait()

    def note(self, text: str) -> None:
        """Write a line of your own into the log."""
        self._log.events[self.rank].append(Event("note", 0, text))

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"


@dataclass(eq=False)
class Work:
    """An all-reduce under way."""

    log: "_Log" = field(repr=False)
    rank: int
    number: int
    buffer: Any = field(repr=False)
    addend: Any = field(repr=False)
    waited: bool = False

    def wait(self) -> None:
        """Block until the sum is in the buffer."""
        self.log.wait(self)


class _Log:
    """The all-reduces that the ranks of a world have started, and what was noted."""

    def __init__(self, world: World):
        self.world = world
        self.started: list[list[Work]] = [world.diary(rank, []) for rank in range(world.size)]
        self.events: list[list[Event]] = [world.diary(rank, []) for rank in range(world.size)]

    def start(self, rank: int, buffer: Any) -> Work:
        import torch

        refuse_work_of("dtlib.parallelism", "torch.nn.parallel", "torch.distributed")
        if not isinstance(buffer, torch.Tensor):
            kind = type(buffer).__name__
            raise TransportError(f"rank {rank} reduces a {kind}, not a tensor")
        with self.world.lock:
            self.world.go_on()
            number = len(self.started[rank]) + 1
            work = Work(self, rank, number, buffer.detach(), buffer.detach().clone())
            self.started[rank].append(work)
            self.events[rank].append(Event("starts", number, f"starts, {buffer.numel():,} numbers"))
            if buffer.is_floating_point():
                work.buffer.fill_(float("nan"))
            self.world.lock.notify_all()
            return work

    def wait(self, work: Work) -> None:
        with self.world.lock:
            if work.waited:
                return
            number = work.number
            self.events[work.rank].append(Event("is waited for", number, "is waited for"))
            says = f"waits for all-reduce {number} of"
            self.world.until(work.rank, lambda: self._late(number), says)
            self._deliver(work)

    def check_all_waited(self) -> None:
        for work in (work for works in self.started for work in works if not work.waited):
            raise TransportError(
                f"rank {work.rank} never waits for its all-reduce {work.number}: "
                "whether the sum is there when it is read is luck"
            )

    def _late(self, number: int) -> int | None:
        """The first rank that has not started this all-reduce."""
        return next((r for r, works in enumerate(self.started) if len(works) < number), None)

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
