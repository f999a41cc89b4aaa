"""Sends, rounds of sends, and runs of rounds that are alike.

A round is held as arrays, one per column. A run holds a function instead of its rounds: a ring on
100,000 ranks has 200,000 rounds of 100,000 sends each, and only the first of them is ever built
unless somebody asks for the others.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import NamedTuple

from dtlib.later import np


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

    def within(self, P: int, chunks: int, t: int = 0) -> "Round":
        """This round, number ``t``, once it is sure that its ranks and its chunks exist."""
        last = self.chunk + self.count - 1
        for what, ends, most in (
            ("ranks", (self.src, self.dst), P),
            ("chunks", (self.chunk, last), chunks),
        ):
            if min(end.min() for end in ends) < 0 or max(end.max() for end in ends) >= most:
                wrong = (np.minimum(*ends) < 0) | (np.maximum(*ends) >= most)
                send = next(send for send, bad in zip(self, wrong, strict=True) if bad)
                raise ValueError(f"round {t}: {send}, but the {what} are 0..{most - 1}")
        return self

    def one_chunk_each(self) -> "tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]":
        """Columns ``src, dst, chunk, reduce`` with one entry per chunk instead of per message."""
        if (self.count == 1).all():
            return self.src, self.dst, self.chunk, self.reduce
        message = np.repeat(np.arange(len(self)), self.count)
        first = np.cumsum(self.count) - self.count
        within = np.arange(len(message)) - first[message]
        chunk = self.chunk[message] + within
        return self.src[message], self.dst[message], chunk, self.reduce[message]

    @property
    def traffic(self) -> "Traffic":
        """Who sends how much to whom: rounds with equal traffic take equal time."""
        return Traffic(self)

    def __iter__(self) -> Iterator[Send]:
        columns = (self.src, self.dst, self.chunk, self.reduce, self.count)
        return map(Send._make, zip(*(column.tolist() for column in columns), strict=True))

    def __len__(self) -> int:
        return len(self.src)

    def __str__(self) -> str:
        return ", ".join(map(str, self))

    def __repr__(self) -> str:
        return f"Round({list(map(tuple, self))})"


class Traffic:
    """Who sends how much to whom in a round, in the order of its sends: a key for dictionaries.

    >>> Round(0, 1, chunk=0).traffic == Round(0, 1, chunk=5, reduce=True).traffic
    True
    >>> Round(0, 1, chunk=0).traffic == Round(1, 0, chunk=0).traffic
    False
    """

    __slots__ = ("columns",)

    def __init__(self, round: Round):
        self.columns = round.src, round.dst, round.count

    def __eq__(self, other) -> bool:
        pairs = zip(self.columns, other.columns, strict=True)
        return all(ours is theirs or np.array_equal(ours, theirs) for ours, theirs in pairs)

    def __hash__(self) -> int:
        """From a few sends only: reading all of them would take as long as pricing the round."""
        length = len(self.columns[0])
        few = (0, length // 2, length - 1) if length else ()
        return hash((length, *(int(column[i]) for column in self.columns for i in few)))


class Run(Sequence):
    """Rounds in which the same ranks send as much to the same ranks; only the chunks may differ.

    Such rounds take equal time, so one of them speaks for all. Arguments: ``times``, how many there
    are; ``round``, a function from t = 0, 1, ... to the `Round`, which is called when somebody asks
    for it. Raises ValueError, on building a round, if its traffic is not that of the first.

    >>> r = np.arange(3)
    >>> run = Run(2, lambda t: Round(r, (r + 1) % 3, chunk=(r - t) % 3))
    >>> print(run[1])
    0→1 keeps chunk 2, 1→2 keeps chunk 0, 2→0 keeps chunk 1
    >>> Run(3, lambda t: Round(0, t + 1, chunk=0))
    Traceback (most recent call last):
      ...
    ValueError: round 2 of a run of 3 has other traffic than its first round
    """

    def __init__(self, times: int, round: Callable[[int], Round]):
        self.times, self._round, self._built = max(times, 0), round, {}
        self._ends = tuple(self[t] for t in (0, self.times - 1)[: self.times])

    @classmethod
    def of(cls, rounds: "Run | Sequence[Round]") -> "Run":
        """The run of these rounds, which are there already."""
        return rounds if isinstance(rounds, Run) else cls(len(rounds), rounds.__getitem__)

    def map(self, change: Callable[[Round], Round]) -> "Run":
        """The run of the changed rounds: ``change`` takes a `Round` and gives one."""
        return Run(self.times, lambda t: change(self[t]))

    def reversed(self) -> "Run":
        """The last round first, and every round backwards."""
        return Run(self.times, lambda t: self[self.times - 1 - t].reversed())

    def __getitem__(self, t):
        if isinstance(t, slice):
            return tuple(self[i] for i in range(self.times)[t])
        t = range(self.times)[t]
        if t not in self._built:
            round = Round.of(self._round(t))
            if t and round.traffic != self[0].traffic:
                raise ValueError(
                    f"round {t} of a run of {self.times} has other traffic than its first round"
                )
            self._built[t] = round
        return self._built[t]

    def __len__(self) -> int:
        return self.times

    def __reduce__(self):
        return Run.of, (tuple(self),)


class Rounds(Sequence):
    """The rounds of a schedule one after the other, held as ``runs``.

    Argument: ``rounds``, an iterable of rounds, lists of `Send` and `Run`, or one `Run`. What has
    no sends is left out.

    >>> r = np.arange(2)
    >>> rounds = Rounds([Run(5, lambda t: Round(r, 1 - r, chunk=t)), [], [Send(0, 1, chunk=0)]])
    >>> len(rounds), len(rounds.runs)
    (6, 2)
    >>> print(rounds[4])
    0→1 keeps chunk 4, 1→0 keeps chunk 4
    """

    def __init__(self, rounds: "Iterable | Run", limits: tuple[int, int] | None = None):
        parts = [rounds] if isinstance(rounds, Run) else getattr(rounds, "runs", rounds)
        runs = (part if isinstance(part, Run) else Run.of((Round.of(part),)) for part in parts)
        self.runs = tuple(run for run in runs if len(run) and len(run[0]))
        self.limits = getattr(rounds, "limits", limits)

    def map(self, change: Callable[[Round], Round]) -> "Rounds":
        """The changed rounds: ``change`` takes a `Round` and gives one."""
        return Rounds(run.map(change) for run in self.runs)

    def reversed(self) -> "Rounds":
        """The last round first, and every round backwards."""
        return Rounds([run.reversed() for run in reversed(self.runs)], self.limits)

    def within(self, P: int, chunks: int) -> "Rounds":
        """The same rounds, each of which is checked as soon as it is built: do its ranks exist?

        The first and the last round of every run are built, and so checked, at once.
        """
        if self.limits == (P, chunks):
            return self
        checked = [
            Run(len(run), lambda k, run=run, t=t: run[k].within(P, chunks, t + k))
            for run, t in zip(self.runs, self.starts, strict=False)
        ]
        return Rounds(checked, (P, chunks))

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first round of each run; last, the number of rounds."""
        return list(accumulate(map(len, self.runs), initial=0))

    def __add__(self, after: Iterable) -> "Rounds":
        after = Rounds(after)
        limits = self.limits if self.limits == after.limits else None
        return Rounds((*self.runs, *after.runs), limits)

    def __getitem__(self, t):
        if isinstance(t, slice):
            return tuple(self[i] for i in range(len(self))[t])
        t = range(len(self))[t]
        k = bisect_right(self.starts, t) - 1
        return self.runs[k][t - self.starts[k]]

    def __iter__(self) -> Iterator[Round]:
        return chain.from_iterable(self.runs)

    def __len__(self) -> int:
        return self.starts[-1]
