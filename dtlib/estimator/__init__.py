"""An estimate of a training run from its description: memory, time and cost, before anything runs.

It is the planner's sheet of one layout beside the account of its fullest rank. `run`, what is
asked; `lines`, the lines of memory, step and run; `sheet`, the estimate.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.estimator.run import TrainingRun
    from dtlib.estimator.sheet import LEAVES_OUT, Estimate, estimate

__getattr__, __dir__, __all__ = face(__name__)
