"""Drawings of a schedule of recomputation: where it is, who is kept when, and the bytes of it.

`steps` plays a schedule layer by layer, in units of one layer's forward pass; `draw_recompute`
draws what it says, with the chain's bytes below. The player of `dtlib.explore` draws the same.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dtlib.memory.recompute.schedule import RecomputeSchedule, check_recompute
from dtlib.memory.recompute.simulation import Chain


class Step(NamedTuple):
    """One layer that runs forward (A without a tape, T with one) or backward (B).

    It takes from `start` to `stop` and moves from state `begin` to state `end`; meanwhile the
    states `kept` lie in slots and the layers `taped` have tapes.
    """

    kind: str
    start: float
    stop: float
    begin: int
    end: int
    kept: frozenset[int]
    taped: frozenset[int]


def steps(schedule: RecomputeSchedule, backward: float = 2) -> Iterator[Step]:
    """The schedule layer by layer: a forward pass of a layer takes 1, a backward pass `backward`.

    Keeping, reading and dropping a state take no time. A layer's tape is there while it is made
    and until its backward pass is over. Raises RecomputeError for a schedule that cannot run.

    >>> from dtlib.memory.recompute.schedule import uniform
    >>> for step in list(steps(uniform(2, 1)))[:3]:
    ...     print(step.kind, step.start, step.stop, sorted(step.kept), sorted(step.taped))
    A 0 1 [0] []
    T 1 2 [0] [1]
    B 2 4 [0] [1]
    """
    check_recompute(schedule)
    now, kept, taped = 0, frozenset(), frozenset()
    for kind, start, stop in schedule.actions:
        if kind == "K":
            kept |= {start}
        elif kind == "D":
            kept -= {start}
        elif kind in "AT":
            for layer in range(start, stop):
                taped |= {layer} if kind == "T" else frozenset()
                yield Step(kind, now, now + 1, layer, layer + 1, kept, taped)
                now += 1
        elif kind == "B":
            for layer in reversed(range(start, stop)):
                yield Step("B", now, now + backward, layer + 1, layer, kept, taped)
                taped -= {layer}
                now += backward


def kept_spans(schedule: RecomputeSchedule, backward: float = 2) -> list[tuple[int, float, float]]:
    """(state, from, to) for every stay of a state in a slot.

    >>> from dtlib.memory.recompute.schedule import uniform
    >>> kept_spans(uniform(4, 2))
    [(0, 0, 10)]
    """
    found, since, now = [], {}, 0
    for kind, start, stop in schedule.actions:
        if kind == "K":
            since[start] = now
        elif kind == "D":
            found.append((start, since.pop(start), now))
        elif kind != "R":
            now += (stop - start) * (backward if kind == "B" else 1)
    return found


def draw_recompute(schedule: RecomputeSchedule, chain: Chain | None = None, backward: float = 2):
    """The schedule in time: the running layer, the kept states as bars, and the bytes below.

    Arguments: `schedule`; `chain`, whose bytes are drawn (default: none are); `backward`, the time
    of a layer's backward pass over that of its forward pass. Returns a matplotlib figure.
    Raises RecomputeError for a schedule that cannot run.
    """
    from dtlib.style import figure

    played = list(steps(schedule, backward))
    rows = 1 if chain is None else 2
    ratio = {} if rows == 1 else {"gridspec_kw": {"height_ratios": [3, 2]}, "sharex": True}
    fig, axes = figure(height=2.6 if rows == 1 else 4.2, rows=rows, **ratio)
    path = axes if rows == 1 else axes[0]
    _draw_path(path, schedule, played, backward)
    if chain is not None:
        _draw_bytes(axes[1], chain, played)
    last = axes if rows == 1 else axes[1]
    last.set_xlabel("time (forward passes of one layer)")
    return fig


def _draw_path(ax, schedule, played, backward) -> None:
    from dtlib.style import BACKWARD, FORWARD, FOURTH, label_curve

    spans = kept_spans(schedule, backward)
    for state, begin, end in spans:
        ax.plot(
            [begin, end],
            [state, state],
            color=FOURTH,
            linewidth=3,
            linestyle="-",
            solid_capstyle="butt",
        )
    looks = {
        "A": {"color": FORWARD, "linewidth": 1},
        "T": {"color": FORWARD, "linewidth": 2.6},
        "B": {"color": BACKWARD, "linewidth": 1.8},
    }
    for step in played:
        ax.plot([step.start, step.stop], [step.begin, step.end], linestyle="-", **looks[step.kind])
    if spans:
        label_curve(ax, played[-1].stop / 2, 0, "kept", FOURTH, dx=0, dy=8)
    first = next(step for step in played if step.kind == "B")
    label_curve(ax, first.stop, first.end, "backward", BACKWARD, dx=4, dy=-8)
    ax.set_ylim(schedule.layers + 0.5, -1.5)
    ax.set_ylabel("state")
    ax.set_xlim(0, played[-1].stop)


def _draw_bytes(ax, chain, played) -> None:
    from dtlib.style import INK, label_curve, quantity_axis

    times, held = [], []
    for step in played:
        now = chain.held(step.kept, step.taped)
        times += [step.start, step.stop]
        held += [now, now]
    peak = max(held)
    ax.fill_between(times, held, color=INK, alpha=0.18, linewidth=0)
    ax.plot(times, held, color=INK, linewidth=1.2, linestyle="-")
    ax.axhline(peak, color=INK, linewidth=0.8, linestyle=":")
    label_curve(ax, 0, peak, "most", dx=4, dy=7)
    ax.set_ylim(0, peak * 1.25)
    quantity_axis(ax.yaxis, "B", "bytes kept")
