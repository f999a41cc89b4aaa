"""What a reader finds where an answer is to be written: code to fill in, and what `check` is given.

It follows from the call of `check` in the text of the exercise. A name in it that is a function
gets a line `def` with its signature, any other name a line `name = ...`; where something broken is
to be repaired, its code stands there under the name that the check asks for.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dtlib.exercises.declarations.declaration import Declaration

FENCE = re.compile(r"^```(?:\{code-cell\} ipython3|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:\w.*\n", re.MULTILINE)
CALL = re.compile(r'^check\("[\w.-]+", (.*)\Z', re.MULTILINE | re.DOTALL)


class Stub(NamedTuple):
    """``code`` is what the reader edits, ``answer`` the expression that `check` gets."""

    code: str
    answer: str


@cache
def exercise_text(page: Path, slug: str) -> str:
    """The text of an exercise in the source of its page, up to its solution; "" without one.

    Raises ValueError when the page has no exercise of this name.
    """
    _, found, rest = page.read_text(encoding="utf-8").partition(f":label: {slug}\n")
    if not found:
        raise ValueError(f"slug={slug!r}: {page.name} has no exercise with this label")
    return rest.partition(f"{{solution-start}} {slug}")[0]


def stub(text: str, declaration: Declaration) -> Stub:
    """The stub of an exercise with this text (see `exercise_text`).

    Raises ValueError when no fence of the text ends in a call of `check`.
    """
    fences = [OPTION.sub("", code).strip() for code in FENCE.findall(text)]
    asked = next((found for code in fences if (found := CALL.search(code))), None)
    if asked is None:
        raise ValueError(f"{declaration.slug}: its text has no line check(number, answer)")
    given, remark = _parts(asked[1])
    names = _names(given)
    code = [f"# {remark}"] if remark else []
    signatures = _signatures(text, declaration, names or [])
    known = _Known(fences, signatures, declaration.about.kind == "repair")
    code += [known.definition(name) for name in names or ()]
    if names and re.fullmatch(r"[(]?[\w, ]+[)]?", given):
        return Stub(_lines(code), given)
    shown = f"answer = {given}" if names is not None else f"answer = ...  # {given}"
    return Stub(_lines([*code, shown]), "answer")


def _parts(call: str) -> tuple[str, str]:
    """The answer in the rest of a call, on one line, and the remark behind it.

    >>> _parts("my_shard)     # my_shard(weight, P)")
    ('my_shard', 'my_shard(weight, P)')
    """
    ends = [at for at, sign in enumerate(call) if sign == ")"]
    end = next((at for at in ends if _names(call[:at]) is not None), ends[-1])
    remark = call[end + 1 :].strip().removeprefix("#").strip()
    return re.sub(r"(?:[ ]*#.*)?\n\s+", " ", call[:end]), remark


def _lines(code: list[str]) -> str:
    """One below the other, and a line between what has several."""
    text = ""
    for one in code:
        apart = text and "\n" in one and not text.startswith("#")
        text += ("\n\n" if apart else "\n" if text else "") + one
    return text


class _Known(NamedTuple):
    """What the text says of the names in the call."""

    fences: list[str]
    signatures: dict[str, str]
    repaired: bool

    def definition(self, name: str) -> str:
        """The lines that define a name, for the reader to complete."""
        before, broken = [], ""
        for node, source in self.statements():
            if _is_definition(node) and node.name == name:
                return _lines([*before, source])
            if isinstance(node, ast.FunctionDef) or (_is_definition(node) and not name.islower()):
                broken = re.sub(rf"\b{node.name}\b", name, source)
            elif isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef):
                before += [source] * self.repaired
        if self.repaired and broken:
            return _lines([*before, broken])
        signature = self.signatures.get(name)
        return _lines([*before, f"def {signature}:\n    ..." if signature else f"{name} = ..."])

    def statements(self) -> Iterator[tuple[ast.stmt, str]]:
        """The statements of all fences, each with its text."""
        for code in self.fences:
            for node in _statements(code):
                yield node, "\n".join(code.splitlines()[node.lineno - 1 : node.end_lineno])


def _is_definition(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def _statements(code: str) -> Iterator[ast.stmt]:
    """The statements of a fence; a call that only shows the form of an answer is no Python."""
    try:
        yield from ast.parse(code).body
    except SyntaxError:
        if "\n\n" in code:
            yield from _statements(code.rpartition("\n\n")[0])


def _names(given: str) -> list[str] | None:
    """The names that an expression takes from the reader; None when it is no Python."""
    try:
        tree = ast.parse(given, mode="eval")
    except SyntaxError:
        return None
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    in_order = sorted(found, key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in in_order if node.id not in called))


def _signatures(text: str, declaration: Declaration, names: list[str]) -> dict[str, str]:
    """The functions that the declaration, or else the text, writes with their arguments."""
    written = re.findall(r"(?<![\w.])[a-z]\w*\([a-z_]\w*(?:, [a-z_]\w*)*\)", text)
    declared = getattr(declaration, "signature", ())
    declared = (declared,) if isinstance(declared, str) else declared
    if len(declared) == len(names) == 1:
        declared = (names[0] + declared[0][declared[0].index("(") :],)
    found = {one.partition("(")[0]: one for one in reversed(written)}
    return found | {one.partition("(")[0]: one for one in declared}
