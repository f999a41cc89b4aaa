"""Every check of chapter 14: the solution passes; the stub, wrong answers and dtlib's own fail."""

import math

import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check
from dtlib.parallelism import overlapped_steps, share_sizes, simulate_step

rho = 989e12 / 450e9


def hidden(backward, comm, k):
    return 1 - (max(backward + comm / k, backward / k + comm) - backward) / comm


def printed(backward, comm, k):
    shares = [min(1, (comm / k) / (backward * i / k)) for i in range(1, k + 1)]
    return sum(shares) / k


def step_time(forward, backward, costs, *, slip=""):
    k, free = len(costs), 0
    for i, cost in enumerate(costs):
        at = [f + b * (i + 1) / k for f, b in zip(forward, backward, strict=True)]
        ready = at[0] if slip == "rank 0" else max(at)
        if slip == "last":
            ready = max(zip(forward, backward, at, strict=True), key=lambda r: r[0] + r[1])[2]
        if slip == "both":
            ready = max(forward) + max(backward) * (i + 1) / k
        if slip == "end":
            ready = max(f + b for f, b in zip(forward, backward, strict=True))
        free = max(free, ready + cost) if slip == "alone" else max(free, ready) + cost
    return free


def slipping(slip):
    return lambda forward, backward, costs: step_time(forward, backward, costs, slip=slip)


def right_step_time(forward, backward, costs):
    return step_time(forward, backward, costs)


def shares(batch, speeds):
    given = [0] * len(speeds)
    for _ in range(batch):
        first = min(range(len(speeds)), key=lambda r: (given[r] + 1) / speeds[r])
        given[first] += 1
    return given


def equal_shares(batch, speeds):
    P = len(speeds)
    return [batch // P + (r < batch % P) for r in range(P)]


def rounded_shares(batch, speeds):
    return [round(batch * s / sum(speeds)) for s in speeds]


def exact_shares(batch, speeds):
    return [batch * s / sum(speeds) for s in speeds]


NAMES = ("bitwise", "tolerance", "tolerance", "bitwise", "divergent", "divergent")
KINDS = dict(zip("abcdef", NAMES, strict=True))
STALE = (math.exp(-1.5), sum(math.exp(-0.1 * t) for t in range(16)) / 16)

CLAIMS = {"a": 1, "b": 1.6, "c": 32, "d": 1, "e": 2}
STEPS = dict(zip("abcdef", (1, 2, 3, 4, 3, 1), strict=True))

CASES = {
    "ex-tokens-to-hide": Case(
        solution=(7 / 6 * rho, 7 / 8 * rho),
        wrong=[
            ((1465.0, 7 / 8 * rho), "right order of magnitude|twice"),
            ((4 / 3 * rho, 7 / 8 * rho), "keeps its own eighth"),
            ((7 / 12 * rho, 7 / 8 * rho), "twice as long"),
            ((7 / 6 * rho, rho), "keeps its own eighth"),
            ((7 / 6 * rho, 7 / 12 * rho), "two thirds"),
        ],
        secret=[7 / 6 * rho, 7 / 8 * rho],
    ),
    "ex-weight-of-a-token": Case(
        solution=(64, 2048 / 4128),
        wrong=[
            ((256, 2048 / 4128), "divides by their number"),
            ((1 / 64, 2048 / 4128), "other way up"),
            ((64, 1 / 4128), "what it weighs"),
        ],
        secret=[64, 2048 / 4128],
    ),
    "ex-hundred-layers": Case(
        solution=(0.028, 0.004),
        wrong=[
            ((0.108, 0.004), "when all is over"),
            ((0.0208, 0.004), "100 buckets"),
            ((0.028, 0.04), "nine of the ten"),
            ((28, 4), "in seconds"),
        ],
        secret=[0.028, 0.004],
    ),
    "ex-four-micro-batches": Case(
        solution=(0.44, 0.56, 0.4),
        wrong=[
            ((0.56, 0.56, 0.4), "only the last"),
            ((0.44, 0.44, 0.4), "every backward pass"),
            ((0.44, 0.56, 0.44), "to hide under"),
            ((440, 560, 400), "in seconds"),
        ],
        secret=[0.44, 0.56, 0.4],
    ),
    "ex-top-one-percent": Case(
        solution=(0.016, 0.058),
        wrong=[
            ((0.0115, 0.058), "nothing can be added"),
            ((0.016, 0.048), "takes its time"),
            ((0.016, 0.0105), "everybody's list"),
            ((0.012, 0.026), "brings its place"),
            ((16, 58), "in seconds"),
        ],
        secret=[0.016, 0.058],
    ),
    "ex-how-much-is-hidden": Case(
        solution=hidden,
        wrong=[
            (printed, "still the printed formula"),
            (lambda backward, comm, k: 1 - 1 / k, "what if it is the slower one"),
            (lambda backward, comm, k: min(1, backward / comm), "first bucket"),
            (lambda backward, comm, k: 0.5, "the result"),
        ],
    ),
    "ex-events": Case(
        solution=right_step_time,
        wrong=[
            (slipping("rank 0"), "not for rank 0"),
            (slipping("end"), "need not wait for the end"),
            (slipping("last"), "need not be the one that ends last"),
            (slipping("both"), "may be those of two ranks"),
            (slipping("alone"), "one all-reduce at a time"),
            (lambda forward, backward, costs: 1e9, "too late"),
            (simulate_step, "library's own simulate_step"),
            (lambda f, b, c: simulate_step(f, b, c).makespan, "library's own simulate_step"),
            (lambda f, b, c: overlapped_steps(f, b), "raises|must be a number"),
        ],
    ),
    "ex-share-the-batch": Case(
        solution=shares,
        wrong=[
            (equal_shares, "leave the fast ranks idle"),
            (rounded_shares, "add up to"),
            (exact_shares, "whole number"),
            (share_sizes, "done earlier"),
        ],
    ),
    "ex-stale": Case(
        solution=STALE,
        wrong=[
            ((math.exp(-1.6), STALE[1]), "fresh is a staleness of 0"),
            ((STALE[0], STALE[1] * 16 / 15), "how many numbers"),
            ((STALE[0], math.exp(-0.75)), "not the factor of the mean"),
        ],
        secret=list(STALE),
    ),
    "ex-which-kind": Case(
        solution=KINDS,
        wrong=[
            (KINDS | {"b": "bitwise"}, r"\(b\) is of another kind"),
            (KINDS | {"c": "bitwise"}, "begins to add an element"),
            (KINDS | {"d": "tolerance"}, "add two numbers"),
            (KINDS | {"f": "tolerance"}, "which numbers are dropped"),
            (KINDS | {"a": "same"}, "must be one of"),
            ({"a": "bitwise"}, "keys a, b, c, d, e, f"),
        ],
        stub=dict.fromkeys("abcdef", ...),
    ),
    "ex-five-claims": Case(
        solution=CLAIMS,
        wrong=[
            (CLAIMS | {"a": 32}, "32 of them are averaged"),
            (CLAIMS | {"b": 1}, "large rank less"),
            (CLAIMS | {"c": 1}, "is not a mean"),
            (CLAIMS | {"d": 4}, "the batch has grown"),
            (CLAIMS | {"e": 4}, "the batch has grown"),
            ({"a": 1}, "keys a, b, c, d, e"),
        ],
        stub=dict.fromkeys("abcde", ...),
        secret=[1.6],
    ),
    "ex-where-the-proof-stops": Case(
        solution=STEPS,
        wrong=[
            (STEPS | {"b": 3}, "depend on"),
            (STEPS | {"c": 1}, "of which samples"),
            (STEPS | {"d": 5}, "number of a step"),
            ({"a": 1}, "keys a, b, c, d, e, f"),
        ],
        stub=dict.fromkeys("abcdef", ...),
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_events_of_the_exercise_are_those_of_the_library():
    for forward, backward, costs in (
        ([5, 5], [8, 8], [2, 2, 2, 2]),
        ([1, 4, 2], [9, 3, 6], [1, 5, 2]),
        ([2], [7], [3]),
    ):
        simulated = simulate_step(forward, backward, costs).makespan
        assert right_step_time(forward, backward, costs) == pytest.approx(simulated)


def test_a_division_that_is_only_nearly_the_best_is_refused():
    def nearly(batch, speeds):
        best = shares(batch, speeds)
        if len(speeds) > 1 and best[0] > 1:
            best[0], best[1] = best[0] - 1, best[1] + 1
        return best

    with pytest.raises(NotYet):
        check("ex-share-the-batch", nearly)
