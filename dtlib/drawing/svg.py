"""Drawings without a browser: the scripts that draw in a page, run by QuickJS."""

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

SCRIPTS = ("quantities.js", "scales.js", "marks.js", "plot.js", "messages.js", "gantt.js")
PAGE, PHONE = 690, 354  # px: a figure beside the text of a page, and one as wide as a phone's


def bare(files: Iterable[Traversable]) -> str:
    """The texts of these files, one after the other, without indentation and comment lines."""
    lines = (line.strip() for file in files for line in file.read_text("utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def script() -> str:
    """All scripts of a drawing."""
    return bare(resources.files(__package__) / name for name in SCRIPTS)


def called(script: str, expression: str, **values):
    """The value of a JavaScript expression over these values and what a script defines.

    >>> called(script(), "formatQuantity(n, 'B')", n=2_000_000)
    '2 MB'
    """
    given = ", ".join(map(json.dumps, values.values()))
    program = f"JSON.stringify((({', '.join(values)}) => {expression})({given}))"
    return json.loads(_context(script).eval(program))


def schedule_svg(
    rows: list[dict], spans: list[dict], kinds: list[tuple[str, str]], stop: float, unit: str,
    alt: str, width: float = PAGE,
) -> str:  # fmt: skip
    """Bars in rows, from 0 to `stop`, and a key of several `kinds`, (look, words): see `gantt.js`.

    It is as wide as a `PAGE`, or a `PHONE`.

    >>> bar = {"row": 0, "start": 0, "stop": 2, "look": "forward", "name": "F0"}
    >>> svg = schedule_svg([{"label": "rank 0", "height": 24}], [bar], [], 4, "s", "One bar.")
    >>> svg.count("<rect"), 'aria-label="One bar."' in svg
    (1, True)
    """
    timeline = {"rows": rows, "spans": spans, "kinds": kinds, "stop": stop, "unit": unit,
                "label": alt}  # fmt: skip
    drawing = "writtenFigure(timelineFigure(timeline, width), width, narrow)"
    narrow = width == PHONE
    return called(script(), drawing, timeline=timeline, width=width, narrow=narrow)


@cache
def _context(script: str):
    """A script that has run."""
    import quickjs

    context = quickjs.Context()
    context.eval(script)
    return context
