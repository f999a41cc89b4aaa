"""Answers as one writes them: ``35 ms``, ``15/16 100e6 / 100e9``, ``2 (P-1) n / beta``.

The page reads the same grammar (`book/_static/reader/judge.js`) and says the same words of what it
cannot read; one table of tests holds both. Nothing is evaluated by Python: a text may name a unit,
a function of the list below, pi, and in a formula its arguments.
"""

import math
import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import NamedTuple

from dtlib.errors import DtlibError
from dtlib.exercises.answers.arithmetic import FUNCTIONS, SEVERAL, power, quotient
from dtlib.exercises.verdict import NotYet
from dtlib.formulas.units import ladder, spellings

_EMPTY = "there is nothing here yet"
_LONGEST = 500  # characters of a text
_DEEPEST = 30  # brackets and signs inside one another
_QUOTED = 40
_COMMA = "decimals have a point, and a comma only groups thousands, as in 1,000"
_TOKEN = re.compile(
    r" *(?:(?P<digits>(?:(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|[-+*/^(),−·×÷]))",
    re.ASCII,
)
_PLAIN_SIGNS = {"−": "-", "·": "*", "×": "*", "÷": "/", "**": "^"}
_ASSIGNED = re.compile(r"(?:\w+ *=|return\b)", re.ASCII)


class Odd(DtlibError, ValueError):
    """What of a text cannot be read."""


def tidy(text: str) -> str:
    """A text without idle spaces; `Odd` for one that is too long to be an answer."""
    if len(text) > _LONGEST:
        raise Odd(f"that is too long, {_LONGEST} characters are enough")
    return " ".join(text.split())


def read_number(text: str, name: str, unit: str = "") -> float:
    """A number with its unit, in the unit that is asked for.

    Arguments: ``text``, what was written; ``name`` and ``unit``, what it answers.
    Raises `NotYet` with what in the text cannot be read.

    >>> read_number("35 ms", "T", "s"), read_number("62.5 %", "the share")
    (0.035, 0.625)
    >>> read_number("35 GB", "T", "s")
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: T, a number in s: what is "GB"? It takes ns, µs, ms, s, ...
    """
    if not text.strip():
        raise NotYet(f"{name}: {_EMPTY}")
    units = spellings(unit)
    try:
        given = tidy(text)
        ending = max((word for word in units if _ends(given, word)), key=len, default="")
        value = value_of(given.removesuffix(ending), {}, takes=", ".join(ladder(unit)))
    except Odd as odd:
        asked = f"a number in {unit}" if unit else "a number"
        raise NotYet(f"{name}, {asked}: {odd}") from None
    return value * units[ending] if ending else value


def read_choice(text: str, name: str, among: tuple[str | int, ...]) -> str | int:
    """The one of several words, truth values or numbers that a text names.

    >>> read_choice(" True", "all", (True, False))
    True
    >>> read_choice("yes", "all", (True, False))
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: all must be one of False, True: what is "yes"?
    """
    if not text.strip():
        raise NotYet(f"{name}: {_EMPTY}")
    words = {str(one): one for one in among}
    try:
        given = tidy(text)
        if given not in words:
            raise _what_is(given)
    except Odd as odd:
        raise NotYet(f"{name} must be one of {', '.join(sorted(words))}: {odd}") from None
    return words[given]


def read_formula(text: str, signature: str, cases: list[tuple]) -> Callable[..., float]:
    """The function that a text writes down, of the arguments that ``signature`` names.

    Raises `NotYet` with what in the text cannot be read; ``cases``, some arguments, try it.

    >>> read_formula("T = 2 (P - 1) n", "T(n, P)", [(1, 2)])(3.0, 5)
    24.0
    >>> read_formula("2 (P - 1) m", "T(n, P)", [(1, 2)])
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: a formula of (n, P): what is "m"?
    """
    arguments = signature[signature.index("(") :]
    names = arguments[1:-1].split(", ")
    if not text.strip():
        raise NotYet(_EMPTY)

    def written(*args: float) -> float:
        return value_of(body, dict(zip(names, map(float, args), strict=True)))

    written.__signature__ = Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    try:
        body = _ASSIGNED.sub("", tidy(text), count=1)
        for case in cases:
            written(*case)
    except Odd as odd:
        raise NotYet(f"a formula of {arguments}: {odd}") from None
    return written


def value_of(text: str, names: Mapping[str, float], takes: str = "") -> float:
    """The value of a text for these values of its names, by the arithmetic of JavaScript.

    ``takes`` are the units that could have stood behind a number. Raises `Odd`.

    >>> value_of("2 (P-1) n / 4", {"P": 3.0, "n": 5.0})
    5.0
    """
    return _Reader(text, names, takes).value()


def _ends(text: str, unit: str) -> bool:
    before = text.removesuffix(unit)
    return bool(unit) and text.endswith(unit) and bool(re.search(r"[0-9.) ]$", before))


def _what_is(text: str) -> Odd:
    text = text.strip()
    return Odd(f'what is "{text if len(text) <= _QUOTED else f"{text[:_QUOTED]} ..."}"?')


class _Token(NamedTuple):
    digits: str | None
    name: str | None
    sign: str | None
    start: int
    end: int


_START = _Token(None, None, None, 0, 0)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if not match:
            raise _what_is(text[at:])
        digits, name, sign = match.groups()
        start = match.start(match.lastgroup)
        before = found[-1] if found else _START
        beside = before.digits and before.end == start
        zeros = re.match("0[0-9]", digits or "") and before.sign != ","
        if digits and (beside or zeros):
            raise _what_is(text[start:])
        found.append(_Token(digits, name, _PLAIN_SIGNS.get(sign, sign), start, match.end()))
        at = match.end()
    return found


class _Reader:
    """A descent: a sum of products of signed powers of numbers, names, calls and brackets."""

    def __init__(self, text: str, names: Mapping[str, float], takes: str):
        self.text, self.names, self.takes = text, names, takes
        self.tokens = _tokens(text)
        self.at = self.depth = 0

    def value(self) -> float:
        value = self._sum()
        if self.at < len(self.tokens):
            raise self._unexpected(self.tokens[self.at])
        return value

    def _next(self, sign: str) -> bool:
        there = self.at < len(self.tokens) and self.tokens[self.at].sign == sign
        self.at += there
        return there

    def _close(self) -> None:
        if self._next(")"):
            return
        comma = self.at < len(self.tokens) and self.tokens[self.at].sign == ","
        raise Odd(_COMMA if comma else 'a ")" is missing')

    def _sum(self) -> float:
        value = self._product()
        while True:
            if self._next("+"):
                value += self._product()
            elif self._next("-"):
                value -= self._product()
            else:
                return value

    def _product(self) -> float:
        value = self._signed()
        while True:
            if self._next("*"):
                value *= self._signed()
            elif self._next("/"):
                value = quotient(value, self._signed())
            elif self.at < len(self.tokens) and self.tokens[self.at].sign in (None, "("):
                value *= self._power()
            else:
                return value

    def _signed(self) -> float:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Odd("too many brackets or signs stand inside one another")
        if self._next("-"):
            value = -self._signed()
        else:
            self._next("+")
            value = self._power()
        self.depth -= 1
        return value

    def _power(self) -> float:
        value = self._atom()
        return power(value, self._signed()) if self._next("^") else value

    def _atom(self) -> float:
        if self.at == len(self.tokens):
            raise Odd("something is missing at the end")
        token = self.tokens[self.at]
        self.at += 1
        if token.digits:
            return float(token.digits.replace(",", ""))
        if token.sign == "(":
            value = self._sum()
            self._close()
            return value
        if token.name in self.names:
            return self.names[token.name]
        if token.name in FUNCTIONS:
            return self._call(token.name)
        if token.name == "pi":
            return math.pi
        raise self._unexpected(token)

    def _call(self, name: str) -> float:
        if not self._next("("):
            raise Odd('a "(" is missing')
        given = [self._sum()]
        while self._next(","):
            given.append(self._sum())
        self._close()
        if len(given) > 1 and name not in SEVERAL:
            raise Odd(f"{name} takes one number")
        return FUNCTIONS[name](*given)

    def _unexpected(self, token: _Token) -> Odd:
        if token.sign == ",":
            return Odd(_COMMA)
        i = self.tokens.index(token)
        a_unit = i and (self.tokens[i - 1].digits or self.tokens[i - 1].sign == ")")
        if token.name and self.takes and a_unit:
            return Odd(f"{_what_is(self.text[token.start :])} It takes {self.takes}")
        return _what_is(token.name or token.sign)
