"""A bet: a question, and a line on which the reader marks a number before the page gives it.

Nothing is marked before a touch: the anchor on the line is no bet that waits for a click.
"""

from dtlib.explore.bets.line import line
from dtlib.explore.kit.widget import Widget

made: dict[str, dict] = {}
START = {"value": None, "sure": None, "settled": ""}  # settled: "placed" or "skipped"


class Bet(Widget):
    """A question and a line to bet on; see `bet`."""

    waiting = "Run this cell to bet"

    def __init__(self, *, title: str, **on):
        super().__init__(title=title, controls=[], start=START, **on)


def bet(
    key: str,
    question: str,
    unit: str,
    anchor: float | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
    anchor_label: str = "",
) -> Bet:
    """Ask for a number before the page gives it. Skipping is allowed.

    Arguments: `key`, which `answer` names too ("12.1"); `question`; `unit`, in which the reader
    bets ("ms", "GB", "%", "times", ...) and in which the other numbers are given; `anchor`, a
    value that the reader knows already, drawn on the line with `anchor_label`; `low` and `high`,
    the ends of the line, which reach from 1/100 to 1000 times the anchor when left out.
    Raises ValueError when the line has no ends, is empty, or does not contain the anchor, and for
    a number that is not positive, or not finite.
    """
    made[key] = {"title": question, "anchor_label": anchor_label,
                 **line(key, unit, anchor, low, high)}  # fmt: skip
    return Bet(**made[key])
