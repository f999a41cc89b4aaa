"""PipelineLab: pipeline schedules in time, and what every rank has to hold meanwhile."""

from collections.abc import Callable, Mapping
from itertools import product

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.parallelism.pipeline import PipelineSchedule, simulate

STAGES = (2, 4, 8)
MICRO_BATCHES = (2, 4, 8, 16, 32)
RATIOS = (1, 1.5, 2, 3)
_LETTERS = ("FBWD", "fbwd", "GCXE", "gcxe")


class PipelineLab(Widget):
    """A grid of ranks and time, the activations that a rank holds below it, and their sums.

    Arguments: ``schedules``, from a label to a builder that takes p ranks and m micro-batches; `p`,
    `m` and `ratio` (of a whole backward to a forward pass, half of it for either gradient) at the
    start, of those in `STAGES`, `MICRO_BATCHES` and `RATIOS`; ``task``, a `Task` over ``schedule``
    (0 for the first), ``p``, ``m``, ``ratio``, ``idle`` (share of all ranks' time), ``peak``
    (micro-batches that the fullest rank holds), ``wait`` (longest idle time of a rank between its
    first and its last action) and ``step``, times in forward passes of a rank.
    The actions are those of the library's builders, and the script plays them as `simulate` does;
    where a builder refuses p and m, the page prints what it says.
    Raises ValueError for a start that is not among the choices, for a schedule with two actions at
    once, and for a task that is met at the start or not met by its solution.
    """

    def __init__(
        self,
        schedules: Mapping[str, Callable[[int, int], PipelineSchedule]],
        *,
        title: str,
        p: int = 4,
        m: int = 8,
        ratio: float = 2,
        task: Task | None = None,
    ):
        self._builders = list(schedules.values())
        super().__init__(
            title=title,
            controls=[
                choice("schedule", "Schedule", dict(enumerate(schedules)), 0),
                slider("p", "ranks", STAGES, p),
                slider("m", "micro-batches", MICRO_BATCHES, m),
                slider("ratio", "backward over forward time", RATIOS, ratio, unit="×"),
            ],
            task=task,
            schedules=[
                {f"{p} {m}": stored(build, p, m) for p, m in product(STAGES, MICRO_BATCHES)}
                for build in self._builders
            ],
        )

    def names(self, *, schedule: int, p: int, m: int, ratio: float) -> dict[str, float]:
        timeline = timed(self._builders[schedule](p, m), ratio)
        return {
            "idle": float(timeline.bubble_fraction),
            "peak": float(max(timeline.peak_activations)),
            "wait": float(timeline.stage_bubble),
            "step": float(timeline.makespan),
        }


def timed(schedule: PipelineSchedule, ratio: float):
    """The schedule in time: a forward pass takes 1, a whole backward pass ``ratio``."""
    return simulate(schedule, f=1, b=ratio / 2, w=ratio / 2)


def stored(build: Callable[[int, int], PipelineSchedule], p: int, m: int) -> dict:
    """What the script needs of a schedule: rows of two letters an action, and each rank's stages.

    >>> from dtlib.parallelism.pipeline import one_f_one_b
    >>> stored(one_f_one_b, 2, 2)
    {'ranks': ['F0F1D0D1', 'F0D0F1D1'], 'stages': [[0], [1]]}
    """
    try:
        schedule = build(p, m)
    except ValueError as refused:
        return {"refused": str(refused)}
    if any(len(step.actions) > 1 for row in schedule.rows for step in row):
        raise ValueError(f"{schedule.name}: two actions at once, which the page cannot show")
    stages = [schedule.stages_of(rank) for rank in range(p)]
    ranks = [
        "".join(_letters(action, stages[rank]) for action in schedule.actions(rank))
        for rank in range(p)
    ]
    return {"ranks": ranks, "stages": stages}


def _letters(action, stages: list[int]) -> str:
    kind = ("F", "B", "W", "BW").index(action.kind)
    return _LETTERS[stages.index(action.stage)][kind] + chr(48 + action.micro_batch)
