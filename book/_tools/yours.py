"""Numbers in prose for the reader's own machine and run: an expression over named hardware, traced.

A number such as `message_time(n=1*GB, alpha=0, beta=catalog['nvlink4'].beta)` reads a figure of a
machine. What that figure is for is its role: how fast one GPU sends inside of a node. Traced, the
expression is the same formula over roles, in JavaScript, and a page computes it for whatever plays
these roles at the reader's.

>>> traced(Expression("1*GB / catalog['nvlink4'].beta")).js
'1000000000/link_beta'
>>> traced(Expression("1*GB / catalog['nvlink4'].beta")).book
{'link_beta': 450000000000}
>>> traced(Expression("2**10")) is None
True
"""

import ast
import dataclasses
from dataclasses import dataclass

import sympy

from book._tools.expressions import Expression, ExpressionError, names
from book._tools.run import BOOK_RUN, Run
from dtlib.formulas.javascript import javascript
from dtlib.machines.hardware import GPU, Link, Node, catalog

# Whose part a link of the book plays, by how its name begins.
FAMILIES = {"nvlink": "link", "ib-": "port", "roce-": "port", "ethernet-": "port", "pcie": "host"}
ASKED_OF = {"catalog", "run"}


class NotYours(ValueError):
    """An expression reads a figure that has no counterpart on another machine."""


@dataclass(frozen=True)
class Traced:
    """An expression over roles: its JavaScript, and what plays each role in the book."""

    js: str
    book: dict[str, float]


class Roles:
    """A catalog and a run whose figures are symbols; it keeps what each is in the book."""

    def __init__(self):
        self.book: dict[str, float] = {}
        self.hardware: dict[str, str] = {}  # who owns a role -> an entry of the catalog

    def __getitem__(self, name: str) -> "_Entry":
        return _Entry(self, name)

    def figure(self, owner: str, name: str, value: float) -> sympy.Symbol:
        """The symbol of a figure, which is positive as all figures of machines are."""
        self.book[f"{owner}_{name}"] = value
        return sympy.Symbol(f"{owner}_{name}", positive=True)

    def run(self) -> Run:
        """The run whose every figure is a symbol."""
        given = dataclasses.asdict(BOOK_RUN)
        return Run(**{name: self.figure("run", name, value) for name, value in given.items()})


class _Entry:
    """An entry of the catalog that gives symbols for what plays a role."""

    def __init__(self, roles: Roles, name: str):
        self._roles, self._name, self._entry = roles, name, catalog[name]

    def _figure(self, owner: str, name: str, value: float) -> sympy.Symbol:
        if self._roles.hardware.setdefault(owner, self._name) != self._name:
            raise NotYours(f"{self._roles.hardware[owner]} and {self._name} play the same part")
        return self._roles.figure(owner, name, value)

    def _of(self, kind: type):
        if not isinstance(self._entry, kind):
            raise NotYours(f"{self._name} is no {kind.__name__}")
        return self._entry

    def peak(self, dtype: str = "bf16") -> sympy.Symbol:
        return self._figure("gpu", f"peak_{dtype}", self._of(GPU).peak(dtype))

    def ring_bandwidth(self, members: int) -> sympy.Symbol:
        node = self._of(Node)
        rings = {1: "ring_of_one", node.gpus: "ring_of_all"}
        if members not in rings:
            raise NotYours(f"rings of {members} members in a node of another size")
        return self._figure("node", rings[members], node.ring_bandwidth(members))

    @property
    def hbm_bytes(self) -> sympy.Symbol:
        return self._figure("gpu", "hbm_bytes", self._of(GPU).hbm_bytes)

    @property
    def hbm_bandwidth(self) -> sympy.Symbol:
        return self._figure("gpu", "hbm_bandwidth", self._of(GPU).hbm_bandwidth)

    @property
    def network_bandwidth(self) -> sympy.Symbol:
        return self._figure("node", "network", self._of(Node).network_bandwidth)

    @property
    def alpha(self) -> sympy.Symbol:
        return self._figure(family(self._name), "alpha", self._of(Link).alpha)

    @property
    def beta(self) -> sympy.Symbol:
        return self._figure(family(self._name), "beta", self._of(Link).beta)


def family(link: str) -> str:
    """The part that a link plays; raises NotYours for one that plays none on another machine."""
    for beginning, part in FAMILIES.items():
        if link.startswith(beginning):
            return part
    raise NotYours(f"{link} is no link of every machine")


def traced(expression: Expression) -> Traced | None:
    """The expression over roles; None where it has none, or asks what a symbol cannot answer."""
    read = {node.id for node in ast.walk(expression.tree) if isinstance(node, ast.Name)}
    if not ASKED_OF & read or expression.is_comparison:
        return None
    roles = Roles()
    theirs = {"catalog": roles, "run": roles.run(), "min": sympy.Min, "max": sympy.Max}
    try:
        found = expression.evaluated({**names(), **theirs})
    except ExpressionError:
        return None
    used = {str(symbol) for symbol in getattr(found, "free_symbols", ())}
    if not used:
        return None
    book = {name: value for name, value in roles.book.items() if name in used}
    return Traced(javascript(found), book)
