"""RouterBalance: how unevenly a router loads its experts, and what a capacity drops and wastes."""

import html

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.explorer import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity

EXPERTS = (8, 16, 32, 64)
CHOSEN = (1, 2, 4)
SKEWS = (0, 0.25, 0.5, 0.75, 1, 1.5, 2)
CAPACITIES = (1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8)


class RouterBalance(Widget):
    """The load of every expert as a bar, and a line where its places end.

    Arguments: `title`; `tokens` of the batch; `experts`, `k`, `skew` and `capacity` (the capacity
    factor) at the start, of those in `EXPERTS`, `CHOSEN`, `SKEWS` and `CAPACITIES`; `task`, a
    `Task` over these four names and ``dropped``, ``wasted`` and ``busiest``.
    The loads are those of `expert_loads`. Raises ValueError for a start that is not among the
    choices, and for a task that is met at the start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "router_model.js", "router.js")
    _css = script("widget.css", "plot.css", "router.css")

    def __init__(self, *, title: str, tokens: int = 4096, experts: int = 16, k: int = 2,
                 skew: float = 0.5, capacity: float = 1.25, task: Task | None = None):  # fmt: skip
        from dtlib.parallelism.expert.load import expert_loads

        start = {"experts": experts, "k": k, "skew": skew, "capacity": capacity}
        choices = {"experts": EXPERTS, "k": CHOSEN, "skew": SKEWS, "capacity": CAPACITIES}
        for name, values in choices.items():
            if start[name] not in values:
                allowed = ", ".join(map(str, values))
                raise ValueError(f"{name}: {start[name]!r}, but must be one of {allowed}")
        self._loads = {
            f"{E} {K} {s}": expert_loads(tokens, E, K, s).tolist()
            for E in EXPERTS for K in CHOSEN for s in SKEWS
        }  # fmt: skip
        words = {
            "experts": ("experts", ""),
            "k": ("experts for each token", ""),
            "skew": ("skew of the router", ""),
            "capacity": ("capacity factor", "×"),
        }
        spec = {
            "title": title,
            "tokens": tokens,
            "start": start,
            "loads": self._loads,
            "controls": [
                slider_over(name, *words[name], choices[name], value)
                for name, value in start.items()
            ],
            "task": self._task(task, start),
        }
        super().__init__(spec=spec)

    def filled(self, *, experts: int, k: int, skew: float, capacity: float):
        """What the widget shows in this state: a `Filled`."""
        from dtlib.parallelism.expert.load import fill_experts

        return fill_experts(self._loads[f"{experts} {k} {skew}"], capacity)

    def _task(self, task: Task | None, start: dict) -> dict | None:
        if task is None:
            return None

        def names(**values) -> dict:
            state = start | values
            found = self.filled(**state)
            return state | {
                "dropped": found.dropped,
                "wasted": found.wasted,
                "busiest": found.busiest,
            }

        return task.checked(names)

    def _figure(self) -> str:
        import numpy as np

        from dtlib.style import BACKWARD, FORWARD, INK, figure, inline_svg

        start = self.spec["start"]
        found = self.filled(**start)
        load = np.array(self._loads[f"{start['experts']} {start['k']} {start['skew']}"])
        share, place = load / load.mean(), found.capacity / load.mean()
        fig, ax = figure(height=2.6)
        at, kept = np.arange(len(load)), np.minimum(share, place)
        ax.bar(at, kept, color=FORWARD)
        ax.bar(at, np.maximum(share - place, 0), bottom=place, color=BACKWARD, hatch="//")
        ax.bar(at, place - kept, bottom=kept, fill=False, linestyle=":", edgecolor=INK)
        ax.axhline(place, color=INK)
        ax.set(xlabel="experts, the most popular first", ylabel="load over the mean")
        numbers = (
            f"{format_quantity(found.dropped, '%')} of the copies are dropped, "
            f"{format_quantity(found.wasted, '%')} of the places stay empty."
        )
        state = f"{start['k']} of {start['experts']} experts, skew {start['skew']}"
        caption = f"{as_sentence(self.spec['title'])} {state}: {numbers}"
        drawing = inline_svg(fig, alt=f"Loads of experts under a capacity: {numbers}")
        return f"{drawing}\n<figcaption>{html.escape(caption)}</figcaption>"
