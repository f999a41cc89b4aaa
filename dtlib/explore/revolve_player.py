"""RevolvePlayer: a chain that runs backward with few kept states, action by action."""

import html
from collections.abc import Sequence

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.explorer import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.memory.recompute.drawing import draw_recompute
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

    _esm = script("quantities.js", "page.js", "revolve_model.js", "revolve.js")
    _css = script("widget.css", "stepper.css", "revolve.css")

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
        start = {"layers": layers, "slots": slots}
        for name, values in (("layers", lengths), ("slots", counts)):
            if start[name] not in values:
                allowed = ", ".join(map(str, values))
                raise ValueError(f"{name}: {start[name]!r}, but must be one of {allowed}")
        self._start = start
        spec = {
            "title": title,
            "schedules": {f"{L} {s}": str(revolve(L, s)) for L in lengths for s in counts},
            "least": {f"{L} {s}": revolve_advances(L, s) for L in lengths for s in counts},
            "controls": [
                slider_over("layers", "layers of the chain", "", list(lengths), layers),
                slider_over("slots", "slots, the input's included", "", list(counts), slots),
            ],
            "start": start,
            "task": task and task.checked(self.values),
        }
        super().__init__(spec=spec)

    def values(self, **changes) -> dict[str, int]:
        """The names of a task, for other layers or slots, by the library's own formulas."""
        chosen = self._start | changes
        repeats = 0
        while revolve_reach(chosen["slots"], repeats) < chosen["layers"]:
            repeats += 1
        return chosen | {
            "advances": revolve_advances(chosen["layers"], chosen["slots"]),
            "repeats": repeats,
        }

    def _figure(self) -> str:
        from dtlib.style import inline_svg

        values = self.values()
        slots = f"{values['slots']} slot{'s' if values['slots'] > 1 else ''}"
        text = f"{values['layers']} layers, {slots}: {values['advances']} layers run without a tape"
        figure = draw_recompute(revolve(values["layers"], values["slots"]))
        caption = f"{as_sentence(self.spec['title'])} {html.escape(as_sentence(text))}"
        return inline_svg(figure, alt=text) + f"\n<figcaption>{caption}</figcaption>"
