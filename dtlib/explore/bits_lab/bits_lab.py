"""BitsLab: what a sum over the ranks loses to rounding, against how much its terms cancel."""

import math

from dtlib.explore.controls import Task, between
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.parallelism.data.cost import summation_error_bound
from dtlib.parallelism.data.rounding import BITS, ORDERS, hard_numbers, summed, unit_roundoff

FORMATS = ("fp32", "fp16", "bf16")
RANKS = (2, 4, 8, 16, 32, 64)


class BitsLab(Widget):
    """Sums of one number from each rank: choose how many, in which order and format, and how hard.

    Each dot is a vector of P numbers of mixed signs; the line is what no order exceeds.
    Arguments: `title`; `task`, a `Task` over ``error`` (relative), ``bound``, ``P``, ``condition``,
    ``kind`` (0 for fp32, 1 for fp16, 2 for bf16) and ``order`` (0 flat, 1 ring, 2 tree), whose
    solution gives some of the last four; `P` and `condition`, which are shown first.
    Raises ValueError for a task that is met at the start or not met by its solution.
    """

    def __init__(self, *, title: str, task: Task | None = None, P: int = 8,
                 condition: float = 100.0):  # fmt: skip
        conditions = between(1.0, 1e8, start=condition).values[::2]
        super().__init__(
            title=title,
            controls=[
                choice("order", "Order", dict(enumerate(ORDERS)), 1),
                choice("kind", "Format", dict(enumerate(FORMATS)), 2),
                slider("P", "ranks", RANKS, P),
                slider("condition", "condition number", sorted({*conditions, condition, 1e8}),
                       condition),
            ],
            task=task,
            formats=[[kind, BITS[kind]] for kind in FORMATS],
            orders=list(ORDERS),
        )  # fmt: skip

    def names(self, *, order: int, kind: int, P: int, condition: float) -> dict[str, float]:
        numbers = hard_numbers(P, condition, seed=0)
        exact, size = math.fsum(numbers), math.fsum(map(abs, numbers))
        got = summed(numbers, ORDERS[order], FORMATS[kind])
        # P + 1: before it is added, each number is rounded to the format
        bound = summation_error_bound(unit_roundoff(FORMATS[kind]), P + 1, size) / abs(exact)
        return {"error": abs(got - exact) / abs(exact), "bound": bound}
