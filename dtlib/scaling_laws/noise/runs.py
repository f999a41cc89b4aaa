"""Runs at any batch size, until a loss is reached: the grid's models on the grid's language.

A run reads one stream of windows in order, however many it takes at a time. Its rate is constant,
so that nothing in it depends on where it will end; which rate is best is found by trying. Source:
McCandlish et al. 2018, whose experiment it is.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from dtlib.files import write_whole
from dtlib.formulas.require import require, require_count, require_positive
from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.models import grid_model
from dtlib.scaling_laws.grid.windows import Windows, window_loss

WIDTH = 32
JUDGED_ON = 2048  # words of the evaluation: it is made often
SAMPLE = "a window of 32 letters"
KINDS = ("adam", "sgd")
_DENSITY = 1.05  # steps between two evaluations, as a ratio


@dataclass(frozen=True)
class ToLoss:
    """One run: which optimizer, how many windows a step, at which rate, from which seed.

    Raises ValueError for another kind and for numbers that are no counts.
    """

    kind: str
    batch: int
    rate: float
    seed: int = 1

    def __post_init__(self):
        require(self.kind in KINDS, "ToLoss", "kind", self.kind, " or ".join(map(repr, KINDS)))
        require_count("ToLoss", batch=self.batch, seed=self.seed)
        require_positive("ToLoss", rate=self.rate)

    @property
    def name(self) -> str:
        """A name of its own, which a file may have."""
        return f"{self.kind}-{self.batch}-{self.rate:.4g}-s{self.seed}"


class Learner:
    """A model that learns from the stream, some windows at a time; `step` and `consumed` count."""

    def __init__(self, language: ZipfWords, run: ToLoss, width: int = WIDTH):
        self.model = grid_model(width, run.seed, language.letters)
        self.optimizer = _optimizer(self.model, run)
        self.windows = Windows(language, run.seed)
        self.step, self.consumed = 0, 0

    def learn(self, batch: int) -> None:
        """One step on the next `batch` windows."""
        self.optimizer.zero_grad()
        window_loss(self.model, self.windows.read(self.consumed, batch)).backward()
        self.optimizer.step()
        self.step, self.consumed = self.step + 1, self.consumed + batch


def train_to(
    run: ToLoss,
    targets: Iterable[float],
    evaluation: QuantileText,
    most_steps: float = math.inf,
    width: int = WIDTH,
) -> dict[float, float | None]:
    """Steps until L - E is first below each target, or None where the run did not get there.

    L - E is evaluated every few per cent of the steps; between two evaluations its logarithm is a
    straight line in that of the steps. A run ends at its lowest target, after `most_steps`, or
    when it diverges.
    """
    targets = sorted(targets, reverse=True)
    learner, due = Learner(evaluation.language, run, width), 12
    found: dict[float, float | None] = dict.fromkeys(targets)
    before = (1, math.inf)
    while learner.step < most_steps and found[targets[-1]] is None:
        learner.learn(run.batch)
        if learner.step < due:
            continue
        due = math.ceil(due * _DENSITY)
        now = learner.step, evaluation.excess(learner.model).nats
        if not now[1] < 4:
            break
        for target in targets:
            if found[target] is None and now[1] < target:
                found[target] = round(_crossing(before, now, target), 2)
        before = now
    return found


def _crossing(before: tuple[int, float], now: tuple[int, float], target: float) -> float:
    if before[1] == math.inf:
        return now[0]
    part = math.log(before[1] / target) / math.log(before[1] / now[1])
    return before[0] * (now[0] / before[0]) ** part


def climb(
    kind: str,
    batch: int,
    guess: int,
    targets: Iterable[float],
    evaluate: Callable[[ToLoss, float], dict[float, float | None]],
    seed: int = 1,
) -> int:
    """Try rates sqrt(2) apart until, for every target, the best has a worse one on either side.

    `guess` and what returns, the best for the lowest target, are the rate's place k in 2^(k/2).
    A run may take three times as long as the best so far.
    """
    tried: dict[int, dict[float, float | None]] = {}

    def steps(place: int, target: float) -> float:
        if place not in tried:
            known = [found[lowest] for found in tried.values() if found[lowest]]
            most = 3 * min(known, default=math.inf)
            tried[place] = evaluate(ToLoss(kind, batch, 2 ** (place / 2), seed), most)
        return tried[place][target] or math.inf

    lowest, best = min(targets), guess
    for target in sorted(targets):
        while True:
            near = min((best, best + 1, best - 1), key=lambda place: steps(place, target))
            if near == best:
                break
            best = near
        if target == lowest:
            found = best
    return found


def stored(folder: Path, evaluation: QuantileText, targets: Iterable[float]):
    """`train_to`, of which a folder keeps what was found: a second call with it trains nothing."""
    folder.mkdir(parents=True, exist_ok=True)

    def evaluate(run: ToLoss, most_steps: float) -> dict[float, float | None]:
        path = folder / f"{run.name}.json"
        if not path.exists():
            found = train_to(run, targets, evaluation, most_steps)
            steps = [[target, count] for target, count in found.items()]
            write_whole(path, json.dumps(asdict(run) | {"steps": steps}))
        return dict(json.loads(path.read_text())["steps"])

    return evaluate


def _optimizer(model, run: ToLoss) -> torch.optim.Optimizer:
    if run.kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=run.rate)
    return torch.optim.Adam(model.parameters(), lr=run.rate, betas=(0.9, 0.98), fused=True)


@dataclass(frozen=True)
class Squares:
    """Squared norms at one place of a run: lists of means over parts, and of whole batches."""

    step: int
    excess: float
    small: tuple[float, ...]
    large: tuple[float, ...]


def noise_along(
    run: ToLoss, places: Iterable[int], evaluation: QuantileText, pairs: int, small: int, large: int
) -> list[Squares]:
    """Measure the gradient's squares at steps of a run: `pairs` batches of `large` windows each.

    Each batch is cut into parts of `small` windows, whose gradients' mean is the batch's. They are
    of another stream than the run's, so that nothing has been seen.
    """
    learner, found = Learner(evaluation.language, run), []
    unseen = Windows(evaluation.language, run.seed + 1000)
    for place in sorted(places):
        while learner.step < place:
            learner.learn(run.batch)
        texts = (unseen.read(pair * large, large) for pair in range(pairs))
        norms = [_pair(learner.model, text, small) for text in texts]
        excess = evaluation.excess(learner.model).nats
        found.append(Squares(place, excess, *map(tuple, zip(*norms, strict=True))))
    return found


def _pair(model, text_bs: torch.Tensor, small: int) -> tuple[float, float]:
    parts, weights = text_bs.split(small), list(model.parameters())
    gradients = [
        torch.cat([g.flatten() for g in torch.autograd.grad(window_loss(model, part), weights)])
        for part in parts
    ]
    squares = [gradient.double().pow(2).sum().item() for gradient in gradients]
    mean = torch.stack(gradients).mean(dim=0)
    return sum(squares) / len(squares), mean.double().pow(2).sum().item()
