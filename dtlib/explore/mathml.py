r"""Formulas as MathML, which browsers draw without a script, with places for live numbers.

`mathml(r"\alpha+\frac{n}{\beta}", {r"\alpha": "alpha"})` marks every occurrence of a named piece
with ``data-value="alpha"``, so that a widget can write the number of the moment into it. It reads
the LaTeX that `dtlib.formulas.typeset` writes, and nothing more.
"""

import html
import re
import unicodedata
from collections.abc import Mapping

_TOKEN = re.compile(r"\\(?:begin|end)\{cases\}|\\[a-zA-Z]+|\\.|\d+(?:\{,\}\d{3})*(?:\.\d+)?|\s+|.")
_OPERATORS = {"cdot": "·", "times": "×", "le": "≤", "ge": "≥", "approx": "≈", "+": "+", "-": "−"}
_OPERATORS |= {"=": "=", "<": "&lt;", ">": "&gt;", ",": ",", "/": "/", "to": "→"}
_SPACING = {"/": ' lspace="0" rspace="0"'}
_FENCES = {"(": "()", "[": "[]", r"\lceil": "⌈⌉", r"\lfloor": "⌊⌋"}
_CLOSING = {"(": ")", "[": "]", r"\lceil": r"\rceil", r"\lfloor": r"\rfloor"}
_FUNCTIONS = {"log", "ln", "max", "min", "exp"}
_TIMES = '<mo class="dt-times" lspace="0.1em" rspace="0.1em">&#x2062;</mo>'
_LETTERS = {"ell": "ℓ", "varepsilon": "ε", "epsilon": "ϵ", "infty": "∞"}
_STAR = "*"  # of what is best
_NEW_ROW, _END_CASES = r"\\", r"\end{cases}"


def mathml(latex: str, values: Mapping[str, str] | None = None) -> str:
    """The content of a `<math>` element; `values` maps a piece's LaTeX to its `data-value`.

    Raises ValueError for LaTeX that formulas are not made of.

    >>> mathml(r"2\\,n", {"n": "n"}).count('data-value="n"')
    1
    """
    return _Reader(latex, values or {}).row(until=())


def plain(latex: str) -> str:
    """A symbol as plain text, for places that take no markup.

    >>> plain(r"\\alpha"), plain("n_{1/2}"), plain(r"P_\\text{node}")
    ('α', 'n½', 'P_node')
    """
    text = re.sub(r"\\text|[{}]", "", latex).replace("_1/2", "½").replace("^", " ")
    return re.sub(r"\\([A-Za-z]+)", lambda name: _greek(name[1]) or name[1], text)


class _Reader:
    """A recursive-descent reader: a row of factors, each an atom with its scripts."""

    def __init__(self, latex: str, values: Mapping[str, str]):
        self.latex = latex
        self.values = {key.replace(" ", ""): name for key, name in values.items()}
        self.tokens = [(m[0], m.start(), m.end()) for m in _TOKEN.finditer(latex)]
        self.at = 0

    def row(self, until: tuple[str, ...]) -> str:
        """Everything up to one of the tokens `until`, with a times sign between two factors."""
        pieces: list[str] = []
        factor_before = False
        while self._skip() and self._peek() not in until:
            operator = _OPERATORS.get(self._peek().lstrip("\\"))
            if operator:
                self.at += 1
                pieces.append(f"<mo{_SPACING.get(operator, '')}>{operator}</mo>")
                factor_before = False
                continue
            piece, is_function = self._factor()
            pieces.append(_TIMES + piece if factor_before else piece)
            factor_before = not is_function
            if is_function and self._skip() and self._peek() not in (*_FENCES, r"\left"):
                pieces.append('<mspace width="0.17em"></mspace>')
        return f"<mrow>{''.join(pieces)}</mrow>"

    def _factor(self) -> tuple[str, bool]:
        """An atom with its subscript and superscript, and whether it is a function's name."""
        start = self.tokens[self.at][1]
        function = self._peek().lstrip("\\") in _FUNCTIONS
        base, scripts, end = self._atom(), {}, self._end()
        while self._skip() and self._peek() in ("_", "^"):
            mark = self._next()
            if mark == "^" and self._value(start, end):
                low = scripts.pop("_", None)
                base = self._place(f"<msub>{base}{low}</msub>" if low else base, start, end)
            scripts[mark], end = self._argument(), self._end()
        match scripts:
            case {"_": low, "^": high}:
                base = f"<msubsup>{base}{low}{high}</msubsup>"
            case {"_": low}:
                base = f"<msub>{base}{low}</msub>"
            case {"^": high}:
                base = f"<msup>{base}{high}</msup>"
        return self._place(base, start, end), function

    def _value(self, start: int, end: int) -> str | None:
        """The `data-value` of the piece that is written there, if it has one."""
        return self.values.get(self.latex[start:end].replace(" ", ""))

    def _place(self, drawn: str, start: int, end: int) -> str:
        value = self._value(start, end)
        return f'<mrow data-value="{html.escape(value)}">{drawn}</mrow>' if value else drawn

    def _atom(self) -> str:
        token = self._next()
        name = token.lstrip("\\")
        if token == "{":
            return self._group()
        if token[0].isdigit():
            return f"<mn>{token.replace('{,}', ',')}</mn>"
        if name in _FUNCTIONS:
            return f"<mi>{name}</mi>"
        if token in ("\\text", "\\mathrm", "\\operatorname"):
            return f"<mtext>{html.escape(self._text())}</mtext>"
        if token == "\\frac":
            return f"<mfrac>{self._argument()}{self._argument()}</mfrac>"
        if token == "\\sqrt":
            return f"<msqrt>{self._argument()}</msqrt>"
        if token in _FENCES:
            return self._fenced(token)
        if token == "\\left":
            return self._tall_fence()
        if token == "\\begin{cases}":
            return self._cases()
        if token == _STAR:
            return "<mo>∗</mo>"
        if len(token) == 1 and token.isalpha():
            return f"<mi>{token}</mi>"
        if _greek(name):
            return f"<mi>{_greek(name)}</mi>"
        raise ValueError(f"LaTeX {self.latex!r}: {token!r} is not part of a formula")

    def _fenced(self, opening: str) -> str:
        inside = self.row(until=(_CLOSING[opening], r"\right"))
        self.at += 1
        left, right = _FENCES[opening]
        return f"<mrow><mo>{left}</mo>{inside}<mo>{right}</mo></mrow>"

    def _tall_fence(self) -> str:
        self._skip()
        fence = self._fenced(self._next())
        self._skip()
        self.at += 1
        return fence

    def _cases(self) -> str:
        cells, rows = [], []
        while True:
            cells.append(f"<mtd>{self.row(until=('&', _NEW_ROW, _END_CASES))}</mtd>")
            stop = self._next()
            if stop != "&":
                rows.append(f"<mtr>{''.join(cells)}</mtr>")
                cells = []
            if stop == _END_CASES:
                return (
                    f'<mrow><mo>{{</mo><mtable columnalign="left">{"".join(rows)}</mtable></mrow>'
                )

    def _argument(self) -> str:
        self._skip()
        return self._atom()

    def _group(self) -> str:
        inside = self.row(until=("}",))
        self.at += 1
        return inside

    def _text(self) -> str:
        self._skip()
        self.at += 1
        words = ""
        while self._peek() != "}":
            words += self._next()
        self.at += 1
        return words

    def _skip(self) -> bool:
        """Pass over spaces; whether anything is left."""
        while self.at < len(self.tokens) and re.fullmatch(r"\s+|\\[,;: !]", self._peek()):
            self.at += 1
        return self.at < len(self.tokens)

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][0]

    def _end(self) -> int:
        """Where the last token that was read ends."""
        return self.tokens[self.at - 1][2]

    def _peek(self) -> str:
        return self.tokens[self.at][0]


def _greek(name: str) -> str:
    """The letter of a name such as alpha or Delta, of ell, varepsilon and infty, or nothing."""
    if name in _LETTERS:
        return _LETTERS[name]
    size = "CAPITAL" if name[:1].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name.upper().replace('LAMBDA', 'LAMDA')}")
    except KeyError:
        return ""
