"""BiasBalance: loads that a bias for each expert evens out, step by step, or fails to."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget

GAMMAS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
STEPS, EVERY = 300, 5


class BiasBalance(Widget):
    """Runs of `loads_under_bias`, one for each gamma: the busiest load, and all loads at one step.

    Arguments: `title`; `gamma`, of `GAMMAS`, and `step`, of 0, 5, ... 300, at the start; `task`,
    a `Task` over ``gamma``, ``step`` and ``busiest``, the busiest load over the mean at that step.
    Raises ValueError for a start that is not among the choices, and for a task that is met at the
    start or not met by its solution.
    """

    def __init__(self, *, title: str, gamma: float = 0.001, step: int = 0,
                 task: Task | None = None):  # fmt: skip
        from dtlib.parallelism.expert.load import loads_under_bias

        runs = {f"{g:g}": loads_under_bias(g)[: STEPS + 1 : EVERY].tolist() for g in GAMMAS}
        self._runs = runs
        super().__init__(
            title=title,
            controls=[
                slider("gamma", "gamma, by which a bias moves", GAMMAS, gamma),
                slider("step", "step", range(0, STEPS + 1, EVERY), step),
            ],
            task=task,
            runs=runs,
            copies=sum(runs["0.1"][0]),
            steps=STEPS,
            every=EVERY,
            top=5.5,
        )

    def busiest(self, *, gamma: float, step: int) -> float:
        """The busiest load over the mean that the widget shows in this state."""
        load = self._runs[f"{gamma:g}"][step // EVERY]
        return max(load) * len(load) / sum(load)

    def names(self, **state) -> dict:
        return {"busiest": self.busiest(**state)}
