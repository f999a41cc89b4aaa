"""Approach 1: at each budget the training curve that is lowest, and a line through their sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dtlib.errors import DtlibError
from dtlib.formulas.require import require, require_count
from dtlib.later import np
from dtlib.scaling_laws.compute_optimal.power_law import PowerLaw, line_through
from dtlib.scaling_laws.loss_surface.resampled import middle_share


class HasCurve(Protocol):
    """What a curve must have: `N` parameters, and its `losses` after so many `tokens`."""

    N: float
    tokens: Sequence[float]
    losses: Sequence[float]


@dataclass(frozen=True)
class LossCurve:
    """The losses of one model after so many tokens, which grow. Raises ValueError for others."""

    N: float
    tokens: tuple[float, ...]
    losses: tuple[float, ...]

    def __post_init__(self):
        counts = len(self.tokens), len(self.losses)
        good = counts[0] == counts[1] >= 2
        require(good, "LossCurve", "tokens, losses", counts, "as many of each, at least two")
        for name in ("tokens", "losses"):
            values = np.asarray(getattr(self, name), dtype=float)
            good = bool(np.all(np.isfinite(values)) and np.all(values > 0))
            require(good, "LossCurve", name, getattr(self, name), "positive numbers")
        growing = bool(np.all(np.diff(self.tokens) > 0))
        require(growing, "LossCurve", "tokens", self.tokens, "growing")


@dataclass(frozen=True)
class Envelope:
    """The `law` through the `winners`, the sizes that are lowest at each of the `budgets`.

    `losses` are theirs. Budgets at which the smallest or the largest of the models wins that were
    trained so far are left out: there a smaller or a larger one may be the best.
    """

    budgets: tuple[float, ...]
    winners: tuple[float, ...]
    losses: tuple[float, ...]
    law: PowerLaw


class NoEnvelope(DtlibError, ValueError):
    """Curves that do not show where the best model is."""


def fit_envelope(
    curves: Sequence[HasCurve], points: int = 200, resamples: int = 400, seed: int = 0
) -> Envelope:
    """Find N*(C) from whole training curves: which model is lowest at a budget C = 6 N D?

    Arguments: `curves` of at least four sizes; `points`, how many budgets are asked, evenly spaced
    in log C; `resamples` of which the interval is made, and their `seed`: each draws the sizes
    anew, with replacement. Between two points of a curve log L is a line in log D; beyond its ends
    it is not asked. Raises NoEnvelope where only the smallest or the largest model ever wins, or
    where one between them is never beaten. Source: Hoffmann et al. 2022, approach 1.

    >>> from dtlib.scaling_laws.compute_optimal.synthetic import surface_curves
    >>> from dtlib.scaling_laws.loss_surface.surface import LossSurface
    >>> curves = surface_curves(LossSurface.besiroglu(), [2.0**k * 1e7 for k in range(10)])
    >>> f"{fit_envelope(curves).law.exponent:.2f}"
    '0.51'
    """
    require_count("fit_envelope", 10, points=points)
    require_count("fit_envelope", resamples=resamples)
    sizes = len({curve.N for curve in curves})
    require(sizes >= 4, "fit_envelope", "curves", f"{sizes} sizes", "of at least 4 sizes")
    curves = sorted(curves, key=lambda curve: curve.N)
    ends = [6 * curve.N * np.asarray(curve.tokens)[[0, -1]] for curve in curves]
    budgets = np.geomspace(min(e[0] for e in ends), max(e[1] for e in ends), points)
    table = np.stack([_at(curve, budgets) for curve in curves])
    N = np.array([curve.N for curve in curves], dtype=float)
    found = _winners(N, table)
    inside = np.isfinite(found)
    if len(set(found[inside].tolist())) < 2:
        raise NoEnvelope(
            f"fit_envelope: of {sizes} sizes {len(set(found[inside].tolist()))} between the "
            "smallest and the largest are best at some budget, but a line needs at least 2"
        )
    coefficient, exponent = line_through(budgets[inside], found[inside])
    interval = _interval(N, table, budgets, resamples, seed)
    return Envelope(
        tuple(budgets[inside].tolist()),
        tuple(found[inside].tolist()),
        tuple(np.exp(np.nanmin(table[:, inside], axis=0)).tolist()),
        PowerLaw(coefficient, exponent, interval),
    )


def _at(curve: HasCurve, budgets):
    """log L of a model at each budget; not a number where its curve does not reach."""
    return np.interp(
        np.log(budgets),
        np.log(6 * curve.N * np.asarray(curve.tokens, dtype=float)),
        np.log(curve.losses),
        left=np.nan,
        right=np.nan,
    )


def _winners(sizes, table):
    """At each budget the size with the lowest loss; not a number where none is between others."""
    there = np.isfinite(table)
    winner = sizes[np.where(there, table, np.inf).argmin(axis=0)]
    smallest = np.where(there, sizes[:, None], np.inf).min(axis=0)
    largest = np.where(there, sizes[:, None], -np.inf).max(axis=0)
    return np.where((smallest < winner) & (winner < largest), winner, np.nan)


def _interval(sizes, table, budgets, resamples: int, seed: int) -> tuple[float, float]:
    random, found = np.random.default_rng(seed), []
    for _ in range(resamples):
        drawn = random.integers(len(sizes), size=len(sizes))
        best = _winners(sizes[drawn], table[drawn])
        inside = np.isfinite(best)
        if len(set(best[inside].tolist())) > 1:
            found.append(line_through(budgets[inside], best[inside])[1])
    return middle_share(found)
