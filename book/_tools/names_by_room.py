"""The page of all public names: room by room, what each is, where it stands and who opens it.

It is written by `book._tools.generated` from the faces of the library and imports nothing of it:
what a docstring says first is read from its module's source.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from book._tools.layout import ROOT, public_address
from dtlib.contents import chapters
from dtlib.lazy import shown_by

ROOMS = (
    "foundations", "scaling_laws", "scaling_laws.grid", "models", "runtime", "collectives",
    "parallelism", "parallelism.pipeline", "memory", "composition", "efficiency", "estimator",
    "micro_lab", "explore", "exercises", "exercises.worlds",
)  # fmt: skip
HEAD = [
    "# Names by room",
    "",
    "Every name that a notebook imports, in the order in which the rooms of the library are read. "
    "`from dtlib.collectives import ring_all_reduce` is how each is imported, and "
    "`ring_all_reduce?` in a notebook says more. Beside a module stands the chapter that opens it.",
]


def names_page(root: Path = ROOT) -> str:
    """The whole page."""
    lines = list(HEAD)
    for room in (f"dtlib.{name}" for name in ROOMS):
        lines += ["", f"## {room}", "", _sentence(ast.get_docstring(_tree(room)))]
        for module, names in shown_by(room).items():
            lines += ["", f"**{_place(module, root)}**{_opened_by(module, root)}", ""]
            lines += _entries(module, names)
    return "\n".join(lines) + "\n"


def _entries(module: str, names: tuple[str, ...]) -> list[str]:
    """A line for each function and class; constants, which have no docstring, share one."""
    said = {name: _said(module, name) for name in names}
    constants = [f"`{name}`" for name in names if not said[name]]
    lines = [f"- `{name}`: {sentence}" for name, sentence in said.items() if sentence]
    return [*([f"- {', '.join(constants)}"] if constants else []), *lines]


def _place(module: str, root: Path) -> str:
    path = Path(find_spec(module).origin).relative_to(root).as_posix()
    address = public_address(root)
    return f"[`{path}`]({address}/blob/main/{path})" if address else f"`{path}`"


def _opened_by(module: str, root: Path) -> str:
    path = module.removeprefix("dtlib.").replace(".", "/")
    for chapter in chapters():
        if {path, f"{path}.py"} & set(chapter.modules) and chapter.is_written(root):
            return f", {{ref}}`{chapter.label}`"
    return ""


def _said(module: str, name: str) -> str:
    """The first sentence on a name of a module; nothing of a constant."""
    for statement in ast.walk(_tree(module)):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) and statement.name == name:
            return _sentence(ast.get_docstring(statement))
    return ""


def _sentence(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].replace("``", "`").split())


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(Path(find_spec(module).origin).read_text(encoding="utf-8"))
