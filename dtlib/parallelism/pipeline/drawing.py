"""The figure of a schedule: ranks from top to bottom, time from left to right."""

from dtlib.drawing.svg import PAGE, schedule_svg
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule
from dtlib.parallelism.pipeline.simulation import simulate

LOOKS = {
    "F": "pale forward",
    "B": "pale backward",
    "BW": "pale backward",
    "W": "pale weight",
}
NAMES = {
    "F": "F: forward",
    "BW": "BW: backward, whole",
    "B": "B: gradient of the input",
    "W": "W: gradient of the weights",
}


def draw_pipeline(schedule: PipelineSchedule, alt: str = "", width: float = PAGE, **times) -> str:
    """The rows of a schedule in time; an SVG text.

    A box is an action, with its letter and its micro-batch where there is room. Where a rank has
    several stages, the boxes of its later ones are darker; two actions at once share the height.
    Idle time is blank. Arguments: `alt`, what to see; `width` in px; the others as for `simulate`.

    >>> from dtlib.parallelism.pipeline import one_f_one_b
    >>> draw_pipeline(one_f_one_b(4, 8)).count(">F0<")
    4
    """
    timeline = simulate(schedule, **times)
    halves = {
        (rank, action): (half / 2, (half + 1) / 2)
        for rank, row in enumerate(schedule.rows)
        for step in row
        if len(step.actions) > 1
        for half, action in enumerate(step.actions)
    }
    kinds = {action.kind for rank in range(schedule.p) for action in schedule.actions(rank)}
    return schedule_svg(
        rows=[{"label": f"rank {rank}", "height": 26, "gap": 4} for rank in range(schedule.p)],
        spans=[_bar(schedule, span, halves) for span in timeline.spans],
        kinds=[(LOOKS[kind], name) for kind, name in NAMES.items() if kind in kinds],
        stop=float(timeline.makespan) or 1,
        unit="",
        alt=alt or repr(schedule),
        width=width,
    )


def _bar(schedule: PipelineSchedule, span, halves: dict) -> dict:
    action = Action.read(span.name)
    chunk = schedule.stages_of(span.rank).index(action.stage)
    return {
        "row": span.rank,
        "start": float(span.start),
        "stop": float(span.stop),
        "look": LOOKS[action.kind],
        "name": [f"{action.kind}{action.micro_batch}", f"{action.micro_batch}"],
        "part": halves.get((span.rank, action), (0, 1)),
        "over": {"fill-opacity": min(0.25 + 0.3 * chunk, 0.85)},
    }
