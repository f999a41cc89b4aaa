"""The picture of a chapter where its address is shared: title, motif and the name of the book."""

import io
import textwrap
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from book.motifs import motifs
from book.motifs.marks import COLOURS, WIDTH, Look, Motif
from dtlib.contents import chapter
from dtlib.style import figure

SIZE = 1200, 630  # pixels, as those who show such pictures ask for
LEFT, DPI = 90, 100
SCALE = (SIZE[0] - 2 * LEFT) / WIDTH
CODES = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3}


def cards(book: str) -> Iterator[tuple[str, bytes]]:
    """A name and a PNG for every chapter that has a motif, and `book` for all other pages."""
    for number, motif in motifs().items():
        yield number, card(f"Chapter {number}", chapter(number).title, book, motif)
    yield "book", card("", book, "", motifs()["12"])


def card(above: str, title: str, below: str, motif: Motif) -> bytes:
    """One picture as a PNG without a date."""
    axes = _canvas()
    words = {"size": 19, "color": COLOURS["soft"]}
    axes.text(LEFT, 110, above, **words)
    lines = "\n".join(textwrap.wrap(title, 30))
    axes.text(LEFT, 140, lines, size=44, color=COLOURS["ink"], va="top", weight="bold")
    axes.text(LEFT, 570, below, **words)
    paint(motif, axes, top=330)
    file = io.BytesIO()
    axes.figure.savefig(file, format="png", metadata={"Software": None}, facecolor=COLOURS["paper"])
    return file.getvalue()


def paint(motif: Motif, axes: Axes, top: float) -> None:
    """The motif as wide as the text, with its upper edge at `top`."""
    for look, pieces in motif.paths.items():
        axes.add_patch(_patch(look, pieces, top))


def _patch(look: Look, pieces, top: float) -> PathPatch:
    points, codes = [], []
    for letter, corners in pieces:
        for x, y in corners or [points[-1]]:
            points.append((LEFT + x * SCALE, top + y * SCALE) if corners else (x, y))
            codes.append(CODES.get(letter, Path.CLOSEPOLY))
    return PathPatch(
        Path(points, codes),
        facecolor="none" if look.stroke else COLOURS[look.colour],
        edgecolor=COLOURS[look.colour] if look.stroke else "none",
        linewidth=look.stroke * SCALE * 72 / DPI,
        alpha=look.strength,
        capstyle="round",
        joinstyle="round",
    )


def _canvas() -> Axes:
    """The whole picture as axes whose units are pixels, from the upper left corner."""
    width, height = (pixels / DPI for pixels in SIZE)
    drawing, axes = figure(width, height)
    drawing.set(layout_engine="none", dpi=DPI, facecolor=COLOURS["paper"])
    axes.set(position=(0, 0, 1, 1), xlim=(0, SIZE[0]), ylim=(SIZE[1], 0))
    axes.axis("off")
    return axes
