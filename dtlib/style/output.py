"""A figure as a cell's output, with its caption, for a page and for a phone."""

from dtlib.style.inline import PHONE, inline_svg
from dtlib.style.phone import for_phone


class FigureOutput:
    """A figure with its caption, as a notebook and the site show it.

    `svg` may be several drawings of one thing: of class `dt-at-page` for a page, of class
    `dt-at-phone` for a narrow one, which is hidden where no style sheet knows better.
    """

    def __init__(self, svg: str, caption: str):
        self.svg, self.caption = svg, caption

    def __repr__(self) -> str:
        return f"Figure: {self.caption}" if self.caption else "Figure"

    def _repr_html_(self) -> str:
        caption = f"\n<figcaption>{self.caption}</figcaption>" if self.caption else ""
        return f'<figure class="dt-figure">\n{self.svg}{caption}\n</figure>'


def show_figure(fig, caption: str = "", *, alt: str, narrow=None) -> FigureOutput:
    """The figure as a cell's output: `caption` states the conclusion, `alt` says what to see.

    It is drawn as it is, then arranged anew for a phone, which changes the figure; where that is
    not enough, `narrow` is a figure of its own for it.

    >>> from dtlib.style import figure
    >>> fig, ax = figure()
    >>> _ = ax.plot([1, 2], [3, 4])
    >>> show_figure(fig, "It grows.", alt="A line rises from 3 to 4.")
    Figure: It grows.
    """
    if not alt.strip():
        raise ValueError("alt: every figure needs a sentence for readers who do not see it")
    page = inline_svg(fig, alt)
    phone = inline_svg(for_phone(narrow or fig), alt, PHONE)
    return FigureOutput(f"{page}\n{phone}", caption)
