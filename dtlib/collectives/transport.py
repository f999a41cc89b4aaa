"""What carries messages between ranks when a schedule is executed.

A transport belongs to one rank. It has

- ``rank`` and ``size``: which rank this is, of how many;
- ``isend(buffer, dst)`` and ``irecv(buffer, src)``: start a message and return a handle, whose
  ``wait()`` returns when the buffer may be used again;
- ``early_receives``, true if receives may be posted rounds before their messages are sent. Without
  it, they are posted in their own round. A batch must have none: it would wait for them.

Messages between two ranks arrive in the order in which they were sent. Anything that offers this
can be passed to `execute`: torch.distributed in its two ways, mailboxes in memory, or a transport
of your own that records, delays or loses messages.
"""

import time
from collections import defaultdict, deque

from dtlib.timeline import Span


class PointToPoint:
    """The send and recv of a torch.distributed process group, one message at a time (gloo).

    On gloo a receiver announces that it is ready, and only then the sender begins: a receive that
    was posted early has been announced long before.

    Arguments: ``group``, a process group that this process belongs to.
    """

    early_receives = True

    def __init__(self, group):
        self.group, self.rank, self.size = group, group.rank(), group.size()

    def isend(self, buffer, dst: int):
        return self.group.send([buffer], dst, 0)

    def irecv(self, buffer, src: int):
        return self.group.recv([buffer], src, 0)


class Batched:
    """The messages of a round as one batch, as NCCL needs them: else two ranks that both send first
    would wait for each other.

    The batch starts when its first handle is waited for.
    """

    def __init__(self, group):
        self.group, self.rank, self.size = group, group.rank(), group.size()
        self.batch = []

    def isend(self, buffer, dst: int):
        import torch.distributed as dist

        return self._add(dist.isend, buffer, dst)

    def irecv(self, buffer, src: int):
        import torch.distributed as dist

        return self._add(dist.irecv, buffer, src)

    def _add(self, operation, buffer, peer: int):
        import torch.distributed as dist

        peer = dist.get_global_rank(self.group, peer)
        self.batch.append(dist.P2POp(operation, buffer, peer, self.group))
        return self

    def wait(self) -> None:
        import torch.distributed as dist

        batch, self.batch = self.batch, []
        for work in dist.batch_isend_irecv(batch) if batch else []:
            work.wait()


class Counting:
    """Counts what one rank sends over another transport.

    ``sent_messages`` and ``sent_bytes`` add up over everything that runs through it.

    >>> import numpy as np
    >>> from dtlib.collectives.transport import Mailboxes
    >>> transport = Counting(Mailboxes(2).of(0))
    >>> transport.isend(np.zeros(5), dst=1).wait()
    >>> transport.sent_messages, transport.sent_bytes
    (1, 40)
    """

    def __init__(self, transport):
        self.transport, self.rank, self.size = transport, transport.rank, transport.size
        self.early_receives = getattr(transport, "early_receives", False)
        self.sent_messages = self.sent_bytes = 0

    def isend(self, buffer, dst: int):
        self.sent_messages += 1
        self.sent_bytes += buffer.nbytes
        return self.transport.isend(buffer, dst)

    def irecv(self, buffer, src: int):
        return self.transport.irecv(buffer, src)


class Clocked:
    """Notes when each message of one rank is under way over another transport, as spans.

    A message begins when it is posted, a receive thus while its sender may still be busy, and ends
    when it has been waited for. No receive is posted before its round, so that bars in a lane do
    not overlap. ``clock`` is read in seconds; that of one computer is the same for all of its
    processes. The spans of all ranks together make a `Timeline` to lay beside a simulated one.

    >>> import itertools, numpy as np
    >>> from dtlib.collectives.transport import Mailboxes
    >>> clocked = Clocked(Mailboxes(2).of(0), clock=itertools.count().__next__)
    >>> clocked.isend(np.zeros(5), dst=1).wait()
    >>> clocked.spans
    [Span(rank=0, lane='out', name='→1', start=0, stop=1, kind='communication')]
    """

    def __init__(self, transport, clock=time.perf_counter):
        self.transport, self.rank, self.size = transport, transport.rank, transport.size
        self.clock, self.spans = clock, []

    def isend(self, buffer, dst: int):
        return self._noted("out", f"→{dst}", lambda: self.transport.isend(buffer, dst))

    def irecv(self, buffer, src: int):
        return self._noted("in", f"←{src}", lambda: self.transport.irecv(buffer, src))

    def _noted(self, lane: str, name: str, post) -> "Noted":
        start = self.clock()
        return Noted(self, lane, name, start, post())


class Noted:
    """The handle of a message of `Clocked`."""

    def __init__(self, clocked: Clocked, lane: str, name: str, start: float, handle):
        self.clocked, self.lane, self.name = clocked, lane, name
        self.start, self.handle = start, handle

    def wait(self) -> None:
        self.handle.wait()
        span = (self.lane, self.name, self.start, self.clocked.clock(), "communication")
        self.clocked.spans.append(Span(self.clocked.rank, *span))


class Mailboxes:
    """Ranks in one process: a send leaves a copy in a mailbox, waiting for a receive picks it up.

    >>> import numpy as np
    >>> mailboxes = Mailboxes(2)
    >>> theirs = np.zeros(2)
    >>> receiving = mailboxes.of(1).irecv(theirs, src=0)
    >>> mailboxes.of(0).isend(np.array([1.0, 2.0]), dst=1).wait()
    >>> receiving.wait()
    >>> theirs
    array([1., 2.])
    """

    def __init__(self, size: int):
        self.size = size
        self.boxes = defaultdict(deque)

    def of(self, rank: int) -> "Mailbox":
        """The transport of one rank."""
        return Mailbox(self, rank)


class Mailbox:
    """The transport of one rank over `Mailboxes`."""

    early_receives = True

    def __init__(self, mailboxes: Mailboxes, rank: int):
        self.mailboxes, self.rank, self.size = mailboxes, rank, mailboxes.size

    def isend(self, buffer, dst: int):
        self.mailboxes.boxes[self.rank, dst].append(clone(buffer))
        return Done()

    def irecv(self, buffer, src: int):
        return PickUp(self.mailboxes.boxes[src, self.rank], buffer)


class Done:
    """The handle of a message that needs no waiting."""

    def wait(self) -> None:
        pass


class PickUp:
    """The handle of a receive from a mailbox."""

    def __init__(self, box: deque, buffer):
        self.box, self.buffer = box, buffer

    def wait(self) -> None:
        self.buffer[...] = self.box.popleft()


def clone(buffer):
    """A copy of a torch tensor or a numpy array."""
    return buffer.clone() if hasattr(buffer, "clone") else buffer.copy()
