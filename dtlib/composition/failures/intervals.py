"""How often to save, and what is lost then: beyond the first order, with lag, and on two levels.

Chapter 5 has the first order (`young_interval`) and the exact multiplier when nothing disturbs a
restart (`failure_multiplier`). Here restarts fail too, and checkpoints take time to become safe.
"""

import math

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import exp, sqrt, where
from dtlib.formulas.require import require, require_positive


@formula(
    r"\kappa_R",
    "",
    "Daly 2006",
    (
        "exponential times between failures, during restarts as well; a restart that is "
        "interrupted begins anew; the last checkpoint is always readable"
    ),
)
def restarting_multiplier(interval, write_time, restart_time, mtbf):
    """How many times longer a job lasts than its work alone, when restarts may fail like work.

    A restart is itself work in one piece: it takes `retried_time` of R instead of R, and that is
    M (exp(R/M) - 1). Raises OverflowError when an interval is over 700 times the mean time between
    failures.

    >>> round(restarting_multiplier(interval=800, write_time=60, restart_time=600, mtbf=5760), 4)
    1.2867
    """
    return mtbf * exp(restart_time / mtbf) / interval * (exp((interval + write_time) / mtbf) - 1)


@formula(
    r"\tau_\text{Daly}",
    "s",
    "Daly 2006",
    (
        "exponential times between failures; the write blocks the job; two terms beyond the "
        "first order, and one failure time where the write takes two or more"
    ),
)
def daly_interval(write_time, mtbf):
    """How much work to do between two checkpoints, by the series of the exact optimum.

    Young's interval, less the write and with two corrections.

    >>> round(daly_interval(write_time=60, mtbf=5760), 1), daly_interval(write_time=9, mtbf=4)
    (791.9, 4)
    """
    return where(
        write_time < 2 * mtbf,
        sqrt(2 * write_time * mtbf)
        * (1 + sqrt(write_time / (2 * mtbf)) / 3 + write_time / (2 * mtbf) / 9)
        - write_time,
        mtbf,
    )


@formula(
    r"\varepsilon_\text{lag}",
    "",
    "Young 1974, with the lag of the last safe checkpoint",
    (
        "to first order: interval, write time, lag and restart time far below the mean time "
        "between failures; the lag is at most an interval"
    ),
)
def lagging_overhead(interval, write_time, persist_lag, restart_time, mtbf):
    """The overhead when a checkpoint is safe only some time after the job goes on.

    A failure loses half an interval and the lag: the lag counts as often as the restart does, and
    so it moves the overhead and not the best interval.

    >>> overhead = lagging_overhead(150, write_time=1.56, persist_lag=25, restart_time=0, mtbf=7200)
    >>> round(overhead, 4)
    0.0243
    """
    return write_time / interval + (interval / 2 + persist_lag + restart_time) / mtbf


@formula(
    r"\tau_\text{level}",
    "s",
    "Young 1974, for each level by itself",
    (
        "to first order; each level's failures are exponential; a failure is undone from the "
        "checkpoints of one level, and a level's work is lost apart from the other's"
    ),
)
def level_interval(write_time, share, mtbf):
    """How much work to do between two checkpoints of one level, which undo a share of the failures.

    The failures of the level are 1/share times as far apart as all are: Young's interval for them.

    >>> round(level_interval(write_time=60, share=0.25, mtbf=7200))
    1859
    """
    return sqrt(2 * write_time * mtbf / share)


@formula(
    r"\varepsilon_\text{levels}",
    "",
    "Young 1974, for each level by itself",
    "as for the interval of a level; every failure is undone from one of the two; no restart time",
)
def two_level_overhead(copy_time, write_time, share, mtbf):
    """The overhead of copies in memory, which undo a share of the failures, and writes for others.

    Each level at its best interval costs twice what its checkpoints take.

    >>> round(two_level_overhead(copy_time=2, write_time=60, share=0.7, mtbf=3.09 * 3600), 4)
    0.0728
    """
    return sqrt(2 * copy_time * share / mtbf) + sqrt(2 * write_time * (1 - share) / mtbf)


def exact_interval(write_time: float, mtbf: float) -> float:
    """How much work to do between two checkpoints, in closed form.

    Equation: tau = M (1 + W0(-exp(-1 - delta/M))). The root of (1 - x) exp(x) = exp(-delta/M) that
    `optimal_interval` finds by halving: with w = x - 1 it reads w exp(w) = -exp(-1 - delta/M).
    Arguments: `write_time` and `mtbf`, seconds, of the whole job. Returns seconds.
    Raises ValueError for times that are not positive. The argument is rounded beside -1/e, where W0
    is steep: of sixteen digits as many are lost as delta/M has zeros. Source: Daly 2006.

    >>> round(exact_interval(write_time=60, mtbf=5760), 2)
    791.87
    """
    require_positive("exact_interval", write_time=write_time, mtbf=mtbf)
    return mtbf * (1 + lambert_w(-math.exp(-1 - write_time / mtbf)))


def lambert_w(x: float) -> float:
    """Lambert's W0: the larger w of which w exp(w) is `x`.

    Argument: `x`, at least -1/e. Raises ValueError below. By Halley's iteration, from the series at
    -1/e where that is near and from the logarithm elsewhere. Source: Corless et al. 1996.

    >>> round(lambert_w(1), 6), lambert_w(0), lambert_w(-math.exp(-1))
    (0.567143, 0.0, -1.0)
    """
    require(x >= -math.exp(-1), "lambert_w", "x", x, "at least -1/e")
    root = math.sqrt(max(0.0, 2 * (1 + math.e * x)))
    if root < 1e-6:
        return root - 1
    w = root - 1 - root * root / 3 if x < 0 else math.log1p(x)
    for _ in range(60):
        error = w * math.exp(w) - x
        slope = math.exp(w) * (w + 1)
        step = error / (slope - (w + 2) * error / (2 * w + 2))
        if abs(step) <= 1e-16 * (1 + w):
            break
        w -= step
    return w
