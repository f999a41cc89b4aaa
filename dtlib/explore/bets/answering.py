"""The answer to a bet, which waits until the reader has bet, or has chosen not to."""

from typing import ClassVar

from dtlib.explore.bets.betting import START, made
from dtlib.explore.bets.line import text_of, unit_facts
from dtlib.explore.kit.widget import Widget


class Answer(Widget):
    """The true value on the line of its bet; see `answer`."""

    waiting = "Run this cell to compare the answer with your bet"
    printed: ClassVar[dict] = START | {"settled": "skipped"}

    def __init__(self, *, title: str, **on):
        super().__init__(title=title, controls=[], start=START, **on)

    def names(self, *, value: float | None = None, settled: str = "") -> dict:
        """How far a bet is `off`: by what factor, and on the line of a share by how many points."""
        if settled != "placed":
            return {"off": None}
        true = self.spec["answer"]
        if self.spec["scale"] == "linear":
            return {"off": abs(value - true)}
        return {"off": max(value / true, true / value)}


def answer(key: str, value: float, unit: str | None = None, *, conclusion: str = "") -> Answer:
    """Answer the bet of that key with the true value, from code.

    Arguments: `value` in `unit`; without a unit, in the base unit (seconds for a bet in "ms", bytes
    for one in "GB", a ratio for one in "%"), which is what the library's formulas give;
    `conclusion`, a sentence that follows the comparison.
    Raises KeyError when the notebook has not made that bet, ValueError for a unit of another kind
    or a value off the line.
    """
    if key not in made:
        raise KeyError(f"answer {key!r}: no such bet above; made are {', '.join(made) or 'none'}")
    on = made[key]
    given = unit_facts(on["base"] if unit is None else unit)
    if given["base"] != on["base"]:
        raise ValueError(f"answer {key!r}: the bet is in {on['unit']!r}, not in {unit!r}")
    true = value * given["size"] / on["size"]
    if not on["low"] <= true <= on["high"]:
        shown = f"{on['low']} to {on['high']} {on['unit']}"
        raise ValueError(f"answer {key!r}: {true} {on['unit']} is off the line, {shown}")
    return Answer(answer=true, answer_text=text_of(true, on), conclusion=conclusion, **on)
