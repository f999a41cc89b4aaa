"""The laws of the lab 'Your own scaling law': each says what is wrong, and where."""

import builtins
import math
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

from dtlib.exercises.judge import call, function, functions, items, number, real
from dtlib.exercises.labs.your_own_scaling_law import saying, sharing
from dtlib.exercises.labs.your_own_scaling_law.learner import Learner
from dtlib.exercises.verdict import NotYet
from dtlib.scaling_laws import LossSurface
from dtlib.scaling_laws.grid.warmth import rate_factor

COSTS = (
    ([5, 4, 3, 3, 3], 2),
    ([1, 1, 1, 1, 4], 2),
    ([2, 7, 2, 7, 2, 7], 2),
    ([9, 1, 1, 1, 1, 1, 1], 3),
    ([3.5, 2.5, 6.0], 4),
    ([6], 1),
)
BUDGETS = ([40], [10, 20], [20, 40, 80], [80, 20, 40], [10, 15, 100])


def share_law(answer: Any) -> None:
    tokens, share = functions(answer, "trunk_tokens(budgets)", "share(costs, P)")
    for budgets in BUDGETS:
        _judge_tokens(call(tokens, list(budgets)), budgets)
    for costs, P in COSTS:
        _judge_share(call(share, list(costs), P), costs, P)


def _judge_tokens(found: Any, budgets: list[int]) -> None:
    value, what = real(found, "trunk_tokens"), f"budgets {budgets}: trunk_tokens"
    due = float(sharing.trunk_tokens(budgets))
    mistakes = {
        sum(budgets): "that is as many runs, each trained alone",
        max(budgets): "every branch has a last fifth of its own",
        max(budgets) + sum(budgets) / 5: "the trunk need not be trained to the end",
    }
    mistakes = {slip: hint for slip, hint in mistakes.items() if slip != due}
    number(value, due, what, "tokens", tolerance=1e-9, mistakes=mistakes)


def _judge_share(found: Any, costs: list[float], P: int) -> None:
    where = f"costs {costs} on {P} ranks"
    rows = [list(jobs) for jobs in items(found, "share", P)]
    dealt = sorted(job for jobs in rows for job in jobs)
    if dealt != list(range(len(costs))):
        lost = sorted(set(range(len(costs))) - set(dealt))
        raise NotYet(f"{where}: each job goes to one rank" + (f", and {lost} to none" * bool(lost)))
    loads = [sum(costs[job] for job in jobs) for jobs in rows]
    if max(loads) > least_busy(tuple(costs), P) * (4 / 3 - 1 / (3 * P)) + 1e-9:
        raise NotYet(
            f"{where}: rank {loads.index(max(loads))} works {max(loads):g}, and all wait for it; "
            "that is further above the least than if the dearest jobs were dealt out first"
        )


@cache
def least_busy(costs: tuple[float, ...], P: int) -> float:
    """The load of the busiest rank in the best of all ways to deal out jobs: all are tried."""
    ways = product(range(P), repeat=len(costs))
    return min(
        max(sum(c for c, rank in zip(costs, way, strict=True) if rank == r) for r in range(P))
        for way in ways
    )


def excess_law(answer: Any) -> None:
    rate, excess = functions(answer, "entropy_rate(p, length)", "excess(truth, log_q)")
    for p, length in (([0.5, 0.5], 1), ([0.5, 0.25, 0.25], 2), ([0.7, 0.2, 0.1, 0.0], 4)):
        what, due = f"p = {p}, {length} letters: entropy_rate", saying.entropy_rate(p, length)
        mistakes = {due / math.log(2): "nats, please", due * length: "a share of each letter"}
        mistakes = {value: hint for value, hint in mistakes.items() if value != due}
        number(call(rate, p, length), due, what, "nats", tolerance=1e-9, mistakes=mistakes)
    for name, truth, log_q in _models():
        _judge_excess(call(excess, truth, log_q), name, truth, log_q)


def _models():
    """Laws and models: one that knows, one that guesses, one that rules out what cannot be."""
    truth = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]
    log_of = lambda rows: [[math.log(q) if q else -math.inf for q in row] for row in rows]  # noqa: E731
    yield "who knows nothing", truth, log_of([[1 / 3] * 3] * 2)
    yield "who is sure of the wrong letter", truth, log_of([[0.1, 0.1, 0.8], [0.2, 0.4, 0.4]])
    yield "who knows the law", truth, log_of(truth)


def _judge_excess(found: Any, name: str, truth: list, log_q: list) -> None:
    if isinstance(found, float) and math.isnan(found):
        raise NotYet(f"{name}: excess is nan: what cannot come counts 0, and not 0 times infinity")
    due, what = saying.excess(truth, log_q), f"{name}: excess"
    value = real(found, what)
    if abs(value - due) < 1e-9:
        return
    slips = {
        saying.excess(truth, log_q, own=0.0): "that is the whole loss, E included",
        saying.excess(truth, log_q, mean=False): "a mean over places",
        due / math.log(2): "nats, please",
    }
    hints = [hint for slip, hint in slips.items() if abs(value - slip) < 1e-9]
    backwards = "whose probabilities are the weights?"
    raise NotYet(f"{what} is wrong: {hints[0] if hints else backwards}")


def row_law(answer: Any) -> None:
    row = function(answer, "row(learner, budgets, factor)")
    for budgets in BUDGETS:
        learner, where = Learner(), f"budgets {budgets}"
        found = call(row, learner, list(budgets), rate_factor)
        if not isinstance(found, dict) or set(found) != set(budgets):
            raise NotYet(f"{where}: row returns a dict with a loss for each number of steps")
        for steps in sorted(budgets):
            due = _alone(steps)
            if real(found[steps], f"{where}: the loss after {steps} steps") != due:
                raise NotYet(f"{where}: after {steps} steps {_kind(found[steps], steps, budgets)}")
        most = max(budgets) - max(budgets) // 5 + sum(steps // 5 for steps in budgets)
        if len(learner.tally) > most:
            raise NotYet(
                f"{where}: {len(learner.tally)} steps were trained; what runs share is trained once"
            )


def _alone(steps: int) -> float:
    learner = Learner()
    while learner.step < steps:
        learner.learn(rate_factor(learner.step, steps))
    return learner.loss()


def _kind(found: float, steps: int, budgets: list[int]) -> str:
    """In which way a loss is not that of the separate run."""
    if found == sharing.never_decaying(Learner(), budgets, rate_factor)[steps]:
        return "the rate never fell"
    if found == sharing.row(Learner(), budgets, rate_factor, copied=sharing.forgetful)[steps]:
        return "the branch has forgotten its momentum"
    if steps > min(budgets):
        return "the run is another one than alone: has an earlier branch changed the trunk?"
    return "the run is another one than alone"


def say_law(answer: Any) -> None:
    forecast, seed_of = functions(answer, "forecast(runs, E, N, D)", "seed_of(said)")
    _judge_forecast(forecast)
    _judge_seed(seed_of)


@cache
def synthetic_runs() -> tuple:
    """Runs of a law that is known, each off by a few per cent of L - E."""
    law, draw = LossSurface(E=1.2, A=30.0, alpha=0.63, B=220.0, beta=0.57), Random(4)
    sizes = product((3e3, 1e4, 3e4, 1e5), (1e6, 2e6, 4e6, 8e6, 1.6e7))
    return tuple(
        SimpleNamespace(
            N=N, D=D, loss=1.2 + (float(law(N, D)) - 1.2) * math.exp(draw.gauss(0, 0.02))
        )
        for N, D in sizes
    )


def _judge_forecast(forecast: Callable) -> None:
    E, at = 1.2, (2e5, 3.2e7)
    runs = list(synthetic_runs())
    excess, low, high = (
        real(x, "forecast") for x in items(call(forecast, runs, E, *at), "forecast", 3)
    )
    due = saying.forecast(runs, E, *at)
    if excess > E:
        raise NotYet("forecast returns what the loss has above E, and this is the loss")
    if not low < excess < high:
        raise NotYet("forecast: the ends of the interval lie below and above the number")
    free = saying.forecast(runs, E, *at, known=False)
    if abs(excess - free[0]) < 1e-6:
        raise NotYet("forecast: E is known here, and need not be fitted")
    number(excess, due[0], "forecast's number", tolerance=0.01)
    if high - low < 0.85 * (due[2] - due[1]):
        raise NotYet("forecast: a single run scatters around the law: its interval is wider")
    number(high - low, due[2] - due[1], "the interval's width", tolerance=0.2)


def _judge_seed(seed_of: Callable) -> None:
    said = {"width": 64, "tokens": 2**24, "excess": 0.0512345, "low": 0.0487, "high": 0.0541}
    with _no_hash():
        seed = call(seed_of, dict(said))
        if not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise NotYet(f"a seed is a whole number from 0 to 2^32 - 1, got {seed!r}")
        if call(seed_of, dict(said)) != seed:
            raise NotYet("the same prediction has another seed the second time")
        if call(seed_of, dict(reversed(said.items()))) != seed:
            raise NotYet("in another order of its keys the same prediction has another seed")
        for key, value in said.items():
            other = said | {key: value + 1 if isinstance(value, int) else value + 1e-7}
            if call(seed_of, other) == seed:
                raise NotYet(f"another {key}, the same seed: then it may be chosen afterwards")
        seeds = {call(seed_of, said | {"excess": n / 1000}) for n in range(200)}
    if len(seeds) < 200 or not 60 < sum(s >= 2**31 for s in seeds) < 140:
        raise NotYet("200 predictions have seeds that lie close together or are the same")


@contextmanager
def _no_hash():
    """Python's own hash of a text is another number in every process: say so where it is used."""

    def refused(value):
        raise NotYet("hash() of a text is another number in the next process: nobody could check")

    kept, builtins.hash = builtins.hash, refused
    try:
        yield
    finally:
        builtins.hash = kept
