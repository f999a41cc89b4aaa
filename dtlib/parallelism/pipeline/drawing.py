"""The figure of a schedule: ranks from top to bottom, time from left to right."""

from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule
from dtlib.parallelism.pipeline.simulation import simulate
from dtlib.timeline import COLORS, HATCHES

LOOKS = {"F": "forward", "B": "backward", "BW": "backward", "W": "weight"}
NAMES = {
    "F": "F: forward",
    "BW": "BW: backward, whole",
    "B": "B: gradient of the input",
    "W": "W: gradient of the weights",
}
WIDTH = 7.2


def draw_pipeline(schedule: PipelineSchedule, **times):
    """The rows of a schedule in time; a figure.

    A box is an action, with its letter and its micro-batch where there is room. Where a rank has
    several stages, the boxes of its later ones are darker; two actions at once share the height.
    Idle time is blank. Arguments: as for `simulate`.

    >>> from dtlib.parallelism.pipeline import one_f_one_b
    >>> draw_pipeline(one_f_one_b(4, 8)).axes[0].get_xlabel()
    'time (steps)'
    """
    from dtlib.style import figure

    timeline = simulate(schedule, **times)
    fig, ax = figure(WIDTH, 0.95 + 0.36 * schedule.p)
    length = float(timeline.makespan) or 1
    room = 65 * WIDTH / length
    together = {
        (rank, action): half
        for rank, row in enumerate(schedule.rows)
        for step in row
        if len(step.actions) > 1
        for half, action in enumerate(step.actions)
    }
    chunks = {(r, s): i for r in range(schedule.p) for i, s in enumerate(schedule.stages_of(r))}
    for span in timeline.spans:
        action = Action.read(span.name)
        half = together.get((span.rank, action))
        height = 0.82 if half is None else 0.41
        middle = span.rank if half is None else span.rank + 0.205 * (2 * half - 1)
        start, stop = float(span.start), float(span.stop)
        look = _look(action.kind, chunks[span.rank, action.stage])
        ax.barh(middle, stop - start, left=start, height=height, linewidth=0.7, **look)
        label = _label(action, (stop - start) * room, height)
        if label:
            ax.text((start + stop) / 2, middle, label, **_IN_BOX)
    ax.set_yticks(range(schedule.p), [f"rank {rank}" for rank in range(schedule.p)])
    ax.set_ylim(schedule.p - 0.5, -0.5)
    ax.set_xlim(0, length)
    ax.set_xlabel("time (steps)")
    _draw_legend(ax, schedule)
    return fig


_IN_BOX = {"ha": "center", "va": "center", "fontsize": 7, "clip_on": True}


def _label(action: Action, room: float, height: float) -> str:
    """As much of letter and micro-batch as fits in ``room`` points."""
    if height < 0.5 and room < 12:
        return ""
    for label in (f"{action.kind}{action.micro_batch}", f"{action.micro_batch}"):
        if room > 5 * len(label):
            return label
    return ""


def _look(kind: str, chunk: int = 0) -> dict:
    from matplotlib.colors import to_rgba

    color = COLORS[LOOKS[kind]]
    face = to_rgba(color, min(0.25 + 0.3 * chunk, 0.85))
    return {"facecolor": face, "edgecolor": color, "hatch": HATCHES[LOOKS[kind]]}


def _draw_legend(ax, schedule: PipelineSchedule) -> None:
    from matplotlib.patches import Patch

    kinds = {action.kind for rank in range(schedule.p) for action in schedule.actions(rank)}
    patches = [Patch(label=name, **_look(kind)) for kind, name in NAMES.items() if kind in kinds]
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(patches)}
    ax.legend(handles=patches, fontsize=8, **above)
