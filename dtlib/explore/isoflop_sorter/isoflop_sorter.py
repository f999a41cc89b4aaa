"""IsoflopSorter: the isoFLOP runs of one experiment in the settings that the reader switches."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.scaling_laws.compute_optimal.isoflop import IsoFlops, Parabola, by_budget, fit_isoflop
from dtlib.scaling_laws.compute_optimal.published import PORIAN_SETTINGS, porian_runs

# What is switched, and what of it there are runs for: (counted, warmup, training) -> setting.
RUN = {
    (0, "long", "kaplan"): "kaplan",
    (1, "long", "kaplan"): "head",
    (1, "short", "kaplan"): "warmup",
    (1, "short", "decay"): "decay",
    (1, "short", "tuned"): "tuned",
}
COUNTED = {0: "left out", 1: "counted"}
WARMUP = {"long": "long for every size", "short": "short"}
TRAINING = {
    "kaplan": "long, whatever the budget",
    "decay": "ends with the run",
    "tuned": "none; rate and batch tuned",
}
BUDGETS = 12
DIGITS = 5


class IsoflopSorter(Widget):
    """Above, losses against size at each budget; below, the best sizes against the budget.

    The reader switches how the last layer is counted, how long the warm-up is and how the rate
    decays, and picks one budget of the twelve to look at. Where there are no runs the figure says
    so. Arguments: `title`; `task`, a `Task` over the controls and ``there``, whether such runs were
    made, ``exponent``, of N* in C, and ``used``, how many budgets show a best model.
    Raises ValueError for a task as others do.

    >>> from dtlib.explore import IsoflopSorter
    >>> figure = IsoflopSorter(title="From Kaplan to Hoffmann")
    >>> [round(figure.names(counted=c, warmup="long", training="kaplan")["exponent"], 2)
    ...  for c in (0, 1)]
    [0.83, 0.69]
    """

    def __init__(self, *, title: str, task: Task | None = None):
        self._fits = {name: fit_isoflop(porian_runs(name)) for name in PORIAN_SETTINGS}
        super().__init__(
            title=title,
            task=task,
            controls=[
                choice("counted", "Last layer", COUNTED, 0),
                choice("warmup", "Warm-up", WARMUP, "long"),
                choice("training", "Decay of the rate", TRAINING, "kaplan"),
                slider(
                    "budget",
                    "budget",
                    [6.25e15 * 2**k for k in range(1, BUDGETS + 1)],
                    1e17,
                    unit="FLOP",
                ),
            ],
            run=[[*switches, name] for switches, name in RUN.items()],
            settings={name: _shown(name, fit) for name, fit in self._fits.items()},
        )

    def names(self, *, counted: int, warmup: str, training: str, **others) -> dict:
        name = RUN.get((counted, warmup, training))
        if name is None:
            return {"there": 0, "exponent": 0, "used": 0}
        fit = self._fits[name]
        return {"there": 1, "exponent": _short(fit.law.exponent), "used": len(fit.used)}


def _shown(name: str, fit: IsoFlops) -> dict:
    """A setting as the page draws it; numbers to so many digits as a pixel needs."""
    points = by_budget(porian_runs(name))
    low, high = fit.law.interval
    return {
        "law": [_short(one) for one in (fit.law.coefficient, fit.law.exponent, low, high)],
        "budgets": [_budget(one, *points[one.budget]) for one in fit.parabolas],
    }


def _budget(one: Parabola, sizes, losses) -> dict:
    return {
        "budget": one.budget,
        "points": [[float(N), _short(loss)] for N, loss in zip(sizes, losses, strict=True)],
        "ends": [one.params[0], one.params[-1]],
        "bend": [_short(number) for number in (one.middle, *one.coefficients)],
        "best": 0 if one.refused else _short(one.best),
        "refused": one.refused,
    }


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
