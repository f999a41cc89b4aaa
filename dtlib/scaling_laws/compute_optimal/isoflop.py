"""Approach 2: at each budget a parabola through the losses, and a line through its lowest points.

The nouns: `Parabola`, what one budget says, or why it says nothing; `IsoFlops`, all of them and the
power law through the best models of those that do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dtlib.errors import DtlibError
from dtlib.formulas.require import require, require_count
from dtlib.later import np
from dtlib.scaling_laws.compute_optimal.power_law import PowerLaw, line_through
from dtlib.scaling_laws.loss_surface.resampled import middle_share
from dtlib.scaling_laws.loss_surface.runs import Runs

FEWEST_POINTS = 4  # one more than a parabola has numbers: else nothing says how good it is
SAME_BUDGET = 1.01


class NoOptimum(DtlibError, ValueError):
    """Runs that do not show where the best model is; the message says of each budget why."""


@dataclass(frozen=True)
class Parabola:
    """log L = c2 (x - m)^2 + c1 (x - m) + c0 in x = log N, through the points of one budget.

    `params` and `losses` are the points within the window, `middle` the mean m of their x, and
    `coefficients` (c2, c1, c0). `refused` says why it has no lowest point that counts, or is "".
    """

    budget: float
    params: tuple[float, ...]
    losses: tuple[float, ...]
    middle: float
    coefficients: tuple[float, float, float]
    refused: str = ""

    @property
    def best(self) -> float:
        """N* at this budget: exp(m - c1 / 2 c2). Raises NoOptimum where it was refused."""
        if self.refused:
            raise NoOptimum(f"budget {self.budget:.3g} FLOP: {self.refused}")
        curvature, slope, _ = self.coefficients
        return float(np.exp(self.middle - slope / (2 * curvature)))

    @property
    def lowest(self) -> float:
        """The loss at its lowest point."""
        return float(self.loss(self.best))

    def loss(self, params):
        """The parabola's loss of models of so many parameters."""
        return np.exp(np.polyval(self.coefficients, np.log(params) - self.middle))

    @property
    def residuals(self):
        """log L of each point, less the parabola's."""
        return np.log(self.losses) - np.log(self.loss(np.array(self.params)))


@dataclass(frozen=True)
class IsoFlops:
    """The parabolas by budget, and the `law` through the lowest points of those that have one."""

    parabolas: tuple[Parabola, ...]
    law: PowerLaw

    @property
    def used(self) -> tuple[Parabola, ...]:
        """Those that have a lowest point."""
        return tuple(one for one in self.parabolas if not one.refused)

    @property
    def refused(self) -> dict[float, str]:
        """The other budgets, with the reason."""
        return {one.budget: one.refused for one in self.parabolas if one.refused}


def fit_isoflop(runs: Runs, window: float = 3.0, resamples: int = 400, seed: int = 0) -> IsoFlops:
    """Find N*(C) from runs that share budgets: a parabola for each, and a line through their feet.

    Arguments: `runs`; `window`, the points of a budget that count lie within this factor of N of
    its lowest; `resamples`, of which the interval is made, and their `seed`: each draws the losses
    anew around the parabolas, with the scatter of the residuals, and the budgets with replacement.
    A budget is refused if it has fewer than four points there, if its lowest point is at an end,
    or if the parabola's lowest point lies outside of its points: none is extrapolated.
    Raises NoOptimum if fewer than two budgets remain, with the reasons. Source: Hoffmann et al.
    2022, approach 2; the window and the interval are ours.

    >>> from dtlib.scaling_laws.compute_optimal.synthetic import isoflop_runs
    >>> from dtlib.scaling_laws.loss_surface.surface import LossSurface
    >>> runs = isoflop_runs(LossSurface.besiroglu(), [1e19, 1e20, 1e21])
    >>> found = fit_isoflop(runs)
    >>> len(found.used), f"{found.law.exponent:.4f}"
    (3, '0.5126')
    """
    require(window > 1, "fit_isoflop", "window", window, "a factor above 1")
    require_count("fit_isoflop", resamples=resamples)
    parabolas = tuple(_parabola(budget, some, window) for budget, some in by_budget(runs).items())
    used = [one for one in parabolas if not one.refused]
    if len(used) < 2:
        raise NoOptimum(_too_few(parabolas, len(used)))
    budgets = np.array([one.budget for one in used])
    coefficient, exponent = line_through(budgets, [one.best for one in used])
    interval = middle_share(_resampled(used, budgets, resamples, seed))
    return IsoFlops(parabolas, PowerLaw(coefficient, exponent, interval))


def at_budgets(runs: Runs, budgets: Sequence[float], floor: float = 0.0) -> Runs:
    """What models would reach at exactly these budgets, for grids of runs that do not share any.

    Between two runs of one size log(loss - floor) is a line in log D; nothing is extrapolated.
    Arguments: `budgets` in FLOP; `floor`, a loss that all runs are above: the better it is known,
    the straighter are the lines. Raises ValueError for a floor that a run is not above, and where
    no size has runs on both sides of a budget.

    >>> runs = Runs(N=[1e6] * 2, D=[1e8, 4e8], loss=[3.0, 2.0])
    >>> found = at_budgets(runs, [1.2e15, 1e20], floor=1.0)
    >>> found.D.tolist(), round(float(found.loss[0]), 4)
    ([200000000.0], 2.4142)
    """
    least = float(runs.loss.min())
    require(floor < least, "at_budgets", "floor", floor, f"below the lowest loss, {least:.4g}")
    found = []
    for size in np.unique(runs.N):
        D, losses = (column[size == runs.N] for column in (runs.D, runs.loss))
        tokens = np.unique(D)
        means = [np.log(losses[one == D] - floor).mean() for one in tokens]
        wanted = np.asarray(budgets, dtype=float) / (6 * size)
        inside = wanted[(wanted >= tokens[0] * 0.999) & (wanted <= tokens[-1] * 1.001)]
        excess = np.exp(np.interp(np.log(inside), np.log(tokens), means))
        found += [(size, one, floor + above) for one, above in zip(inside, excess, strict=True)]
    require(bool(found), "at_budgets", "budgets", list(budgets), "between runs of one size")
    return Runs(*zip(*found, strict=True))


def _too_few(parabolas: Sequence[Parabola], used: int) -> str:
    reasons = [f"{one.budget:.3g} FLOP: {one.refused}" for one in parabolas if one.refused]
    return "; ".join(
        [
            f"fit_isoflop: {used} of {len(parabolas)} budgets show a best model; a line needs 2",
            *reasons,
        ]
    )


def by_budget(runs: Runs) -> Mapping[float, tuple]:
    """The runs of each budget, as arrays (N, loss) by N; budgets within a hundredth are one.

    Of several runs of one size and budget the mean loss counts.
    """
    order = np.argsort(runs.C, kind="stable")
    steps = np.diff(np.log(runs.C[order])) > np.log(SAME_BUDGET)
    groups = np.split(order, np.flatnonzero(steps) + 1)
    return {float(np.median(runs.C[some])): _by_size(runs, some) for some in groups}


def _by_size(runs: Runs, some) -> tuple:
    sizes = np.unique(runs.N[some])
    losses = [runs.loss[some][runs.N[some] == size].mean() for size in sizes]
    return sizes, np.array(losses)


def _parabola(budget: float, points: tuple, window: float) -> Parabola:
    sizes, losses = points
    lowest = int(losses.argmin())
    near = np.abs(np.log(sizes / sizes[lowest])) <= np.log(window) * (1 + 1e-9)
    x, y = np.log(sizes[near]), np.log(losses[near])
    fitted = np.polyfit(x - x.mean(), y, 2) if len(x) > 2 else np.zeros(3)
    return Parabola(
        budget,
        tuple(sizes[near].tolist()),
        tuple(losses[near].tolist()),
        float(x.mean()),
        tuple(fitted.tolist()),
        _refused(lowest, len(sizes), x - x.mean(), fitted),
    )


def _refused(lowest: int, count: int, x, fitted) -> str:
    """Why a budget does not show its best model, or ""."""
    curvature, slope, _ = fitted
    if lowest in (0, count - 1):
        return f"the {'smallest' if lowest == 0 else 'largest'} model has the lowest loss"
    if len(x) < FEWEST_POINTS:
        return f"{len(x)} points near the lowest, and a parabola needs {FEWEST_POINTS}"
    if curvature <= 0:
        return "the points near the lowest do not bend upwards"
    if not x.min() < -slope / (2 * curvature) < x.max():
        return "the parabola's lowest point lies outside of its points"
    return ""


def _resampled(used: Sequence[Parabola], budgets, resamples: int, seed: int) -> list[float]:
    """Exponents of such sets of runs as might have been measured instead."""
    random = np.random.default_rng(seed)
    squares = sum(float(one.residuals @ one.residuals) for one in used)
    scatter = (squares / sum(len(one.params) - 3 for one in used)) ** 0.5
    feet = np.stack([_feet(one, scatter, resamples, random) for one in used])
    found = []
    for column in feet.T:
        drawn = random.integers(len(used), size=len(used))
        drawn = drawn[np.isfinite(column[drawn])]
        if len(set(drawn.tolist())) > 1:
            found.append(line_through(budgets[drawn], np.exp(column[drawn]))[1])
    return found


def _feet(one: Parabola, scatter: float, resamples: int, random):
    """log N* of the parabola when its losses are drawn anew; not a number where it has none."""
    x = np.log(one.params) - one.middle
    drawn = np.polyval(one.coefficients, x) + scatter * random.standard_normal((resamples, len(x)))
    curvature, slope, _ = np.polyfit(x, drawn.T, 2)
    foot = -slope / (2 * curvature)
    good = (curvature > 0) & (foot > x.min()) & (foot < x.max())
    return np.where(good, one.middle + foot, np.nan)
