"""Fit the loss surface to finished runs, and say how well the runs know it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.loss_surface import huber as law
from dtlib.scaling_laws.loss_surface.blind import require_seen
from dtlib.scaling_laws.loss_surface.resampled import middle_share
from dtlib.scaling_laws.loss_surface.runs import Runs
from dtlib.scaling_laws.loss_surface.surface import LossSurface

_ONE_BUDGET = 1.5  # budgets that lie within this factor are one
_CONSTANTS = ("E", "A", "alpha", "B", "beta")


class Prediction(NamedTuple):
    """A loss that a fit expects of a run: the law's, its interval, and that of a single run."""

    loss: float
    law: tuple[float, float]
    run: tuple[float, float]


@dataclass(frozen=True, eq=False)
class ParametricFit:
    """The surface that fits runs best, with what is left unexplained and how sure it is.

    `surface`; `runs`, those that were fitted; `E`, the least loss that was given, or None where it
    was fitted; `delta`, the border of Huber's penalty; `penalty`, its sum; `level`, `draws` and
    `seed` of the bootstrap.
    """

    surface: LossSurface
    runs: Runs
    E: float | None
    delta: float
    penalty: float
    level: float
    draws: int
    seed: int

    @cached_property
    def residuals(self):
        """For each run the logarithm of measured over fitted, of what was fitted.

        That is the loss, or where E was given, the loss above E.
        """
        fitted = self.surface(self.runs.N, self.runs.D)
        return np.log((self.runs.loss - (self.E or 0)) / (fitted - (self.E or 0)))

    @cached_property
    def drawn(self) -> LossSurface:
        """The surfaces of the resamples, as one: each of its constants is an array of `draws`.

        Cells, that is runs of one N and D, are drawn again with replacement, so that runs that
        differ in their seed alone are not taken for independent sizes.
        """
        points = _Points.of(self.runs, self.E)
        rng, cell = np.random.default_rng(self.seed), self.runs.cell
        chosen = rng.integers(self.runs.cells, size=(self.draws, self.runs.cells))
        counts = np.stack([np.bincount(row, minlength=self.runs.cells)[cell] for row in chosen])
        start = np.tile(points.numbers(self.surface), (self.draws, 1))
        return points.surface(points.descend(start, counts, self.delta)[0])

    @cached_property
    def interval(self) -> dict[str, tuple[float, float]]:
        """For each constant the middle `level` of the resamples."""
        return {name: self._middle(getattr(self.drawn, name)) for name in _CONSTANTS}

    def predict(self, N: float, D: float) -> Prediction:
        """The loss of a run of N parameters and D tokens, with two intervals.

        `law` is the middle `level` of the resampled surfaces at this place; `run` adds to each of
        them one of the residuals, since a single run scatters around the law. Neither knows of
        what is wrong with the law's form.
        """
        losses = self.drawn(N, D)
        rng = np.random.default_rng(self.seed + 1)
        scatter = np.exp(rng.choice(self.residuals, size=self.draws))
        base = self.E or 0
        single = base + (losses - base) * scatter
        return Prediction(float(self.surface(N, D)), self._middle(losses), self._middle(single))

    def _middle(self, values) -> tuple[float, float]:
        return middle_share(np.broadcast_to(values, (self.draws,)), self.level)

    def __repr__(self) -> str:
        known = " (given)" if self.E is not None else ""
        lines = [
            f"  {name:5} = {getattr(self.surface, name):.4g}"
            + (
                known
                if name == "E" and known
                else ", {:.4g} to {:.4g}".format(*self.interval[name])
            )
            for name in _CONSTANTS
        ]
        rms = float(np.sqrt(np.mean(self.residuals**2)))
        of = "loss above E" if known else "loss"
        title = (
            f"ParametricFit of {self.runs!r}\n  {self.level:.0%} intervals of {self.draws} refits"
        )
        return "\n".join([title, *lines, f"  residuals: {rms:.2%} of the {of} (root mean square)"])


def fit_parametric(
    runs: Runs,
    E: float | None = None,
    *,
    delta: float | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> ParametricFit:
    """The loss surface whose logarithm comes closest to that of measured losses.

    Equation: minimise the sum over runs of Huber(log L - log(E + A N^-alpha + B D^-beta)), whose
    penalty is a square below `delta` and linear above it, from 81 starts. With `E` given, the
    logarithms are those of L - E, and four numbers are fitted.
    Arguments: `delta`, 0.001 for losses, as Hoffmann et al. have it, and 0.02 for losses above a
    known E, which scatter by more; `level`, `draws` and `seed` of the bootstrap, which runs when an
    interval is first asked for.
    Returns a `ParametricFit`. Raises ValueError where too few sizes, one size, one length or one
    budget are there, and for a loss that is not above E; NotIdentified, with the direction, where
    the runs do not see what they are asked.
    Source: Hoffmann et al. 2022, their third approach; the bootstrap is Efron 1979.

    >>> law = LossSurface.besiroglu()
    >>> N, D = np.meshgrid(np.geomspace(1e8, 1e10, 6), np.geomspace(2e9, 2e11, 6))
    >>> fit = fit_parametric(Runs(N.ravel(), D.ravel(), law(N, D).ravel()))
    >>> round(fit.surface.alpha, 4), round(fit.surface.E, 3)
    (0.3478, 1.817)
    """
    _check(runs, E)
    delta = (0.001 if E is None else 0.02) if delta is None else delta
    require(delta > 0, "fit_parametric", "delta", delta, "above 0")
    require(0 < level < 1, "fit_parametric", "level", level, "between 0 and 1")
    points = _Points.of(runs, E)
    found, penalties = points.descend(points.starts(), np.ones((1, len(runs))), delta)
    best = found[[int(np.argmin(penalties))]]
    points.require_seen(best)
    surface = points.surface(best[0])
    return ParametricFit(surface, runs, E, delta, float(penalties.min()), level, draws, seed)


def _check(runs: Runs, E: float | None) -> None:
    """Refuse runs that cannot know what they are asked, and say what is missing."""
    owner, numbers = "fit_parametric", 5 if E is None else 4
    if E is not None:
        lowest = int(np.argmin(runs.loss))
        require(
            0 <= E < runs.loss[lowest], owner, "E", E,
            f"at least 0 and below every loss; row {lowest} has {runs.loss[lowest]:.6g}",
        )  # fmt: skip
    allowed = f"more than {numbers} different pairs of N and D, for {numbers} numbers are fitted"
    require(runs.cells > numbers, owner, "number of sizes", runs.cells, allowed)
    for name, what in (("N", "model sizes"), ("D", "numbers of tokens")):
        different = len(np.unique(getattr(runs, name)))
        require(different > 2, owner, what, different, f"3 or more: {name}'s power bends with them")
    span = float(runs.C.max() / runs.C.min())
    allowed = "several: along one, a larger model and fewer tokens cannot be told apart"
    budget = f"one budget, {runs.C.min():.3g} to {runs.C.max():.3g} FLOP"
    if span <= _ONE_BUDGET:
        raise ValueError(f"{owner}: runs have {budget}, but must have {allowed}")


class _Points(NamedTuple):
    """Runs as the fit sees them: centred logarithms of N and D, and of what is fitted."""

    x: object
    y: object
    v: object
    centre: tuple[float, float]
    E: float | None

    @classmethod
    def of(cls, runs: Runs, E: float | None) -> "_Points":
        x, y = np.log(runs.N), np.log(runs.D)
        centre = float(x.mean()), float(y.mean())
        return cls(x - centre[0], y - centre[1], np.log(runs.loss - (E or 0)), centre, E)

    @property
    def free(self) -> int:
        return 5 if self.E is None else 4

    def starts(self):
        """Rows to start from: how the middle loss may be shared out, and three powers for each."""
        middle, least = float(np.exp(np.median(self.v))), float(np.exp(self.v.min()))
        floors = [least * share for share in (0.3, 0.6, 0.9)] if self.E is None else [0.0]
        powers, shares = (0.2, 0.5, 1.0), (0.25, 0.5, 0.75)
        with np.errstate(divide="ignore"):
            return np.array([
                (np.log((middle - floor) * share), alpha,
                 np.log((middle - floor) * (1 - share)), beta, np.log(floor))
                for floor in floors for share in shares for alpha in powers for beta in powers
            ])  # fmt: skip

    def descend(self, t, counts, delta: float):
        return law.descend(t, self.x, self.y, self.v, counts, delta, self.free)

    def require_seen(self, t) -> None:
        """Raise NotIdentified for a direction that the runs do not see at the row `t` [1, 5]."""
        z, shares = law.predicted(t, self.x, self.y)
        moves = law.jacobian(shares, self.x, self.y)[0, :, : self.free]
        noise = 1.4826 * float(np.median(np.abs(self.v - z[0])))
        require_seen("fit_parametric", moves, law.NAMES[: self.free], noise)

    def numbers(self, surface: LossSurface):
        """The row of a surface."""
        a = np.log(surface.A) - surface.alpha * self.centre[0]
        b = np.log(surface.B) - surface.beta * self.centre[1]
        with np.errstate(divide="ignore"):
            e = np.log(surface.E if self.E is None else 0.0)
        return np.array([a, surface.alpha, b, surface.beta, e])

    def surface(self, t) -> LossSurface:
        """The surface of a row, or of many."""
        a, alpha, b, beta, e = np.asarray(t).T
        E = np.exp(e) if self.E is None else self.E + 0 * e.clip(-1, 1)
        A, B = np.exp(a + alpha * self.centre[0]), np.exp(b + beta * self.centre[1])
        return LossSurface(*(x if x.ndim else float(x) for x in (E, A, alpha, B, beta)))
