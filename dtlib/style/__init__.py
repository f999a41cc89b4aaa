"""One look for every figure, in light and in dark, on a page and on a phone.

`look`, colours, faces and what figures are made of; `phone`, a figure arranged anew for a narrow
page; `inline`, a figure as SVG; `output`, what a cell shows. A figure is drawn by matplotlib and
placed in the page as inline SVG. What makes it readable on any background, at any width:

- the background is transparent, and ink (axes, ticks, text) is `currentColor`, so that it takes
  the colour of the text around it;
- each palette colour is a CSS variable with the palette's value as its fallback
  (``var(--dt-forward, #0072B2)``): the site's style sheet brightens it in dark mode, and a page
  that has no such sheet, Colab for example, shows the palette itself;
- text stays text, in the page's own font: it can be selected, searched and read aloud. Write
  Greek letters as Unicode ("α"), not as mathtext. matplotlib measures it with the faces in
  `dtlib/fonts`, which are the sans of the site, so that there is room for what the page shows;
- it is drawn twice, for a page and for a phone: letters cannot shrink with a figure, so that a
  narrow one has fewer ticks and its names elsewhere. The site's style sheet shows one of the two;
  a page without it shows the first.

The file has no date and its ids are hashed from its content, so a figure drawn twice is the same
bytes, and two figures of one page never share an id.
"""

from dtlib.style.inline import inline_svg
from dtlib.style.look import (
    BACKWARD,
    COMMUNICATION,
    DASHES,
    FORWARD,
    FOURTH,
    INK,
    PALETTE,
    figure,
    label_curve,
    quantity_axis,
)
from dtlib.style.output import FigureOutput, show_figure

__all__ = [
    "BACKWARD",
    "COMMUNICATION",
    "DASHES",
    "FORWARD",
    "FOURTH",
    "INK",
    "PALETTE",
    "FigureOutput",
    "figure",
    "inline_svg",
    "label_curve",
    "quantity_axis",
    "show_figure",
]
