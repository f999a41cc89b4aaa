"""numpy and torch for graders, imported when first used: a check that needs neither runs without.

>>> from dtlib.exercises.later import np
>>> np.arange(3).sum()
np.int64(3)
"""

from importlib import import_module
from typing import Any


class _Later:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


np = _Later("numpy")
torch = _Later("torch")
