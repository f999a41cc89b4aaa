"""Run a schedule: on real ranks, or all ranks in one process.

Every rank follows its `RankMessages`: for each round, what to send, what to receive and what to
add. One interpreter follows them over any transport (`dtlib.collectives.transport`): `execute` runs
one rank over torch.distributed, `emulate` all ranks over mailboxes in memory. Both do the same
additions in the same order, and so give the same bits.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dtlib.collectives.schedule import Round, Schedule, Send
from dtlib.collectives.transport import Batched, Mailboxes, PointToPoint, clone


class Out(NamedTuple):
    """A message to ``peer``: one part of the buffer.

    It is ``copied`` first where another one arrives in its place, to be kept, in the same round.
    """

    peer: int
    part: slice
    copied: bool = False


class In(NamedTuple):
    """A message from ``peer`` for one part of the buffer.

    What is to be added arrives in the scratch memory, at ``landing``; None if it is to be kept.
    """

    peer: int
    part: slice
    landing: slice | None

    def behind(self, landed: int) -> "In":
        """The same message, landing behind ``landed`` elements of others."""
        if not self.landing:
            return self
        return self._replace(landing=slice(landed + self.landing.start, landed + self.landing.stop))


class RankMessages:
    """What ``rank`` does in each round, for a buffer of ``numel`` elements.

    A buffer that does not divide into equal chunks is cut as evenly as possible; chunks without
    an element are not sent, and neighbouring chunks for the same rank travel in one message.

    >>> from dtlib.collectives import ring_reduce_scatter
    >>> for out, into in RankMessages(ring_reduce_scatter(2), rank=0, numel=5).rounds:
    ...     print(out, into, sep="\\n")
    [Out(peer=1, part=slice(2, 5, None), copied=False)]
    [In(peer=1, part=slice(0, 2, None), landing=slice(0, 2, None))]

    ``posts`` are for each round the receives to post when it begins: those of many rounds at once,
    and then none for a while. A sender whose receiver is ready need not wait to be told so.
    """

    def __init__(self, schedule: Schedule, rank: int, numel: int):
        cuts = [numel * chunk // schedule.chunks for chunk in range(schedule.chunks + 1)]
        rounds = [_messages(round, rank, cuts) for round in schedule]
        self.rounds, self.posts = _posted_early(rounds, room=numel)
        landings = [m.landing.stop for _, into in self.rounds for m in into if m.landing]
        self.scratch_size = max(landings, default=0)
        self._scratch = {}

    def scratch(self, like):
        """Memory for what arrives to be added, of the type and on the device of ``like``.

        It is kept from call to call: large fresh memory costs as much time as filling it.
        """
        key = like.dtype, getattr(like, "device", None)
        if key not in self._scratch:
            size = self.scratch_size
            torch_like = hasattr(like, "new_empty")
            self._scratch[key] = like.new_empty(size) if torch_like else np.empty(size, like.dtype)
        return self._scratch[key]


def _posted_early(rounds: list, room: int) -> tuple[list, list[list[In]]]:
    """The rounds, and for each the receives to post when it begins: all that may come by then.

    What is to be added may come early if it lands in a place of its own; so much of it comes as
    there is ``room`` for. What is to be kept may come early if until then no round uses its part.
    """
    placed, posts = [], [[] for _ in rounds]
    first, landed, used = 0, 0, []
    for t, (out, into) in enumerate(rounds):
        size = max((m.landing.stop for m in into if m.landing), default=0)
        kept = [m.part for m in into if not m.landing]
        used += [m.part for m in out]
        if landed + size > room or any(_overlap(part, other) for part in kept for other in used):
            first, landed, used = t, 0, [m.part for m in out]
        into = [m.behind(landed) for m in into]
        placed.append((out, into))
        posts[first] += into
        landed += size
        used += [m.part for m in into]
    return placed, posts


def _overlap(part: slice, other: slice) -> bool:
    return part.start < other.stop and other.start < part.stop


messages_for = lru_cache(maxsize=256)(RankMessages)


def _messages(round: Round, rank: int, cuts: list[int]) -> tuple[list[Out], list[In]]:
    """What ``rank`` sends and receives in a round; ``cuts`` are the borders of the chunks."""
    out, into, landed = [], [], 0
    mine = (round.src == rank) | (round.dst == rank)
    for send in _merged(send for send, is_mine in zip(round, mine, strict=True) if is_mine):
        part = slice(cuts[send.chunk], cuts[send.chunk + send.count])
        size = part.stop - part.start
        if size == 0:
            continue
        if send.src == rank:
            out.append(Out(send.dst, part))
        elif send.reduce:
            into.append(In(send.src, part, slice(landed, landed + size)))
            landed += size
        else:
            into.append(In(send.src, part, None))
    kept = [m.part for m in into if not m.landing]
    replaced = (any(_overlap(m.part, part) for part in kept) for m in out)
    return [m._replace(copied=copied) for m, copied in zip(out, replaced, strict=True)], into


def _merged(sends: Iterable[Send]) -> list[Send]:
    """The sends by source, with neighbouring chunks between the same ranks as one message."""
    merged: list[Send] = []
    for send in sorted(sends, key=lambda s: (s.src, s.dst, s.reduce, s.chunk)):
        last = merged[-1] if merged else None
        if last and send == last._replace(chunk=last.chunk + last.count, count=send.count):
            merged[-1] = last._replace(count=last.count + send.count)
        else:
            merged.append(send)
    return merged


class Worker:
    """One rank at work on its buffer: `start` posts the messages of a round, `finish` adds."""

    def __init__(self, schedule: Schedule, tensor, transport):
        self.flat = _flat(tensor)
        self.messages = messages_for(schedule, transport.rank, len(self.flat))
        self.scratch = self.messages.scratch(self.flat)
        self.transport = transport
        early = getattr(transport, "early_receives", False)
        self.posts = self.messages.posts if early else [into for _, into in self.messages.rounds]
        # A handle of gloo that is thrown away at once waits for the thread that has just filled
        # its buffer, and that costs more than the adding: all are kept until the end.
        self.arriving, self.over = deque(), []

    def start(self, t: int) -> None:
        out, _ = self.messages.rounds[t]
        parts = [clone(self.flat[m.part]) if m.copied else self.flat[m.part] for m in out]
        for m in self.posts[t]:
            buffer = self.scratch[m.landing] if m.landing else self.flat[m.part]
            self.arriving.append(self.transport.irecv(buffer, m.peer))
        self.leaving = [
            self.transport.isend(part, m.peer) for part, m in zip(parts, out, strict=True)
        ]

    def finish(self, t: int) -> None:
        _, into = self.messages.rounds[t]
        handles = [self.arriving.popleft() for _ in into] + self.leaving
        for handle in handles:
            handle.wait()
        self.over += handles
        for message in into:
            if message.landing:
                part = self.flat[message.part]
                part += self.scratch[message.landing]


def execute(schedule: Schedule, tensor, group=None, *, transport=None):
    """Run one rank of a schedule on ``tensor``, in place; every rank of the group calls it.

    Arguments: ``tensor``, contiguous, of the same shape and dtype on every rank; ``group``, a
    torch.distributed process group of ``schedule.P`` ranks (None: all ranks); or a ``transport``
    of your own instead of a group. Tensors on a GPU travel in batches, as NCCL needs them.
    Returns ``tensor``. Raises ValueError when the tensor is not contiguous or the group has another
    size. Not for two calls at once in one process: the scratch memory is shared.

    Inside a rank: ``execute(ring_all_reduce(dist.get_world_size()), tensor)``.

    >>> from dtlib.collectives import ring_all_reduce
    >>> from dtlib.collectives.transport import Mailboxes
    >>> execute(ring_all_reduce(1), np.ones(3), transport=Mailboxes(1).of(0))
    array([1., 1., 1.])
    """
    if transport is None:
        transport = _over(group, tensor)
    if transport.size != schedule.P:
        raise ValueError(
            f"{schedule.name} is for P = {schedule.P} ranks; the group has {transport.size}"
        )
    worker = Worker(schedule, tensor, transport)
    for t in range(len(schedule)):
        worker.start(t)
        worker.finish(t)
    return tensor


def emulate(schedule: Schedule, tensors: Sequence) -> list:
    """Run every rank of a schedule in this process, with the same bits as on real ranks.

    Arguments: ``tensors``, what each rank holds: torch tensors or numpy arrays of one shape and
    dtype (arrays of strings too: they show in which order the ranks are added).
    Returns what each rank holds afterwards, as new tensors. Raises ValueError when there are more
    or fewer tensors than ranks.

    >>> from dtlib.collectives import ring_all_reduce
    >>> letters = [np.array([x, x, x], dtype=object) for x in "abc"]
    >>> print(emulate(ring_all_reduce(3), letters)[0])
    ['acb' 'bac' 'cba']
    """
    if len(tensors) != schedule.P:
        raise ValueError(f"{schedule.name} is for P = {schedule.P} ranks; got {len(tensors)}")
    results = [clone(tensor) for tensor in tensors]
    mailboxes = Mailboxes(schedule.P)
    workers = [Worker(schedule, x, mailboxes.of(rank)) for rank, x in enumerate(results)]
    for t in range(len(schedule)):
        for worker in workers:
            worker.start(t)
        for worker in workers:
            worker.finish(t)
    return results


def _over(group, tensor):
    """The transport over a process group that suits where the tensor is."""
    import torch.distributed as dist

    group = group or dist.group.WORLD
    if group is None:
        raise ValueError("torch.distributed has no process group yet; run this inside ranks")
    return Batched(group) if tensor.is_cuda else PointToPoint(group)


def _flat(tensor):
    """The tensor's elements in one row, sharing its memory."""
    if hasattr(tensor, "is_contiguous"):
        contiguous, tensor = tensor.is_contiguous(), tensor.detach()
    else:
        contiguous = tensor.flags.c_contiguous
    if not contiguous:
        raise ValueError("tensor must be contiguous, because chunks are sent as they lie in memory")
    return tensor.reshape(-1)
