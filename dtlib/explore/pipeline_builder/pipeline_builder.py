"""PipelineBuilder: the reader fills a grid of stages and time, and finds the schedules himself."""

from typing import ClassVar

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice
from dtlib.explore.kit.widget import Widget
from dtlib.explore.pipeline_builder.levels import LEVELS, Level, Tile, tiles
from dtlib.parallelism.pipeline import Action, PipelineError, PipelineSchedule, check_schedule
from dtlib.timeline import Span, Timeline

_LENGTH = {"F": 1, "B": 1, "W": 1, "BW": 2}


class PipelineBuilder(Widget):
    """Tiles F, B and W that the reader puts into a grid, a level after the other.

    Argument: ``key``, under which the browser keeps the levels. A tile that would have to wait is
    refused with its reason; known schedules are shown when a level is done. The task is that of the
    level: ``solved``, with ``time``, ``idle`` and ``peak`` of what lies in the grid.
    """

    borrows: ClassVar = ("pipeline_lab",)  # what waits for what, and what is held

    def __init__(self, *, title: str, key: str):
        specs = [level.spec() for level in LEVELS]
        asked, found = specs[0]["text"], specs[0]["found"]
        words = {i: f"{i + 1} {level.name}" for i, level in enumerate(LEVELS)}
        super().__init__(
            title=title,
            controls=[choice("level", "Level", words, 0)],
            task=Task(asked, "solved == 1", {"work": {"0": tiles(LEVELS[0].best)}}, found),
            key=key,
            levels=specs,
            start={
                "work": {str(i): level.start() for i, level in enumerate(LEVELS)},
                "brush": "F", "won": [], "past": [], "beside": None, "at": None, "stroke": None,
                "refused": None, "without": None, "held": None, "hint": False,
            },
        )  # fmt: skip

    def names(self, *, level: int, work: dict | None = None) -> dict:
        grid, shape = work or {}, LEVELS[level]
        lying = grid.get(str(level), shape.start())
        if not lying:
            return {"time": 0, "idle": 0, "peak": 0, "solved": 0}
        schedule, timeline = as_schedule(shape, lying)
        return {
            "time": timeline.makespan,
            "idle": timeline.bubble_fraction,
            "peak": max(schedule.peak_activations),
            "solved": int(solved(shape, schedule, timeline)),
        }


def as_schedule(level: Level, lying: list[Tile]) -> tuple[PipelineSchedule, Timeline]:
    """The tiles as the library's schedule, and when each of its actions was put."""
    p, rows, spans = level.best.p, [[] for _ in range(level.best.p)], []
    for rank, start, kind in sorted(lying):
        action = Action(kind, rank, sum(other.kind == kind for other in rows[rank]))
        rows[rank].append(action)
        spans.append(Span(rank, "compute", str(action), start, start + _LENGTH[kind]))
    return PipelineSchedule(rows, level.best.m), Timeline(spans, "", ranks=range(p))


def solved(level: Level, schedule: PipelineSchedule, timeline: Timeline) -> bool:
    """Whether the work is done once, nothing starts before what it needs, in time and room."""
    try:
        check_schedule(schedule)
    except PipelineError:
        return False
    when = {Action.read(span.name): span for span in timeline.spans}
    stops = {result: span.stop for action, span in when.items() for result in action.gives()}
    waited = all(
        stops[result] <= span.start
        for action, span in when.items()
        for result in action.needs(schedule.stages)
    )
    held = max(schedule.peak_activations)
    return waited and timeline.makespan <= level.goal and held <= (level.room or held)
