"""Which modules of dtlib a page carries: those that can be imported without what no page has.

A module cannot when its head, what runs as it is imported, imports torch or a module that cannot.
What it imports late, within a function, does not count: a name is asked for when it is used.
"""

import ast
from collections.abc import Container, Iterator
from pathlib import Path

from dtlib.lazy import for_editors

# Packages that no page has, and what is cut of the standard library (contents.py).
ABSENT = {
    "IPython", "anywidget", "asyncio", "cloudpickle", "concurrent", "ctypes", "email", "http",
    "matplotlib", "mmap", "multiprocessing", "nbformat", "quickjs", "sqlite3", "sympy", "torch",
    "traitlets", "xml",
}  # fmt: skip
# Rooms that could be imported and are not carried, and why.
LEFT_OUT = {
    "explore": "widgets draw in the page by themselves, their Python is for notebooks",
    "__main__": "it is for a command line",
    "composition.hybrid": "a hybrid run needs ranks",
}


def carried(package: Path) -> list[Path]:
    """The files of a package's modules that a page carries, in the order of their names.

    Argument: ``package``, the folder of dtlib.
    """
    outside = left_out(package)
    return [file for name, file in _modules(package).items() if name not in outside]


def left_out(package: Path) -> dict[str, str]:
    """The modules of a package that no page carries, and why."""
    files = _modules(package)
    heads = {name: set(_head(ast.parse(file.read_bytes()), name)) for name, file in files.items()}
    outside = {name: why for name in files if (why := _why_left_out(name, package.name))}
    while more := {
        name: f"it imports {lacking}"
        for name in files.keys() - outside.keys()
        if (lacking := _lacking(heads[name], outside))
    }:
        outside |= more
    return outside


def _modules(package: Path) -> dict[str, Path]:
    return {_named(file, package): file for file in sorted(package.rglob("*.py"))}


def _named(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _why_left_out(name: str, package: str) -> str:
    inside = f"{name.removeprefix(f'{package}.')}."
    return next((why for room, why in LEFT_OUT.items() if inside.startswith(f"{room}.")), "")


def _lacking(imports: set[str], outside: Container[str]) -> str:
    """The first of the imports that no page has."""
    absent = (name for name in imports if name in outside or name.partition(".")[0] in ABSENT)
    return min(absent, default="")


def _head(tree: ast.Module, module: str) -> Iterator[str]:
    """What is imported as a module runs; of `from a import b` both a and a.b, which may be one."""
    waiting: list[ast.AST] = [node for node in tree.body if not for_editors(node)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        waiting += ast.iter_child_nodes(node)
