"""RevolvePlayer: a chain that runs backward with few kept states, action by action."""

from collections.abc import Sequence

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget
from dtlib.memory.recompute.schedule import revolve, revolve_advances, revolve_reach

LAYERS = (4, 8, 10, 16, 20, 32, 64)
SLOTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


class RevolvePlayer(Widget):
    """Revolve's schedules in time: where the pass is, which states are kept, what is run again.

    Arguments: `layers` and `slots` at the start, of those in `LAYERS` and `SLOTS`; `lengths` and
    `counts`, the choices, by default all of these; `task`, a `Task` over ``layers``, ``slots``,
    ``advances`` (layers that run without a tape) and ``repeats`` (the most that one layer does).
    The actions are those of `revolve`; the script plays them and counts.
    Raises ValueError for a start that is not among the choices, and for a task that is met at the
    start or not met by its solution.
    """

    def __init__(
        self,
        layers: int = 32,
        slots: int = 1,
        *,
        title: str,
        lengths: Sequence[int] = LAYERS,
        counts: Sequence[int] = SLOTS,
        task: Task | None = None,
    ):
        super().__init__(
            title=title,
            controls=[
                slider("layers", "layers of the chain", lengths, layers),
                slider("slots", "slots, the input's included", counts, slots),
            ],
            task=task,
            schedules={f"{L} {s}": str(revolve(L, s)) for L in lengths for s in counts},
            least={f"{L} {s}": revolve_advances(L, s) for L in lengths for s in counts},
        )

    def names(self, *, layers: int, slots: int) -> dict[str, int]:
        """What a task may ask about, by the library's own formulas."""
        repeats = 0
        while revolve_reach(slots, repeats) < layers:
            repeats += 1
        return {"advances": revolve_advances(layers, slots), "repeats": repeats}
