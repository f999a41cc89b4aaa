"""One look for every figure, in light and in dark.

A figure is drawn once by matplotlib and placed in the page as inline SVG. Three decisions make it
readable on any background, without a second copy for dark mode:

- the background is transparent, and ink (axes, ticks, text) is `currentColor`, so that it takes
  the colour of the text around it;
- each palette colour is a CSS variable with the palette's value as its fallback
  (``var(--dt-forward, #0072B2)``): the site's style sheet brightens it in dark mode, and a page
  that has no such sheet, Colab for example, shows the palette itself;
- text stays text, in the page's own font: it can be selected, searched and read aloud. Write
  Greek letters as Unicode ("α"), not as mathtext. matplotlib measures it with the faces in
  `dtlib/fonts`, which are the sans of the site, so that there is room for what the page shows.

The file has no date and its ids are hashed from its content, so a figure drawn twice is the same
bytes, and two figures of one page never share an id.
"""

import hashlib
import html
import io
import re
from functools import cache
from importlib import resources

FORWARD, BACKWARD, COMMUNICATION, FOURTH = "#0072B2", "#D55E00", "#CC79A7", "#009E73"
PALETTE = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "communication": COMMUNICATION,
    "fourth": FOURTH,
}
INK = "#59636E"  # becomes currentColor; a grey, so that a saved file reads on white and on black
LEAST_TEXT = 10  # px: a narrow screen scrolls a figure rather than showing smaller letters
DASHES = ["-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2))]  # beside colour, never instead

_SETTINGS = {
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
    matplotlib.rcParams.update(_SETTINGS | {"axes.prop_cycle": cycle})
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
    )


def quantity_axis(axis, unit: str, label: str | None = None) -> None:
    """Label the ticks of `axis` (such as `ax.xaxis`) as quantities: 1 KB, 1 MB, 10 ms."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    from dtlib.formulas.units import format_quantity

    axis.set_major_formatter(FuncFormatter(lambda value, _: format_quantity(value, unit)))
    axis.set_minor_locator(NullLocator())
    if label:
        axis.set_label_text(label)


def inline_svg(fig, alt: str) -> str:
    """The figure as an `<svg>` element to place inside HTML; `alt` is what it says to a reader
    who does not see it."""
    file = io.StringIO()
    fig.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\s*|<style.*?</style>\s*", "", text, flags=re.S)
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r"\s*\n(?=[LCQz])", " ", text)
    text = re.sub(r'\s+"', '"', text)
    text = _as_wide_as_measured(_follow_the_page(_own_ids(text)))
    width, height = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text).groups()
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)]
    least = min(float(width) * LEAST_TEXT / min(sizes, default=LEAST_TEXT), float(width) * 4 / 3)
    text = text.replace(
        f'width="{width}pt" height="{height}pt"',
        f'role="img" aria-label="{html.escape(alt)}" '
        f'style="max-width: 100%; width: {float(width) / 72:.4g}in; height: auto; '
        f'--dt-least: {least:.0f}px; overflow: visible; stroke-linejoin: round"',
        1,
    )
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def _as_wide_as_measured(svg: str) -> str:
    """Every text takes the width that matplotlib has measured, whatever face a page sets it in.

    On the site that changes nothing; in a notebook, whose page has other faces, nothing is cut off.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    def sized(match) -> str:
        style, words = match["style"], html.unescape(match["words"])
        weight = re.search(r"font-weight: (\w+)", style)
        face = FontProperties(
            family=_SETTINGS["font.family"],
            weight=weight[1] if weight else "normal",
            size=float(re.search(r"font-size: ([\d.]+)px", style)[1]),
        )
        width, _, _ = TextToPath().get_text_width_height_descent(words, face, ismath=False)
        length = f'textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs" '
        return match[0].replace("<text ", f"<text {length}", 1)

    return re.sub(r'<text style="(?P<style>[^"]*)"[^>]*>(?P<words>[^<]{2,})</text>', sized, svg)


def _follow_the_page(svg: str) -> str:
    """Ink becomes the page's text colour, the palette its CSS variables, and the font its own."""
    svg = re.sub(INK, "currentColor", svg, flags=re.I)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: inherit", svg)
    svg = re.sub(
        r"font: (bold |\d+ )?([\d.]+px) [^;\"]*",
        lambda m: f"font-size: {m[2]}" + (f"; font-weight: {m[1].strip()}" if m[1] else ""),
        svg,
    )
    for name, color in PALETTE.items():
        svg = re.sub(
            rf"(<text[^>]*fill: ){color}", rf"\1var(--dt-{name}-text, {color})", svg, flags=re.I
        )
        svg = re.sub(rf"(?<!, ){color}", f"var(--dt-{name}, {color})", svg, flags=re.I)
    return svg


def _own_ids(svg: str) -> str:
    """Drop ids that nothing refers to; number the others behind a hash of the figure."""
    used = list(dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^")]+)', svg)))

    def renumbered(prefix: str) -> str:
        def place(match):
            if match[2] in used:
                return f"{match[1]}{prefix}{used.index(match[2])}{match[3]}"
            return ""

        return re.sub(r'( id="|url\(#|href="#)([^")]+)([")])', place, svg)

    return renumbered("f" + hashlib.sha256(renumbered("").encode()).hexdigest()[:7] + "-")


class FigureOutput:
    """A figure with its caption and alternative text, as a notebook and the site show it."""

    def __init__(self, svg: str, caption: str):
        self.svg, self.caption = svg, caption

    def __repr__(self) -> str:
        return f"Figure: {self.caption}" if self.caption else "Figure"

    def _repr_html_(self) -> str:
        caption = f"\n<figcaption>{self.caption}</figcaption>" if self.caption else ""
        return f'<figure class="dt-figure">\n{self.svg}{caption}\n</figure>'


def show_figure(fig, caption: str = "", *, alt: str) -> FigureOutput:
    """The figure as a cell's output: `caption` states the conclusion, `alt` says what to see.

    >>> fig, ax = figure()
    >>> _ = ax.plot([1, 2], [3, 4])
    >>> show_figure(fig, "It grows.", alt="A line rises from 3 to 4.")
    Figure: It grows.
    """
    if not alt.strip():
        raise ValueError("alt: every figure needs a sentence for readers who do not see it")
    return FigureOutput(inline_svg(fig, alt), caption)
