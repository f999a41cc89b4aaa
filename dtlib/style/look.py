"""What every figure looks like: colours, faces, names of curves, axes of quantities."""

from functools import cache, partial
from importlib import resources
from math import isclose, log

FORWARD, BACKWARD, COMMUNICATION, FOURTH = "#0072B2", "#D55E00", "#CC79A7", "#009E73"
PALETTE = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "communication": COMMUNICATION,
    "fourth": FOURTH,
}
INK = "#59636E"  # becomes currentColor; a grey, so that a saved file reads on white and on black
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
CURVE_NAME = "curve-name"  # the gid of what `label_curve` writes
DASHES = ["-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2))]  # beside colour, never instead

SETTINGS = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "font.family": ["Dtlib Sans", "DejaVu Sans"],  # the second comes with matplotlib
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.18,
    "grid.linewidth": 0.6,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "lines.linewidth": 2,
    "lines.markersize": 5.5,
    "hatch.linewidth": 0.8,
    "hatch.color": INK,
    "patch.edgecolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "dtlib",
}


def figure(width: float = 7.2, height: float = 3.2, rows: int = 1, columns: int = 1, **options):
    """A new figure in the book's style: `(figure, axes)`, as `pyplot.subplots` returns them.

    `width` and `height` are in inches; 7.2 fills the text column. `options` go to
    `Figure.subplots`. The style is set for the process, because matplotlib reads it again for
    every line and label; the figure is no pyplot figure, so a notebook shows it once, where
    `show_figure` says, and nothing has to be closed.

    >>> fig, ax = figure(height=2)
    >>> ax.get_xscale()
    'linear'
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    _bring_fonts()
    cycle = cycler(color=list(PALETTE.values())) + cycler(linestyle=DASHES)
    matplotlib.rcParams.update(SETTINGS | {"axes.prop_cycle": cycle})
    fig = Figure(figsize=(width, height), layout="constrained")
    return fig, fig.subplots(rows, columns, **options)


@cache
def _bring_fonts() -> None:
    """Tell matplotlib of the book's faces, which come with the library."""
    from matplotlib.font_manager import fontManager

    for face in sorted((resources.files("dtlib") / "fonts").iterdir(), key=str):
        if face.name.endswith(".ttf"):
            fontManager.addfont(str(face))


def label_curve(ax, x, y, text: str, color: str = INK, dx: float = 6, dy: float = 0) -> None:
    """Write a curve's name beside its point (x, y), `dx`, `dy` points away: no legend is needed."""
    ax.annotate(
        text,
        (x, y),
        (dx, dy),
        textcoords="offset points",
        color=color,
        va="center",
        ha="left" if dx >= 0 else "right",
        fontweight="bold",
        annotation_clip=False,
        gid=CURVE_NAME,
    )


def quantity_axis(axis, unit: str, label: str | None = None) -> None:
    """Label the ticks of `axis` (such as `ax.xaxis`) as quantities: 1 KB, 1 MB, 10 ms."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    from dtlib.formulas.units import format_quantity

    axis.set_major_formatter(FuncFormatter(lambda value, _: format_quantity(value, unit)))
    axis.set_minor_locator(NullLocator())
    if label:
        axis.set_label_text(label)


def plain_powers(fig) -> None:
    """Powers of ten on logarithmic axes as letters, 10⁻³; mathtext has small exponents."""
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation

    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, LogFormatterSciNotation) and axis.get_scale() == "log":
                axis.set_major_formatter(FuncFormatter(partial(_power, formatter._base)))


def _power(base: float, value: float, _) -> str:
    exponent = round(log(value) / log(base))
    written = f"{base:g}{str(exponent).translate(RAISED)}"
    return written if isclose(base**exponent, value) else f"{value:g}"
