"""BiasBalance: loads that a bias for each expert evens out, step by step, or fails to."""

import html

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.explorer import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity

GAMMAS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
STEPS, EVERY = 300, 5


class BiasBalance(Widget):
    """Runs of `loads_under_bias`, one for each gamma: the busiest load, and all loads at one step.

    Arguments: `title`; `gamma`, of `GAMMAS`, and `step`, of 0, 5, ... 300, at the start; `task`,
    a `Task` over ``gamma``, ``step`` and ``busiest``, the busiest load over the mean at that step.
    Raises ValueError for a start that is not among the choices, and for a task that is met at the
    start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "bias.js")
    _css = script("widget.css", "plot.css", "router.css")

    def __init__(self, *, title: str, gamma: float = 0.001, step: int = 0,
                 task: Task | None = None):  # fmt: skip
        from dtlib.parallelism.expert.load import loads_under_bias

        start, steps = {"gamma": gamma, "step": step}, tuple(range(0, STEPS + 1, EVERY))
        for name, values in (("gamma", GAMMAS), ("step", steps)):
            if start[name] not in values:
                allowed = ", ".join(map(str, values[:8]))
                raise ValueError(f"{name}: {start[name]!r}, but must be one of {allowed} ...")
        runs = {g: loads_under_bias(g)[: STEPS + 1 : EVERY].tolist() for g in GAMMAS}
        self._runs = {f"{g:g}": run for g, run in runs.items()}
        copies = sum(self._runs["0.1"][0])
        spec = {
            "title": title,
            "start": start,
            "runs": self._runs,
            "copies": copies,
            "steps": STEPS,
            "every": EVERY,
            "top": 5.5,
            "controls": [
                slider_over("gamma", "gamma, by which a bias moves", "", GAMMAS, gamma),
                slider_over("step", "step", "", steps, step),
            ],
            "task": self._task(task, start),
        }
        super().__init__(spec=spec)

    def busiest(self, *, gamma: float, step: int) -> float:
        """The busiest load over the mean that the widget shows in this state."""
        load = self._runs[f"{gamma:g}"][step // EVERY]
        return max(load) * len(load) / sum(load)

    def _task(self, task: Task | None, start: dict) -> dict | None:
        if task is None:
            return None

        def names(**values) -> dict:
            state = start | values
            return state | {"busiest": self.busiest(**state)}

        return task.checked(names)

    def _figure(self) -> str:
        from dtlib.style import BACKWARD, FORWARD, FOURTH, figure, inline_svg, label_curve

        fig, ax = figure(height=2.6)
        places = {0.0001: (200, 4.9), 0.001: (110, 3.8), 0.1: (210, 3.1)}
        for (gamma, at), color in zip(places.items(), (FOURTH, FORWARD, BACKWARD), strict=True):
            x = range(0, STEPS + 1, EVERY)
            ax.plot(x, [self.busiest(gamma=gamma, step=t) for t in x], color=color)
            label_curve(ax, *at, f"gamma = {gamma:g}", color, dx=0, dy=4)
        ax.set(xlabel="step", ylabel="busiest load over the mean", ylim=(0.8, 5.6))
        start = self.spec["start"]
        now = format_quantity(self.busiest(**start), "×", 3)
        caption = f"{as_sentence(self.spec['title'])} At the start the busiest has {now} the mean."
        alt = "A small gamma sinks slowly, 0.001 reaches one, 0.1 jumps about above two."
        return f"{inline_svg(fig, alt=alt)}\n<figcaption>{html.escape(caption)}</figcaption>"
