"""The ways to divide two matrices with a bend between them, and what each makes the ranks send.

Y = gelu(X W1) W2, where every rank has X and every rank wants Y. Each matrix is divided by columns,
by rows, or not at all. A cut says how it needs its input and how it leaves its output; where two do
not fit, the operator of `ADJOINTS` that leads from one placement to the other stands between them.
That table decides everything here, what is sent backwards too.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from dtlib.formulas.require import require
from dtlib.mesh import Copies, Partial, Placement, Replicate, Shard
from dtlib.parallelism.operators.transposes import ADJOINTS
from dtlib.parallelism.tensor.cuts import Cut
from dtlib.runtime.process_group import ranks_of

CUTS = {
    "columns": (Copies(), Shard(1), Cut(1)),
    "rows": (Shard(1), Partial(), Cut(0)),
    "undivided": (Replicate(), Replicate(), Cut()),
}
JOURNEYS = {"nothing": 0, "all-gather": 1, "reduce-scatter": 1, "all-reduce": 2}
_BY_KINDS = {
    (type(line.before), type(line.after)): name
    for name, line in ADJOINTS.items()
    if line.forward in JOURNEYS
}


@dataclass(frozen=True)
class SplitStep:
    """What stands at one place: an operator of `ADJOINTS` (or None), on so many numbers a token."""

    place: str
    operator: str | None
    numbers: int

    @property
    def forward(self) -> str:
        """What is sent on the way forward."""
        return ADJOINTS[self.operator].forward if self.operator else "nothing"

    @property
    def backward(self) -> str:
        """What is sent on the way back."""
        return ADJOINTS[self.operator].backward if self.operator else "nothing"

    def sent_bytes(self, way: str, P: int, tokens: int, element_bytes: int) -> float:
        """What one rank sends here, `way` "forward" or "backward": (P - 1) / P for each journey."""
        journeys = JOURNEYS[getattr(self, way)]
        return journeys * (P - 1) / P * tokens * self.numbers * element_bytes


def split_steps(first: str, second: str, hidden: int, ffn: int) -> tuple[SplitStep, ...]:
    """What stands before W1, at the bend, and after W2, when the two are cut in these ways.

    A bend is applied to whole numbers, so partial sums are added before it; where the second cut
    then wants parts, they are added and scattered at once.
    Arguments: `first` and `second`, "columns", "rows" or "undivided"; `hidden` and `ffn`, widths.
    Returns three steps, in this order. Raises ValueError for another cut.

    >>> [step.forward for step in split_steps("columns", "rows", 8, 32)]
    ['nothing', 'nothing', 'all-reduce']
    >>> [step.backward for step in split_steps("columns", "rows", 8, 32)]
    ['all-reduce', 'nothing', 'nothing']
    """
    for argument, cut in (("first", first), ("second", second)):
        require(cut in CUTS, "split_steps", argument, cut, f"one of {list(CUTS)}")
    (in1, out1, _), (in2, out2, _) = CUTS[first], CUTS[second]
    return (
        SplitStep("before the first matrix", _between(Replicate(), in1), hidden),
        SplitStep("at the bend", _between(out1, in2), ffn),
        SplitStep("after the second matrix", _between(out2, Replicate()), hidden),
    )


def run_split(x_th, w1_hf, w2_fh, first: str, second: str, group) -> torch.Tensor:
    """Y on the ranks of a group, from the whole X, W1 and W2, divided in these ways."""
    rank, P = ranks_of(group)
    before, bend, after = split_steps(first, second, *w1_hf.shape)
    w1, w2 = (own_part(w, CUTS[cut][2], rank, P) for w, cut in ((w1_hf, first), (w2_fh, second)))
    z = _apply(before, x_th, group) @ w1
    added_first = bend.operator in ("all_reduce", "sum_over_ranks", "reduce_scatter")
    a = F.gelu(_apply(bend, z, group)) if added_first else _apply(bend, F.gelu(z), group)
    return _apply(after, a @ w2, group)


def own_part(w, cut: Cut, rank: int, P: int):
    """A rank's part of a matrix, with a gradient that reaches the whole one."""
    return w if cut.dim is None else w.chunk(P, cut.dim)[rank]


def _between(have: Placement, want: Placement) -> str | None:
    """The operator from one placement to another; None where they are the same."""
    return None if have == want else _BY_KINDS[type(have), type(want)]


def _apply(step: SplitStep, x, group):
    if step.operator is None:
        return x
    dim = {} if ADJOINTS[step.operator].forward == "all-reduce" else {"dim": 1}
    return ADJOINTS[step.operator](x, group, **({} if step.operator == "copy_to_ranks" else dim))
