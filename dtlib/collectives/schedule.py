"""A collective algorithm as data: rounds of sends between ranks.

The nouns, from small to large:

- **Rank**: one of ``P`` processes, numbered ``0 ... P - 1``.
- **Chunk**: a part of the buffer. Every rank holds a buffer that is cut into the same chunks.
- **Send**: one message. ``src`` passes a chunk to ``dst``, which adds it to its own (reduce) or
  keeps it in place of its own (copy).
- **Round**: sends that happen at once. Every send reads what its rank held before the round.
- **Schedule**: rounds, one after the other. Nothing else: whoever checks, counts, times, draws or
  runs a collective reads the same schedule.

After a reduce-scatter, and before an all-gather, rank ``r`` owns chunk ``r``.
"""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np


class Send(NamedTuple):
    """One message: ``src`` passes ``chunk`` to ``dst``, which adds it or keeps it.

    ``count`` neighbouring chunks, from ``chunk`` on, may travel in one message.

    >>> print(Send(src=0, dst=1, chunk=3, reduce=True))
    0→1 adds chunk 3
    >>> print(Send(1, 0, 4, reduce=False, count=4))
    1→0 keeps chunks 4..7
    """

    src: int
    dst: int
    chunk: int
    reduce: bool = False
    count: int = 1

    def __str__(self) -> str:
        last = self.chunk + self.count - 1
        chunks = f"chunk {self.chunk}" if self.count == 1 else f"chunks {self.chunk}..{last}"
        return f"{self.src}→{self.dst} {'adds' if self.reduce else 'keeps'} {chunks}"


class Round:
    """Sends that happen at once, as one array per column; iterates as `Send` tuples.

    Arguments: ``src``, ``dst``, ``chunk``, ``reduce`` and ``count`` as in `Send`, each an array
    with one entry per send or a single value for all. Raises ValueError when a rank sends to itself
    or a send carries less than one chunk.

    >>> r = np.arange(3)
    >>> print(Round(r, (r + 1) % 3, chunk=r, reduce=True))
    0→1 adds chunk 0, 1→2 adds chunk 1, 2→0 adds chunk 2
    """

    __slots__ = ("chunk", "count", "dst", "reduce", "src")

    def __init__(self, src, dst, chunk, reduce=False, count=1):
        whole = [np.asarray(column) for column in (src, dst, chunk, count)]
        if any(column.size and column.dtype.kind not in "iu" for column in whole):
            raise ValueError("src, dst, chunk and count of a send must be whole numbers")
        whole = [column if column.size else column.astype(int) for column in whole]
        columns = np.broadcast_arrays(*whole, np.asarray(reduce, dtype=bool))
        self.src, self.dst, self.chunk, self.count, self.reduce = map(np.atleast_1d, columns)
        if (self.src == self.dst).any():
            raise ValueError(f"rank {self.src[self.src == self.dst][0]} sends to itself")
        if (self.count < 1).any():
            raise ValueError(f"a send carries at least 1 chunk; got count = {self.count.min()}")

    @classmethod
    def of(cls, sends: "Round | Iterable[Send]") -> "Round":
        """The round with these sends; tuples ``(src, dst, chunk, reduce)`` do as well.

        >>> len(Round.of([Send(0, 1, 0, True), (1, 0, 1, True)]))
        2
        """
        if isinstance(sends, Round):
            return sends
        rows = [Send(*send) for send in sends]
        return cls(*([row[column] for row in rows] for column in range(len(Send._fields))))

    def reversed(self) -> "Round":
        """The same messages backwards: what was added is handed out, what was kept is added."""
        return Round(self.dst, self.src, self.chunk, ~self.reduce, self.count)

    def one_chunk_each(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Columns ``src, dst, chunk, reduce`` with one entry per chunk instead of per message."""
        if (self.count == 1).all():
            return self.src, self.dst, self.chunk, self.reduce
        message = np.repeat(np.arange(len(self)), self.count)
        first = np.cumsum(self.count) - self.count
        within = np.arange(len(message)) - first[message]
        chunk = self.chunk[message] + within
        return self.src[message], self.dst[message], chunk, self.reduce[message]

    @property
    def traffic(self) -> bytes:
        """Who sends how much to whom: rounds with equal traffic take equal time."""
        return b"".join(column.tobytes() for column in (self.src, self.dst, self.count))

    def __iter__(self) -> Iterator[Send]:
        columns = (self.src, self.dst, self.chunk, self.reduce, self.count)
        return map(Send._make, zip(*(column.tolist() for column in columns), strict=True))

    def __len__(self) -> int:
        return len(self.src)

    def __str__(self) -> str:
        return ", ".join(map(str, self))

    def __repr__(self) -> str:
        return f"Round({list(map(tuple, self))})"


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """A collective on ``P`` ranks: ``rounds`` of sends over buffers of ``chunks`` chunks.

    Arguments: ``P``, ranks; ``chunks``, how many chunks a buffer has; ``rounds``, each a `Round` or
    a list of `Send` (a round without sends is left out); ``name``, for titles; ``parts``, how many
    of the chunks the ``n`` bytes of one rank fill: all of them, the default, or some
    (`pairwise_all_to_all`).

    ``len(schedule)`` is the number of rounds, iteration gives them. Two schedules are equal when
    their sends are. Raises ValueError for a rank or a chunk that does not exist, naming the round.

    >>> swap = Schedule(P=2, chunks=1, rounds=[[Send(0, 1, 0, True), Send(1, 0, 0, True)]])
    >>> print(swap.named("exchange"))
    exchange: 2 ranks, 1 chunk, 1 round, 2 messages
    round 0: 0→1 adds chunk 0, 1→0 adds chunk 0
    >>> Schedule(P=2, chunks=1, rounds=[[Send(0, 2, 0)]])
    Traceback (most recent call last):
      ...
    ValueError: round 0: 0→2 keeps chunk 0, but the ranks are 0..1
    """

    P: int
    chunks: int
    rounds: tuple[Round, ...]
    name: str = "schedule"
    parts: int | None = None

    def __post_init__(self):
        for field in ("P", "chunks"):
            if operator.index(getattr(self, field)) < 1:
                raise ValueError(
                    f"{field} must be at least 1; got {field} = {getattr(self, field)}"
                )
        rounds = tuple(round for round in map(Round.of, self.rounds) if len(round))
        object.__setattr__(self, "rounds", rounds)
        object.__setattr__(self, "parts", self.parts or self.chunks)
        for t, round in enumerate(rounds):
            self._check_range(t, round)

    def _check_range(self, t: int, round: Round) -> None:
        ranks = (np.minimum(round.src, round.dst) < 0) | (
            np.maximum(round.src, round.dst) >= self.P
        )
        if ranks.any():
            send = next(send for send, wrong in zip(round, ranks, strict=True) if wrong)
            raise ValueError(f"round {t}: {send}, but the ranks are 0..{self.P - 1}")
        chunks = (round.chunk < 0) | (round.chunk + round.count > self.chunks)
        if chunks.any():
            send = next(send for send, wrong in zip(round, chunks, strict=True) if wrong)
            raise ValueError(f"round {t}: {send}, but the chunks are 0..{self.chunks - 1}")

    def __rshift__(self, after: "Schedule") -> "Schedule":
        """First this schedule, then ``after``, on the same ranks and chunks.

        >>> there = Schedule(2, 1, [[Send(0, 1, 0, True)]], "there")
        >>> print(there >> there.reversed())
        there, then there reversed: 2 ranks, 1 chunk, 2 rounds, 2 messages
        round 0: 0→1 adds chunk 0
        round 1: 1→0 keeps chunk 0
        """
        for field in ("P", "chunks", "parts"):
            ours, theirs = getattr(self, field), getattr(after, field)
            if ours != theirs:
                raise ValueError(
                    f"{self.name} has {field} = {ours}, {after.name} has {field} = {theirs}"
                )
        return replace(
            self, rounds=self.rounds + after.rounds, name=f"{self.name}, then {after.name}"
        )

    def reversed(self) -> "Schedule":
        """The schedule run backwards: last round first, every message from ``dst`` to ``src``.

        Where a message was added, the sum is handed back, and where it was kept, it is added: a
        reduce-scatter becomes an all-gather, a broadcast becomes a reduction, and reversing twice
        gives the schedule itself.
        """
        backwards = [round.reversed() for round in reversed(self.rounds)]
        return replace(self, rounds=backwards, name=f"{self.name} reversed")

    def named(self, name: str) -> "Schedule":
        """The same schedule under another name."""
        return replace(self, name=name)

    def sends(self) -> Iterator[Send]:
        """Every send, round by round."""
        return (send for round in self.rounds for send in round)

    def messages(self) -> int:
        """How many messages the ranks send altogether."""
        return sum(map(len, self.rounds))

    def sent_bytes(self, n) -> list:
        """Bytes that each rank sends when a rank's message has ``n`` bytes; exact.

        >>> r = np.arange(4)
        >>> Schedule(4, 3, [Round(r, (r + 1) % 4, chunk=2)]).sent_bytes(900)
        [300, 300, 300, 300]
        """
        return self._port_bytes("src", n)

    def received_bytes(self, n) -> list:
        """Bytes that each rank receives when a rank's message has ``n`` bytes; exact."""
        return self._port_bytes("dst", n)

    def _port_bytes(self, port: str, n) -> list:
        chunks = np.zeros(self.P, dtype=np.int64)
        for round in self.rounds:
            np.add.at(chunks, getattr(round, port), round.count)
        exact = [Fraction(n) * count / self.parts for count in chunks.tolist()]
        return [int(b) if b.denominator == 1 else b for b in exact]

    @cached_property
    def _columns(self) -> tuple:
        return (self.P, self.chunks, self.parts), tuple(
            (round.traffic, round.chunk.tobytes(), round.reduce.tobytes()) for round in self.rounds
        )

    def __eq__(self, other) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self is other or self._columns == other._columns

    @cached_property
    def _hash(self) -> int:
        return hash(self._columns)

    def __hash__(self) -> int:
        return self._hash

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    def __repr__(self) -> str:
        counts = ((self.P, "rank"), (self.chunks, "chunk"), (len(self), "round"))
        counts += ((self.messages(), "message"),)
        return f"{self.name}: " + ", ".join(f"{k} {what}{'s' * (k != 1)}" for k, what in counts)

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"round {t}: {round}" for t, round in enumerate(self))])
