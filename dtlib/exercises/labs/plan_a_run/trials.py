"""The references of the lab's second half: three to run, how to time them, what the times say.

Keywords are ways to go wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import comb

LONGEST = 5  # times as long as the first: what a trial may take
DOUBT = 0.05  # an order is said to be seen where a coin would be as one-sided more rarely


def three(times: Mapping[str, float], e: float, longest: float = LONGEST, reach=None) -> list[str]:
    """Three names, the first of all and two behind it, whose order errors up to e cannot turn."""
    reach = (1 + e) / (1 - e) if reach is None else reach
    order = sorted(times, key=times.get)
    best = order[0]
    may = [name for name in order if times[name] <= longest * times[best]]
    for middle in may:
        last = [name for name in may if times[name] > reach * times[middle]]
        if times[middle] > reach * times[best] and last:
            return [best, middle, last[-1]]
    return []


def measure(trials: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each trial in each of so many rounds; the first time of each is not among them."""
    times = {name: [] for name in trials}
    for _ in range(rounds + 1):
        for name, trial in trials.items():
            times[name].append(trial())
    return {name: some[1:] for name, some in times.items()}


def verdicts(
    predicted: Mapping[str, float], measured: Mapping[str, Sequence[float]],
    doubt: float = DOUBT, sides: int = 2, ties: bool = False, paired: bool = True,
) -> dict[tuple[str, str], str]:  # fmt: skip
    """For each pair, the faster as predicted first: "as predicted", "turned round" or "open"."""
    found = {}
    for pair in combinations(sorted(predicted, key=predicted.get), 2):
        first, second = (measured[name] for name in pair)
        if not paired:
            first, second = sorted(first), sorted(second)
        wins = sum(a < b for a, b in zip(first, second, strict=True))
        losses = sum(a > b for a, b in zip(first, second, strict=True))
        n = len(first) if ties else wins + losses
        if by_chance(max(wins, losses), n, sides) >= doubt:
            found[pair] = "open"
        else:
            found[pair] = "as predicted" if wins > losses else "turned round"
    return found


def by_chance(wins: int, n: int, sides: int = 2) -> float:
    """How likely a fair coin falls on one of its sides so often, or more often, in n throws.

    >>> by_chance(9, 9), by_chance(5, 8)
    (0.00390625, 0.7265625)
    """
    return min(1.0, sides * sum(comb(n, k) for k in range(wins, n + 1)) / 2**n)


def blame(
    parts: Sequence[Mapping[str, float]], measured: Sequence[float],
    relative: bool = True, rest: bool = True, least: Callable | None = None,
) -> tuple[str, float]:  # fmt: skip
    """The cause that explains most when it alone is so many times as long, and that factor."""
    found = {}
    for cause in parts[0]:
        rows = [
            (of[cause], sum(of.values()) - of[cause] if rest else 0.0, t)
            for of, t in zip(parts, measured, strict=True)
        ]
        scaled = [(c / t, 1 - r / t) if relative else (c, t - r) for c, r, t in rows]
        square = sum(x * x for x, _ in scaled)
        if square:
            k = max(0.0, sum(x * y for x, y in scaled) / square)
            found[cause] = sum((y - k * x) ** 2 for x, y in scaled), k
    cause = min(found, key=found.get) if least is None else least(found)
    return cause, found[cause][1]
