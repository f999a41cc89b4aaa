"""numpy and torch, imported when first used: what needs neither runs without.

>>> from dtlib.later import np
>>> np.arange(3).sum()
np.int64(3)
"""

from importlib import import_module
from typing import Any


class Later:
    """A module by its name, imported when something of it is first asked for."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


np = Later("numpy")
torch = Later("torch")
