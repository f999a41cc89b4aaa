"""Optimizers of two levels: each rank takes H steps of its own, then all meet.

The nouns:

- **Anchor** x: the weights at the last meeting, the same on all ranks.
- **Own weights** y: where this rank's inner optimizer has moved since.
- **Pseudo-gradient** x - y: what H inner steps have done, with the sign of a gradient. Its mean
  over the ranks is given to the outer step, which moves the anchor.

The meeting is a program of one rank, as in chapter 28: `across` runs it on a group, `meet` for
the ranks of one process.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dtlib.efficiency.compression.compressor import finite
from dtlib.efficiency.compression.programs import Mean, Program, WireMeter, across, together
from dtlib.formulas.require import require
from dtlib.parallelism.data.flat import Flat
from dtlib.runtime.process_group import ranks_of, require_alike


@dataclass
class Outer:
    """The outer step: gradient descent with momentum, on pseudo-gradients.

    Equation: u <- momentum u + Delta; then x <- x - lr u, or with Nesterov
    x <- x - lr (Delta + momentum u).

    >>> outer = Outer(lr=0.5, momentum=0.5, nesterov=True)
    >>> [float(outer(torch.tensor(1.0))) for _ in range(2)]
    [0.75, 0.875]
    """

    lr: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False
    velocity: torch.Tensor | None = None

    def __post_init__(self):
        require(self.lr > 0, "Outer", "lr", self.lr, "above 0")
        require(0 <= self.momentum < 1, "Outer", "momentum", self.momentum, "from 0 to below 1")

    def __call__(self, delta: torch.Tensor) -> torch.Tensor:
        """What is subtracted from the anchor for this pseudo-gradient."""
        if not self.momentum:
            return self.lr * delta
        if self.velocity is None:
            self.velocity = torch.zeros_like(delta)
        self.velocity = self.momentum * self.velocity + delta
        ahead = delta + self.momentum * self.velocity
        return self.lr * (ahead if self.nesterov else self.velocity)


class TwoLevel:
    """An inner optimizer on each rank, and an outer step for all of them after every H steps.

    Equation: rank w goes from the anchor x to y_w in H inner steps; then with Delta, the mean of
    all x - y_w, the anchor moves, x <- x - outer(Delta), and all begin there again.

    Arguments: `inner`, a torch optimizer of this rank, whose state is kept from round to round;
    `group`, or None where `meet` brings the ranks of one process together; `every`, the H steps of
    a round; `outer_lr`, `momentum` and `nesterov` of the outer step; `share`, how many times an
    equal part this rank counts in the mean (the shares of all ranks add up to P).
    Where a gradient is not finite a rank takes no step and counts it in `skipped`, so that its
    inner state stays sound. `step` returns False where a round was dropped because a rank's weights
    were not finite: all are then at the anchor again. `meter` counts what this rank sends.
    Raises ValueError on every rank where ranks have other settings or begin with other weights.
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        group,
        *,
        every: int,
        outer_lr: float = 1.0,
        momentum: float = 0.0,
        nesterov: bool = False,
        share: float = 1.0,
    ):
        name = type(self).__name__
        require(
            isinstance(every, int) and every >= 1, name, "every", every, "a whole number from 1"
        )
        require(share >= 0, name, "share", share, "0 or more")
        self.inner, self.group, self.every, self.share = inner, group, every, share
        self.outer = Outer(outer_lr, momentum, nesterov)
        self.flat = Flat(p for each in inner.param_groups for p in each["params"])
        self.anchor = self.flat.lay_out(self.flat.parameters)
        self.steps = self.rounds = self.skipped = 0
        self.meter = None
        if group is not None:
            self.meter = WireMeter(ranks_of(group)[1])
            check_alike(f"{name} with every={every}, {self.outer}", self.anchor, group)

    def step(self) -> bool:
        """One inner step from the gradients that are there and, when a round is full, a meeting.

        Raises ValueError without a group: ranks of one process step by `meet`.
        """
        name, found = type(self).__name__, self.group
        require(found is not None, name, "group", found, "a group here; without one, use meet")
        self.inner_step()
        return not self.due or across(self.meeting(), self.group, self.meter)

    def inner_step(self) -> None:
        """One step of this rank alone."""
        found = (g for g in self.flat.gradients() if g is not None)
        if all(finite(gradient) for gradient in found):
            self.inner.step()
        else:
            self.skipped += 1
        self.steps += 1

    @property
    def due(self) -> bool:
        """Whether the ranks must meet now."""
        return self.steps % self.every == 0

    def zero_grad(self) -> None:
        """As the inner optimizer does."""
        self.inner.zero_grad()

    @torch.no_grad()
    def meeting(self) -> Program:
        """The program of one meeting; returns whether it moved the anchor."""
        delta = self.anchor - self.flat.lay_out(self.flat.parameters)
        mean = yield Mean(self.share * delta)
        moved = finite(mean)
        if moved:
            self.anchor = self.anchor - self.outer(mean)
            self.rounds += 1
            self.after(delta, mean)
        for parameter, due in zip(self.flat.parameters, self.flat.cut(self.anchor), strict=True):
            parameter.copy_(due)
        return moved

    def after(self, delta: torch.Tensor, mean: torch.Tensor) -> None:
        """What a rank learns from its own pseudo-gradient and the mean; here, nothing."""


def meet(optimizers: Sequence[TwoLevel], meter: WireMeter | None = None) -> bool:
    """An inner step of all ranks of one process and, when a round is full, their meeting."""
    for optimizer in optimizers:
        optimizer.inner_step()
    if not optimizers[0].due:
        return True
    return all(together([optimizer.meeting() for optimizer in optimizers], meter))


class LocalSGD(TwoLevel):
    """Weights are averaged every H steps: the outer step of length 1, without momentum.

    With an inner SGD and H = 1 it is synchronous SGD. FedAvg is the same with `share`, the part of
    the data that a rank has. Source: Stich 2019; McMahan et al. 2017.
    """

    def __init__(self, inner, group, *, every: int, share: float = 1.0):
        super().__init__(inner, group, every=every, share=share)


class SlowMo(TwoLevel):
    """Local steps below a slow momentum: the outer step has heavy-ball momentum.

    It is as published where the inner learning rate is constant; the paper divides each
    pseudo-gradient by that rate and multiplies by it again. Source: Wang et al. 2020.
    """

    def __init__(self, inner, group, *, every: int, outer_lr: float = 1.0, momentum: float = 0.5):
        super().__init__(inner, group, every=every, outer_lr=outer_lr, momentum=momentum)


class DiLoCo(TwoLevel):
    """Many inner steps, of AdamW as a rule, below an outer step with Nesterov momentum.

    The inner optimizer's moments stay with the rank: they are neither sent nor reset.
    Source: Douillard et al. 2023, whose outer rate and momentum are the defaults.
    """

    def __init__(
        self, inner, group, *, every: int = 500, outer_lr: float = 0.7, momentum: float = 0.9
    ):
        super().__init__(
            inner, group, every=every, outer_lr=outer_lr, momentum=momentum, nesterov=True
        )


def check_alike(settings: str, weights: torch.Tensor, group) -> None:
    """Raise ValueError on every rank unless all have the same settings and the same weights.

    Ranks that begin apart would stay apart until the first meeting, and their mean would be
    nobody's weights.
    """
    digest = hashlib.sha256(weights.cpu().view(torch.uint8).numpy().tobytes()).hexdigest()[:8]
    own = f"{settings}, {weights.numel()} weights that begin as {digest}"
    rule = "all ranks must have the same settings and begin with the same weights"
    require_alike("inner", own, group, rule)
