"""Faces: packages that show the names of many modules, and import a module when it is asked for."""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def face(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package that shows what others define.

    The names stand once, as imports below ``if TYPE_CHECKING:`` in the package itself: an editor
    reads them, Python does not run them, and each is carried out when its name is asked for. So a
    face names everything in reading order and imports nothing heavy.

    Argument: ``package``, its full name. Its ``__getattr__`` raises AttributeError for other names.

    >>> find, names, _ = face("dtlib.foundations")
    >>> find("GB"), "GB" in names()
    (1000000000, True)
    >>> find("GX")
    Traceback (most recent call last):
    AttributeError: module 'dtlib.foundations' has no attribute 'GX'
    """
    homes = {name: module for module, names in shown_by(package).items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes), list(homes)


@cache
def shown_by(package: str) -> dict[str, tuple[str, ...]]:
    """What a face shows, in reading order: full names of modules, and the names of each.

    >>> shown_by("dtlib.runtime")["dtlib.runtime.launcher"]
    ('launch', 'close_pools')
    """
    return shown_in(ast.parse(find_spec(package).loader.get_source(package)))


def shown_in(module: ast.Module) -> dict[str, tuple[str, ...]]:
    """The same of a module that has been read and not imported."""
    return {
        statement.module: tuple(alias.name for alias in statement.names)
        for block in filter(for_editors, module.body)
        for statement in block.body
    }


def for_editors(statement: ast.stmt) -> bool:
    """Whether it is the block that only editors carry out."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
