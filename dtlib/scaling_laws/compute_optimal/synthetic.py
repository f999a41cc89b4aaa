"""Runs and curves that follow a known surface exactly, or with noise: what estimators are tried on.

A fit can only be judged where the truth is known. These have one: `surface.optimum`.
"""

from collections.abc import Sequence

from dtlib.formulas.require import require, require_count, require_not_negative
from dtlib.later import np
from dtlib.scaling_laws.compute_optimal.envelope import LossCurve
from dtlib.scaling_laws.loss_surface.runs import Runs
from dtlib.scaling_laws.loss_surface.surface import LossSurface


def isoflop_runs(
    surface: LossSurface,
    budgets: Sequence[float],
    sizes: int = 9,
    span: float = 8.0,
    off: float | Sequence[float] = 1.0,
    noise: float = 0.0,
    seed: int = 0,
) -> Runs:
    """Runs at each budget, of sizes evenly spaced in log N around the surface's optimum.

    Arguments: `budgets` in FLOP; `sizes`, how many at each; they lie within the factor `span` of
    the middle, which is `off` times N*(C), one factor or one for each budget; `noise`, the spread
    of log(L - E), drawn with `seed`. Source: the experiment of Hoffmann et al. 2022, approach 2.

    >>> runs = isoflop_runs(LossSurface.besiroglu(), [1e19, 1e20], sizes=5)
    >>> len(runs), f"{runs.loss.min():.3f}"
    (10, '2.553')
    """
    require_count("isoflop_runs", 2, sizes=sizes)
    require(span > 1, "isoflop_runs", "span", span, "a factor above 1")
    require_not_negative("isoflop_runs", noise=noise)
    budgets = np.asarray(budgets, dtype=float)
    middles = np.array([surface.optimum(float(budget)).N for budget in budgets]) * off
    params = np.outer(middles, np.geomspace(1 / span, span, sizes))
    tokens = budgets[:, None] / 6 / params
    excess = surface(params, tokens) - surface.E
    drawn = np.random.default_rng(seed).standard_normal(excess.shape)
    losses = surface.E + excess * np.exp(noise * drawn)
    return Runs(params.ravel(), tokens.ravel(), losses.ravel())


def surface_curves(
    surface: LossSurface,
    sizes: Sequence[float],
    tokens_per_param: tuple[float, float] = (0.5, 500.0),
    points: int = 60,
    noise: float = 0.0,
    seed: int = 0,
) -> tuple[LossCurve, ...]:
    """Curves as if each model passed through the surface: its loss after D tokens is L(N, D).

    Arguments: `sizes` N; each curve has `points` between the two `tokens_per_param`; `noise` as for
    `isoflop_runs`, one draw for each model, since a training curve is off as a whole.
    """
    random = np.random.default_rng(seed)
    curves = []
    for N in sizes:
        tokens = N * np.geomspace(*tokens_per_param, points)
        excess = (surface(N, tokens) - surface.E) * np.exp(noise * random.standard_normal())
        losses = surface.E + excess
        curves.append(LossCurve(float(N), tuple(tokens.tolist()), tuple(losses.tolist())))
    return tuple(curves)
