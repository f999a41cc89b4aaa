"""PipelineLab: pipeline schedules in time, and what every rank has to hold meanwhile."""

import html
from collections.abc import Callable, Mapping
from itertools import product

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.parallelism.pipeline import PipelineSchedule, simulate

STAGES = (2, 4, 8)
MICRO_BATCHES = (2, 4, 8, 16, 32)
RATIOS = (1, 1.5, 2, 3)
_LETTERS = ("FBWD", "fbwd", "GCXE", "gcxe")
_NAMES = ("schedule", "p", "m", "ratio", "idle", "peak", "wait", "step")


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

    _esm = script("quantities.js", "page.js", "pipeline_run.js", "pipeline.js")
    _css = script("widget.css", "plot.css", "pipeline.css")

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
        start = {"schedule": 0, "p": p, "m": m, "ratio": ratio}
        choices = {"p": STAGES, "m": MICRO_BATCHES, "ratio": RATIOS}
        for name, values in choices.items():
            if start[name] not in values:
                allowed = ", ".join(map(str, values))
                raise ValueError(f"{name}: {start[name]!r}, but must be one of {allowed}")
        self._builders, self._start = dict(schedules), start
        words = {
            "p": "ranks",
            "m": "micro-batches",
            "ratio": "backward over forward time",
        }
        units = {"p": "", "m": "", "ratio": "×"}
        spec = {
            "title": title,
            "schedules": [
                {
                    "label": label,
                    "stored": {
                        f"{ranks} {count}": stored(build, ranks, count)
                        for ranks, count in product(STAGES, MICRO_BATCHES)
                    },
                }
                for label, build in self._builders.items()
            ],
            "controls": [
                slider_over(name, words[name], units[name], choices[name], start[name])
                for name in choices
            ],
            "start": start,
            "task": task and task.checked(self.values) | {"names": list(_NAMES)},
        }
        super().__init__(spec=spec)

    def values(self, **changes) -> dict[str, float]:
        """The names of a task for these choices, the others as at the start, by the simulator."""
        chosen = self._start | changes
        build = list(self._builders.values())[chosen["schedule"]]
        timeline = timed(build(chosen["p"], chosen["m"]), chosen["ratio"])
        return chosen | {
            "idle": float(timeline.bubble_fraction),
            "peak": float(max(timeline.peak_activations)),
            "wait": float(timeline.stage_bubble),
            "step": float(timeline.makespan),
        }

    def _figure(self) -> str:
        from dtlib.style import inline_svg

        label, build = next(iter(self._builders.items()))
        timeline = timed(build(self._start["p"], self._start["m"]), self._start["ratio"])
        text = (
            f"{label}, {self._start['p']} ranks, {self._start['m']} micro-batches: "
            f"{float(timeline.bubble_fraction):.1%} of all ranks' time is idle, and a rank holds "
            f"at most {max(timeline.peak_activations)} micro-batches"
        )
        caption = f"{as_sentence(self.spec['title'])} {html.escape(text)}."
        return inline_svg(timeline.draw(), alt=text) + f"\n<figcaption>{caption}</figcaption>"


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
