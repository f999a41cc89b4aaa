"""The levels of the builder: what is to be found, and the library's schedule that finds it."""

from dataclasses import dataclass

from dtlib.explore.pipeline_lab.pipeline_lab import stored
from dtlib.formulas.units import format_quantity
from dtlib.parallelism.pipeline import (
    Action,
    PipelineSchedule,
    gpipe,
    interleaved,
    one_f_one_b,
    simulate,
    zero_bubble,
)

Tile = list  # [rank, start, kind], as the page has it


def one_by_one(p: int, m: int) -> PipelineSchedule:
    """One micro-batch after the other: no schedule that anybody wants, but where all begin.

    >>> simulate(one_by_one(2, 2)).makespan
    12
    """
    pairs = [[(kind, i) for i in range(m) for kind in ("F", "BW")] for _ in range(p)]
    rows = [[Action(kind, r, i) for kind, i in row] for r, row in enumerate(pairs)]
    return PipelineSchedule(rows, m, name="one by one")


KNOWN = {
    "one after the other": one_by_one,
    "GPipe, all forward first": gpipe,
    "1F1B": one_f_one_b,
    "interleaved, two stages a rank": lambda p, m: interleaved(p, m, v=2),
    "zero bubble (ZB-H1)": lambda p, m: zero_bubble(p, m, c=1),
}


@dataclass(frozen=True)
class Level:
    """A grid to fill: `best` finishes at its goal, and the first `known` schedules are shown after.

    `begun`: the tiles of `one_by_one` lie there already; `room`: of a stage, in micro-batches.
    `text`, `hint` and `found` may name the numbers of `spec` in braces.
    """

    name: str
    best: PipelineSchedule
    columns: int
    text: str
    hint: str
    found: str
    known: int
    begun: bool = False
    room: int | None = None

    @property
    def goal(self) -> int:
        """When the best schedule ends."""
        return simulate(self.best).makespan

    @property
    def slow(self) -> PipelineSchedule:
        """One micro-batch after the other, of the same pipeline."""
        return one_by_one(self.best.p, self.best.m)

    def start(self) -> list[Tile]:
        """What lies in the grid at the start."""
        return tiles(self.slow) if self.begun else []

    def spec(self) -> dict:
        """What the page needs to know."""
        p, m = self.best.p, self.best.m
        slow, forward_first = simulate(self.slow), simulate(gpipe(p, m))
        numbers = {
            "goal": self.goal, "slow": slow.makespan,
            "slow_idle": format_quantity(slow.bubble_fraction, "%"),
            "all": forward_first.makespan, "all_held": max(forward_first.peak_activations),
            "room": self.room,
        }  # fmt: skip
        words = {part: getattr(self, part).format(**numbers) for part in ("text", "hint", "found")}
        known = [
            {"label": label, **stored(build, p, m)}
            for label, build in list(KNOWN.items())[: self.known]
        ]
        return words | {
            "name": self.name, "p": p, "m": m, "columns": self.columns, "goal": self.goal,
            "room": self.room, "split": self.best.splits_backward, "begun": self.begun,
            "start": self.start(), "known": known,
        }  # fmt: skip


def tiles(schedule: PipelineSchedule) -> list[Tile]:
    """A schedule on the grid, each action as soon as it can begin, f = b = w = 1.

    >>> tiles(one_by_one(1, 1))
    [[0, 0, 'F'], [0, 1, 'BW']]
    """
    spans = simulate(schedule).spans
    return [[span.rank, span.start, Action.read(span.name).kind] for span in spans]


LEVELS = (
    Level(
        "Overlap", gpipe(2, 2), columns=12, known=2, begun=True,
        text="Two stages take two micro-batches one after the other: {slow} units of time, and "
             "{slow_idle} of it is waiting. Drag tiles to the left until the step takes {goal}.",
        hint="The F1 of stage 0 waits for nobody: pull it to 1. What else can then come forward?",
        found="{goal} instead of {slow}: while stage 1 works on one micro-batch, stage 0 is at the "
              "other. That is a pipeline. How much of the waiting must stay?",
    ),
    Level(
        "The bound", gpipe(4, 4), columns=22, known=2,
        text="Four stages, four micro-batches; one after the other they take {slow}. Put F and B "
             "into the grid until all are in, and finish at {goal}.",
        hint="Put F into stage 0 from 0 on, then into each stage from its first coloured cell on. "
             "Then choose B: the last stage can begin at once.",
        found="{goal}, and no order is faster, with one piece of the model on each stage and "
              "backward passes in one piece. But look below the rows: how much does a stage hold?",
    ),
    Level(
        "No room", one_f_one_b(2, 4), columns=16, known=3, room=2,
        text="What a forward pass leaves behind stays until its backward pass is over. All forward "
             "passes first would need room for {all_held} micro-batches; a stage has room for "
             "{room}. Still finish at {goal}.",
        hint="Let stage 1 do its B0 as soon as it can: that is what stage 0 waits for.",
        found="{goal} again, in less memory: after the first few, a backward pass pays for each "
              "forward pass. You have found one forward, one backward: 1F1B.",
    ),
    Level(
        "W can wait", zero_bubble(3, 3, c=1), columns=14, known=5, room=3,
        text="Now a backward pass comes in halves: B, the gradient that the stage before waits "
             "for, and W, the gradient of the weights, for which nobody waits. With whole backward "
             "passes {all} was the bound. Finish at {goal}, with room for {room}.",
        hint="B first, whenever one is possible: somebody waits for it. F next. W where the stage "
             "would stand still, and at the end.",
        found="{goal} instead of {all}: B hurries back up, and W fills what was waiting. This is a "
              "zero-bubble schedule. What remains is the way in and the way out.",
    ),
)  # fmt: skip
