"""Addition modulo a number, learned late: a model that knows its examples, and then the rule.

The sums a + b modulo m of unordered pairs; a part of them is trained on, all at once, and the rest
is the test. The model adds the two numbers' vectors, so it knows that a + b = b + a and nothing
else. It fits its examples within a few dozen steps; with weight decay it finds the rule, much
later, and without it never does. Source: Power et al. 2022; the model is simpler than theirs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import functional as F

from dtlib.formulas.require import require, require_count, require_not_negative

_WIDTH, _HIDDEN, _RATE = 64, 128, 3e-3


class Moment(NamedTuple):
    """What is true after so many steps: shares that are right, losses, and two quiet measures.

    `norm` is the length of all weights as one vector; `waves` the share of the numbers' vectors
    that four frequencies hold, see `wave_share`.
    """

    step: int
    train_right: float
    test_right: float
    train_loss: float
    test_loss: float
    norm: float
    waves: float


@dataclass(frozen=True)
class Addition:
    """The task and how it is learned: full batches, AdamW, so many steps.

    `fraction` of the pairs is trained on. Raises ValueError for a fraction that leaves no test.

    >>> Addition(modulus=5, fraction=0.8).sizes
    (12, 3)
    """

    modulus: int = 31
    fraction: float = 0.7
    weight_decay: float = 1.0
    steps: int = 2500
    seed: int = 0

    def __post_init__(self):
        require_count("Addition", modulus=self.modulus, steps=self.steps)
        require_not_negative("Addition", weight_decay=self.weight_decay)
        require(0 < self.fraction < 1, "Addition", "fraction", self.fraction, "between 0 and 1")

    @property
    def sizes(self) -> tuple[int, int]:
        """How many pairs are trained on, and how many are the test."""
        pairs = self.modulus * (self.modulus + 1) // 2
        return int(self.fraction * pairs), pairs - int(self.fraction * pairs)


class Adder(torch.nn.Module):
    """Logits of a + b from pairs [n, 2]: the sum of two vectors, one hidden layer."""

    def __init__(self, modulus: int, seed: int):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(rows, columns, generator=draw) / rows**0.5)

        self.numbers = torch.nn.Parameter(matrix(_WIDTH, modulus).detach().T.contiguous())
        self.hidden, self.head = matrix(_WIDTH, _HIDDEN), matrix(_HIDDEN, modulus)

    def forward(self, pairs_n2: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.numbers[pairs_n2].sum(dim=1) @ self.hidden) @ self.head


def wave_share(numbers_md: torch.Tensor, most: int = 4) -> float:
    """The share of a table's variance, over its rows 0, 1, ... m - 1, in its strongest frequencies.

    A rule for addition modulo m needs numbers on circles: rows that are waves of a few frequencies.
    Random rows spread over all (m - 1) / 2. Source: the measure of Nanda et al. 2023, simplified.

    >>> rows = torch.arange(12)[:, None] * 2 * torch.pi * 5 / 12
    >>> round(wave_share(torch.cat([rows.cos(), rows.sin()], 1), most=1), 3)
    1.0
    """
    power = torch.fft.rfft(numbers_md, dim=0)[1:].abs().square().sum(dim=1)
    return float(power.topk(min(most, len(power))).values.sum() / power.sum())


def learn_addition(task: Addition, every: int = 20) -> list[Moment]:
    """Train on the examples of the task; what is true at step 0 and after each `every` steps.

    The same task gives the same run on the same machine; on another one, the last digits differ
    and so, after hundreds of steps, may the step at which the test is solved.
    """
    pairs = torch.combinations(torch.arange(task.modulus), 2, with_replacement=True)
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(task.seed))
    known, new = (pairs[part] for part in order.split(task.sizes))
    model = Adder(task.modulus, task.seed)
    decay = {"lr": _RATE, "betas": (0.9, 0.98), "weight_decay": task.weight_decay}
    optimizer = torch.optim.AdamW(model.parameters(), **decay)
    moments = []
    for step in range(task.steps + 1):
        if step % every == 0:
            moments.append(_moment(step, model, known, new))
        loss = F.cross_entropy(model(known), known.sum(dim=1) % task.modulus)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return moments


@torch.no_grad()
def _moment(step: int, model: Adder, known: torch.Tensor, new: torch.Tensor) -> Moment:
    seen = []
    for pairs in (known, new):
        logits, sums = model(pairs), pairs.sum(dim=1) % len(model.numbers)
        right = (logits.argmax(dim=1) == sums).float().mean().item()
        seen.append((right, F.cross_entropy(logits, sums).item()))
    norm = sum(w.square().sum().item() for w in model.parameters()) ** 0.5
    (train_right, train_loss), (test_right, test_loss) = seen
    waves = wave_share(model.numbers)
    return Moment(step, train_right, test_right, train_loss, test_loss, norm, waves)
