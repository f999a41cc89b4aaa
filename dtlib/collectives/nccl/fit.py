"""Fit a `CollectiveModel` to measured times, such as the logs of nccl-tests.

Written with 1/beta in place of beta, and likewise for the other rates, every time is a sum of
unknowns times known numbers. So least squares finds them in one step. Here the least *sum of
relative errors* is asked for, which one wild sample cannot bend: squares whose weights are
corrected until each counts as its own size.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dtlib.collectives.nccl.model import OPERATIONS, CollectiveModel
from dtlib.formulas.units import format_quantity

RING = ("launch", "alpha", "handover", "beta", "own_beta")
UNITS = {"beta": "B/s", "own_beta": "B/s", "switch_beta": "B/s"}
WHOLE = CollectiveModel("start", 1e-5, 1e-6, 5e-6, 2e11, 8e11, 3e-6)


class CollectiveTime(NamedTuple):
    """One measured collective: `n` bytes as nccl-tests counts them, `P` ranks, seconds.

    `path` is "ring" or "switch" when the run was forced to one of them.
    """

    operation: str
    n: float
    P: int
    seconds: float
    path: str | None = None


def nccl_tests_samples(log: str, operation: str, P: int) -> list[CollectiveTime]:
    """The out-of-place times of an nccl-tests log, of one operation on `P` ranks.

    Lines that do not begin with two numbers, a size and a count, are passed over.
    Raises ValueError when no line is left.

    >>> line = "  1048576  262144  float  sum  -1  38.85  26.99  47.23  0  38.1  27.5  48.1  0"
    >>> nccl_tests_samples(line, "all_reduce", 8)[0].seconds
    3.885e-05
    """
    rows = [line.split() for line in log.splitlines()]
    rows = [row for row in rows if len(row) > 7 and row[0].isdigit() and row[1].isdigit()]
    if not rows:
        raise ValueError("log: no line has a size, a count, a type, an operator, a root and a time")
    return [CollectiveTime(operation, int(row[0]), P, float(row[5]) / 1e6) for row in rows]


@dataclass(frozen=True, eq=False)
class CollectiveFit:
    """The model that fits measured times, and how well."""

    model: CollectiveModel
    samples: tuple[CollectiveTime, ...]
    free: tuple[str, ...]
    start: CollectiveModel
    draws: int
    level: float
    seed: int

    @cached_property
    def residuals(self) -> np.ndarray:
        """Relative errors, predicted / measured - 1, one for each sample."""
        return residuals(self.model, self.samples)

    @property
    def mean_error(self) -> float:
        """The mean size of the relative errors."""
        return float(np.mean(np.abs(self.residuals)))

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Where each fitted constant lies in the middle `level` of fits to resampled samples.

        The samples are drawn again with replacement, `draws` times, from generator `seed`. Draws
        that leave a constant undetermined are left out. This says how much the constants owe to
        single samples; what the model gets wrong everywhere it cannot show, `held_out_error` can.
        """
        rng = np.random.default_rng(self.seed)
        design = _design(self.model, self.samples)
        chosen = rng.integers(len(self.samples), size=(self.draws, len(self.samples)))
        fits = [_solved(design, self.start, self.free, rows) for rows in chosen]
        values = np.array([[getattr(m, name) for name in self.free] for m in fits if m])
        tail = (1 - self.level) / 2
        low, high = np.quantile(values, [tail, 1 - tail], axis=0, method="inverted_cdf")
        return {name: (float(a), float(b)) for name, a, b in zip(self.free, low, high, strict=True)}

    def held_out_error(self, by: str = "n") -> float:
        """The mean error on samples that took no part in the fit.

        ``by="n"``: the sizes are numbered, the even ones predict the odd ones and the other way
        round. ``by="P"``: each group size is predicted from the others. Raises ValueError when the
        rest does not determine the constants.
        """
        values = sorted({getattr(sample, by) for sample in self.samples})
        parts = [values[::2], values[1::2]] if by == "n" else [[value] for value in values]
        errors = []
        for part in parts:
            kept = [s for s in self.samples if getattr(s, by) not in part]
            judged = [s for s in self.samples if getattr(s, by) in part]
            model = fit_collectives(kept, free=self.free, start=self.start).model
            errors.extend(np.abs(residuals(model, judged)))
        return float(np.mean(errors))

    def __repr__(self) -> str:
        lines = [
            f"  {name:<12} = {_shown(name, getattr(self.model, name))}, "
            f"{_shown(name, low)} to {_shown(name, high)}"
            for name, (low, high) in self.intervals.items()
        ]
        head = f"Fit of {len(self.samples)} samples ({self.level:.0%} intervals)"
        return "\n".join([head, *lines, f"  mean error: {format_quantity(self.mean_error, '%')}"])


def fit_collectives(
    samples: Iterable[CollectiveTime],
    *,
    free: tuple[str, ...] | None = None,
    start: CollectiveModel | None = None,
    name: str = "fitted",
    draws: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> CollectiveFit:
    """The constants of a machine whose times come closest to measured ones.

    Equation: minimise the sum over samples of |predicted / measured - 1|, no constant negative.
    Arguments: `samples`, of any operations; `free`, the constants to fit (all that the samples can
    tell apart at best: those of a ring, and `exchange` when there is an all-to-all); `start`, a
    model whose other constants are kept; where it adds in the switch, each all-reduce counts for
    the path that is faster. `draws`, `level` and `seed` of the `intervals`.
    Returns a `CollectiveFit`. Raises ValueError for a time that is not positive, an unknown name,
    and when the samples do not determine the constants: one group size cannot tell `launch` from
    `alpha`, nor `beta` from `own_beta`; hold some, or measure another.
    Source: least absolute deviations by reweighted least squares; the bootstrap is Efron 1979.

    >>> from dtlib.collectives.nccl.model import nccl_models
    >>> a100 = nccl_models["a100-sxm"]
    >>> sweep = [("all_gather", 4.0**k, P) for k in range(5, 15) for P in (2, 8)]
    >>> fit = fit_collectives([CollectiveTime(*s, a100.time(*s)) for s in sweep])
    >>> f"{fit.model.beta / 1e9:.1f} GB/s, {fit.model.alpha * 1e6:.3f} us"
    '248.0 GB/s, 0.912 us'
    """
    samples = _checked(samples)
    start = start or WHOLE
    if free is None:
        exchanges = any(sample.operation == "all_to_all" for sample in samples)
        free = (*RING, "exchange") if exchanges else RING
    _check_free(free, start)
    model = start
    for _ in range(20):
        solved = _solved(_design(model, samples), start, free, slice(None))
        if solved is None:
            raise ValueError(
                f"samples: they do not determine {', '.join(free)}, or larger messages take no "
                "longer; measure other group sizes, sizes or operations, or free fewer constants"
            )
        if solved == model:
            break
        model = solved
    return CollectiveFit(replace(model, name=name), samples, free, start, draws, level, seed)


def residuals(model: CollectiveModel, samples: Iterable[CollectiveTime]) -> np.ndarray:
    """Relative errors of a model, predicted / measured - 1, one for each sample."""
    return np.array([model.time(s.operation, s.n, s.P, s.path) / s.seconds - 1 for s in samples])


def _checked(samples: Iterable[CollectiveTime]) -> tuple[CollectiveTime, ...]:
    samples = tuple(CollectiveTime(*sample) for sample in samples)
    for place, sample in enumerate(samples):
        if sample.operation not in OPERATIONS:
            raise ValueError(f"samples: sample {place} is of {sample.operation!r}, but must be of "
                             f"{', '.join(OPERATIONS)}")  # fmt: skip
        if not (np.isfinite(sample.seconds) and sample.seconds > 0):
            raise ValueError(
                f"samples: sample {place} has seconds = {sample.seconds}, but must be positive"
            )
    if not samples:
        raise ValueError("samples is empty, but must hold measured collectives")
    return samples


def _check_free(free: tuple[str, ...], start: CollectiveModel) -> None:
    unknown = [name for name in free if name not in _UNKNOWNS]
    if unknown or not free:
        raise ValueError(f"free is {free!r}, but must name some of {', '.join(_UNKNOWNS)}")
    if start.handover > 0 and ("beta" in free) != ("handover" in free):
        raise ValueError(
            f"free is {free!r}, but must have both handover and beta or neither: together they "
            "make the square root"
        )
    switched = {"switch_setup", "switch_beta"} & set(free)
    if switched and not start.adds_in_switch:
        raise ValueError(
            f"free has {sorted(switched)[0]}, but start must guess switch_setup and switch_beta, "
            "to tell which all-reduces the switch adds up"
        )


# A model in which nothing takes time, and what its time is when one constant alone is 1.
_FREE = CollectiveModel("free", 0.0, 0.0, 0.0, np.inf, np.inf, 0.0, 0.0, np.inf)
_UNKNOWNS = (*RING, "exchange", "switch_setup", "switch_beta")


def _design(model: CollectiveModel, samples: tuple[CollectiveTime, ...]):
    """Relative to each measured time: what one of each unknown adds. All-reduces take the path
    that is the faster by `model`."""
    paths = [_path(model, sample) for sample in samples]

    def times(**constants) -> np.ndarray:
        priced = replace(_FREE, **constants)
        return np.array(
            [
                priced.time(s.operation, s.n, s.P, path) / s.seconds
                for s, path in zip(samples, paths, strict=True)
            ]
        )

    columns = {name: times(**{name: 1.0}) for name in _UNKNOWNS if name != "handover"}
    # with beta = 1 and handover = 1/4 the square root has the factor 1
    columns["handover"] = times(beta=1.0, handover=0.25) - columns["beta"]
    return columns


def _path(model: CollectiveModel, sample: CollectiveTime) -> str | None:
    if sample.operation != "all_reduce" or sample.path:
        return sample.path
    if not model.adds_in_switch:
        return "ring"
    at = (sample.operation, sample.n, sample.P)
    return "switch" if model.time(*at, "switch") < model.time(*at, "ring") else "ring"


def _solved(design, start: CollectiveModel, free: tuple[str, ...], rows) -> CollectiveModel | None:
    """The free constants with the least sum of relative errors; None when they are undetermined."""
    known = _unknowns(start)
    matrix = np.array([design[name][rows] for name in free]).T
    held = [design[name][rows] * known[name] for name in _UNKNOWNS if name not in free]
    values = _least_absolute(matrix, 1 - np.sum([*held, 0 * matrix[:, 0]], axis=0))
    if values is None:
        return None
    found = known | dict(zip(free, values, strict=True))
    if found["beta"] <= 0:
        return None
    constants = {name: _constant(name, found) for name in free}
    return replace(start, **constants)


def _unknowns(model: CollectiveModel) -> dict[str, float]:
    """What the time is linear in: seconds, seconds for a byte, and the factor of the root."""
    rates = {name: 1 / (getattr(model, name) or np.inf) for name in UNITS}
    rest = {name: getattr(model, name) or 0.0 for name in _UNKNOWNS if name not in UNITS}
    return rest | rates | {"handover": 2 * float(np.sqrt(model.handover / model.beta))}


def _constant(name: str, unknowns: dict[str, float]) -> float:
    value = float(unknowns[name])
    if name == "handover":
        return (value / 2) ** 2 / float(unknowns["beta"])
    return value if name not in UNITS else (1 / value if value > 0 else np.inf)


def _least_absolute(matrix: np.ndarray, target: np.ndarray, rounds: int = 40):
    """The x >= 0 with the least sum of |matrix x - target|; None when it is not determined."""
    if np.linalg.matrix_rank(matrix / np.abs(matrix).max(axis=0).clip(1e-300)) < matrix.shape[1]:
        return None
    scale = np.sqrt((matrix**2).sum(axis=0))
    matrix, weights = matrix / scale, np.ones(len(target))
    for _ in range(rounds):
        values = _not_negative((matrix.T * weights) @ matrix, (matrix.T * weights) @ target)
        weights = 1 / np.maximum(np.abs(matrix @ values - target), 1e-3)
    return values / scale


def _not_negative(gram: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Least squares in which an unknown that comes out negative is set to 0, the worst first."""
    values, kept = np.zeros(len(moments)), np.ones(len(moments), dtype=bool)
    while kept.any():
        solved = np.linalg.solve(gram[np.ix_(kept, kept)], moments[kept])
        if solved.min() >= 0:
            values[kept] = solved
            break
        kept[np.flatnonzero(kept)[solved.argmin()]] = False
    return values


def _shown(name: str, value: float) -> str:
    return format_quantity(value, UNITS.get(name, "s"), 3) if np.isfinite(value) else "no limit"
