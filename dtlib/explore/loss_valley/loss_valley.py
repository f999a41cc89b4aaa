"""LossValley: lines of equal loss over model and data, a budget, and the valley along it."""

from dataclasses import astuple

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.scaling_laws.loss_surface.surface import (
    LossSurface,
    best_params,
    isoloss_tokens,
    run_loss,
)

BUDGETS = tuple(float(f"{m}e{power}") for power in range(18, 27) for m in (1, 3))
SHARES = tuple(2 ** (k / 4) for k in range(-16, 17))
SYMBOLS = ("least_loss", "size_loss", "size_power", "data_loss", "data_power")


class LossValley(Widget):
    """Above, model against data with lines of equal loss; below, the loss along one budget.

    Arguments: `title`; `laws`, a mapping from a name to a `LossSurface`, of which the first is
    shown at first; `run_flops`, of `BUDGETS`, and `share`, of `SHARES`, the model over the best
    one, at the start; `task`, a `Task` over ``run_flops``, ``share``, ``law``, ``above``, the loss
    above the best in nats, and ``each``, tokens for each parameter.
    Raises ValueError for a start that is not among the choices, and for a task as others do.

    >>> from dtlib.explore import LossValley
    >>> valley = LossValley(title="A valley", laws={"fitted": LossSurface.besiroglu()})
    >>> round(valley.names(run_flops=1e22, share=4.0, law="fitted")["above"], 3)
    0.041
    """

    def __init__(self, *, title: str, laws: dict[str, LossSurface], run_flops: float = 1e22,
                 share: float = 4.0, task: Task | None = None):  # fmt: skip
        self._laws = dict(laws)
        first = next(iter(laws))
        constants = {
            name: [list(pair) for pair in zip(SYMBOLS, astuple(law), strict=True)]
            for name, law in laws.items()
        }
        super().__init__(
            title=title,
            task=task,
            controls=[
                slider("run_flops", "budget", BUDGETS, run_flops, unit="FLOP"),
                slider("share", "model, over the best of its budget", SHARES, share, unit="×"),
                choice("law", "Law", {name: name for name in laws}, first),
            ],
            laws=constants,
            fixed=[["params", 1], ["tokens", 1], ["reached_loss", 1], *constants[first]],
            best=best_params.js(),
            loss=run_loss.js(),
            iso=isoloss_tokens.js(),
        )

    def names(self, *, run_flops: float, share: float, law: str, **others) -> dict:
        surface = self._laws[law]
        best = surface.optimum(run_flops)
        N = share * best.N
        D = run_flops / 6 / N
        return {"above": surface(N, D) - best.loss, "each": D / N}
