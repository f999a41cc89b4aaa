"""Rulers: the same models, measured with the metric that the reader chooses."""

import math

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.require import require
from dtlib.scaling_laws.emergence.rulers import at_least, rise_of_share

METRICS = {"one": "one answer", "all": "all k right", "most": "at least nine in ten of k"}
ANSWERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
ITEMS = (10, 30, 100, 300, 1000, 10_000, 100_000)
FALLS = (0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
DECADES, EVERY, FIRST_LOSS = 8, 2, math.log(10)
SEEN = 3  # expected successes: below it a test shows none more often than one time in twenty


class Rulers(Widget):
    """Above, a metric of models of growing compute; below, the loss of one answer, a straight line.

    The loss of an answer is ln 10 for the first model, so that one answer in ten is right, and
    falls as a power of compute. The reader chooses the metric, k, the power, and how many items
    the test has: a model of which fewer than three successes are expected stands at zero, hollow.
    Arguments: `title`; `metric`, of ``METRICS``, and `k`, of ``ANSWERS``, at the start; `task`, a
    `Task` over the controls and ``rise``, the decades of compute from one in ten to nine in ten,
    ``hidden``, how many models the test does not see, and ``needed``, answers that must be right.
    Raises ValueError for a start that is not among the choices, and for a task as others do.

    >>> from dtlib.explore import Rulers
    >>> figure = Rulers(title="One line, three rulers")
    >>> [round(figure.rise(metric, 100, 0.5), 2) for metric in ("one", "all", "most")]
    [2.68, 2.68, 0.68]
    """

    def __init__(self, *, title: str, metric: str = "all", k: int = 10, task: Task | None = None):
        require(metric in METRICS, "Rulers", "metric", metric, f"one of {', '.join(METRICS)}")
        powers = {f"{fall:g}": fall for fall in FALLS}
        rises = {
            name: [[self.rise(name, count, fall) for fall in FALLS] for count in ANSWERS]
            for name in METRICS
        }
        super().__init__(
            title=title,
            task=task,
            controls=[
                choice("metric", "Ruler", METRICS, metric),
                slider("k", "k, answers of one item", ANSWERS, k),
                slider("items", "items of the test", ITEMS, 100),
                slider("fall", "power of an answer's loss", FALLS, 0.5),
            ],
            rises=rises,
            answers=list(ANSWERS),
            falls=list(powers.values()),
            decades=DECADES,
            every=EVERY,
            first=FIRST_LOSS,
            seen=SEEN,
        )

    def rise(self, metric: str, k: int, fall: float) -> float:
        """Decades of compute from one success in ten to nine in ten."""
        count = 1 if metric == "one" else k
        return math.log10(rise_of_share(needed_of(metric, k), count, fall))

    def values(self, metric: str, k: int, fall: float) -> list[float]:
        """The metric of each model, half a decade of compute apart."""
        losses = [FIRST_LOSS * 10 ** (-fall * i / EVERY) for i in range(DECADES * EVERY + 1)]
        count = 1 if metric == "one" else k
        return [at_least(math.exp(-loss), needed_of(metric, k), count) for loss in losses]

    def names(self, *, metric: str, k: int, items: int, fall: float) -> dict:
        hidden = sum(value * items < SEEN for value in self.values(metric, k, fall))
        needed = needed_of(metric, k)
        return {"rise": self.rise(metric, k, fall), "hidden": hidden, "needed": needed}


def needed_of(metric: str, k: int) -> int:
    """How many of the k answers a metric asks for: one of one, all, or nine in ten, rounded up.

    >>> [needed_of(metric, 50) for metric in METRICS]
    [1, 50, 45]
    """
    return {"one": 1, "all": k, "most": math.ceil(0.9 * k - 1e-9)}[metric]
