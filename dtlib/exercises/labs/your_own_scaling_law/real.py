"""The lab's models: the book's grid, seen through the three names that `row` knows."""

import copy
import time
from functools import cache

import torch

from dtlib.scaling_laws.grid import QuantileText, Trunk, ZipfWords
from dtlib.scaling_laws.grid.cells import RATE
from dtlib.scaling_laws.grid.trunk import STEP_TOKENS

WORDS = 4096  # that a loss is a mean over
_TRIED = 24  # steps that measure a pace


class ModelLearner:
    """A model of the grid: `learn(share)`, `step`, and `loss()`, which is L - E in nats per letter.

    Arguments: its `width`, and the `seed` of its weights and its text.
    """

    def __init__(self, width: int, seed: int):
        torch.set_num_threads(1)
        self.trunk = Trunk(_evaluation(), width, seed, RATE)

    @property
    def step(self) -> int:
        return self.trunk.step

    def learn(self, share: float) -> None:
        self.trunk.learn(share)

    def loss(self) -> float:
        return self.trunk.excess().nats

    def __deepcopy__(self, memo: dict) -> "ModelLearner":
        twin = copy.copy(self)
        twin.trunk = self.trunk.copied()
        return twin

    def __repr__(self) -> str:
        return f"model of width {self.trunk.model.spec.hidden} after {self.step} steps"


def step_seconds(width: int) -> float:
    """The seconds of a step of this width on this rank's core, from a few of them."""
    learner = ModelLearner(width, seed=0)
    learner.learn(0.0)
    start = time.perf_counter()
    for _ in range(_TRIED):
        learner.learn(0.0)
    return (time.perf_counter() - start) / _TRIED


def tokens(steps: int) -> int:
    """D of so many steps."""
    return steps * STEP_TOKENS


@cache
def _evaluation() -> QuantileText:
    return QuantileText(ZipfWords(), words=WORDS)
