"""A learner so small that it is exact: two weights with momentum, in fractions.

`row` of the lab trains it and cannot tell it from a model: it has the same three names.
"""

import copy
from fractions import Fraction

_TARGET = (Fraction(3), Fraction(-2))
_PULL = (Fraction(1, 4), Fraction(1, 16))


class Learner:
    """`learn(share)`, one step at a share of the full rate; `step`, how many were done; `loss()`.

    What it has learnt is changed in place. All copies count their steps in one tally.
    """

    def __init__(self, start: int = 0):
        self.step, self.weights = 0, [Fraction(start), Fraction(1)]
        self.momentum, self.tally = [Fraction(0), Fraction(0)], []

    def learn(self, share) -> None:
        rate = Fraction(share).limit_denominator(10_000)
        noise = Fraction((7 * self.step + 3) % 11 - 5, 16)  # the text of this step
        for i, (target, pull) in enumerate(zip(_TARGET, _PULL, strict=True)):
            gradient = pull * (self.weights[i] - target) + noise
            moment = self.momentum[i] / 2 + gradient
            self.momentum[i] = moment.limit_denominator(10_000)
            self.weights[i] = (self.weights[i] - rate * self.momentum[i]).limit_denominator(10_000)
        self.step += 1
        self.tally.append(self.step)

    def loss(self) -> float:
        gaps = (w - target for w, target in zip(self.weights, _TARGET, strict=True))
        return float(sum(gap * gap for gap in gaps))

    def __deepcopy__(self, memo: dict) -> "Learner":
        twin = copy.copy(self)
        twin.weights, twin.momentum = list(self.weights), list(self.momentum)
        return twin

    def __repr__(self) -> str:
        return f"learner after {self.step} steps"
