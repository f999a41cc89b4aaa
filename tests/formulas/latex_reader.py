r"""Reads the LaTeX of an equation as a person does, independently of how it was printed.

Grammar: a sum of products; factors stand beside each other with ``\,`` or ``\cdot`` between;
``\log_2`` and ``\ln`` without parentheses reach to the end of their product; a formula's symbol
directly before parentheses is applied to them. Symbols and functions come from the caller, so
that the same reader gives numbers, exact fractions or sympy expressions.
"""

import re
from fractions import Fraction


class Reader:
    """Reads one LaTeX expression; `symbols` and `applied` map LaTeX to values and callables."""

    def __init__(self, latex: str, symbols: dict, functions: dict, applied: dict | None = None):
        self.text = latex
        self.at = 0
        self.symbols, self.functions, self.applied = symbols, functions, applied or {}
        self.names = sorted({*self.symbols, *self.applied}, key=len, reverse=True)

    def read(self):
        value = self.sum()
        if self.peek():
            raise ValueError(f"cannot read {self.text[self.at :]!r} of {self.text!r}")
        return value

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.text[self.at :]

    def take(self, *tokens: str) -> str:
        rest = self.peek()
        for token in tokens:
            if rest.startswith(token) and not (
                token[-1].isalpha() and token[0] == "\\" and rest[len(token) :][:1].isalpha()
            ):
                self.at += len(token)
                return token
        return ""

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise ValueError(f"expected {token!r} at {self.peek()!r} of {self.text!r}")

    def braces(self):
        self.expect("{")
        value = self.sum()
        self.expect("}")
        return value

    def sum(self):
        value = -self.product() if self.take("-") else self.product()
        while sign := self.take("+", "-"):
            term = self.product()
            value = value + term if sign == "+" else value - term
        return value

    def product(self):
        value = self.factor()
        while self.take(r"\,", r"\cdot"):
            value = value * self.factor()
        return value

    def factor(self):
        if self.take("e^"):
            return self.functions["exp"](self.braces())
        value = self.base()
        return value ** self.braces() if self.take("^") else value

    def base(self):
        if number := re.match(r"\d+((?:\{,\}\d{3})*)(\.\d+)?", self.peek()):
            self.at += number.end()
            value = Fraction(number[0].replace("{,}", ""))
            return self.functions["number"](value)
        for name in self.names:
            if self.take(name):
                return self.named(name)
        if self.take(r"\frac"):
            above = self.braces()
            return above / self.braces()
        if self.take(r"\sqrt"):
            return self.functions["sqrt"](self.braces())
        for latex, name in ((r"\log_2", "log2"), (r"\ln", "ln")):
            if self.take(latex):
                opened = self.peek().startswith(("(", r"\left("))
                return self.functions[name](self.base() if opened else self.product())
        for latex, name in ((r"\max", "maximum"), (r"\min", "minimum")):
            if self.take(latex):
                return self.functions[name](*self.arguments())
        if self.take(r"\begin{cases}"):
            return self.cases()
        for opening, closing, name in (
            ("(", ")", None), (r"\lceil", r"\rceil", "ceil"), (r"\lfloor", r"\rfloor", "floor"),
        ):  # fmt: skip
            if self.take(rf"\left{opening}", opening):
                value = self.sum()
                self.close(closing)
                return self.functions[name](value) if name else value
        raise ValueError(f"cannot read {self.peek()!r} of {self.text!r}")

    def named(self, name: str):
        opened = self.text[self.at :].startswith(("(", r"\left("))
        if name in self.applied and (opened or name not in self.symbols):
            return self.applied[name](*self.arguments()) if opened else self.applied[name]()
        return self.symbols[name]

    def arguments(self) -> list:
        if not self.take(r"\left(", "("):
            raise ValueError(f"expected arguments at {self.peek()!r}")
        values = [self.sum()]
        while self.take(r",\,"):
            values.append(self.sum())
        self.close(")")
        return values

    def close(self, closing: str) -> None:
        if not self.take(rf"\right{closing}", closing):
            raise ValueError(f"expected {closing!r} at {self.peek()!r} of {self.text!r}")

    def cases(self):
        chosen = self.sum()
        self.expect(r"& \text{if }")
        left = self.sum()
        relation = self.take(r"\le", r"\ge", "<", ">")
        right = self.sum()
        self.expect(r"\\")
        otherwise = self.sum()
        self.expect(r"& \text{otherwise}")
        self.expect(r"\end{cases}")
        condition = {
            "<": lambda: left < right,
            ">": lambda: left > right,
            r"\le": lambda: left <= right,
            r"\ge": lambda: left >= right,
        }[relation]()
        return self.functions["where"](condition, chosen, otherwise)
