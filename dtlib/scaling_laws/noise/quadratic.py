"""A loss on which noise is exact: a quadratic, whose mean loss after t steps is a matrix power.

The noun is `NoisyQuadratic`. Its mean loss needs only second moments, and one step maps them
linearly. Nothing is drawn: what it says about batch sizes has no noise of its own.
"""

import math
from collections.abc import Sequence

from dtlib.formulas.require import require, require_positive
from dtlib.later import np
from dtlib.scaling_laws.compute_optimal.search import least_between

_MOST = 2**22  # steps, after which a target counts as never reached


class NoisyQuadratic:
    r"""L = sum of h x^2 / 2 over directions; a sample's gradient is h x plus noise of variance v.

    Arguments: for each direction its `curvatures` h, its `variances` v and its `start` x, where 1
    stands for all alike. Raises ValueError for lists of unlike length and for what is not positive.
    Source: Zhang et al. 2019.

    >>> model = NoisyQuadratic(curvatures=[1.0, 0.5], variances=[2.0, 1.0])
    >>> model.loss, model.simple_batch, round(model.noise_batch, 3)
    (0.75, 2.4, 2.222)
    """

    def __init__(self, curvatures: Sequence[float], variances: Sequence[float], start=1.0):
        self.h, self.variances = np.asarray(curvatures, float), np.asarray(variances, float)
        self.squares = np.broadcast_to(np.asarray(start, float) ** 2, self.h.shape).copy()
        shapes = self.h.shape, self.variances.shape
        alike = shapes[0] == shapes[1] and self.h.ndim == 1 and self.h.size > 0
        require(alike, "NoisyQuadratic", "shapes", shapes, "two lists of one length")
        for name, values in (("curvatures", self.h), ("variances", self.variances)):
            good = bool((np.isfinite(values) & (values > 0)).all())
            require(good, "NoisyQuadratic", name, values.tolist(), "positive numbers")

    @property
    def loss(self) -> float:
        """The loss at the start."""
        return float(self._loss(self.squares))

    @property
    def simple_batch(self) -> float:
        """tr Sigma / |G|^2 at the start: what norms of gradients see."""
        return float(self.variances.sum() / (self.h**2 * self.squares).sum())

    @property
    def noise_batch(self) -> float:
        """tr(H Sigma) / G'HG at the start: what decides how much a step achieves."""
        return self._noise_batch(self.squares)

    @property
    def most_rate(self) -> float:
        """|G|^2 / G'HG at the start: the best rate of a step without noise."""
        return self._most_rate(self.squares)

    def gradients(self, batch: int, draw):
        """A gradient of every sample of a batch at the start, drawn: (batch, directions)."""
        noise = draw.normal(size=(batch, self.h.size)) * np.sqrt(self.variances)
        return self.h * np.sqrt(self.squares) + noise

    def losses(self, steps: int, batch: float, rate: float, momentum: float = 0.0):
        """The mean loss after 0, 1, ... `steps` steps: exact, in steps + 1 numbers."""
        moments, step = self._start(), self._step(batch, rate, momentum)
        found = [self._loss(moments)]
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(steps):
                moments = self._moved(step, moments)
                found.append(self._loss(moments))
        return np.array(found)

    def steps_to(self, target: float, batch: float, rate: float, momentum: float = 0.0) -> float:
        """Steps until the mean loss is `target`, with a fraction; infinite if it never is.

        Powers 1, 2, 4, ... of one step are made until the loss is reached, then taken back in
        turn. Between two steps the logarithm of the loss is a straight line.
        """
        require_positive("NoisyQuadratic.steps_to", target=target, batch=batch, rate=rate)
        if self.loss <= target:
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            return self._steps_to(target, self._step(batch, rate, momentum))

    def _steps_to(self, target: float, step) -> float:
        powers, moments, taken = [step], self._start(), 0
        while not self._loss(self._moved(powers[-1], moments)) <= target:
            if 2 ** len(powers) > _MOST or not np.isfinite(powers[-1]).all():
                return math.inf
            powers.append(powers[-1] @ powers[-1])
        for place in reversed(range(len(powers))):
            further = self._moved(powers[place], moments)
            if not self._loss(further) <= target:
                moments, taken = further, taken + 2**place
        before, after = self._loss(moments), self._loss(self._moved(step, moments))
        return taken + math.log(before / target) / math.log(before / after)

    def best_constant_rate(
        self, target: float, batch: float, momentum: float = 0.0
    ) -> tuple[float, float]:
        """(rate, steps): the constant rate that reaches `target` soonest at that batch size."""
        edge = math.log(2 * (1 + momentum) / float(self.h.max()))

        def steps(log_rate):
            return self.steps_to(target, batch, math.exp(log_rate), momentum)

        grid = np.linspace(edge - 12, edge - 1e-3, 49)
        counts = [steps(x) for x in grid]
        place = int(np.argmin(counts))
        allowed = f"above what noise leaves at a batch of {batch:g}"
        require(counts[place] < math.inf, "best_constant_rate", "target", target, allowed)
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, 48)])
        best = least_between(steps, low, high, steps=25)
        return math.exp(best), steps(best)

    def after(self, steps: float, batch: float, rate: float) -> "NoisyQuadratic":
        """The same loss where that many steps of plain SGD leave it on average; steps may be
        a fraction, since each square goes to its floor as a power of the steps.
        """
        keep = (1 - rate * self.h) ** 2
        floor = rate**2 * self.variances / batch / (1 - keep)
        squares = floor + keep**steps * (self.squares - floor)
        return NoisyQuadratic(self.h, self.variances, np.sqrt(squares))

    def _start(self):
        zeros = np.zeros_like(self.h)
        return np.stack([self.squares, zeros, zeros, zeros + 1], axis=1)

    def _step(self, batch: float, rate: float, momentum: float):
        """One step on (x^2, x v, v^2, 1) of each direction: v' = m v + g and x' = x - rate v'."""
        h, noise = self.h, self.variances / batch
        a, b, m, one = 1 - rate * h, np.full_like(h, -rate * momentum), momentum, np.ones_like(h)
        zero = 0 * one
        rows = [
            [a * a, 2 * a * b, b * b, rate**2 * noise],
            [a * h, a * m + b * h, b * m, -rate * noise],
            [h * h, 2 * h * m, m * m * one, noise],
            [zero, zero, zero, one],
        ]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    def _moved(self, power, moments):
        return np.einsum("dij,dj->di", power, moments)

    def _loss(self, moments):
        """Of squares alone, or of all moments, whose first column they are."""
        return (self.h * (moments[:, 0] if moments.ndim == 2 else moments)).sum() / 2

    def _noise_batch(self, squares) -> float:
        return float((self.h * self.variances).sum() / (self.h**3 * squares).sum())

    def _most_rate(self, squares) -> float:
        return float((self.h**2 * squares).sum() / (self.h**3 * squares).sum())
