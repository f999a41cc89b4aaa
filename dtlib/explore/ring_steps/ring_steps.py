"""RingSteps: the steps of a causal ring, rank by rank, and what each computes of the mask."""

from collections.abc import Sequence

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider, toggle
from dtlib.explore.kit.widget import Widget
from dtlib.parallelism.sequence.layouts import (
    causal_work,
    contiguous,
    critical_path,
    striped,
    zigzag,
)

LAYOUTS = {"contiguous": contiguous, "zigzag": zigzag, "striped": striped}
TOKENS = 16  # of a rank, when work is counted


class RingSteps(Widget):
    """A ring's steps as bars of work, ranks below each other, and the mask with one step marked.

    Arguments: `P`, the ranks shown first; `ranks`, all that can be chosen, each from 2 to 16;
    `layout`, which of `LAYOUTS` is shown first (0 contiguous, 1 zigzag, 2 striped); `task`, a
    `Task` over ``path`` (the time until the last step is over, in whole blocks), ``P``, ``layout``
    and ``causal`` (1 or 0), whose solution gives some of ``P``, ``layout`` and ``causal``.
    Raises ValueError for other ranks or layouts, and for a task that cannot be met.
    """

    def __init__(
        self,
        P: int = 8,
        *,
        title: str,
        ranks: Sequence[int] = (2, 4, 8, 16),
        layout: int = 0,
        task: Task | None = None,
    ):
        if any(not 2 <= count <= 16 for count in ranks):
            raise ValueError(f"ranks: each from 2 to 16; got {list(ranks)}")
        super().__init__(
            title=title,
            controls=[
                choice("layout", "Layout", dict(enumerate(LAYOUTS)), layout),
                toggle("causal", "causal mask", True),
                slider("P", "ranks", ranks, P),
            ],
            task=task,
            layouts=list(LAYOUTS),
            start={"step": 1},
            work=_of_each(_work, ranks),
            owners=_of_each(_owners, ranks),
        )

    def names(self, *, P: int, layout: int, causal: int) -> dict[str, float]:
        work = causal_work(list(LAYOUTS.values())[layout], P, TOKENS, bool(causal))
        return {"path": float(critical_path(work))}


def _of_each(table, ranks: Sequence[int]) -> list[dict]:
    """A table of every layout, for every number of ranks."""
    return [{str(P): table(layout, P) for P in ranks} for layout in LAYOUTS.values()]


def _work(layout, P: int) -> list[list[float]]:
    return [[float(share) for share in step] for step in causal_work(layout, P, TOKENS)]


def _owners(layout, P: int) -> list[int]:
    """The rank of each of 2P pieces of the sequence (of 2P tokens, where tokens are dealt)."""
    table = layout(2 * P, P)
    return [int((table == piece).any(axis=1).argmax()) for piece in range(2 * P)]
