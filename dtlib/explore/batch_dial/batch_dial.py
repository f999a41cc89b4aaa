"""BatchDial: one batch on the curve of steps against samples, and on that of the time."""

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import OfFormulas, Setting
from dtlib.scaling_laws.noise.tradeoff import (
    fastest_batch,
    loss_cost,
    loss_time,
    samples_to_loss,
    steps_to_loss,
)


class BatchDial(OfFormulas):
    """A batch that the reader turns: it moves along the hyperbola, and along the valley of time.

    Above, steps over the fewest against samples over the fewest: one curve for all noise scales,
    on which a batch has its place. Below, the time to the loss against the batch, with the batch
    that is soonest; shaded are batches with fewer samples than ranks.
    Arguments: `batch`, `P`, `noise_batch` and `fixed_time`, controls with their ranges and starts;
    `fewest_steps`, `sample_time` in seconds and `price` in dollars per second of a rank, which
    stay; `task`, a `Task` over these names and ``steps``, ``samples``, ``time`` (seconds), ``cost``
    (dollars) and ``fits`` (1 where every rank has a sample). Raises ValueError for a task that is
    met at the start or not met by its solution.
    """

    def __init__(
        self,
        *,
        title: str,
        batch: Control,
        P: Control,
        noise_batch: Control,
        fixed_time: Control,
        fewest_steps: float,
        sample_time: float,
        price: float,
        task: Task | None = None,
    ):
        setting = Setting(
            {"batch": batch, "P": P, "noise_batch": noise_batch, "fixed_time": fixed_time},
            {"fewest_steps": fewest_steps, "sample_time": sample_time, "price": price},
            {"batch": "batch, samples", "P": "ranks", "noise_batch": "noise scale, samples",
             "fixed_time": "fixed part of a step"},
        )  # fmt: skip
        formulas = {"steps": steps_to_loss, "samples": samples_to_loss, "time": loss_time,
                    "cost": loss_cost}  # fmt: skip
        super().__init__(formulas, setting, title=title, task=task, soonest=fastest_batch.js())

    def names(self, **state) -> dict:
        return super().names(**state) | {"fits": int(state["batch"] >= state["P"])}
