"""What the lab trains: a bag of words that learns which of them praise, on P ranks in one process.

The race on it is exact: gradients, messages and bytes are those of real ranks, and its seconds are
those of a link that is written down. So whoever runs it finds the same.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.efficiency.compression.compressor import Compressor
from dtlib.efficiency.compression.programs import WireMeter, together
from dtlib.parallelism.data.flat import Flat

WORDS_OF_TEXT, REVIEWS = 12, 16  # words of a review, reviews of a rank in a step
AVERAGED = 8  # steps that a loss is a mean over
COMMON = 30  # words that are about as frequent as the first


@dataclass(frozen=True)
class Link:
    """What a rank's cable does: a message starts in `alpha` s, and `beta` bytes/s follow it."""

    alpha: float = 50e-6
    beta: float = 1e9 / 8

    def seconds(self, sent: float, messages: int) -> float:
        """The time of so many bytes in so many messages, one after the other."""
        return messages * self.alpha + sent / self.beta


@dataclass(frozen=True)
class Task:
    """The reviews and the model: so many `words`, and `hidden` numbers for each of them.

    `computing`: the seconds of a rank for its gradient in one step, as they are counted; `rate`,
    Adam's.
    """

    words: int = 2000
    hidden: int = 32
    computing: float = 1e-3
    rate: float = 0.003

    @property
    def numbers(self) -> int:
        """How long a gradient is."""
        return self.words * self.hidden + 2 * self.hidden + 2

    def model(self) -> nn.Module:
        """The same model on every rank."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return nn.Sequential(
                nn.EmbeddingBag(self.words, self.hidden), nn.Linear(self.hidden, 2)
            )

    def loss(self, model: nn.Module, number: int) -> torch.Tensor:
        """The loss of one batch of reviews, whose words come from its number alone."""
        draw = torch.Generator().manual_seed(number)
        words = torch.multinomial(
            self._chances, REVIEWS * WORDS_OF_TEXT, replacement=True, generator=draw
        ).view(REVIEWS, WORDS_OF_TEXT)
        praise = (self._opinions[words].sum(1) > 0).long()
        return F.cross_entropy(model(words), praise)

    @cached_property
    def _chances(self) -> torch.Tensor:
        return 1 / (torch.arange(self.words, dtype=torch.float64) + COMMON)

    @cached_property
    def _opinions(self) -> torch.Tensor:
        draw = torch.Generator().manual_seed(0)
        return torch.randn(self.words, generator=draw, dtype=torch.float64)


@dataclass(frozen=True)
class Lane:
    """One lane of a race: a `loss` for each step, and what a rank has sent in all of them."""

    losses: tuple[float, ...]
    bytes: float
    messages: int
    computing: float

    def step_seconds(self, link: Link) -> float:
        """A step on a link, on average, where nothing overlaps and coding takes no time."""
        steps = len(self.losses)
        return self.computing + link.seconds(self.bytes, self.messages) / steps

    def mean(self, step: int) -> float:
        """The mean of the losses of the last few steps before this one."""
        return sum(self.losses[step - AVERAGED : step]) / AVERAGED

    def steps_to(self, loss: float) -> int | None:
        """The first step before which the mean is as low; None where there is none."""
        steps = range(AVERAGED, len(self.losses) + 1)
        return next((step for step in steps if self.mean(step) <= loss), None)

    def seconds_to(self, loss: float, link: Link) -> float:
        """The time to a loss, infinite if the lane never gets there."""
        steps = self.steps_to(loss)
        return float("inf") if steps is None else steps * self.step_seconds(link)


@contextmanager
def one_thread():
    """Small tensors are slower on several threads, and several ranks share the cores anyway."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def race(
    compressor: Compressor,
    *,
    steps: int = 200,
    until: Callable[[Lane], bool] = lambda lane: False,
    P: int = 4,
    task: Task = Task(),
) -> Lane:
    """Train with a compressor on P ranks in this process, or `until` the lane needs no more.

    Raises ValueError where ranks end up with other means than rank 0: then their models part.
    """
    model, meter = task.model(), WireMeter(P)
    weights, flat = list(model.parameters()), Flat(model.parameters())
    ranks, adam, losses = (
        [compressor.fresh() for _ in range(P)],
        torch.optim.Adam(weights, task.rate),
        [],
    )
    for step in range(steps):
        batch = [task.loss(model, step * P + rank) for rank in range(P)]
        vectors = [flat.lay_out(torch.autograd.grad(loss, weights)) for loss in batch]
        programs = [c.program(x, flat.shapes) for c, x in zip(ranks, vectors, strict=True)]
        means = [sent.mean for sent in together(programs, meter)]
        if any(not torch.equal(mean, means[0]) for mean in means):
            raise ValueError(f"step {step}: ranks end up with different means")
        for weight, part in zip(weights, flat.cut(means[0]), strict=True):
            weight.grad = part.clone()
        adam.step()
        losses.append(sum(loss.item() for loss in batch) / P)
        lane = Lane(tuple(losses), meter.bytes, meter.collectives, task.computing)
        if until(lane):
            break
    return lane
