"""dtlib: the library of The Algebra of Distributed Training.

The names that every page uses; the rest is in the rooms, `dtlib.foundations`,
`dtlib.collectives` and so on. ``python -m dtlib`` prints the map.
"""

from dtlib.estimate import estimate
from dtlib.foundations.formula import formula
from dtlib.runtime import launch
from dtlib.show import show
from dtlib.timeline import Timeline

__version__ = "0.1.0"

__all__ = ["Timeline", "estimate", "formula", "launch", "show"]


def load_ipython_extension(ipython) -> None:
    """What ``%load_ext dtlib`` does: it brings ``%%ranks`` and starts the ranks' processes."""
    from dtlib.runtime.magic import load_ipython_extension

    load_ipython_extension(ipython)
