"""What each statement of a cell takes from earlier ones and gives to later ones: names."""

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

NOTEBOOK = ("%", "!")  # how lines begin that only a notebook understands


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a cell.

    ``reads`` are the names that it needs when it runs, ``late`` those that the functions that it
    defines need when they are called; ``sets`` it binds in any case, ``changes`` it may bind, or
    changes what they name. ``imports`` says that it does nothing else.
    """

    text: str
    reads: frozenset[str]
    late: frozenset[str]
    sets: frozenset[str]
    changes: frozenset[str]
    imports: bool


def statements(code: str) -> list[Statement]:
    """The statements of a cell, in order; none of a cell that begins with ``%%``.

    Raises SyntaxError for code that is none, ValueError for ``from ... import *``, after which
    nobody can say what a name means.

    >>> one, two = statements("n = P + 1\\nfor k in range(n):\\n    seen.append(k)")
    >>> sorted(one.reads), sorted(one.sets), sorted(two.reads), sorted(two.changes)
    (['P'], ['n'], ['n', 'range', 'seen'], ['seen'])
    """
    if code.startswith("%%"):
        return []
    lines = code.splitlines(keepends=True)
    plain = "".join("\n" if line.startswith(NOTEBOOK) else line for line in lines)
    return [_statement(node) for node in ast.parse(plain).body]


def _statement(node: ast.stmt) -> Statement:
    imports = isinstance(node, (ast.Import, ast.ImportFrom))
    if imports and any(alias.name == "*" for alias in node.names):
        raise ValueError(f"{ast.unparse(node)}: name what is imported")
    flow = _Flow()
    known: set[str] = set()
    reads = flow.through([node], known)
    changes = flow.bound | set(_changed(node))
    return Statement(
        ast.unparse(node),
        frozenset(reads),
        frozenset(flow.late),
        frozenset(known),
        frozenset(changes - known),
        imports,
    )


class _Flow:
    """Follows names through statements: what is read before it was bound, and what is bound."""

    def __init__(self):
        self.late: set[str] = set()
        self.bound: set[str] = set()

    def through(self, body: list[ast.stmt], known: set[str]) -> set[str]:
        """What the statements read; ``known``, what is bound at their start, grows to their end."""
        reads: set[str] = set()
        for node in body:
            reads |= self.one(node, known)
        return reads

    def one(self, node: ast.stmt, known: set[str]) -> set[str]:
        match node:
            case ast.For():
                reads = self.read(node.iter, known)  # on a page there is something to go through
                known |= self.names_of(node.target)
                return reads | self.through([*node.body, *node.orelse], known)
            case ast.While() | ast.If():
                reads = self.read(node.test, known)
                return reads | self.branches(known, node.body, node.orelse)
            case ast.Try():
                rest = [*node.orelse, *node.finalbody]
                reads = self.branches(known, node.body + rest)
                for handler in node.handlers:
                    inside = known | ({handler.name} if handler.name else set())
                    reads |= self.read(handler.type, known)
                    reads |= self.branches(inside, handler.body)
                return reads
            case ast.With():
                reads = set()
                for item in node.items:
                    reads |= self.read(item.context_expr, known)
                    known |= self.names_of(item.optional_vars)
                return reads | self.through(node.body, known)
            case ast.FunctionDef() | ast.ClassDef():
                return self.definition(node, known)
        return self.simple(node, known)

    def branches(self, known: set[str], *bodies: list[ast.stmt]) -> set[str]:
        """What is read by bodies of which each may run, and binds names for itself only."""
        return set().union(*(self.through(body, set(known)) for body in bodies))

    def definition(self, node: ast.FunctionDef | ast.ClassDef, known: set[str]) -> set[str]:
        top, inner = _tables(node)
        self.late |= inner - {node.name}
        known.add(node.name)
        self.bound.add(node.name)
        return {one.get_name() for one in top.get_symbols() if one.is_referenced()} - known

    def simple(self, node: ast.stmt, known: set[str]) -> set[str]:
        top, inner = _tables(node)
        reads = _read(top, inner) - known
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads |= {node.target.id} - known
        names = (s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported())
        bound = set(names)
        known |= bound
        self.bound |= bound
        return reads

    def read(self, node: ast.AST | None, known: set[str]) -> set[str]:
        if node is None:
            return set()
        return _read(*_tables(node)) - known

    def names_of(self, target: ast.expr | None) -> set[str]:
        """What a target of `for` or `with` binds."""
        nodes = ast.walk(target) if target is not None else ()
        names = {one.id for one in nodes if isinstance(one, ast.Name)}
        self.bound |= names
        return names


def _tables(node: ast.AST) -> tuple[symtable.SymbolTable, set[str]]:
    """The symbols of a piece of code, and the global names that its inner scopes read."""
    top = symtable.symtable(ast.unparse(node), "cell", "exec")
    inner, waiting = set(), top.get_children()
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        inner |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    return top, inner


def _read(top: symtable.SymbolTable, inner: set[str]) -> set[str]:
    return {s.get_name() for s in top.get_symbols() if s.is_referenced()} | inner


def _changed(node: ast.stmt) -> Iterator[str]:
    """What a statement changes without binding it: ``x[0] = 1``, ``x.n = 1``, ``x.append(1)``."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return
    for inner in ast.walk(node):
        stored = isinstance(getattr(inner, "ctx", None), (ast.Store, ast.Del))
        if isinstance(inner, (ast.Subscript, ast.Attribute)) and stored:
            yield from _root(inner)
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
            yield from _root(inner.value.func)


def _root(node: ast.expr) -> Iterator[str]:
    """The name that stands before the dots and brackets."""
    dotted = False
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node, dotted = node.value, True
    if dotted and isinstance(node, ast.Name):
        yield node.id
