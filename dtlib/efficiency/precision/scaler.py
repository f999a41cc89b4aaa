"""Loss scaling: gradients of a half move up into the window, and who finds one infinite tells all.

The noun is `LossScaler`, a machine with two numbers: the scale, and how many clean steps it is old.
"""

import math
from collections.abc import Iterable

import torch

from dtlib.formulas.require import require, require_count
from dtlib.runtime.process_group import ranks_of


class LossScaler:
    """A scale that doubles after so many clean steps, and is halved when a gradient overflows.

    The loss is multiplied by `scale`, so all gradients are; `unscale` divides them again. A step
    with a gradient that is infinite or NaN on *any* rank is skipped on *all*: the flag is summed.

    Arguments: `scale` at the start; `growth` and `backoff`, the factors; `interval`, the clean
    steps before it grows; `group`, whose ranks decide together, or None for one process.
    Attributes: `scale`; `clean`, clean steps since the last change; `skipped`, all skipped steps.
    Raises ValueError for factors that do not grow or shrink.
    Source: Micikevicius et al. 2018; the rule and its defaults are those of torch.amp.GradScaler.

    >>> scaler = LossScaler(scale=1024.0, interval=2)
    >>> [scaler.update(overflow) for overflow in (False, False, True, False)]
    [1024.0, 2048.0, 1024.0, 1024.0]
    """

    def __init__(
        self,
        scale: float = 2.0**16,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        group=None,
    ):
        owner = "LossScaler"
        require(0 < scale < math.inf, owner, "scale", scale, "positive and finite")
        require(1 < growth < math.inf, owner, "growth", growth, "above 1")
        require(0 < backoff < 1, owner, "backoff", backoff, "between 0 and 1")
        require_count(owner, interval=interval)
        self.scale, self.clean, self.skipped = float(scale), 0, 0
        self.growth, self.backoff, self.interval, self.group = growth, backoff, interval, group

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss of which one calls backward."""
        return loss * self.scale

    def unscale(self, parameters: Iterable[torch.nn.Parameter]) -> bool:
        """Divide all gradients by the scale; whether one of them, on any rank, is not finite."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        for gradient in gradients:
            gradient.div_(self.scale)
        bad = sum(not bool(torch.isfinite(gradient).all()) for gradient in gradients)
        return self._any(bad > 0)

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Unscale, step if all gradients of all ranks are finite, change the scale.

        Returns whether the optimizer stepped. (To clip, call `unscale`, clip, and step oneself.)
        """
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        overflow = self.unscale(parameters)
        if not overflow:
            optimizer.step()
        self.update(overflow)
        return not overflow

    def update(self, overflow: bool) -> float:
        """The machine: one transition; returns the scale of the next step."""
        if overflow:
            self.scale, self.clean = self.scale * self.backoff, 0
            self.skipped += 1
            allowed = "not always set: no scale is small enough for a NaN"
            require(self.scale > 2.0**-64, "LossScaler", "overflow", True, allowed)
            return self.scale
        self.clean += 1
        if self.clean == self.interval:
            grown = self.scale * self.growth
            self.scale = grown if math.isfinite(grown) else self.scale
            self.clean = 0
        return self.scale

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps of it."""
        return {"scale": self.scale, "clean": self.clean, "skipped": self.skipped}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from what `state_dict` has given."""
        self.scale, self.clean, self.skipped = state["scale"], state["clean"], state["skipped"]

    def _any(self, bad: bool) -> bool:
        if self.group is None:
            return bad
        ranks_of(self.group)
        flag = torch.tensor(float(bad))
        torch.distributed.all_reduce(flag, group=self.group)
        return bool(flag > 0)
