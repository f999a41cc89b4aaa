"""Weights that are kept in few bits, and four ways to add small steps to them.

The noun is `KeptWeights`: an optimizer that computes in float32, and what its weights are rounded
to between two steps. `walk` is the same for one number.
"""

import torch

from dtlib.efficiency.precision.formats import FloatFormat
from dtlib.efficiency.precision.rounding import cast
from dtlib.formulas.require import require, require_count
from dtlib.later import np

CARRYING = ("kahan", "master")  # what the rounding has lost, to the next step
WAYS = ("nearest", "stochastic", *CARRYING)


class KeptWeights:
    """An optimizer whose weights are numbers of `kind` between two steps.

    "nearest" and "stochastic" round the new weight. "kahan" keeps beside it, also in `kind`, what
    the rounding has lost, and adds it before the next rounding. "master" keeps the weight in
    float32 for the optimizer, and rounds a copy for the model.

    Arguments: `optimizer` of float32 weights; `kind`; `way`, of these four; `generator` for
    "stochastic".
    Raises ValueError for another way; TypeError for weights that are not float32.
    Source: Micikevicius et al. 2018 (master), Gupta et al. 2015 (stochastic), Zamirai et al. 2020.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, kind: FloatFormat, way: str = "master",
                 generator: torch.Generator | None = None):  # fmt: skip
        require(way in WAYS, "KeptWeights", "way", way, f"one of {WAYS}")
        self.optimizer, self.kind, self.way, self.generator = optimizer, kind, way, generator
        self.weights = [p for group in optimizer.param_groups for p in group["params"]]
        for p in self.weights:
            if p.dtype != torch.float32:
                raise TypeError(f"KeptWeights: weights must be float32, got {p.dtype}")
        self.beside = [torch.zeros_like(p) for p in self.weights]  # what the rounding has lost
        self._keep()

    @torch.no_grad()
    def step(self) -> None:
        """One step of the optimizer, and a rounding."""
        if self.way == "master":
            for p, lost in zip(self.weights, self.beside, strict=True):
                p.add_(lost)  # exact: the two are the float32 weight, cut in two
        self.optimizer.step()
        self._keep()

    def zero_grad(self) -> None:
        """As of an optimizer."""
        self.optimizer.zero_grad()

    @torch.no_grad()
    def _keep(self) -> None:
        for p, beside in zip(self.weights, self.beside, strict=True):
            due = p + beside if self.way == "kahan" else p
            kept, lost = _cut(due, self.kind, self.way, self.generator)
            p.copy_(kept)
            if self.way in CARRYING:
                beside.copy_(lost)


def walk(start: float, step: float, count: int, kind: FloatFormat, way: str, seed: int = 0):
    """Where a number is that is kept in `kind`, after 0, 1, ..., count equal steps.

    Arguments: `start`; `step`, added `count` times; `way`, as of `KeptWeights`; `seed` for
    "stochastic". Returns a numpy array of count + 1 numbers of `kind`.

    >>> from dtlib.efficiency.precision.formats import BF16
    >>> for way in ("nearest", "kahan", "master"):
    ...     print(way, float(walk(1.0, 0.001, 500, BF16, way)[-1]))
    nearest 1.0
    kahan 1.5
    master 1.5
    """
    require(way in WAYS, "walk", "way", way, f"one of {WAYS}")
    require_count("walk", 0, count=count)
    generator, at, lost = np.random.default_rng(seed), cast(float(start), kind), 0.0
    found = [at]
    for _ in range(count):
        due = at + lost + step if way in CARRYING else at + step
        at, lost = (part.item() for part in _cut(np.array([due]), kind, way, generator))
        found.append(at)
    return np.array(found)


def _cut(due, kind: FloatFormat, way: str, generator):
    """A number as it is kept, and what its rounding has lost, as it is carried."""
    rounding = "stochastic" if way == "stochastic" else "nearest"
    kept = cast(due, kind, rounding, generator=generator)
    return kept, cast(due - kept, kind) if way == "kahan" else due - kept
