"""RouterBalance: how unevenly a router loads its experts, and what a capacity drops and wastes."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget

EXPERTS = (8, 16, 32, 64)
CHOSEN = (1, 2, 4)
SKEWS = (0, 0.25, 0.5, 0.75, 1, 1.5, 2)
CAPACITIES = (1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8)


class RouterBalance(Widget):
    """The load of every expert as a bar, and a line where its places end.

    Arguments: `title`; `tokens` of the batch; `experts`, `k`, `skew` and `capacity_factor` at
    the start, of those in `EXPERTS`, `CHOSEN`, `SKEWS` and `CAPACITIES`; `task`, a
    `Task` over these four names and ``dropped``, ``wasted`` and ``busiest``.
    The loads are those of `expert_loads`. Raises ValueError for a start that is not among the
    choices, and for a task that is met at the start or not met by its solution.
    """

    def __init__(self, *, title: str, tokens: int = 4096, experts: int = 16, k: int = 2,
                 skew: float = 0.5, capacity_factor: float = 1.25,
                 task: Task | None = None):  # fmt: skip
        from dtlib.parallelism.expert.load import expert_loads

        self._loads = {
            f"{E} {K} {s}": expert_loads(tokens, E, K, s).tolist()
            for E in EXPERTS for K in CHOSEN for s in SKEWS
        }  # fmt: skip
        super().__init__(
            title=title,
            controls=[
                slider("experts", "experts", EXPERTS, experts),
                slider("k", "experts for each token", CHOSEN, k),
                slider("skew", "skew of the router", SKEWS, skew),
                slider("capacity_factor", "capacity factor", CAPACITIES, capacity_factor, unit="×"),
            ],
            task=task,
            tokens=tokens,
            loads=self._loads,
        )

    def filled(self, *, experts: int, k: int, skew: float, capacity_factor: float):
        """What the widget shows in this state: a `Filled`."""
        from dtlib.parallelism.expert.load import fill_experts

        return fill_experts(self._loads[f"{experts} {k} {skew}"], capacity_factor)

    def names(self, **state) -> dict:
        found = self.filled(**state)
        return {"dropped": found.dropped, "wasted": found.wasted, "busiest": found.busiest}
