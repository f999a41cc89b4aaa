"""Error feedback: what was not sent is kept, and sent with what comes next.

The sum of all that was sent is the sum of all that was to be sent, less what is still in memory.
"""

import torch

from dtlib.efficiency.compression.compressor import Compressor, Gathered, Sent, finite
from dtlib.efficiency.compression.programs import Exchange, Gather, Who


class ErrorFeedback(Compressor):
    r"""A compressor with a memory of what it has left out.

    Equation: \(p_t = g_t + e_t\), \(\hat g_t = C(p_t)\), \(e_{t+1} = p_t - \hat g_t\), hence
    \(\sum_{t<T}\hat g_t = \sum_{t<T} g_t - e_T\).
    Argument: `compressor`, without a memory of its own. `memory` is e, None before the first step.
    A step whose mean is not finite leaves the memory of every rank as it was: all ranks see the
    same mean, and whoever trains skips such a step.
    Raises TypeError for a compressor that has a memory already.
    Source: Seide et al. 2014; Karimireddy et al. 2019.

    >>> from dtlib.efficiency.compression.sparse import TopK
    >>> kept = ErrorFeedback(TopK(share=0.5))
    >>> kept(torch.tensor([4.0, 3.0])), kept(torch.tensor([4.0, 3.0]))
    (tensor([4., 0.]), tensor([0., 6.]))
    """

    settings = ("compressor",)

    def __init__(self, compressor: Compressor):
        if isinstance(compressor, (ErrorFeedback, TwoWay)):
            raise TypeError(f"compressor: {type(compressor).__name__} has a memory of its own")
        self.compressor = compressor
        self.memory: torch.Tensor | None = None

    @property
    def linear(self) -> bool:
        """As the compressor: to add a memory is linear, too."""
        return self.compressor.linear

    def rounds(self, flat, shapes):
        """Those of the compressor, for the vector and what was left out before."""
        due = flat if self.memory is None else flat + self.memory
        sent = yield from self.compressor.rounds(due, shapes)
        if finite(sent.mean):
            self.memory = due - sent.own
        return sent


class TwoWay(Compressor):
    r"""A compressed reduce-scatter and a compressed all-gather, each with a memory.

    Every rank owns a part of the vector. It is sent that part by all ranks, compressed, adds it up,
    and shows the compressed mean to all: a rank sends 2 (P - 1)/P messages' worth of bytes and not
    P - 1. Argument: `compressor`, one that gathers.
    `mean` is what all ranks have in the end; `own` is what this rank sent in the first half.
    Raises TypeError for a compressor that is linear, which needs none of this.
    Source: Tang et al. 2019, 2021.

    >>> from dtlib.efficiency.compression.levels import SignSGD
    >>> TwoWay(SignSGD())(torch.tensor([4.0, -4.0]))
    tensor([ 4., -4.])
    """

    settings = ("compressor",)

    def __init__(self, compressor: Gathered):
        if not isinstance(compressor, Gathered):
            raise TypeError(f"compressor: {type(compressor).__name__} has no message to gather")
        self.compressor = compressor
        self.memory: torch.Tensor | None = None
        self.part_memory: torch.Tensor | None = None

    def rounds(self, flat, shapes):
        """Part by part to their owners; then the owners' means to all."""
        rank, P = yield Who()
        due = flat if self.memory is None else flat + self.memory
        parts = _in_parts(due, P)
        messages = [self.compressor.encode(part, rank) for part in parts]
        own = torch.stack([self.compressor.decoded(m, parts[0]) for m in messages])
        part = torch.zeros_like(parts[0])
        for message in (yield Exchange(messages)):
            self.compressor.add(message, part)
        part = part / P if self.part_memory is None else part / P + self.part_memory
        message = self.compressor.encode(part, rank)
        means = [self.compressor.decoded(m, part) for m in (yield Gather(message))]
        sent = Sent(torch.cat(means)[: flat.numel()], own.view(-1)[: flat.numel()])
        if finite(sent.mean):
            self.memory = due - sent.own
            self.part_memory = part - means[rank]
        return sent


def _in_parts(flat: torch.Tensor, P: int) -> torch.Tensor:
    missing = -flat.numel() % P
    return torch.nn.functional.pad(flat, (0, missing)).view(P, -1)
