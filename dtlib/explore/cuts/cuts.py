"""Cuts: two matrices with a bend between them, divided by the reader, and what that sends."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget

WAYS = {"columns": "by columns", "rows": "by rows", "undivided": "undivided"}
RANKS = (2, 4, 8)


class Cuts(Widget):
    """X, two matrices and what lies between them, shaded by the rank that holds each part.

    Arguments: `tokens`, `hidden`, `ffn` and `element_bytes` of the block; `first` and `second`, how
    the matrices are cut at the start; `P`, 2, 4 or 8; `task`, a `Task` over ``divided`` (how many
    of the two matrices are), ``collectives`` (of the forward pass) and ``sent`` (bytes that a rank
    sends, forward and backward), whose solution gives `first` and `second`. Raises ValueError for a
    way of cutting or a P that there is not, and for a task that cannot be met. The steps and bytes
    are those of `dtlib.parallelism.tensor.splits`, which tests run on real ranks.
    """

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
        self._sizes = (tokens, hidden, ffn, element_bytes)
        super().__init__(
            title=title,
            controls=[
                choice("first", "W₁", WAYS, first),
                choice("second", "W₂", WAYS, second),
                slider("P", "ranks", RANKS, P),
            ],
            task=task,
            steps={
                f"{one} {other} {ranks}": self.steps(one, other, ranks)
                for one in WAYS for other in WAYS for ranks in RANKS
            },
        )  # fmt: skip

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

    def names(self, *, first: str, second: str, P: int) -> dict[str, float]:
        steps = self.steps(first, second, P)
        return {
            "divided": sum(way != "undivided" for way in (first, second)),
            "collectives": sum(step["forward"] != "nothing" for step in steps),
            "sent": sum(sum(step["bytes"]) for step in steps),
        }
