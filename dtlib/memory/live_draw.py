"""A live set as an area for each kind, one on the other, over the moments of a step."""

from dtlib.formulas.units import GB
from dtlib.memory.live import KINDS, LiveSet

_COLOURS = {
    "weights": "forward",
    "optimizer": "fourth",
    "gradients": "backward",
    "activations": "communication",
    "loss": "communication",
}
_HATCHES = {"optimizer": "\\\\", "gradients": "//", "activations": "", "loss": "xx"}


def live_figure(live: LiveSet, *, capacity: float = 0, height: float = 3.4, labels=None):
    """A drawing of what is alive, in GB, with the room that there is (`capacity` bytes) as a line.

    `labels` are (moment, text) pairs below the axis; without them every name with a step's begin.
    Returns a matplotlib figure.
    """
    from dtlib.style import INK, PALETTE, figure

    fig, ax = figure(height=height)
    x = [moment for start in range(len(live.moments)) for moment in (start, start + 1)]
    below = [0.0] * len(x)
    for kind in KINDS:
        curve = live.curve(kind)
        if not any(curve):
            continue
        top = [below[i] + curve[i // 2] / GB for i in range(len(x))]
        ax.fill_between(
            x, below, top, color=PALETTE[_COLOURS[kind]], alpha=0.55, linewidth=0.8,
            hatch=_HATCHES.get(kind, ""), label=kind,
        )  # fmt: skip
        below = top
    ax.plot(x, below, color=INK, linewidth=1.2)
    if capacity:
        ax.axhline(capacity / GB, color=INK, linestyle=(0, (5, 2)), linewidth=1.2)
        ax.annotate(f"{capacity / GB:g} GB there", (0, capacity / GB), (4, 4),
                    textcoords="offset points", va="bottom")  # fmt: skip
    ax.set_xlim(0, len(live.moments))
    ax.set_ylim(0, 1.22 * max(live.peak_bytes, capacity) / GB)
    ax.set_ylabel("alive (GB)")
    ax.set_xlabel("moments of the step, in order")
    ax.set_xticks([at for at, _ in labels or []], [text for _, text in labels or []])
    ax.legend(ncols=3, loc="upper left", fontsize=9, borderaxespad=0)
    return fig
