"""A symbol of the book: its name, its unit, its meaning, and the values that it may take."""

from dataclasses import dataclass
from math import inf, isnan
from numbers import Real

from dtlib.formulas.require import require


@dataclass(frozen=True)
class Symbol:
    """A name of the library, how it is typeset, its unit ("" for a count) and what it means.

    `sample` holds values that it takes in practice; tests evaluate every formula on them. A number
    is at least 0 and at most `most`, and one of 0, 1, 2, ... where it is `whole`.
    """

    name: str
    latex: str
    unit: str
    meaning: str
    group: str
    sample: tuple[float, ...]
    most: float = inf
    whole: bool = False

    def sympy(self):
        """The positive sympy symbol that stands for this name in a formula's expression.

        >>> Symbol("alpha", r"\\\\alpha", "s", "latency", "Links", (1e-6,)).sympy()
        alpha
        """
        import sympy

        return sympy.Symbol(self.name, positive=True)

    def check(self, owner: str, value) -> None:
        """Raise ValueError for a number that the symbol never takes; arrays and symbols pass.

        >>> Symbol("zero", "z", "", "ZeRO stage", "Ranks", (1,), 3, whole=True).check("f", 4)
        Traceback (most recent call last):
        ValueError: f: zero is 4, but must be a whole number from 0 to 3
        """
        if isinstance(value, Real) and not isnan(value):
            good = 0 <= value <= self.most and (not self.whole or value == int(value))
            require(good, owner, self.name, value, self._allowed())

    def _allowed(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} of at least 0" if self.most == inf else f"{kind} from 0 to {self.most:g}"
