"""Arrows: collectives between three placements, pressed, turned round and put together."""

from dtlib.collectives.primitives import PRIMITIVES, at_owners, at_root, everywhere
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import among, slider
from dtlib.explore.kit.widget import Widget

PLACES = {"rank 0": at_root, "the owners": at_owners, "everyone": everywhere}
ARROWS = {name: p for name, p in PRIMITIVES.items() if p.before in PLACES.values()}
RANKS = range(2, 6)


class Arrows(Widget):
    """A triangle of placements whose arrows are the collectives, and what every rank then holds.

    Arguments: `first` and `then`, names of the seven collectives in `ARROWS`, `then` None for
    nothing; `P`, ranks, 2 to 5; `task`, a `Task` over ``all_reduce`` (1 if the two together go
    from everyone to everyone), ``times`` (how often every contribution counts in them, 0 for
    no two that fit) and ``middle`` (where the pieces are in between: 0 rank 0, 1 their owners,
    2 everyone), whose solution names `first` and `then`.
    Raises ValueError for an unknown collective, another P, or a task that cannot be met.

    >>> Arrows("broadcast", title="From one to all")
    Arrows('From one to all')
    """

    def __init__(
        self,
        first: str,
        then: str | None = None,
        *,
        title: str,
        P: int = 4,
        task: Task | None = None,
    ):
        among("first", first, list(ARROWS))
        among("then", then, [None, *ARROWS])
        self._start = {"first": first, "then": then}
        places = list(PLACES.values())
        super().__init__(
            title=title,
            controls=[slider("P", "ranks", RANKS, P)],
            task=task,
            start=self._start,
            places=list(PLACES),
            arrows={
                name: {
                    "before": places.index(arrow.before),
                    "after": places.index(arrow.after),
                    "adjoint": _named(arrow.after, arrow.before),
                }
                for name, arrow in ARROWS.items()
            },
            tables={
                str(ranks): [place.table(ranks, ranks).astype(int).tolist() for place in places]
                for ranks in RANKS
            },
        )

    def names(self, *, P: int, **changes) -> dict[str, int]:
        """The names of a task for one or two collectives."""
        first, then = (ARROWS.get(name) for name in (self._start | changes).values())
        if not then or first.after != then.before:
            return {"all_reduce": 0, "times": 0, "middle": -1}
        return {
            "all_reduce": int((first.before, then.after) == (everywhere, everywhere)),
            "times": int(first.after.table(P, P)[:, 0].sum()),
            "middle": list(PLACES.values()).index(first.after),
        }


def _named(before, after) -> str:
    """The arrow between two placements."""
    return next(n for n, arrow in ARROWS.items() if (arrow.before, arrow.after) == (before, after))
