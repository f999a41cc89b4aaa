"""Figures of schedules: the space-time diagram, and the timeline on a topology."""

from collections import defaultdict
from math import ceil

from dtlib.collectives.cost.simulated import round_times
from dtlib.collectives.schedule import Round, Schedule, Send
from dtlib.timeline import Span, Timeline

MOST_ROUNDS_IN_A_ROW = 8


def draw(schedule: Schedule):
    """The space-time diagram of a schedule; a figure.

    Ranks are lines from top to bottom, rounds go from left to right, and every message is an
    arrow, with its chunk at the sender: ``+3`` and a solid arrow for chunk 3 that the receiver
    adds, ``3`` and a dashed one for chunk 3 that it keeps. Long schedules continue below. Readable
    up to 8 ranks.

    >>> from dtlib.collectives import ring_all_reduce
    >>> len(draw(ring_all_reduce(8)).axes)
    2
    """
    from dtlib.style import figure

    rows = max(1, ceil(len(schedule) / MOST_ROUNDS_IN_A_ROW))
    columns = ceil(len(schedule) / rows) or 1
    height = rows * (0.7 + 0.36 * schedule.P) + 0.2
    width = min(7.2, 1.2 + 1.1 * max(columns, 2))
    fig, axes = figure(width, height, rows=rows, squeeze=False)
    for row, ax in enumerate(axes.flat):
        _draw_row(ax, schedule, row * columns, columns)
    axes[0, 0].set_title(schedule.name)
    _draw_legend(axes[-1, 0], schedule)
    return fig


def _draw_row(ax, schedule: Schedule, first: int, columns: int) -> None:
    """The rounds from ``first`` on, at most ``columns`` of them."""
    shown = schedule.rounds[first : first + columns]
    ax.hlines(range(schedule.P), 0, len(shown), color="0.6", linewidth=0.8, zorder=0)
    for t, round in enumerate(shown):
        ax.axvline(t, color="0.6", linewidth=0.6, alpha=0.4)
        _draw_round(ax, t, round)
    ax.set_yticks(range(schedule.P), [f"rank {rank}" for rank in range(schedule.P)])
    ax.set_xticks(
        [t + 0.5 for t in range(len(shown))], [f"round {first + t}" for t in range(len(shown))]
    )
    ax.set_xlim(0, columns)
    ax.set_ylim(schedule.P - 0.5, -0.7)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _draw_round(ax, t: int, round: Round) -> None:
    labels = defaultdict(list)
    for send in round:
        labels[send.src].append(("+" if send.reduce else "") + _chunks(send))
        ends = {"xytext": (t + 0.36, send.src), "xy": (t + 0.95, send.dst)}
        ax.annotate("", **ends, arrowprops=_arrow(send.reduce))
    for rank, chunks in labels.items():
        text = ",".join(dict.fromkeys(chunks))
        ax.text(t + 0.34, rank, text, fontsize=8, ha="right", va="bottom")


def _arrow(adds: bool) -> dict:
    from dtlib.style import COMMUNICATION, FOURTH

    return {
        "arrowstyle": "-|>",
        "color": COMMUNICATION if adds else FOURTH,
        "linestyle": "-" if adds else (0, (4, 2)),
        "linewidth": 1.4,
        "shrinkA": 0,
        "shrinkB": 0,
    }


def _draw_legend(ax, schedule: Schedule) -> None:
    from matplotlib.lines import Line2D

    kinds = sorted({send.reduce for send in schedule.sends()}, reverse=True)
    names = {True: "+c: adds chunk c", False: "c: keeps chunk c"}
    lines = [
        Line2D([], [], **{key: _arrow(adds)[key] for key in ("color", "linestyle", "linewidth")})
        for adds in kinds
    ]
    if lines:
        ax.legend(
            lines,
            [names[adds] for adds in kinds],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.12),
            ncols=2,
            fontsize=8,
        )


def _chunks(send: Send) -> str:
    last = send.chunk + send.count - 1
    return str(send.chunk) if send.count == 1 else f"{send.chunk}–{last}"


def timeline(schedule: Schedule, n, topology) -> Timeline:
    """The messages of a schedule as spans: when each occupies its sender's and its receiver's port.

    Arguments: ``n``, bytes of one rank's message; ``topology``, as for `schedule_time`. A rank has
    two lanes, "out" and "in"; in each, the messages of a round follow one another.
    Returns a `Timeline` whose makespan is `schedule_time`.

    >>> from dtlib.collectives import Switch, tree_all_reduce
    >>> steps = timeline(tree_all_reduce(4), n=1_000_000, topology=Switch(4, 5e-6, 50e9))
    >>> [span.name for span in steps.of(0)]
    ['+0←1', '+0←2', '0→2', '0→1']
    """
    spans, start = [], 0
    for round, seconds in zip(schedule, round_times(schedule, n, topology), strict=True):
        placed = _one_after_the_other(round, topology, n / schedule.parts)
        stretch = seconds / max(stop for _, _, stop in placed)
        for send, begin, stop in placed:
            when = start + begin * stretch, start + stop * stretch
            label = ("+" if send.reduce else "") + _chunks(send)
            spans.append(Span(send.src, "out", f"{label}→{send.dst}", *when, "communication"))
            spans.append(Span(send.dst, "in", f"{label}←{send.src}", *when, "communication"))
        start += seconds
    return Timeline(spans)


def _one_after_the_other(round: Round, topology, chunk_bytes) -> list[tuple]:
    """Each send of a round with its start and stop, when a port has one message at a time.

    Which ports a send uses, ``topology.ports`` says; without it, every rank has one each way.
    """
    ports_of = getattr(topology, "ports", lambda send: (("out", send.src), ("in", send.dst)))
    free = defaultdict(int)
    placed = []
    for send in round:
        ports = ports_of(send)
        begin = max(free[port] for port in ports)
        stop = begin + topology.round_time(Round.of([send]), chunk_bytes)
        free.update(dict.fromkeys(ports, stop))
        placed.append((send, begin, stop))
    return placed
