"""Numbers in prose: `<data value="EXPR">TEXT</data>` must say what its expression gives.

An empty text is filled with two digits, in the unit of its formula. The text may also be words:
where the expression compares ("a > 4 * b"), it must hold, whatever the words are; where it gives
a number, the words must name it to within a tenth ('four times', 'two thirds', 'twentyfold').
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from book._tools.expressions import Expression, ExpressionError
from book._tools.layout import ROOT, line_of, write_if_new
from book._tools.number_words import spelled_out
from dtlib.formulas.units import format_quantity, parse_quantity

DATA_FILES = [
    ROOT / "README.md",
    ROOT / "dtlib/contents.toml",
    ROOT / "book/symptoms.toml",
    *ROOT.glob("book/folklore/*.toml"),
]
DATA = re.compile(r'<data value="(?P<value>[^"]*)">(?P<text>[^<]*)</data>')
ANY_DATA = re.compile(r"<data\b")
CODE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[^\n]*$|`[^`\n]+`", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"(?P<number>[-−+]?\d[\d,]*(?:\.(?P<decimals>\d+))?(?:e[-+]?\d+)?)(?P<rest>.*)")


@dataclass(frozen=True)
class Number:
    """One number in prose, and where it stands in its page."""

    position: int
    span: tuple[int, int]
    source: str
    text: str

    @cached_property
    def expression(self) -> Expression:
        """The expression; raises ExpressionError for one that a number may not use."""
        return Expression(self.source)

    @property
    def expected(self) -> str:
        """What the text must be: the expression's value, with the text's own digits and unit."""
        return printed_like(self.text, self.expression)

    @property
    def is_in_words(self) -> bool:
        """Whether the text has no digits to write anew: only a person can change its words."""
        has_words = bool(self.text) and not re.search(r"\d", self.text)
        return self.expression.is_comparison or has_words

    def problem(self) -> str:
        """What is wrong with the number, or ''."""
        try:
            value = self.expression.value
            if self.expression.is_comparison:
                return "" if value else f"{self.text!r} does not hold: {self.source}"
            quantity = spelled_out(self.text) or parse_quantity(self.text)
        except ValueError as error:
            return f"{self.text!r}: {error}"
        formula = self.expression.formula
        if formula is not None and formula.unit != quantity.unit:
            told = f"in {quantity.unit!r}" if quantity.unit else "without a unit"
            return f"{self.text!r} is {told}, but {formula.name} is in {formula.unit!r}"
        if not quantity.agrees_with(value):
            return f"{self.text!r} should be {self.expected!r}: {self.source}"
        return ""


def numbers(page: str) -> Iterator[Number]:
    """Every number in a page's prose; code is passed over.

    Raises ValueError for a data element that the pattern does not know.
    """
    prose = CODE.sub(lambda block: " " * len(block.group()), page)
    found = list(DATA.finditer(prose))
    known = {match.start() for match in found}
    for match in ANY_DATA.finditer(prose):
        if match.start() not in known:
            line = line_of(page, match.start())
            raise ValueError(f'line {line}: write a number as <data value="...">...</data>')
    for match in found:
        source, text = html.unescape(match["value"]), html.unescape(match["text"])
        yield Number(match.start(), match.span("text"), source, text)


def printed_like(text: str, expression: Expression) -> str:
    """The value of an expression with the decimals, separators and unit of an older text.

    >>> printed_like("1.2 ms", Expression("35*ms")), printed_like("10", Expression("1024"))
    ('35.0 ms', '1,024')
    """
    match = NUMBER.fullmatch(text.strip())
    if not match:
        formula = expression.formula
        return format_quantity(expression.value, formula.unit if formula else "")
    if "e" in match["number"]:
        return format_quantity(expression.value, match["rest"].strip())
    unit = parse_quantity(f"1{match['rest']}").value
    decimals = len(match["decimals"] or "")
    shown = f"{expression.value / unit:,.{decimals}f}"
    return shown.replace("-", "−") + match["rest"]


def shown_in_full(text: str, expression: Expression) -> str:
    """The value of an expression in the unit of its printed text, with at least four digits.

    >>> shown_in_full("256 MB", Expression("2**28"))
    '268.4 MB'
    """
    if expression.is_comparison:
        return "holds"
    match = NUMBER.fullmatch(text.strip())
    unit = match["rest"].strip() if match else ""
    return format_quantity(expression.value, unit, digits=4)


def printed_shape(text: str, value: float) -> dict | None:
    """How another value of the same number is printed; None where the text is words alone.

    >>> printed_shape("1.2 ms", 0.00118)
    {'unit': 0.001, 'digits': 2, 'decimals': 1, 'counts': False, 'rest': ' ms'}
    """
    match = NUMBER.fullmatch(text.strip())
    if not match:
        return None
    unit = parse_quantity(f"1{match['rest']}").value
    return {
        "unit": unit,
        "digits": max(2, len(re.sub(r"\D", "", match["number"]).lstrip("0"))),
        "decimals": len(match["decimals"] or ""),
        "counts": unit == 1 and float(value).is_integer(),
        "rest": match["rest"],
    }


def check(page: Path) -> list[str]:
    """Every number of a page that does not hold, each with its file and line."""
    text = page.read_text(encoding="utf-8")
    try:
        found = [(number, number.problem()) for number in numbers(text)]
    except ValueError as error:
        return [f"{_name(page)}: {error}"]
    return [
        f"{_name(page)}:{line_of(text, number.position)}: {problem}"
        for number, problem in found
        if problem
    ]


def fill(page: Path) -> bool:
    """Write every number of a page anew; whether the page changed."""
    text = page.read_text(encoding="utf-8")
    new = text
    for number in reversed(list(numbers(text))):
        try:
            keep = not number.problem() or number.is_in_words
            shown = number.text if keep else number.expected
        except ValueError as error:
            line = line_of(text, number.position)
            raise ExpressionError(f"{_name(page)}:{line}: {error}") from error
        start, stop = number.span
        new = new[:start] + shown + new[stop:]
    return write_if_new(page, new)


def _name(page: Path) -> Path:
    return page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
