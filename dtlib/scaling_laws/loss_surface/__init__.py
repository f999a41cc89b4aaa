"""What a training run reaches: L = E + A/N^alpha + B/D^beta, from its equation to its intervals.

`surface`, the law, the best model under a budget and what that one reaches; `runs`, finished runs
as a table; `huber`, many fits at once; `parametric`, the fit, its intervals and what it does not
see; `published`, 245 runs that were read off a figure.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.scaling_laws.loss_surface.surface import (
        Allocation,
        LossSurface,
        best_params,
        best_tokens,
        excess_compute_factor,
        frontier_power,
        isoloss_tokens,
        run_loss,
        sized_excess,
    )
    from dtlib.scaling_laws.loss_surface.runs import Runs
    from dtlib.scaling_laws.loss_surface.parametric import (
        ParametricFit,
        Prediction,
        fit_parametric,
    )
    from dtlib.scaling_laws.loss_surface.published import hoffmann_runs

__getattr__, __dir__, __all__ = face(__name__)
