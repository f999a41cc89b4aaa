"""The lab's runs: the smallest of the grid's models, until a loss is reached."""

import math
from collections.abc import Callable
from functools import cache

import torch

from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.windows import Windows, window_loss
from dtlib.scaling_laws.noise.runs import Learner, ToLoss, train_to

WIDTH = 16
TARGET = 0.7  # L - E, in nats per letter
MOST_STEPS = 3000
WORDS = 512  # that a loss is a mean over


def steps_at(batch: int, seeds: tuple[int, ...]) -> Callable[[int], float]:
    """For one batch: a function from a rate's place k, of 2^(k/2), to the steps until TARGET.

    They are the geometric mean over `seeds`, and infinite where a run does not get there.
    """
    torch.set_num_threads(1)

    def steps(place: int) -> float:
        runs = [ToLoss("adam", batch, 2 ** (place / 2), seed) for seed in seeds]
        found = [train_to(run, [TARGET], _evaluation(), MOST_STEPS, WIDTH)[TARGET] for run in runs]
        return math.exp(sum(math.log(n) if n else math.inf for n in found) / len(found))

    return steps


class Learned:
    """A model that has learned for so many steps of 32 windows; `gradient(number, windows)`."""

    def __init__(self, steps: int):
        torch.set_num_threads(1)
        language = ZipfWords()
        learner = Learner(language, ToLoss("adam", 32, 2**-4), WIDTH)
        for _ in range(steps):
            learner.learn(32)
        self.model, self.unseen = learner.model, Windows(language, seed=7)

    def gradient(self, number: int, windows: int) -> torch.Tensor:
        """The flat gradient on `windows` unseen windows, the batch of this number."""
        loss = window_loss(self.model, self.unseen.read(number * windows, windows))
        found = torch.autograd.grad(loss, list(self.model.parameters()))
        return torch.cat([gradient.flatten() for gradient in found]).double()

    def excess(self) -> float:
        """L - E in nats per letter."""
        return _evaluation().excess(self.model).nats


@cache
def _evaluation() -> QuantileText:
    return QuantileText(ZipfWords(), words=WORDS)
