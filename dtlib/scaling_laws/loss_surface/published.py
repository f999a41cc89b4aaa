"""245 runs of Hoffmann et al. 2022, read off the points of its figure 4.

`hoffmann_figure4.csv` was extracted from the figure's drawing by Besiroglu, Erdil, Barnett and You
(2024, arXiv:2404.10102; github epoch-research/analyzing-chinchilla, 9225883 of 2024-05-14,
data/svg_extracted_data.csv; the repository states no licence, the points are facts). Columns:
parameters, FLOP, tokens = FLOP / (6 parameters), loss in nats per token.
"""

from functools import cache
from importlib.resources import files

from dtlib.later import np
from dtlib.scaling_laws.loss_surface.runs import Runs

_LEFT_OUT = 5


def hoffmann_runs(outliers: bool = False) -> Runs:
    """The runs, without the five of the highest loss or with them.

    Besiroglu et al. leave these five out. They are also the five with the fewest tokens per
    parameter, under half a token, all of the smallest budget that was spent on such models.

    >>> len(hoffmann_runs()), len(hoffmann_runs(outliers=True))
    (240, 245)
    """
    runs = _all()
    return runs if outliers else runs[np.sort(np.argsort(runs.loss)[:-_LEFT_OUT])]


@cache
def _all() -> Runs:
    text = (files(__package__) / "hoffmann_figure4.csv").read_text(encoding="utf-8")
    rows = [[float(number) for number in line.split(",")] for line in text.splitlines()[1:]]
    N, C, D, loss = zip(*rows, strict=True)
    return Runs(N, D, loss, C)
