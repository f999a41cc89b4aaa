"""A trunk that learns at a constant rate, and branches that decay: one run for all budgets.

A run's rate rises over its first steps, stays, and falls to zero over its last fifth. Until it
falls, nothing of a run says how long it will be: runs of 1, 2, 4 ... Mi tokens share all but their
last fifths. So one trunk a width is trained, and at four fifths of each budget a branch leaves it,
decays by itself and never comes back. Source: Hu et al. 2024; Hägele et al. 2024.
"""

import copy
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch

from dtlib.files import whole_file
from dtlib.formulas.require import require
from dtlib.scaling_laws.grid.excess import Excess, QuantileText
from dtlib.scaling_laws.grid.models import grid_model, grid_optimizer
from dtlib.scaling_laws.grid.warmth import WARM_UP, decay_start, rate_factor
from dtlib.scaling_laws.grid.windows import SEQ, Windows, window_loss

BATCH = 32  # windows of a step
STEP_TOKENS = BATCH * SEQ
_POINTS = 4  # of a curve, for each doubling of the tokens


class Trunk:
    """A run at the full rate, which can be branched, saved and resumed, to the same digits.

    Arguments: `evaluation`, the QuantileText that judges it, of a language that it learns; `width`
    of the model; `seed` of its weights and of its text, which widths of one seed share; `rate` and
    `rule` as in `grid_optimizer`.
    `curve` has a point (tokens, mean training loss since the last point, L - E) for each fourth of
    a doubling; `seconds` are those spent training.
    """

    def __init__(
        self, evaluation: QuantileText, width: int, seed: int, rate: float, rule: str = "mup"
    ):
        self.evaluation, self.seed = evaluation, seed
        self.windows = Windows(evaluation.language, seed)
        self.model = grid_model(width, seed, evaluation.language.letters)
        self.optimizer = grid_optimizer(self.model, rate, rule)
        self.step, self.seconds = 0, 0.0
        self.curve: list[tuple[int, float, float]] = []
        self._losses: list[float] = []

    def learn(self, factor: float) -> float:
        """One step at a share of the full rate; returns the loss before it, nats per letter."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        loss = window_loss(self.model, self.windows.read(self.step * BATCH, BATCH))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def train(
        self,
        until: int,
        steps: float = math.inf,
        on_step: Callable[["Trunk"], None] | None = None,
    ) -> "Trunk":
        """Go on until that step, as a run of `steps` steps; `on_step` is called after each."""
        allowed = f"at least {self.step}, the steps that are done"
        require(until >= self.step, "Trunk.train", "until", until, allowed)
        while self.step < until:
            began = time.perf_counter()
            self._losses.append(self.learn(rate_factor(self.step, steps)))
            self.seconds += time.perf_counter() - began
            if steps == math.inf and self.step in _curve_steps(self.step):
                self.mark()
            if on_step:
                on_step(self)
        return self

    def branch(
        self, steps: int, points: int = 4, on_step: Callable[["Trunk"], None] | None = None
    ) -> "Trunk":
        """A copy that ends after `steps` steps: the run that this trunk would have been.

        Its curve has the branch's start and then `points` of the decay, the last at its end.
        Raises ValueError where the trunk has gone beyond the start of that decay.
        """
        start = decay_start(steps)
        allowed = f"at most {start}, where a run of {steps} steps begins to decay"
        require(self.step <= start, "Trunk.branch", "step", self.step, allowed)
        self.train(start, on_step=on_step)
        branch = self.copied()
        branch.curve = []
        branch.mark()
        for point in range(1, points + 1):
            branch.train(start + point * (steps - start) // points, steps, on_step)
            if steps - start >= points or point == points:
                branch.mark()
        return branch

    def copied(self) -> "Trunk":
        """The same trunk once more, which goes on by itself."""
        twin = copy.copy(self)
        twin.model, twin.optimizer = copy.deepcopy((self.model, self.optimizer))
        twin.curve, twin._losses = list(self.curve), list(self._losses)
        return twin

    def excess(self) -> Excess:
        """L - E of the model as it is now."""
        return self.evaluation.excess(self.model)

    def mark(self) -> None:
        """Add a point to the curve, and begin a new mean of the training loss."""
        mean = math.fsum(self._losses) / len(self._losses) if self._losses else math.nan
        self.curve.append((self.step * STEP_TOKENS, mean, self.excess().nats))
        self._losses = []

    def save(self, path: Path) -> None:
        """All that the next step depends on, in a file that is replaced whole."""
        state = {name: getattr(self, name) for name in ("step", "seconds", "curve", "_losses")}
        state |= {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        with whole_file(path) as file:
            torch.save(state, file)

    def load(self, path: Path) -> "Trunk":
        """Take up what `save` left."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state.pop("model"))
        self.optimizer.load_state_dict(state.pop("optimizer"))
        vars(self).update(state)
        return self


def _curve_steps(step: int) -> set[int]:
    """The curve's points next to a step: a quarter of a doubling apart, from the warm-up's end."""
    if step < WARM_UP:
        return set()
    place = _POINTS * math.log2(step / WARM_UP)
    return {round(WARM_UP * 2 ** (k / _POINTS)) for k in (math.floor(place), math.ceil(place))}
