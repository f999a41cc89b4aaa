"""A figure arranged anew for a phone: the same marks in half the width, in letters as large.

Each step mends what a narrow figure spoils, and leaves alone what fits. What stood side by side
stands one below the other; names of curves that would take a quarter of the width become a key
above the curves; ticks whose labels touch become fewer; words that are too long go on below.
"""

import textwrap
import warnings
from itertools import pairwise
from math import ceil

from dtlib.style.look import CURVE_NAME

WIDTH = 350 / 96  # inches: the text of a phone that is 390 px wide
LETTERS = (8.25, 9)  # points, 11 and 12 px: the smallest, and the largest besides
APART = 3  # px between the labels of two ticks
NUMBER = "0123456789.-−"
MOST = 0.26  # of the width, for what stands at the left or the right of the curves


def for_phone(fig):
    """The figure itself, arranged anew."""
    if fig.get_figwidth() <= WIDTH:
        return fig
    _stack(fig)
    _resize_letters(fig)
    for ax in fig.axes:
        _legend_above(ax)
        _key_for_names(ax)
    _wrap_words(fig)
    for ax in fig.axes:
        _names_inside(ax)
        _fewer_ticks(ax.xaxis)
        _fewer_ticks(ax.yaxis)
    return fig


def _stack(fig) -> None:
    """Panels of one row one below the other; squares, which would become tall, stay."""
    from matplotlib.gridspec import GridSpec

    height = fig.get_figheight()
    grids = {ax.get_gridspec() for ax in fig.axes}
    (grid,) = grids if len(grids) == 1 else (None,)
    square = any(ax.get_aspect() != "auto" for ax in fig.axes)
    if grid and grid.ncols > 1 and not square:
        first = fig.axes[0]
        below = GridSpec(len(fig.axes), 1, figure=fig)
        for ax, place in zip(fig.axes, below, strict=True):
            ax.set_subplotspec(place)
            ax.tick_params(labelleft=True)
            ax.set_ylabel(ax.get_ylabel() or first.get_ylabel())
        height *= 0.8 * len(fig.axes) / grid.nrows
    elif square:
        height *= 0.72
    fig.set_size_inches(WIDTH, height)


def _resize_letters(fig) -> None:
    from matplotlib.text import Text

    least, most = LETTERS
    for text in fig.findobj(Text):
        text.set_fontsize(min(most, max(least, text.get_fontsize())))
    for ax in fig.axes:
        ax.tick_params(labelsize=most)


def _legend_above(ax) -> None:
    """A legend that would lie on the curves stands above them, in as many columns as fit."""
    legend = ax.get_legend()
    if legend is None:
        return
    handles, words = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
    legend.remove()
    _key(ax, handles, words)


def _key_for_names(ax) -> None:
    """Names that reach far out of the plot become a key: the dash and the name of each curve."""
    names = [text for text in ax.texts if text.get_gid() == CURVE_NAME]
    _drawn(ax.figure)
    frame, whole = ax.get_window_extent(), ax.figure.bbox.width
    outside = [name for name in names if name.get_window_extent().x1 - frame.x1 > MOST * whole]
    curves = {line.get_color(): line for line in reversed(ax.lines)}
    if outside and all(name.get_color() in curves for name in outside):
        far = [name for name in names if name.get_window_extent().x1 > frame.x1]
        far = [name for name in far if name.get_color() in curves]
        _key(ax, [curves[name.get_color()] for name in far], [name.get_text() for name in far])
        for name in far:
            name.remove()


def _key(ax, handles, words) -> None:
    """Handles with their words above the plot, in as many columns as there is room for."""
    title = ax.get_title(loc="left") or ax.get_title()
    options = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.2,
               "fontsize": LETTERS[1], "handlelength": 1.8, "columnspacing": 1.2,
               "borderpad": 0.2, "title": title or None, "alignment": "left"}  # fmt: skip
    ax.set_title("", loc="left")
    for columns in range(len(words), 0, -1):
        legend = ax.legend(handles, words, ncols=columns, **options)
        _drawn(ax.figure)
        if legend.get_window_extent().x1 <= ax.figure.bbox.x1 or columns == 1:
            return


def _wrap_words(fig) -> None:
    """Titles, names of axes and labels at the left that are too long go on in another line."""
    _drawn(fig)
    for ax in fig.axes:
        frame, whole = ax.get_window_extent(), fig.bbox.width
        alone = ax.get_gridspec().ncols == 1
        _wrap(ax.xaxis.label, 0.96 * whole if alone else frame.width, upright=False)
        _wrap(ax.yaxis.label, 1.1 * frame.height, upright=True)
        for title in (ax.title, ax._left_title):
            _wrap(title, 0.96 * whole, upright=False)
        labels = [label for label in ax.get_yticklabels() if label.get_text()]
        if any(label.get_window_extent().width > MOST * whole for label in labels):
            words = [_folded(label, MOST * whole) for label in labels]
            ax.set_yticks(ax.get_yticks(), words)


def _wrap(text, room: float, upright: bool) -> None:
    box = text.get_window_extent()
    if text.get_text() and (box.height if upright else box.width) > room:
        text.set_text(_folded(text, room, box.height if upright else box.width))


def _folded(text, room: float, length: float = 0) -> str:
    """The words in as few lines as there is room for, all about as long."""
    words = text.get_text()
    length = length or text.get_window_extent().width
    lines = ceil(length / room)
    width = ceil(1.25 * len(words) / lines)
    return "\n".join(textwrap.wrap(words, width, break_long_words=False))


def _names_inside(ax) -> None:
    """No name of a curve lies across the axis at its left, or on the title."""
    _drawn(ax.figure)
    frame, title = ax.get_window_extent(), ax._left_title
    for name in ax.texts:
        box = name.get_window_extent()
        if name.get_gid() != CURVE_NAME or ax.figure.bbox.x1 - box.x1 < frame.x0 - box.x0:
            continue
        right, up = name.get_position()
        name.set_position((right + max(0, frame.x0 + 3 - box.x0) / ax.figure.dpi * 72, up))
        if title.get_text() and box.overlaps(title.get_window_extent()):
            size = name.get_fontsize()
            ax.set_title(title.get_text(), pad=6 + 1.4 * size, fontsize=size)


def _fewer_ticks(axis) -> None:
    """Every second tick, or fourth, as long as the labels of two touch; rows keep their names."""
    _drawn(axis.figure)
    low, high = sorted(axis.get_view_interval())
    ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
    labels = [t.label1 for t in ticks if t.label1.get_visible() and t.label1.get_text()]
    if axis.axis_name == "y" and not all(label.get_text()[0] in NUMBER for label in labels):
        return
    boxes = [label.get_window_extent() for label in labels]
    for step in range(1, len(labels)):
        if all(_clear(axis, one, other) for one, other in pairwise(boxes[::step])):
            break
    else:
        return
    if step > 1:
        axis.set_ticks([t.get_loc() for t in ticks][::step],
                       [label.get_text() for label in labels][::step])  # fmt: skip


def _clear(axis, one, other) -> bool:
    if axis.axis_name == "x":
        return one.x1 + APART <= other.x0 or other.x1 + APART <= one.x0
    return one.y1 <= other.y0 or other.y1 <= one.y0


def _drawn(fig) -> None:
    """Let matplotlib place everything, so that what is asked next is where it will be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the way, what is still too wide may leave no room
        fig.draw_without_rendering()
