"""Inputs that show mistakes: every element says who contributed to it, and where it belongs.

Rank ``r`` contributes the digit ``(P + 1)**r`` to each element, and the element's own place above
all digits. A sum of such numbers can be read back: which ranks are in it, how often, and from
which place of the vector they came.
"""

from dataclasses import dataclass
from typing import Any

from dtlib.later import np


@dataclass(frozen=True)
class Stripes:
    """Striped vectors for ``P`` ranks, cut into ``chunks`` of ``width`` elements each.

    >>> stripes = Stripes(P=3, chunks=3)
    >>> a, b, c = stripes.inputs()
    >>> stripes.fault(a + b + c, ranks={0, 1, 2})
    ''
    >>> stripes.fault(a + c + c, ranks={0, 1, 2})
    'chunk 0: lacks the contribution of rank 1, and counts rank 2 2 times'
    """

    P: int
    chunks: int
    width: int = 2
    dtype: str = "float64"

    def __post_init__(self) -> None:
        largest = self.P * self.base**self.P * (self.chunks * self.width + 1)
        if largest > 2 ** np.finfo(self.dtype).nmant:
            raise ValueError(f"{self.P} ranks of {self.chunks} chunks do not fit into {self.dtype}")

    @property
    def base(self) -> int:
        return self.P + 1

    @property
    def n(self) -> int:
        """Elements of the vector."""
        return self.chunks * self.width

    def inputs(self) -> list:
        """One vector per rank."""
        places = np.arange(1, self.n + 1) * self.base**self.P
        return [(places + self.base**r).astype(self.dtype) for r in range(self.P)]

    def fault(self, vector: Any, ranks: set[int], chunks: range | None = None) -> str:
        """What is wrong with ``vector`` as the sum over ``ranks``, or '' if nothing is.

        ``chunks`` names the chunks that ``vector`` holds (default: all of them, in order).
        """
        held = range(self.chunks) if chunks is None else chunks
        vector = np.asarray(vector).reshape(-1)
        if vector.size != len(held) * self.width:
            return f"holds {vector.size} elements, but {len(held) * self.width} belong there"
        for chunk, part in zip(held, vector.reshape(len(held), self.width), strict=True):
            for offset, value in enumerate(part):
                fault = self._fault(float(value), chunk * self.width + offset, ranks)
                if fault:
                    return f"chunk {chunk}: {fault}"
        return ""

    def _fault(self, value: float, place: int, ranks: set[int]) -> str:
        if np.isnan(value):
            return "was used before its receive had finished"
        counts, origin = self._read(value)
        if counts is None:
            return "is no sum of the ranks' inputs"
        if origin != place:
            return f"holds what belongs into chunk {int(origin) // self.width}"
        missing = [r for r in ranks if counts[r] == 0]
        clauses = [f"lacks the contribution of {_names(missing)}"] if missing else []
        clauses += [f"counts rank {r} {c} times" for r, c in enumerate(counts) if c > 1]
        clauses += [
            f"has rank {r} in it" for r, c in enumerate(counts) if c == 1 and r not in ranks
        ]
        return ", and ".join(clauses)

    def _read(self, value: float) -> tuple[list[int] | None, float]:
        if not (0 < value < np.inf) or value != int(value):
            return None, 0.0
        high, low = divmod(int(value), self.base**self.P)
        counts = [low // self.base**r % self.base for r in range(self.P)]
        copies = sum(counts)
        if copies == 0 or high % copies or not 0 < high // copies <= self.n:
            return None, 0.0
        return counts, high // copies - 1


def _names(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}"
