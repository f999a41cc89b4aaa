"""SCAFFOLD: local steps that know in which direction their own data pull.

With different data on the ranks each walks towards its own minimum between two meetings. A rank
that knows its own mean gradient c_w, and that of all, c, takes the difference away.
"""

import torch

from dtlib.efficiency.asynchrony.two_level import TwoLevel
from dtlib.formulas.require import require


class SCAFFOLD(TwoLevel):
    """Local SGD with control variates: each step goes along g_w - c_w + c.

    Equation: after H steps from x to y_w, c_w <- c_w - c + (x - y_w) / (H lr), and c is the mean
    of all c_w.
    Arguments: `parameters`; `group`; `lr`, the rate of the inner SGD; `every`, H.

    When every rank takes part in every round nothing is sent for c: the means of c_w and of c
    cancel, and c = Delta / (H lr), which all ranks have. A federation in which few take part
    sends c_w as well, and twice the bytes. Source: Karimireddy et al. 2020, option II.
    """

    def __init__(self, parameters, group, *, lr: float, every: int):
        require(lr > 0, "SCAFFOLD", "lr", lr, "above 0")
        super().__init__(torch.optim.SGD(list(parameters), lr=lr), group, every=every)
        self.lr = lr
        self.own = torch.zeros_like(self.anchor)
        self.common = torch.zeros_like(self.anchor)

    def inner_step(self) -> None:
        """A step along the corrected gradient."""
        pieces = self.flat.cut(self.common - self.own)
        for parameter, piece in zip(self.flat.parameters, pieces, strict=True):
            parameter.grad = piece.clone() if parameter.grad is None else parameter.grad + piece
        super().inner_step()

    def after(self, delta: torch.Tensor, mean: torch.Tensor) -> None:
        """The rank's mean gradient of this round, and that of all."""
        self.own = self.own - self.common + delta / (self.every * self.lr)
        self.common = mean / (self.every * self.lr)
