"""What each collective promises, as two tables: who holds a chunk before, and who wants it after.

The nouns:

- **Holding**: which ranks hold which chunks, a table of ranks x chunks.
- **Primitive**: a holding before and one after. Everyone who wants a chunk afterwards shall have
  the sum of what all its holders had before. One holder: the sum is a copy. Nothing else is said:
  the checks, the matrices and the adjoints all read these two tables.

Where the two tables swap, sums become copies and copies sums: the adjoint of a primitive.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from dtlib.collectives.schedule import Schedule
from dtlib.later import np


@dataclass(frozen=True)
class Holding:
    """Which ranks hold which chunks.

    Arguments: ``name``; ``rule``, a function of a column of ranks, a row of chunks, P and the
    number of chunks, which tells whether the rank holds the chunk; ``cells``, of what the chunks
    must be a multiple: P to the power of it. Called with a schedule, it gives the contributions of
    `check.states`: an array ranks x chunks x contributors.

    >>> at_owners.table(P=2, chunks=4).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]])
    """

    name: str
    rule: Callable = field(repr=False)
    cells: int = 0

    def table(self, P: int, chunks: int) -> "np.ndarray":
        """Who holds what, ranks x chunks. Raises ValueError for a wrong number of chunks."""
        if chunks % P**self.cells:
            what = "an owner for every chunk" if self.cells == 1 else "a block for every pair"
            rule = ("", "a multiple of P", "P x P")[self.cells]
            raise ValueError(f"{what} takes {rule} chunks; got P = {P} ranks and {chunks} chunks")
        ranks, numbers = np.arange(P)[:, None], np.arange(chunks)
        return np.broadcast_to(self.rule(ranks, numbers, P, chunks), (P, chunks))

    def __call__(self, schedule: Schedule) -> "np.ndarray":
        identity = np.eye(schedule.P, dtype=np.int16)
        return identity[:, None, :] * self.table(schedule.P, schedule.chunks)[:, :, None]

    def __str__(self) -> str:
        return self.name


def at_rank(root: int) -> Holding:
    """Only rank ``root`` has anything; `at_root` is that of rank 0.

    >>> print(at_rank(2))
    at rank 2
    """
    return Holding(f"at rank {root}", _ROOTED[root])


class _Rooted(dict):
    """One rule for each root, so that holdings at the same root are equal."""

    def __missing__(self, root: int) -> Callable:
        self[root] = lambda rank, chunk, P, chunks: rank == root
        return self[root]


_ROOTED = _Rooted()

everywhere = Holding("everywhere", lambda rank, chunk, P, chunks: rank >= 0)
at_root = at_rank(0)
at_owners = Holding(
    "at its owner", lambda rank, chunk, P, chunks: chunk // (chunks // P) == rank, cells=1
)
in_rows = Holding("in rows", lambda rank, chunk, P, chunks: chunk // (chunks // P) == rank, cells=2)
in_columns = Holding(
    "in columns", lambda rank, chunk, P, chunks: chunk // (chunks // P**2) % P == rank, cells=2
)


@dataclass(frozen=True)
class Primitive:
    """What a collective promises: ``before`` it chunks are held in one way, ``after`` in another.

    Arguments: ``name``; ``before`` and ``after``, each a `Holding`. Whoever holds a chunk after
    it has the sum over all who held it before.

    >>> print(PRIMITIVES["reduce-scatter"])
    reduce-scatter: from everywhere to at its owner
    >>> print(PRIMITIVES["reduce-scatter"].adjoint())
    all-gather: from at its owner to everywhere
    """

    name: str
    before: Holding
    after: Holding

    def adjoint(self) -> "Primitive":
        """The primitive with its two tables swapped, under its own name where it has one."""
        swapped = self.after, self.before
        named = [known for known in _KNOWN if (known.before, known.after) == swapped]
        return named[0] if named else Primitive(f"{self.name} backwards", *swapped)

    def cells(self, P: int) -> int:
        """The fewest chunks that it takes on ``P`` ranks: 1, P or P x P."""
        return P ** max(self.before.cells, self.after.cells)

    def __str__(self) -> str:
        return f"{self.name}: from {self.before} to {self.after}"


def broadcast(root: int = 0) -> Primitive:
    """Everyone ends with what ``root`` had."""
    return Primitive(f"broadcast from rank {root}", at_rank(root), everywhere)


def reduce(root: int = 0) -> Primitive:
    """The sum over all ranks ends at ``root``."""
    return Primitive(f"reduce to rank {root}", everywhere, at_rank(root))


def scatter(root: int = 0) -> Primitive:
    """Every rank ends with the chunks that it owns, as ``root`` had them."""
    return Primitive(f"scatter from rank {root}", at_rank(root), at_owners)


def gather(root: int = 0) -> Primitive:
    """``root`` ends with every chunk as its owner had it."""
    return Primitive(f"gather to rank {root}", at_owners, at_rank(root))


PRIMITIVES = {
    "broadcast": broadcast(),
    "reduce": reduce(),
    "scatter": scatter(),
    "gather": gather(),
    "all-gather": Primitive("all-gather", at_owners, everywhere),
    "reduce-scatter": Primitive("reduce-scatter", everywhere, at_owners),
    "all-reduce": Primitive("all-reduce", everywhere, everywhere),
    "all-to-all": Primitive("all-to-all", in_rows, in_columns),
}
_KNOWN = tuple(PRIMITIVES.values())
