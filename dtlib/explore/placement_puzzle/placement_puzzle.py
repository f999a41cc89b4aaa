"""PlacementPuzzle: a feed-forward block divided by the reader, typed and priced by the library."""

import json
from typing import ClassVar

from dtlib.composition.search import cheapest_program
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice
from dtlib.explore.kit.widget import Widget
from dtlib.explore.placement_puzzle.outcomes import AXIS, CHOICES, outcome, states
from dtlib.formulas.require import require
from dtlib.mesh import Mesh

RANKS = (2, 4, 8)
_LABELS = {"x": "x and y", "w1": "W₁", "z": "z", "w2": "W₂"}


class PlacementPuzzle(Widget):
    """x W₁, gelu, W₂ on P ranks: what lies where, what is sent, and what the types refuse.

    Arguments: `tokens` of all ranks together, `hidden` and `ffn`, the widths, and `element_bytes`;
    `P`, 2, 4 or 8; `x`, `w1`, `z` and `w2`, the choices at the start, names of
    `dtlib.explore.placement_puzzle.outcomes.CHOICES`; `task`, a `Task` over ``typed`` (1 or 0),
    ``divided`` (how many of the two weights are), ``held`` (bytes of weights that a rank keeps),
    ``forward``, ``backward`` and ``sent`` (bytes that a rank sends), ``work`` (the part of the
    products that it does) and ``least`` (bytes of `dtlib.composition.cheapest_program`), whose
    solution gives some of the choices. Of what is refused, ``sent`` and ``work`` are 0.
    Raises ValueError for another P, another choice, and a task that cannot be met.
    """

    borrows: ClassVar = ("cuts",)

    def __init__(
        self,
        *,
        title: str,
        tokens: int,
        hidden: int,
        ffn: int,
        element_bytes: int = 2,
        P: int = 4,
        x: str = "replicated",
        w1: str = "whole",
        z: str = "nothing",
        w2: str = "whole",
        task: Task | None = None,
    ):
        require(P in RANKS, "PlacementPuzzle", "P", P, f"one of {', '.join(map(str, RANKS))}")
        mesh, sizes = Mesh.of(**{AXIS: P}), {"b": tokens, "h": hidden, "f": ffn}
        best = cheapest_program(
            mesh, tokens=tokens, hidden=hidden, ffn=ffn, element_bytes=element_bytes
        )
        self._least = sum(best.sent_bytes)
        self._outcomes = {
            tuple(state.values()): outcome(mesh, sizes, state, element_bytes) for state in states()
        }
        different = {json.dumps(one): one for one in self._outcomes.values()}
        place = {text: number for number, text in enumerate(different)}
        start = {"x": x, "w1": w1, "z": z, "w2": w2}
        super().__init__(
            title=title,
            controls=[
                choice(name, _LABELS[name], {one: words for one, (words, *_) in ways.items()},
                       start[name])
                for name, ways in CHOICES.items()
            ],
            task=task,
            P=P,
            least=self._least,
            weights=2.0 * hidden * ffn * element_bytes,
            table=[place[json.dumps(one)] for one in self._outcomes.values()],
            outcomes=[*different.values()],
        )  # fmt: skip

    def names(self, *, x: str, w1: str, z: str, w2: str) -> dict[str, float]:
        one = self._outcomes[x, w1, z, w2]
        return {
            "typed": int(not one["why"]),
            "sent": one["forward"] + one["backward"],
            "least": self._least,
            **{name: one[name] for name in ("divided", "held", "forward", "backward", "work")},
        }
