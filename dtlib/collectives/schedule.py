"""A collective algorithm as data: rounds of sends between ranks.

The nouns, from small to large:

- **Rank**: one of ``P`` processes, numbered ``0 ... P - 1``.
- **Chunk**: a part of the buffer. Every rank holds a buffer that is cut into the same chunks.
- **Send**: one message. ``src`` passes a chunk to ``dst``, which adds it to its own (reduce) or
  keeps it in place of its own (copy).
- **Round**: sends that happen at once. Every send reads what its rank held before the round.
- **Run**: rounds in a row in which the same ranks send as much to the same ranks; only the chunks
  differ. It takes the place of its rounds, which are built when somebody asks for them.
- **Schedule**: rounds, one after the other. Nothing else: whoever checks, counts, times, draws or
  runs a collective reads the same schedule.

After a reduce-scatter, and before an all-gather, rank ``r`` owns chunk ``r``.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from dtlib.collectives.rounds import Round, Rounds, Run, Send
from dtlib.later import np

__all__ = ["Round", "Rounds", "Run", "Schedule", "Send"]


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """A collective on ``P`` ranks: ``rounds`` of sends over buffers of ``chunks`` chunks.

    Arguments: ``P``, ranks; ``chunks``, how many chunks a buffer has; ``rounds``, each a `Round` or
    a list of `Send`, or many at once as a `Run` (a round without sends is left out); ``name``, for
    titles; ``parts``, how many of the chunks the ``n`` bytes of one rank fill: all of them, the
    default, or some (`pairwise_all_to_all`).

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
    rounds: Rounds
    name: str = "schedule"
    parts: int | None = None

    def __post_init__(self):
        for field in ("P", "chunks"):
            if operator.index(getattr(self, field)) < 1:
                raise ValueError(
                    f"{field} must be at least 1; got {field} = {getattr(self, field)}"
                )
        object.__setattr__(self, "rounds", Rounds(self.rounds).within(self.P, self.chunks))
        object.__setattr__(self, "parts", self.parts or self.chunks)

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
        return replace(self, rounds=self.rounds.reversed(), name=f"{self.name} reversed")

    def over(self, groups, *, shares: bool = False, P: int | None = None) -> "Schedule":
        """The same schedule in several groups of ranks at once: along one axis of a mesh.

        Arguments: ``groups``, for each group the ranks that play 0, 1, ... of this schedule;
        ``shares``, whether each group works on a part of the buffer of its own, the first group on
        the first part, instead of all on the whole buffer; ``P``, how many ranks there are, of
        which some may be in no group (None: just those in groups). Groups that share no part may
        have ranks in common. Raises ValueError for groups that do not fit.

        >>> pair = Schedule(2, 1, [[Send(0, 1, 0, True), Send(1, 0, 0, True)]], "exchange")
        >>> print(pair.over([[0, 1], [2, 3]]))
        exchange over 2 groups: 4 ranks, 1 chunk, 1 round, 4 messages
        round 0: 0→1 adds chunk 0, 1→0 adds chunk 0, 2→3 adds chunk 0, 3→2 adds chunk 0
        >>> print(pair.over([[0, 2], [1, 3]], shares=True))
        exchange over 2 groups: 4 ranks, 2 chunks, 1 round, 4 messages
        round 0: 0→2 adds chunk 0, 2→0 adds chunk 0, 1→3 adds chunk 1, 3→1 adds chunk 1
        """
        groups = np.array(groups, ndmin=2)
        if groups.shape[1] != self.P or any(len(set(group)) < self.P for group in groups.tolist()):
            raise ValueError(f"every group must have P = {self.P} ranks; got {groups.tolist()}")
        if not shares and len(set(groups.ravel().tolist())) < groups.size:
            raise ValueError("groups that work on the same chunks must have no rank in common")
        parts = len(groups) if shares else 1
        first = (np.arange(len(groups)) % parts * self.chunks)[:, None]

        def everywhere(round: Round) -> Round:
            ends = (groups[:, end] for end in (round.src, round.dst))
            rows = (*ends, round.chunk + first)
            rows += tuple(np.broadcast_to(x, rows[0].shape) for x in (round.reduce, round.count))
            return Round(*(row.reshape(-1) for row in rows))

        return Schedule(
            P or int(groups.max()) + 1,
            self.chunks * parts,
            self.rounds.map(everywhere),
            f"{self.name} over {len(groups)} group{'s' * (len(groups) > 1)}",
            self.parts * parts,
        )

    def relabelled(self, ranks) -> "Schedule":
        """The same schedule with rank ``ranks[r]`` in the place of rank r; the chunks stay.

        >>> print(Schedule(3, 1, [[Send(0, 1, 0)]], "step").relabelled([2, 0, 1]))
        step: 3 ranks, 1 chunk, 1 round, 1 message
        round 0: 2→0 keeps chunk 0
        """
        return self.over([ranks], P=self.P).named(self.name)

    def cut(self, pieces: int) -> "Schedule":
        """The same schedule with every chunk cut into ``pieces``, which travel together.

        >>> print(Schedule(2, 2, [[Send(0, 1, 1)]], "step").cut(3))
        step: 2 ranks, 6 chunks, 1 round, 1 message
        round 0: 0→1 keeps chunks 3..5
        """
        rounds = self.rounds.map(
            lambda r: Round(r.src, r.dst, r.chunk * pieces, r.reduce, r.count * pieces)
        )
        return replace(self, chunks=self.chunks * pieces, rounds=rounds, parts=self.parts * pieces)

    def named(self, name: str) -> "Schedule":
        """The same schedule under another name."""
        return replace(self, name=name)

    def sends(self) -> Iterator[Send]:
        """Every send, round by round."""
        return (send for round in self.rounds for send in round)

    def messages(self) -> int:
        """How many messages the ranks send altogether."""
        return sum(len(run) * len(run[0]) for run in self.rounds.runs)

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
        for run in self.rounds.runs:
            np.add.at(chunks, getattr(run[0], port), len(run) * run[0].count)
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
        if self._columns is not other._columns:
            if self._columns != other._columns:
                return False
            # `execute` looks schedules up in every call: all sends are compared in the first.
            other.__dict__["_columns"] = self._columns
        return True

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
