"""Names of a package that are imported when they are first asked for, such as what needs torch."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def on_demand(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: it imports a name's module when the name is asked for.

    Arguments: ``package``, its full name; ``modules``, from modules of the package to the names
    that they define. The function raises AttributeError for any other name.

    >>> later = on_demand("dtlib.foundations", {"units": ["GB"]})
    >>> later("GB")
    1000000000
    >>> later("GX")
    Traceback (most recent call last):
    AttributeError: module 'dtlib.foundations' has no attribute 'GX'
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def getattr_of_package(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return getattr_of_package
