"""RingSteps: the steps of a causal ring, rank by rank, and what each computes of the mask."""

import html
from collections.abc import Sequence

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.parallelism.sequence.layouts import (
    causal_work,
    contiguous,
    critical_path,
    striped,
    zigzag,
)

LAYOUTS = {"contiguous": contiguous, "zigzag": zigzag, "striped": striped}
TOKENS = 16  # of a rank, when work is counted
_NAMES = ("path", "P", "layout", "causal")


class RingSteps(Widget):
    """A ring's steps as bars of work, ranks below each other, and the mask with one step marked.

    Arguments: `P`, the ranks shown first; `ranks`, all that can be chosen, each from 2 to 16;
    `layout`, which of `LAYOUTS` is shown first (0 contiguous, 1 zigzag, 2 striped); `task`, a
    `Task` over ``path`` (the time until the last step is over, in whole blocks), ``P``, ``layout``
    and ``causal`` (1 or 0), whose solution gives some of ``P``, ``layout`` and ``causal``.
    Raises ValueError for other ranks or layouts, and for a task that cannot be met.
    """

    _esm = script("quantities.js", "page.js", "ring_steps_model.js", "ring_steps.js")
    _css = script("widget.css", "plot.css", "seats.css", "ring_steps.css")

    def __init__(
        self,
        P: int = 8,
        *,
        title: str,
        ranks: Sequence[int] = (2, 4, 8, 16),
        layout: int = 0,
        task: Task | None = None,
    ):
        if P not in ranks or any(not 2 <= count <= 16 for count in ranks):
            raise ValueError(f"P: one of ranks, each from 2 to 16; got {P} and {list(ranks)}")
        if layout not in range(len(LAYOUTS)):
            raise ValueError(f"layout: 0, 1 or 2 for {', '.join(LAYOUTS)}; got {layout}")
        self._start = {"P": P, "layout": layout, "causal": 1}
        spec = {
            "title": title,
            "layouts": list(LAYOUTS),
            "work": [
                {str(count): _work(function, count) for count in ranks}
                for function in LAYOUTS.values()
            ],
            "owners": [
                {str(count): _owners(function, count) for count in ranks}
                for function in LAYOUTS.values()
            ],
            "ranks": slider_over("P", "ranks", "", list(ranks), P),
            "start": self._start,
            "task": None,
        }
        if task is not None:
            spec["task"] = task.checked(self.values) | {"names": list(_NAMES)}
        super().__init__(spec=spec)

    def values(self, **changes) -> dict[str, float]:
        """The names of a task, for other ranks, another layout, with or without the mask."""
        chosen = self._start | changes
        layout = list(LAYOUTS.values())[chosen["layout"]]
        work = causal_work(layout, chosen["P"], TOKENS, bool(chosen["causal"]))
        return {"path": float(critical_path(work))} | chosen

    def _figure(self) -> str:
        from dtlib.style import FORWARD, figure, inline_svg

        P = self._start["P"]
        name = list(LAYOUTS)[self._start["layout"]]
        work = causal_work(LAYOUTS[name], P, TOKENS)
        fig, ax = figure(height=2.6)
        begin = 0.0
        for step in work:
            for rank, share in enumerate(step):
                ax.barh(rank, float(share), left=begin, color=FORWARD, alpha=0.8, edgecolor="white")
            begin += float(max(step))
        ax.set(yticks=range(P), xlabel="time (blocks of attention)", ylabel="rank")
        ax.invert_yaxis()
        path = float(critical_path(work))
        text = f"{name}, {P} ranks: the last step is over after {path:g} of {P} blocks of time"
        caption = f"{as_sentence(self.spec['title'])} {html.escape(as_sentence(text))}"
        return inline_svg(fig, alt=text) + f"\n<figcaption>{caption}</figcaption>"


def _work(layout, P: int) -> list[list[float]]:
    return [[float(share) for share in step] for step in causal_work(layout, P, TOKENS)]


def _owners(layout, P: int) -> list[int]:
    """The rank of each of 2P pieces of the sequence (of 2P tokens, where tokens are dealt)."""
    table = layout(2 * P, P)
    return [int((table == piece).any(axis=1).argmax()) for piece in range(2 * P)]
