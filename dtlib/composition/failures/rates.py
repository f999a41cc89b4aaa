"""How often a job stops that needs many unlike parts: their rates add.

A part that fails once in M seconds on average, at a constant rate, fails at the rate 1/M. A job
that needs n of them stops at the rate n/M, and one that needs several kinds at the sum of theirs.
"""

from collections.abc import Mapping

from dtlib.formulas.require import require, require_count, require_positive


def fleet_mtbf(parts: Mapping[str, tuple[int, float]]) -> float:
    """The mean time between failures of a job that stops when any of its parts does.

    Equation: 1 / sum of n_i / M_i, over the kinds of parts.
    Argument: `parts`, for each kind its count n_i and the mean life M_i of one, in seconds.
    Returns seconds. Raises ValueError for no parts, a count that is no whole number of at least 1,
    and a life that is not positive. Holds when parts fail independently and at constant rates.

    >>> round(fleet_mtbf({"GPU": (4096, 25e3), "host": (512, 8e3), "switch": (32, 100e3)}), 2)
    4.38
    """
    return 1 / sum(_rates(parts).values())


def failure_shares(parts: Mapping[str, tuple[int, float]]) -> dict[str, float]:
    """For each kind of part, the share of the failures that is due to it.

    Equation: (n_i / M_i) / sum of n_j / M_j: of independent exponential times, the first one is the
    i-th with the probability of its rate over the sum of all rates.
    Argument, errors and conditions as for `fleet_mtbf`.

    >>> failure_shares({"GPU": (8, 2e4), "host": (1, 1e4)})
    {'GPU': 0.8, 'host': 0.2}
    """
    rates = _rates(parts)
    return {kind: rate / sum(rates.values()) for kind, rate in rates.items()}


def _rates(parts: Mapping[str, tuple[int, float]]) -> dict[str, float]:
    require(bool(parts), "A fleet", "parts", dict(parts), "at least one kind of part")
    for kind, (count, life) in parts.items():
        require_count(f"A fleet's {kind}", count=count)
        require_positive(f"A fleet's {kind}", life=life)
    return {kind: count / life for kind, (count, life) in parts.items()}
