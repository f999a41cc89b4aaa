"""Point-to-point messages in memory: runs the reader's ranks, and records every message.

A program is a function ``program(comm, x, ...)`` that every rank runs on its own ``x``. ``comm``
offers what a process group offers for point-to-point: ``comm.send(buffer, dst)``,
``comm.recv(buffer, src)``, and ``comm.isend`` / ``comm.irecv``, which return a handle to ``wait()``
on. It has the hard rules of the real thing: a send finishes only when its receive is there, a
buffer in flight must be left alone, and a handle must be waited for. Breaking one is an error that
names the rank, where real ranks would hang or compute nonsense.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtlib.exercises.worlds import buffers
from dtlib.exercises.worlds.threads import world_of
from dtlib.exercises.worlds.trace import Message, Trace
from dtlib.exercises.worlds.world import TransportError, World, refuse_work_of
from dtlib.later import np


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
    mail, own = _Mail(world_of(len(inputs)), without), list(inputs)

    def one(rank: int) -> Any:
        own[rank] = buffers.copy(inputs[rank])
        return program(Comm(mail, rank), own[rank], *args)

    results = mail.world.run(one, timeout)
    mail.check_all_waited()
    return Trace(len(inputs), results, own, mail.messages())


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

    def __init__(self, mail: "_Mail", rank: int):
        self._mail = mail
        self.rank = rank
        self.size = mail.world.size

    def isend(self, buffer: Any, dst: int) -> "Handle":
        """Start a send; leave ``buffer`` alone until the handle's ``wait()`` returns."""
        return self._mail.post("send", self.rank, dst, buffer)

    def irecv(self, buffer: Any, src: int) -> "Handle":
        """Start a receive; ``buffer`` holds NaN until the handle's ``wait()`` returns."""
        return self._mail.post("recv", self.rank, src, buffer)


@dataclass(eq=False)
class Handle:
    """A send or a receive under way; ``number`` counts those of its kind to or from its peer."""

    mail: "_Mail" = field(repr=False)
    kind: str
    rank: int
    peer: int
    number: int
    buffer: Any = field(repr=False)
    posted: int
    snapshot: Any = field(repr=False)
    waited: bool = False

    def wait(self) -> None:
        """Block until the message has been delivered."""
        self.mail.wait(self)

    @property
    def partner(self) -> "Handle | None":
        """The receive of this send, or the send of this receive, once its rank has posted it."""
        other = "recv" if self.kind == "send" else "send"
        return self.mail.posted[self.peer].get((other, self.rank, self.number))

    @property
    def finished(self) -> int:
        """The round in which the message arrives."""
        return 1 + max(self.posted, self.partner.posted)

    def __str__(self) -> str:
        return f"{self.kind} {'to' if self.kind == 'send' else 'from'} rank {self.peer}"


class _Mail:
    """The sends and receives that each rank of a world has posted; messages follow from them."""

    def __init__(self, world: World, without: str):
        self.world, self.without = world, without
        self.posted = [world.diary(rank, {}) for rank in range(world.size)]

    def post(self, kind: str, rank: int, peer: int, buffer: Any) -> Handle:
        if self.without:
            refuse_work_of(self.without)
        with self.world.lock:
            self.world.go_on()
            self._check_peer(kind, rank, peer)
            buffers.require_buffer(buffer)
            peer, before, own = int(peer), buffers.values(buffer), self.posted[rank]
            number = sum(key[:2] == (kind, peer) for key in own)
            handle = Handle(self, kind, rank, peer, number, buffer, self._clock(rank), before)
            own[kind, peer, number] = handle
            if kind == "recv":
                buffers.poison(buffer)
            self.world.lock.notify_all()
            return handle

    def wait(self, handle: Handle) -> None:
        with self.world.lock:
            verb = "waits to send to" if handle.kind == "send" else "waits to receive from"
            self.world.until(handle.rank, lambda: None if handle.partner else handle.peer, verb)
            send, receive = _in_order(handle, handle.partner)
            if misfit := _misfit(send, receive):
                raise misfit
            if handle is send:
                _check_untouched(handle)
            elif not handle.waited:
                buffers.fill(handle.buffer, send.snapshot)
            handle.waited = True

    def check_all_waited(self) -> None:
        for handle in (handle for own in self.posted for handle in own.values()):
            if not handle.waited:
                raise TransportError(
                    f"rank {handle.rank} never waited for its {handle}: "
                    "on real ranks the message may be lost and the peer hangs"
                )

    def messages(self) -> list[Message]:
        """All of them, in order of round, sender and receiver."""
        sends = [h for own in self.posted for h in own.values() if h.kind == "send"]
        return sorted(
            (Message(h.finished, h.rank, h.peer, h.snapshot.nbytes, h.snapshot) for h in sends),
            key=lambda message: message[:3],
        )

    def _clock(self, rank: int) -> int:
        """The latest round of those that a rank has waited for."""
        return max((h.finished for h in self.posted[rank].values() if h.waited), default=0)

    def _check_peer(self, kind: str, rank: int, peer: Any) -> None:
        where = "sends to" if kind == "send" else "receives from"
        if isinstance(peer, bool) or not isinstance(peer, int | np.integer):
            raise TransportError(f"rank {rank} {where} {peer!r}, which is no rank")
        if not 0 <= peer < self.world.size:
            raise TransportError(
                f"rank {rank} {where} rank {peer}, but the ranks are 0 to {self.world.size - 1}"
            )
        if peer == rank:
            raise TransportError(f"rank {rank} {where} itself")


def _check_untouched(handle: Handle) -> None:
    if buffers.values(handle.buffer).tobytes() != handle.snapshot.tobytes():
        raise TransportError(
            f"rank {handle.rank} changed the buffer of its {handle} while the message was in flight"
        )


def _in_order(one: Handle, other: Handle) -> tuple[Handle, Handle]:
    """The send of a message, then its receive."""
    return (one, other) if one.kind == "send" else (other, one)


def _misfit(send: Handle, receive: Handle) -> TransportError | None:
    """What keeps a message from its receive buffer; both ranks are told."""
    sent, room = send.snapshot, receive.snapshot
    pair = f"rank {send.rank} sends {{}} to rank {receive.rank}, which has room for {{}}"
    if sent.size != room.size:
        return TransportError(pair.format(f"{sent.size} elements", room.size))
    if sent.dtype != room.dtype:
        return TransportError(pair.format(sent.dtype, room.dtype))
    return None
