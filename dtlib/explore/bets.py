"""The reader's bet before the answer: made on a logarithmic line, kept in the browser, answered.

A bet starts without a value: the anchor is a mark on the line, not a bet that waits for a click.
"""

import html
import math

from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity, parse_quantity

_LOWEST, _HIGHEST = 0.01, 1000  # how far the line reaches around the anchor
_made: dict[str, dict] = {}


class Bet(Widget):
    """A question and a line to bet on; see `bet`."""

    _esm = script("quantities.js", "page.js", "storage.js", "bet.js")
    _css = script("widget.css", "bet.css")

    def _figure(self) -> str:
        unit = f" (in {html.escape(self.spec['unit'])})" if self.spec["unit"] else ""
        return (
            f"<p><strong>{html.escape(self.spec['title'])}</strong>{unit}</p>"
            "<p>Write a number down before you read on.</p>"
        )


class Answer(Widget):
    """The answer to a bet, beside what the reader bet; see `answer`."""

    _esm = script("quantities.js", "page.js", "storage.js", "bet.js")
    _css = script("widget.css", "bet.css")

    def _figure(self) -> str:
        return f"<p><strong>The answer: {html.escape(self.spec['answer_text'])}</strong></p>"


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
    a number that has no place on a logarithmic line: one that is not positive, or not finite.
    """
    for name, value in {"anchor": anchor, "low": low, "high": high}.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"bet {key!r}: {name} {value!r} is not a positive number")
    if anchor is None and (low is None or high is None):
        raise ValueError(f"bet {key!r}: give an anchor, or low and high")
    low = _decade(anchor * _LOWEST) if low is None else low
    high = _decade(anchor * _HIGHEST) if high is None else high
    if not 0 < low < high:
        raise ValueError(f"bet {key!r}: a line from {low!r} to {high!r} is no logarithmic line")
    if anchor is not None and not low <= anchor <= high:
        raise ValueError(f"bet {key!r}: anchor {anchor!r} is not between {low!r} and {high!r}")
    line = {
        "kind": "bet",
        "key": key,
        "title": question,
        "low": low,
        "high": high,
        "anchor": anchor,
        "anchor_label": anchor_label,
        **_unit(unit),
    }
    _made[key] = line
    return Bet(spec=line)


def answer(key: str, value: float, unit: str | None = None, *, conclusion: str = "") -> Answer:
    """Answer the bet of that key with the true value, from code.

    Arguments: `value` in `unit`; without a unit, in the base unit (seconds for a bet in "ms", bytes
    for one in "GB", a ratio for one in "%"), which is what the library's formulas give;
    `conclusion`, a sentence that follows the comparison.
    Raises KeyError when the notebook has not made that bet, ValueError for a unit of another kind
    or a value off the line.
    """
    if key not in _made:
        raise KeyError(f"answer {key!r}: no such bet above; made are {', '.join(_made) or 'none'}")
    line = _made[key]
    given = _unit(line["base"] if unit is None else unit)
    if given["base"] != line["base"]:
        raise ValueError(f"answer {key!r}: the bet is in {line['unit']!r}, not in {unit!r}")
    true = value * given["size"] / line["size"]
    if not line["low"] <= true <= line["high"]:
        shown = f"{line['low']} to {line['high']} {line['unit']}"
        raise ValueError(f"answer {key!r}: {true} {line['unit']} is off the line, {shown}")
    text = _text(true, line)
    spec = {**line, "kind": "answer", "answer": true, "answer_text": text, "conclusion": conclusion}
    return Answer(spec=spec)


def _unit(unit: str) -> dict:
    """A unit with its base unit and its size; one that the library does not know is a count."""
    try:
        quantity = parse_quantity(f"1 {unit}")
    except ValueError:
        return {"unit": unit, "base": "", "size": 1.0}
    return {"unit": unit, "base": quantity.unit, "size": quantity.value}


def _text(value: float, line: dict) -> str:
    """A value of the line as a sentence prints it."""
    if line["base"]:
        return format_quantity(value * line["size"], line["base"])
    space = "" if line["unit"] == "×" else " "
    return f"{format_quantity(value)}{space}{line['unit']}".strip()


def _decade(value: float) -> float:
    return float(f"{10.0 ** math.floor(math.log10(value)):.0e}")
