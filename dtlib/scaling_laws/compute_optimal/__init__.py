"""How to divide a budget between a model and its tokens, estimated three ways and asked three ways.

`power_law`, the best model as a power of the budget; `isoflop` and `envelope`, two estimators of it
beside the fit of chapter 7; `synthetic`, runs whose truth is known; `published`, one experiment in
five settings; `search`, roots and valleys; `serving`, a model that will also be used; `repetition`,
tokens that are read again.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.scaling_laws.compute_optimal.power_law import PowerLaw
    from dtlib.scaling_laws.compute_optimal.isoflop import (
        IsoFlops,
        NoOptimum,
        Parabola,
        at_budgets,
        fit_isoflop,
    )
    from dtlib.scaling_laws.compute_optimal.envelope import (
        Envelope,
        LossCurve,
        NoEnvelope,
        fit_envelope,
    )
    from dtlib.scaling_laws.compute_optimal.synthetic import isoflop_runs, surface_curves
    from dtlib.scaling_laws.compute_optimal.published import PORIAN_SETTINGS, porian_runs
    from dtlib.scaling_laws.compute_optimal.serving import (
        ServedModel,
        least_params,
        least_shrink,
        lifetime_flops,
        lifetime_optimum,
        over_training_factor,
    )
    from dtlib.scaling_laws.compute_optimal.repetition import RepeatedSurface, effective_tokens

__getattr__, __dir__, __all__ = face(__name__)
