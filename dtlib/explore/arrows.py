"""Arrows: collectives between three placements, chosen, run backwards and put together."""

import html
import operator

from dtlib.collectives.primitives import PRIMITIVES, at_owners, at_root, everywhere
from dtlib.explore.controls import Task
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script

PLACES = {"rank 0": at_root, "the owners": at_owners, "everyone": everywhere}
ARROWS = {name: p for name, p in PRIMITIVES.items() if p.before in PLACES.values()}
RANKS = range(2, 6)
_NAMES = ("all_reduce", "times", "middle")


class Arrows(Widget):
    """What every rank holds before and after one collective, or two, one after the other.

    Arguments: `first` and `then`, names of the seven collectives in `ARROWS`, `then` None for
    nothing; `P`, ranks, 2 to 5; `task`, a `Task` over ``all_reduce`` (1 if the two together go
    from everyone to everyone), ``times`` (how often every contribution counts in them, 0 for
    no two that fit) and ``middle`` (where the pieces are in between: 0 rank 0, 1 their owners,
    2 everyone), whose solution names `first` and `then`.
    Raises ValueError for an unknown collective, another P, or a task that cannot be met.

    >>> Arrows("broadcast", title="From one to all")
    Arrows('From one to all')
    """

    _esm = script("quantities.js", "page.js", "arrows_model.js", "arrows.js")
    _css = script("widget.css", "arrows.css")

    def __init__(
        self,
        first: str,
        then: str | None = None,
        *,
        title: str,
        P: int = 4,
        task: Task | None = None,
    ):
        for name in (first, then or first):
            if name not in ARROWS:
                raise ValueError(f"collective {name!r}; allowed are {', '.join(ARROWS)}")
        if operator.index(P) not in RANKS:
            raise ValueError(f"P = {P}; allowed are {RANKS[0]} to {RANKS[-1]}")
        names, places = list(ARROWS), list(PLACES.values())
        self._start = {"first": first, "then": then}
        spec = {
            "title": title,
            "places": list(PLACES),
            "everywhere": places.index(everywhere),
            "arrows": [
                {
                    "name": name,
                    "before": places.index(arrow.before),
                    "after": places.index(arrow.after),
                    "adjoint": _named(arrow.after, arrow.before),
                }
                for name, arrow in ARROWS.items()
            ],
            "tables": {
                str(ranks): [place.table(ranks, ranks).astype(int).tolist() for place in places]
                for ranks in RANKS
            },
            "ranks": {
                "label": "ranks",
                "plain": f"{RANKS[0]} to {RANKS[-1]}",
                "symbol": "<mi>P</mi>",
                "unit": "",
                "values": list(RANKS),
                "index": RANKS.index(P),
            },
            "start": {"first": names.index(first), "then": names.index(then) if then else -1}
            | {"P": P},
            "task": self._task(task, P),
        }
        super().__init__(spec=spec)

    def _task(self, task: Task | None, P: int) -> dict | None:
        if task is None:
            return None

        def names(**changes) -> dict[str, int]:
            return _values(P, **self._start | changes)

        return task.checked(names) | {"names": list(_NAMES)}

    def _figure(self) -> str:
        P, first = self.spec["start"]["P"], ARROWS[self._start["first"]]
        tables = []
        for title, place in (("before", first.before), ("after", first.after)):
            held = place.table(P, P)
            from_whom = first.before.table(P, P)
            rows = []
            for rank in range(P):
                cells = []
                for chunk in range(P):
                    sources = (
                        from_whom[:, chunk] if title == "after" else [r == rank for r in range(P)]
                    )
                    word = "".join("abcdef"[k] for k in range(P) if sources[k])
                    cells.append(f"<td>{word if held[rank, chunk] else ''}</td>")
                rows.append(f"<tr><th scope='row'>rank {rank}</th>{''.join(cells)}</tr>")
            tables.append(
                f"<table><caption>{title}</caption><tbody>{''.join(rows)}</tbody></table>"
            )
        caption = html.escape(as_sentence(f"{self.spec['title']}: {self._start['first']}"))
        return f'<div class="dt-compare">{"".join(tables)}</div><figcaption>{caption}</figcaption>'


def _named(before, after) -> int:
    """The position of the arrow between two placements."""
    return [(a.before, a.after) for a in ARROWS.values()].index((before, after))


def _values(P: int, first: str, then: str | None) -> dict[str, int]:
    """The names of a task for one or two collectives."""
    values = dict.fromkeys(_NAMES, 0) | {"middle": -1}
    if then and ARROWS[first].after == ARROWS[then].before:
        middle = ARROWS[first].after
        ends = ARROWS[first].before, ARROWS[then].after
        values["all_reduce"] = int(ends == (everywhere, everywhere))
        values["times"] = int(middle.table(P, P)[:, 0].sum())
        values["middle"] = list(PLACES.values()).index(middle)
    return values
