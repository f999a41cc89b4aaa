"""Figures without a browser: the script that draws in the page, run by QuickJS."""

import json
from functools import cache

import quickjs

from dtlib.explore.kit.source import kit_script
from dtlib.timeline import Timeline


def still(widget, **change) -> dict:
    """A widget in its first state, or with this change of it: `figures`, each an SVG text, what is
    `said`, the `names` of its task, and the heights that it takes, `wide` and `narrow`."""
    return called(widget._esm, "drawing.still(spec, change)", spec=widget.spec, change=change)


def called(script: str, expression: str, **values):
    """The value of a JavaScript expression over these values and what a script defines.

    >>> called(kit_script(), "formatQuantity(n, 'B')", n=2_000_000)
    '2 MB'
    """
    given = ", ".join(map(json.dumps, values.values()))
    program = f"JSON.stringify((({', '.join(values)}) => {expression})({given}))"
    return json.loads(_context(script).eval(program))


def timeline_svg(timeline: Timeline, alt: str, width: int = 690) -> str:
    """A timeline as an SVG text, drawn as the widgets draw their schedules.

    >>> from dtlib.timeline import Span
    >>> two = Timeline([Span(0, "compute", "F0", 0, 1, "forward"), Span(1, "net", "s", 1, 2)])
    >>> timeline_svg(two, "Two bars.").count("<rect")
    4
    """
    lanes = list(dict.fromkeys(span.lane for span in timeline.spans))
    used = {rank: [s.lane for s in timeline.of(rank)] for rank in timeline.ranks}
    rows = {(rank, lane): None for rank in timeline.ranks
            for lane in [one for one in lanes if one in used[rank]] or [""]}  # fmt: skip
    row_of = {key: i for i, key in enumerate(rows)}
    origin = min((span.start for span in timeline.spans), default=0)
    kinds = {span.kind for span in timeline.spans}
    order = ("forward", "backward", "weight", "communication", "other")
    description = {
        "rows": [{"label": _row_name(timeline, *row, several=len(lanes) > 1), "height": 24,
                  "gap": 4} for row in rows],
        "spans": [
            {"row": row_of[span.rank, span.lane], "start": float(span.start - origin),
             "stop": float(span.stop - origin), "look": f"pale {span.kind}", "name": span.name}
            for span in timeline.spans
        ],
        "kinds": [[f"pale {kind}", timeline.names.get(kind, kind)]
                  for kind in order if kind in kinds],
        "stop": float(timeline.makespan) or 1,
        "unit": timeline.unit,
        "label": alt,
    }  # fmt: skip
    drawing = "writtenFigure(timelineFigure(timeline, width), width)"
    return called(kit_script(), drawing, timeline=description, width=width)


def _row_name(timeline: Timeline, rank: int, lane: str, several: bool) -> str:
    if several and len(timeline.ranks) == 1:
        return lane
    return f"rank {rank}" + (f", {lane}" if several and lane else "")


@cache
def _context(script: str) -> quickjs.Context:
    """A script that has run; a widget's own is called `drawing` there."""
    context = quickjs.Context()
    context.eval(script.replace("export default widget(", "const drawing = widget("))
    return context
