"""A transport in memory: runs the reader's ranks as threads, and records every message.

A program is a function ``program(comm, x, ...)`` that every rank runs on its own ``x``. ``comm``
offers what a process group offers for point-to-point: ``comm.send(buffer, dst)``,
``comm.recv(buffer, src)``, and ``comm.isend`` / ``comm.irecv``, which return a handle to ``wait()``
on. It has the hard rules of the real thing: a send finishes only when its receive is there, a
buffer in flight must be left alone, and a handle must be waited for. Breaking one is an error that
names the rank, where real ranks would hang or compute nonsense.
"""

import sys
import threading
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dtlib.exercises import buffers
from dtlib.exercises.trace import Deadlock, Message, Trace, TransportError
from dtlib.runtime.patience import join_patiently


def record(
    program: Callable, inputs: Sequence, *args: Any, timeout: float = 10.0, without: str = ""
) -> Trace:
    """Run ``program(comm, x, *args)`` on one rank per input, and record every message.

    Arguments: ``inputs``, one numpy array or torch tensor per rank (each rank gets a copy);
    ``timeout``, seconds after which a rank that neither finishes nor waits is reported;
    ``without``, a package whose code may not send: a check wants to see the reader's own messages.
    Returns a `Trace`. Raises `Deadlock` when no rank can go on, and `TransportError` when a rank
    raises or breaks a rule: a buffer changed in flight, a handle never waited for, sizes that
    differ.

    >>> def swap(comm, x):
    ...     other = 1 - comm.rank
    ...     theirs = np.empty_like(x)
    ...     sending = comm.isend(x, other)
    ...     comm.recv(theirs, other)
    ...     sending.wait()
    ...     return theirs
    >>> trace = record(swap, [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    >>> trace.results
    [array([3., 4.]), array([1., 2.])]
    >>> trace
    rounds: 1
    rank  messages sent  bytes sent  bytes received
       0              1          16              16
       1              1          16              16
    """
    world = _World(len(inputs), without)
    return world.run(program, [buffers.copy(x) for x in inputs], args, timeout)


class Calls:
    """The blocking calls, made of ``isend`` and ``irecv``: the same in memory and on real ranks."""

    def send(self, buffer: Any, dst: int) -> None:
        """Send ``buffer``; returns when rank ``dst`` has received it."""
        self.isend(buffer, dst).wait()

    def recv(self, buffer: Any, src: int) -> None:
        """Fill ``buffer`` with the next message from rank ``src``."""
        self.irecv(buffer, src).wait()

    def sendrecv(self, out: Any, dst: int, into: Any, src: int) -> None:
        """Send ``out`` to ``dst`` while filling ``into`` from ``src``; returns after both."""
        sending = self.isend(out, dst)
        self.recv(into, src)
        sending.wait()

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"


class Comm(Calls):
    """What a rank sees: its number, how many ranks there are, and point-to-point messages."""

    def __init__(self, world: "_World", rank: int):
        self._world = world
        self.rank = rank
        self.size = world.size

    def isend(self, buffer: Any, dst: int) -> "Handle":
        """Start a send; leave ``buffer`` alone until the handle's ``wait()`` returns."""
        return self._world.post("send", self.rank, dst, buffer)

    def irecv(self, buffer: Any, src: int) -> "Handle":
        """Start a receive; ``buffer`` holds NaN until the handle's ``wait()`` returns."""
        return self._world.post("recv", self.rank, src, buffer)


@dataclass(eq=False)
class Handle:
    """A send or a receive under way."""

    world: "_World" = field(repr=False)
    kind: str
    rank: int
    peer: int
    buffer: Any = field(repr=False)
    posted: int
    snapshot: np.ndarray = field(repr=False)
    delivery: np.ndarray | None = field(default=None, repr=False)
    misfit: TransportError | None = None
    finished: int | None = None
    waited: bool = False

    def wait(self) -> None:
        """Block until the message has been delivered."""
        self.world.wait(self)

    def __str__(self) -> str:
        return f"{self.kind} {'to' if self.kind == 'send' else 'from'} rank {self.peer}"


class _Stopped(BaseException):
    """Unwinds a rank after another rank has failed."""


class _World:
    def __init__(self, size: int, without: str):
        self.size = size
        self.without = without
        self.lock = threading.Condition()
        self.queues: dict[tuple, deque[Handle]] = defaultdict(deque)
        self.clock = [0] * size
        self.waiting: dict[int, Handle] = {}
        self.finished: set[int] = set()
        self.handles: list[Handle] = []
        self.messages: list[Message] = []
        self.failures: dict[int, TransportError] = {}
        self.stopped = False

    def run(self, program, inputs, args, timeout) -> Trace:
        results: list = [None] * self.size
        threads = [
            threading.Thread(
                target=self._rank, args=(r, program, inputs[r], args, results), daemon=True
            )
            for r in range(self.size)
        ]
        for thread in threads:
            thread.start()
        join_patiently(threads, timeout)
        if any(thread.is_alive() for thread in threads):
            self._stop(self._never_ending())
        if self.failures:
            failure = self.failures[min(self.failures)]
            raise failure from failure.__cause__
        self._check_all_waited()
        return Trace(self.size, results, inputs, sorted(self.messages, key=lambda m: m[:3]))

    def _rank(self, rank, program, x, args, results) -> None:
        try:
            results[rank] = program(Comm(self, rank), x, *args)
        except _Stopped:
            return
        except Exception as error:
            self.failures[rank] = raised(rank, error)
        with self.lock:
            self.finished.add(rank)
            self._stop_if_stuck()

    def post(self, kind: str, rank: int, peer: int, buffer: Any) -> Handle:
        if self.without and called_from(self.without):
            raise TransportError(f"these messages come from {self.without}: write your own")
        with self.lock:
            self._check_running()
            self._check_peer(kind, rank, peer)
            buffers.require_buffer(buffer)
            before = buffers.values(buffer)
            handle = Handle(self, kind, rank, int(peer), buffer, self.clock[rank], before)
            self.handles.append(handle)
            if kind == "recv":
                buffers.poison(buffer)
            self.queues[kind, rank, handle.peer].append(handle)
            self._match(*((rank, handle.peer) if kind == "send" else (handle.peer, rank)))
            return handle

    def wait(self, handle: Handle) -> None:
        with self.lock:
            self._check_running()
            self.waiting[handle.rank] = handle
            self._stop_if_stuck()
            while handle.finished is None and not self.stopped:
                self.lock.wait()
            del self.waiting[handle.rank]
            self._check_running()
            if handle.misfit:
                raise handle.misfit
            if handle.kind == "send":
                self._check_untouched(handle)
            elif not handle.waited:
                buffers.fill(handle.buffer, handle.delivery)
            handle.waited = True
            self.clock[handle.rank] = max(self.clock[handle.rank], handle.finished)

    def _match(self, src: int, dst: int) -> None:
        sends, receives = self.queues["send", src, dst], self.queues["recv", dst, src]
        if not (sends and receives):
            return
        send, receive = sends.popleft(), receives.popleft()
        values = receive.delivery = buffers.values(send.buffer)
        receive.misfit = _misfit(send, receive, values)
        send.finished = receive.finished = 1 + max(send.posted, receive.posted)
        self.messages.append(Message(send.finished, src, dst, values.nbytes, values))
        self.lock.notify_all()

    def _stop_if_stuck(self) -> None:
        """Once nobody can go on, end the run: with the failures there are, or with a deadlock.

        Ranks that can go on after another's failure do so: every run ends in the same way.
        """
        stuck = {r: h for r, h in self.waiting.items() if h.finished is None}
        if stuck and len(stuck) + len(self.finished) == self.size:
            self._stop(None if self.failures else Deadlock(_describe_deadlock(stuck)))

    def _stop(self, failure: TransportError | None) -> None:
        with self.lock:
            if failure and not self.failures:
                self.failures[0] = failure
            self.stopped = True
            self.lock.notify_all()

    def _never_ending(self) -> TransportError:
        with self.lock:
            busy = [r for r in range(self.size) if r not in self.finished | set(self.waiting)]
        return TransportError(
            f"rank {busy[0] if busy else 0} neither finishes nor waits: does a loop never end?"
        )

    def _check_running(self) -> None:
        if self.stopped:
            raise _Stopped

    def _check_peer(self, kind: str, rank: int, peer: Any) -> None:
        where = "sends to" if kind == "send" else "receives from"
        if isinstance(peer, bool) or not isinstance(peer, int | np.integer):
            raise TransportError(f"rank {rank} {where} {peer!r}, which is no rank")
        if not 0 <= peer < self.size:
            raise TransportError(
                f"rank {rank} {where} rank {peer}, but the ranks are 0 to {self.size - 1}"
            )
        if peer == rank:
            raise TransportError(f"rank {rank} {where} itself")

    def _check_untouched(self, handle: Handle) -> None:
        if buffers.values(handle.buffer).tobytes() != handle.snapshot.tobytes():
            raise TransportError(
                f"rank {handle.rank} changed the buffer of its {handle} "
                "while the message was in flight"
            )

    def _check_all_waited(self) -> None:
        for handle in self.handles:
            if not handle.waited:
                raise TransportError(
                    f"rank {handle.rank} never waited for its {handle}: "
                    "on real ranks the message may be lost and the peer hangs"
                )


def _misfit(send: Handle, receive: Handle, values: np.ndarray) -> TransportError | None:
    """What keeps a message from its receive buffer."""
    room = receive.snapshot
    pair = f"rank {send.rank} sends {{}} to rank {receive.rank}, which has room for {{}}"
    if values.size != room.size:
        return TransportError(pair.format(f"{values.size} elements", room.size))
    if values.dtype != room.dtype:
        return TransportError(pair.format(values.dtype, room.dtype))
    return None


def called_from(package: str) -> bool:
    """Does code of ``package`` stand in the calls that led here?"""
    frame = sys._getframe()
    while frame:
        if frame.f_globals.get("__name__", "").startswith(package):
            return True
        frame = frame.f_back
    return False


def raised(rank: int, error: Exception) -> TransportError:
    """The error of one rank, in one line, with the line of the reader's program."""
    if isinstance(error, TransportError):
        return error
    if isinstance(error, NotImplementedError):
        return TransportError("there is nothing here yet: the function raises NotImplementedError")
    line = _readers_line(error)
    where = f", at: {line}" if line else ""
    failure = TransportError(f"rank {rank} raised {type(error).__name__}: {error}{where}")
    failure.__cause__ = error
    return failure


def _readers_line(error: Exception) -> str:
    """The deepest line of the traceback that is neither ours nor an installed package's."""
    here = Path(__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.parent != here and "site-packages" not in path.parts:
            return frame.line or ""
    return ""


def _describe_deadlock(stuck: dict[int, Handle]) -> str:
    """Follow who waits for whom, from the lowest rank that no earlier sentence has named."""
    sentences, named = [], set()
    for start in sorted(stuck):
        if start in named:
            continue
        clauses, rank = [], start
        while rank in stuck and rank not in named:
            named.add(rank)
            handle = stuck[rank]
            verb = "to send to" if handle.kind == "send" else "to receive from"
            clauses.append(f"waits {verb} rank {handle.peer}")
            rank = handle.peer
        tail = "" if rank in stuck else ", which has finished"
        sentences.append(f"rank {start} " + ", which ".join(clauses) + tail)
    return "deadlock: " + "; ".join(sentences)
