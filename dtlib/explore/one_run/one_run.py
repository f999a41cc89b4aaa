"""OneRun: the reader draws how long a run takes on more and more GPUs, then sees it."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import grip
from dtlib.explore.kit.setting import Setting
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.units import day, hour
from dtlib.machines.hardware import GPU
from dtlib.models.work import training_time
from dtlib.parallelism.data.cost import (
    data_parallel_fastest_ranks,
    data_parallel_step_time,
    evenly_divided_time,
)

DOUBLINGS, FINE = 16, 4  # the axis ends at 65,536 GPUs, with four columns for each doubling
COLUMNS = DOUBLINGS * FINE
SHORTEST = 1.005  # a run that is longer by so much has the same length, as it is written
AXIS = {"1 hour": hour, "1 day": day, "1 month": 30 * day, "1 year": 365.25 * day}


class OneRun(Widget):
    """One run of data parallelism, from one GPU to 65,536.

    At first the plot is a paper: the reader draws the line that they expect, from one GPU to the
    right edge. Only then the true line appears, and the plot is a slider over the number of GPUs,
    with one step of the run beside it, as a ring and as a bar. Nothing is said of a line that
    nobody drew.
    Arguments: `title`; `params` and `tokens` of the run; `gpu`, which never pauses; `compute`, the
    seconds that one GPU computes for a step; `n`, the bytes of its gradient; `alpha` and `beta` of
    the links. The task is to find the shortest run.
    """

    def __init__(
        self, *, title: str, params: float, tokens: float, gpu: GPU, compute: float, n: float,
        alpha: float, beta: float,
    ):  # fmt: skip
        fixed = {"params": params, "tokens": tokens, "peak": gpu.peak("bf16"), "mfu": 1,
                 "compute": compute, "n": n, "alpha": alpha, "beta": beta}  # fmt: skip
        ranks = sorted({round(2 ** (k / FINE)) for k in range(COLUMNS + 1)})
        setting = self._setting = Setting({"P": ranks}, fixed, {"P": "GPUs"})
        whole = setting.evaluate(training_time, P=1)
        shortest = min(ranks, key=self._run)
        super().__init__(
            title=title,
            controls=[
                grip("drawn", "Your line", range(COLUMNS + 2), 0),
                grip("P", "GPUs", ranks, 1),
            ],
            task=Task(
                "Draw the line that you expect; then slide to the shortest run.",
                f"drawn > {COLUMNS} and longer < {SHORTEST}",
                {"drawn": COLUMNS + 1, "P": shortest},
                "The work divides; the talking does not.",
            ),
            start={"hand": [whole], "pen": 0},
            fixed=setting.fixed_values(),
            formulas={
                "whole": training_time.js(),
                "work": evenly_divided_time.js(),
                "step": data_parallel_step_time.js(),
                "fastest": data_parallel_fastest_ranks.js(),
            },
            fine=FINE,
            shortest=SHORTEST,
            axis=[[words, seconds] for words, seconds in AXIS.items()],
        )

    def names(self, *, P: int, **state) -> dict:
        fastest = self._setting.evaluate(data_parallel_fastest_ranks)
        return {"longer": self._run(P) / self._run(fastest)}

    def _run(self, P: float) -> float:
        """Seconds of the whole run: as many steps as alone, each shorter."""
        value = self._setting.evaluate
        steps = value(training_time, P=1) / value(evenly_divided_time, P=1)
        return steps * value(data_parallel_step_time, P=P)
