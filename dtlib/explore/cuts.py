"""Cuts: two matrices with a bend between them, divided by the reader, and what that sends."""

import html

from dtlib.explore.controls import Task
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity

WAYS = ("columns", "rows", "undivided")
RANKS = (2, 4, 8)
_NAMES = ("divided", "collectives", "sent")


class Cuts(Widget):
    """X, two matrices and what lies between them, shaded by the rank that holds each part.

    Arguments: `tokens`, `hidden`, `ffn` and `element_bytes` of the block; `first` and `second`, how
    the matrices are cut at the start; `P`, 2, 4 or 8; `task`, a `Task` over ``divided`` (how many
    of the two matrices are), ``collectives`` (of the forward pass) and ``sent`` (bytes that a rank
    sends, forward and backward), whose solution gives `first` and `second`. Raises ValueError for a
    way of cutting or a P that there is not, and for a task that cannot be met. The steps and bytes
    are those of `dtlib.parallelism.tensor.splits`, which tests run on real ranks.
    """

    _esm = script("quantities.js", "page.js", "cuts.js")
    _css = script("widget.css", "plot.css", "arrows.css", "cuts.css")

    def __init__(
        self,
        *,
        title: str,
        tokens: int,
        hidden: int,
        ffn: int,
        element_bytes: int = 2,
        first: str = "columns",
        second: str = "columns",
        P: int = 4,
        task: Task | None = None,
    ):
        for name, way in (("first", first), ("second", second)):
            if way not in WAYS:
                raise ValueError(f"{name} = {way!r}; allowed are {', '.join(WAYS)}")
        if P not in RANKS:
            raise ValueError(f"P = {P}; allowed are {', '.join(map(str, RANKS))}")
        self._sizes = (tokens, hidden, ffn, element_bytes)
        self._start = {"first": first, "second": second, "P": P}
        start = {"first": WAYS.index(first), "second": WAYS.index(second), "P": P}
        spec = {
            "title": title,
            "ways": list(WAYS),
            "cases": {str(ranks): self._cases(ranks) for ranks in RANKS},
            "ranks": {
                "label": "ranks",
                "plain": f"{RANKS[0]} to {RANKS[-1]}",
                "symbol": "<mi>P</mi>",
                "unit": "",
                "values": list(RANKS),
                "index": RANKS.index(P),
            },
            "start": start,
            "task": None if task is None else task.checked(self.values) | {"names": list(_NAMES)},
        }
        super().__init__(spec=spec)

    def steps(self, first: str, second: str, P: int) -> list[dict]:
        """What stands at the three places, with the bytes that one rank sends there."""
        from dtlib.parallelism.tensor.splits import split_steps

        tokens, hidden, ffn, element_bytes = self._sizes
        return [
            {
                "place": step.place,
                "forward": step.forward,
                "backward": step.backward,
                "bytes": [
                    step.sent_bytes(way, P, tokens, element_bytes)
                    for way in ("forward", "backward")
                ],
            }
            for step in split_steps(first, second, hidden, ffn)
        ]

    def values(self, **changes) -> dict[str, float]:
        """The names of a task for `first`, `second` and `P`."""
        setting = self._start | changes
        steps = self.steps(**setting)
        return {
            "divided": sum(setting[name] != "undivided" for name in ("first", "second")),
            "collectives": sum(step["forward"] != "nothing" for step in steps),
            "sent": sum(sum(step["bytes"]) for step in steps),
        }

    def _cases(self, P: int) -> list[list]:
        return [[self.steps(first, second, P) for second in WAYS] for first in WAYS]

    def _figure(self) -> str:
        rows = []
        for first in WAYS:
            for second in WAYS:
                steps = self.steps(first, second, self._start["P"])
                sent = [sum(step["bytes"][way] for step in steps) for way in (0, 1)]
                cells = [first, second, *(step["forward"] for step in steps)]
                cells += [format_quantity(bytes, "B", 3) for bytes in sent]
                rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        heads = ("first matrix", "second", "before", "at the bend", "after", "forward", "backward")
        head = "".join(f"<th>{cell}</th>" for cell in heads)
        caption = html.escape(as_sentence(self.spec["title"]))
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<figcaption>{caption} Bytes that each of {self._start['P']} ranks sends.</figcaption>"
        )
