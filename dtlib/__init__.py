"""dtlib: the library of The Algebra of Distributed Training.

The names that every page uses; the rest is in the rooms, `dtlib.foundations`,
`dtlib.collectives` and so on. ``python -m dtlib`` prints the map.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.estimator import estimate
    from dtlib.formulas.formula import formula
    from dtlib.runtime.launcher import launch
    from dtlib.shown import show
    from dtlib.timeline import Timeline

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = face(__name__)


def load_ipython_extension(ipython) -> None:
    """What ``%load_ext dtlib`` does: ``%answers``, ``%%ranks``, and ranks that begin to start."""
    from dtlib.exercises.answers.command import show_answers
    from dtlib.runtime.magic import load_ipython_extension

    ipython.register_magic_function(show_answers, "line", "answers")
    load_ipython_extension(ipython)
