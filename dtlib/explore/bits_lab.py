"""BitsLab: what a sum over the ranks loses to rounding, against how much its terms cancel."""

import math

from dtlib.explore.controls import Task, between, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.parallelism.data.cost import summation_error_bound
from dtlib.parallelism.data.rounding import (
    BITS,
    ORDERS,
    condition_number,
    hard_numbers,
    summed,
    unit_roundoff,
)

FORMATS = ("fp32", "fp16", "bf16")
RANKS = (2, 4, 8, 16, 32, 64)
Y_RANGE = (1e-9, 1e9)
_NAMES = ("error", "bound", "P", "condition", "kind", "order")


class BitsLab(Widget):
    """Sums of one number from each rank: choose how many, in which order and format, and how hard.

    Each dot is a vector of P numbers of mixed signs; the line is what no order exceeds.
    Arguments: `title`; `task`, a `Task` over ``error`` (relative), ``bound``, ``P``, ``condition``,
    ``kind`` (0 for fp32, 1 for fp16, 2 for bf16) and ``order`` (0 flat, 1 ring, 2 tree), whose
    solution gives some of the last four; `start`, the values that are shown first.
    Raises ValueError for a task that is met at the start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "bits_model.js", "bits.js")
    _css = script("widget.css", "plot.css", "bits.css")

    def __init__(self, *, title: str, task: Task, start: dict | None = None):
        self._start = {"P": 8, "condition": 100.0, "kind": 2, "order": 1} | (start or {})
        conditions = between(1.0, 1e8, start=float(self._start["condition"])).values[::2]
        conditions = tuple(sorted({*conditions, float(self._start["condition"]), 1e8}))
        checked = task.checked(self.values)
        spec = {
            "title": title,
            "formats": [[kind, BITS[kind]] for kind in FORMATS],
            "orders": list(ORDERS),
            "conditions": list(conditions),
            "sliders": [
                slider_over("P", "ranks", "", RANKS, self._start["P"]),
                slider_over(
                    "condition", "condition number", "", conditions, self._start["condition"]
                ),
            ],
            "start": dict(self._start),
            "y": {"label": "relative error of the sum", "unit": "", "range": list(Y_RANGE)},
            "task": checked | {"names": list(_NAMES)},
        }
        super().__init__(spec=spec)

    def values(self, **changes) -> dict[str, float]:
        """The names of a task at the start, or with other ranks, condition, format or order."""
        now = self._start | changes
        numbers = hard_numbers(now["P"], now["condition"], seed=0)
        kind, exact = FORMATS[now["kind"]], math.fsum(numbers)
        got = summed(numbers, ORDERS[now["order"]], kind)
        size = math.fsum(map(abs, numbers))
        # P + 1: before it is added, each number is rounded to the format
        bound = summation_error_bound(unit_roundoff(kind), now["P"] + 1, size) / abs(exact)
        return {"error": abs(got - exact) / abs(exact), "bound": bound} | now

    def _figure(self) -> str:
        from dtlib.style import FORWARD, INK, figure, inline_svg, label_curve

        P, kind, order = (
            self._start["P"],
            FORMATS[self._start["kind"]],
            ORDERS[self._start["order"]],
        )
        fig, ax = figure(height=3.2)
        for i, condition in enumerate(self.spec["conditions"]):
            for k in range(3):
                numbers = hard_numbers(P, condition, 1 + 3 * i + k)
                exact = math.fsum(numbers)
                error = abs(summed(numbers, order, kind, (1 + 3 * i + k) % P) / exact - 1)
                ax.plot(condition_number(numbers), max(error, 1e-9), ".", color=INK, alpha=0.5)
        ends = [1, 1e8]
        bound = [summation_error_bound(unit_roundoff(kind), P + 1, c) for c in ends]
        ax.loglog(ends, bound, color=FORWARD)
        label_curve(ax, ends[-1], min(bound[-1], Y_RANGE[1]), "bound", FORWARD)
        ax.axhline(1, color=INK, linewidth=0.8)
        ax.set_ylim(*Y_RANGE)
        ax.set_xlabel("condition number")
        ax.set_ylabel("relative error of the sum")
        text = f"{P} ranks, {order}, {kind}: the error grows with the condition number."
        return (
            inline_svg(fig, alt=text)
            + f"\n<figcaption>{as_sentence(self.spec['title'])} {text}</figcaption>"
        )
