"""Our own training grid: many small models of one family, on a language whose entropy is known.

`language`, words whose loss below which no model can go is a sum; `windows`, its text in streams;
`models`, one layer, as wide as asked; `excess`, what a model's loss has above that; `warmth`, how
fast a run learns at each step; `trunk`, a run at the full rate that branches; `cells`, which runs
there are; `training`, which trains them and may be stopped; `recorded`, the runs that the chapters
read; `predictions`, what was said of some before they were trained; `command`, a grid from a
terminal; `text`, the same grid on a text whose entropy nobody knows.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.scaling_laws.grid.language import ZipfWords
    from dtlib.scaling_laws.grid.models import grid_model, grid_optimizer, grid_spec
    from dtlib.scaling_laws.grid.excess import Excess, QuantileText
    from dtlib.scaling_laws.grid.warmth import decay_start, rate_factor
    from dtlib.scaling_laws.grid.trunk import Trunk
    from dtlib.scaling_laws.grid.cells import FULL, RATES, REDUCED, TINY, Cell, family
    from dtlib.scaling_laws.grid.training import finished, results, train_cells
    from dtlib.scaling_laws.grid.recorded import Curve, TrainedRun, recorded_curves, recorded_runs
    from dtlib.scaling_laws.grid.predictions import (
        SealedPrediction,
        check_order,
        seal_predictions,
        recorded_predictions,
    )
    from dtlib.scaling_laws.grid.text import HeldOutText, SourceText

__getattr__, __dir__, __all__ = face(__name__)
