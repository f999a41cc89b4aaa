"""Scripts and style sheets as the texts that a widget brings along, and what all of them share.

A notebook knows one script and one sheet of a widget, and no modules beside it. So the kit's part
stands first in both, the same bytes for every kind, and a seam after it: a site can take the texts
apart there and serve the first once.

**Why no rule reaches another widget.** The kit's sheet is nested below `.dt-kit`, a kind's own
below `.dt-kit.dt-kind-...`: whatever the order of sheets, and however often a notebook brings the
kit's again, a kind's own rule weighs more than the kit's, the kit's more than the plain ones of a
host, and no kind's rule matches elsewhere. A cascade layer would lose to every sheet of a
notebook's host, which has none; a shadow root would keep the page's font and print rules out.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from dtlib.drawing.svg import bare, script

SEAM = "\n/* The widget's own part. */\n"
SCRIPTS = ("dom.js", "frame.js", "controls.js", "player.js", "equations.js",
           "lines.js", "storage.js", "linked.js", "widget.js", "still.js")  # fmt: skip
SHEETS = ("widget.css", "controls.css")
# What may not stand inside of a rule.
_ON_TOP = re.compile(r"@(?:keyframes|font-face)[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}\n?")


def nested(where: str, sheets: str) -> str:
    """Style sheets that hold below `where` only.

    >>> nested(".dt-kit", ".a { color: red }")
    '.dt-kit {\\n.a { color: red }\\n}'
    """
    on_top = "".join(_ON_TOP.findall(sheets))
    return f"{on_top}{where} {{\n{_ON_TOP.sub('', sheets)}\n}}"


@cache
def kit_script() -> str:
    """What every widget's script begins with."""
    return f"{script()}\n{bare(_KIT / name for name in SCRIPTS)}"


@cache
def kit_sheet() -> str:
    """What every widget's style sheet begins with."""
    inside = nested(".dt-kit", bare(_KIT / name for name in SHEETS))
    return f"{bare([_KIT / 'static.css'])}\n{inside}"


def own_files(module: str, ending: str, borrows: Iterable[str] = ()) -> list[Traversable]:
    """The files of a widget's folder with this ending: models that it borrows from other
    widgets, its own, its drawing where that stands apart, the widget itself.

    >>> [file.name for file in own_files("dtlib.explore.router_balance.router_balance", ".js")]
    ['model.js', 'router_balance.js']
    """
    package, _, name = module.rpartition(".")
    folder = resources.files(package)
    borrowed = [_KIT.parent / other / f"model{ending}" for other in borrows]
    named = [*borrowed, *(folder / f"{stem}{ending}" for stem in ("model", "drawing", name))]
    return [file for file in named if file.is_file()]


def as_sentence(title: str) -> str:
    """The title with a full stop, unless it ends a sentence already."""
    return title if title.endswith(("?", "!", ".")) else f"{title}."


_KIT = resources.files(__package__)
