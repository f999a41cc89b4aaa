"""The recorded runs of chapter 10: steps to a loss at each batch and rate, and norms on the way."""

import math
from dataclasses import dataclass
from functools import cache

from dtlib import recordings
from dtlib.formulas.require import require
from dtlib.scaling_laws.noise.estimate import NoiseScale, noise_scale

NAME = "batch-sizes"


@dataclass(frozen=True)
class Reached:
    """One run: `steps` until L - E was below each target, without those that it did not reach."""

    kind: str
    batch: int
    rate: float
    seed: int
    steps: dict[float, float]


@dataclass(frozen=True)
class Best:
    """The best rate at a batch and the steps with it: the top of a parabola through three runs."""

    batch: int
    rate: float
    steps: float

    @property
    def samples(self) -> float:
        """Windows that the run has read."""
        return self.batch * self.steps


@dataclass(frozen=True)
class NoisePlace:
    """A place of a run, with the noise scale that was measured there, in windows."""

    batch: int
    rate: float
    step: int
    excess: float
    scale: NoiseScale


def recorded_to_loss(kind: str, seed: int = 1, name: str = NAME) -> tuple[Reached, ...]:
    """The recorded runs of an optimizer, "adam" or "sgd", by batch and rate.

    >>> run = recorded_to_loss("adam")[0]
    >>> run.kind, run.batch
    ('adam', 4)
    """
    kinds = sorted({run.kind for run in _runs(name)})
    require(kind in kinds, "recorded_to_loss", "kind", kind, " or ".join(map(repr, kinds)))
    return tuple(run for run in _runs(name) if (run.kind, run.seed) == (kind, seed))


def recorded_best(kind: str, target: float, name: str = NAME) -> tuple[Best, ...]:
    """For each batch the best rate to a target, and the steps: by a parabola in the logarithms.

    Raises ValueError for a target that no run has, with those that there are.
    """
    runs = recorded_to_loss(kind, name=name)
    targets = sorted({target for run in runs for target in run.steps})
    require(target in targets, "recorded_best", "target", target, f"one of {targets}")
    batches = sorted({run.batch for run in runs})
    return tuple(_best(batch, target, [run for run in runs if run.batch == batch])
                 for batch in batches)  # fmt: skip


def recorded_noise(name: str = NAME) -> tuple[NoisePlace, ...]:
    """The noise scale along the recorded runs, by batch and step."""
    return tuple(
        NoisePlace(place["batch"], place["rate"], place["step"], place["excess"],
                   noise_scale(place["small_squares"], place["large_squares"],
                               place["small"], place["large"]))
        for place in recordings.load(name).about["noise"]
    )  # fmt: skip


def _best(batch: int, target: float, runs: list[Reached]) -> Best:
    points = sorted((math.log(run.rate), math.log(run.steps[target]))
                    for run in runs if target in run.steps)  # fmt: skip
    place = min(range(len(points)), key=lambda i: points[i][1])
    if not 0 < place < len(points) - 1:
        return Best(batch, math.exp(points[place][0]), math.exp(points[place][1]))
    (x0, y0), (x1, y1), (x2, y2) = points[place - 1 : place + 2]
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = (right - left) / (x2 - x0)
    x = (x0 + x1) / 2 - left / (2 * bend)
    return Best(batch, math.exp(x), math.exp(y0 + left * (x - x0) + bend * (x - x0) * (x - x1)))


@cache
def _runs(name: str) -> tuple[Reached, ...]:
    found = (
        Reached(run["kind"], run["batch"], run["rate"], run["seed"],
                {target: steps for target, steps in run["steps"] if steps})
        for run in recordings.load(name).about["runs"]
    )  # fmt: skip
    return tuple(sorted(found, key=lambda run: (run.kind, run.batch, run.rate, run.seed)))
