"""1-bit Adam: its second moment is frozen, so that what is left is linear and may be rounded.

An update of Adam is m / sqrt(v). A compressed gradient makes v wrong, since v squares it; so ranks
first run Adam as it is, then keep v, and compress the momentum m.
"""

from collections.abc import Iterable

import torch
from torch import nn

from dtlib.efficiency.compression.compressor import Compressor, Dense, finite
from dtlib.efficiency.compression.feedback import TwoWay
from dtlib.efficiency.compression.levels import SignSGD
from dtlib.efficiency.compression.programs import WireMeter, across
from dtlib.formulas.require import require
from dtlib.parallelism.data.flat import Flat
from dtlib.runtime.process_group import ranks_of


class OneBitAdam:
    r"""Adam on ranks that have gradients of their own, in two stages.

    Equation: up to step `warm_up`, Adam with the mean gradient. Then, with \(v\) as it is,
    \(m_w = \beta_1 m + (1 - \beta_1) g_w\) on each rank w, \(m = C(m_w)\), the compressed mean of
    all ranks, and \(x \leftarrow x - \eta\,\hat m / (\sqrt{\hat v} + \epsilon)\).
    Arguments: `parameters`, of one kind, alike on all ranks, whose gradients are this rank's own;
    `group`; `lr`, `betas`, `eps` as torch's Adam has them; `warm_up`, steps of the first stage;
    `compressor`, with a memory (None: signs, both ways). `meter` counts what this rank sends.
    `step` returns whether it was taken: not where a rank's gradient is not finite.
    Raises ValueError for a warm-up below 1: there would be no v. Source: Tang et al. 2021.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        group,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        warm_up: int,
        compressor: Compressor | None = None,
    ):
        require(warm_up >= 1, "OneBitAdam", "warm_up", warm_up, "at least one step, for v")
        self.flat, self.group, self.meter = Flat(parameters), group, WireMeter(ranks_of(group)[1])
        self.lr, self.betas, self.eps, self.warm_up = lr, betas, eps, warm_up
        self.compressor = TwoWay(SignSGD()) if compressor is None else compressor
        self.steps = 0
        self.m = self.flat.lay_out([None] * len(self.flat.parameters))
        self.v = torch.zeros_like(self.m)

    @property
    def warm(self) -> bool:
        """Whether the next step is Adam's own."""
        return self.steps < self.warm_up

    @torch.no_grad()
    def step(self) -> bool:
        """Average, update, and leave gradients as they are."""
        own = self.flat.lay_out(self.flat.gradients())
        first, second = self.betas
        compressor = Dense() if self.warm else self.compressor
        due = own if self.warm else torch.lerp(self.m, own, 1 - first)
        mean = across(compressor.program(due, self.flat.shapes), self.group, self.meter).mean
        if not finite(mean):
            return False
        if self.warm:
            self.v.mul_(second).addcmul_(mean, mean, value=1 - second)
            mean = torch.lerp(self.m, mean, 1 - first)
        self.m = mean
        self.steps += 1
        self._move()
        return True

    def _move(self) -> None:
        first, second = self.betas
        seen = min(self.steps, self.warm_up)  # the steps that v has seen
        m = self.m / (1 - first**self.steps)
        v = self.v / (1 - second**seen)
        for parameter, change in zip(
            self.flat.parameters, self.flat.cut(m / (v.sqrt() + self.eps)), strict=True
        ):
            parameter.sub_(change, alpha=self.lr)
