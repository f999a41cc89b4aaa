"""Graders of chapter 14, Data parallelism."""

import math
import random
from fractions import Fraction
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, unaided
from dtlib.exercises.judge import formula as judge_formula
from dtlib.exercises.verdict import NotYet

ms = 1e-3


@grader("ex-tokens-to-hide")
def tokens_to_hide(answer: Any) -> str:
    a, b = items(answer, "(tokens_a, tokens_b)", 2)
    rho = 989e12 / 450e9
    both = "twice as long as the all-reduce; and 450 GB/s are those of one direction"
    number(a, 7 / 6 * rho, "(a)", "tokens", mistakes={
        7 / 12 * rho: both,
        4 / 3 * rho: "a rank of eight keeps its own eighth: it sends 7/8, twice",
        7 / 3 * rho: "6 operations for each parameter and token: 2 forward and 4 backward",
        7 / 4 * rho: "the whole step computes, not only its backward pass",
    })  # fmt: skip
    number(b, 7 / 8 * rho, "(b)", "tokens", mistakes={
        7 / 12 * rho: "that is the whole step; the backward pass is two thirds of it",
        rho: "a rank of eight keeps its own eighth: it sends 7/8, twice",
        7 / 4 * rho: "the backward pass has twice the operations of the forward pass",
    })  # fmt: skip
    return "tokens, not samples, and no parameter count in either"


@grader("ex-weight-of-a-token")
def weight_of_a_token(answer: Any) -> str:
    a, b = items(answer, "(factor_a, factor_b)", 2)
    for name, value, n in (("(a)", a, 8), ("(b)", b, 1032)):
        number(value, 2048 / (4 * n), name, mistakes={
            2048 / n: "the mean over the ranks divides by their number as well",
            4 * n / 2048: "the other way up: what it weighs, over what it should",
            1 / (4 * n): "that is what it weighs; compare it with what it should",
        })  # fmt: skip
    return "what each token weighs, over what it should"


@grader("ex-hundred-layers")
def hundred_layers(answer: Any) -> str:
    a, b = items(answer, "(seconds_a, seconds_b)", 2)
    number(a, 28 * ms, "(a)", "s", mistakes={
        108 * ms: "that is when all is over; how much of it is beyond the backward pass?",
        20.8 * ms: "that is for 100 buckets",
        20 * ms: "the network waits for the first bucket",
        10 * ms: "the network is slower here: more than the last bucket is late",
        28: "in seconds, please",
    })  # fmt: skip
    number(b, 4 * ms, "(b)", "s", mistakes={
        84 * ms: "that is when all is over; how much of it is beyond the backward pass?",
        0.4 * ms: "that is for 100 buckets",
        40 * ms: "nine of the ten buckets travel under the backward pass",
        4: "in seconds, please",
    })  # fmt: skip
    return "a slow network is late by more than its last bucket, a fast one by just that"


@grader("ex-four-micro-batches")
def four_micro_batches(answer: Any) -> str:
    a, b, c = items(answer, "(seconds_a, seconds_b, seconds_c)", 3)
    number(a, 0.440, "(a)", "s", mistakes={
        0.560: "with no_sync only the last micro-batch communicates",
        0.400: "nothing overlaps here",
        440: "in seconds, please",
    })  # fmt: skip
    number(b, 0.560, "(b)", "s", mistakes={
        0.440: "without no_sync every backward pass ends with an all-reduce",
        560: "in seconds, please",
    })  # fmt: skip
    number(c, 0.400, "(c)", "s", mistakes={
        0.440: "the last backward pass is there to hide under",
        0.370: "hidden communication takes no time off the computing",
        400: "in seconds, please",
    })  # fmt: skip
    return "accumulation communicates once, and that once hides"


@grader("ex-top-one-percent")
def top_one_percent(answer: Any) -> str:
    a, b = items(answer, "(seconds_a, seconds_b)", 2)
    for name, value, P in (("(a)", a, 8), ("(b)", b, 64)):
        number(value, (10 + 0.75 * P) * ms, name, "s", tolerance=0.004, mistakes={
            11.5 * ms: "the ranks keep other places: nothing can be added on the way",
            10.5 * ms: "places take bytes too, and everybody needs everybody's list",
            0.75 * P * ms: "finding the values and putting them back takes its time, too",
            (10 + 0.25 * P) * ms: "each value brings its place along",
            10 + 0.75 * P: "in seconds, please",
        })  # fmt: skip
    return "an all-gather of lists, which grows with every rank"


@grader("ex-how-much-is-hidden")
def how_much_is_hidden(answer: Any) -> str:
    def right(backward, comm, k):
        return 1 - (max(backward + comm / k, backward / k + comm) - backward) / comm

    def printed(backward, comm, k):
        return sum(min(1, comm / (backward * i)) for i in range(1, k + 1)) / k

    def only_fast(backward, comm, k):
        return 1 - 1 / k

    def bytes_only(backward, comm, k):
        return min(1, backward / comm)

    cases = [
        {"backward": b, "comm": c, "k": k}
        for b, c, k in ((80, 100, 100), (80, 40, 10), (3.0, 0.001, 7), (5, 500, 20), (1, 1, 1))
    ]
    judge_formula(
        answer,
        right,
        "hidden(backward, comm, k)",
        cases,
        wrong=[
            (
                printed,
                "that is still the printed formula: it hides nothing when it should hide all",
            ),
            (only_fast, "right while the network keeps up; what if it is the slower one?"),
            (bytes_only, "what of the first bucket, or of the last one?"),
        ],
    )
    return "from networks that hide all but a bucket to those that hide little"


@grader("ex-events")
def events(answer: Any) -> str:
    from dtlib.parallelism import simulate_step

    function(answer, "step_time(forward, backward, costs)")
    draw = random.Random(14)

    def times(count):
        return [Fraction(draw.randint(1, 40), draw.randint(1, 6)) for _ in range(count)]

    for P, k in ((1, 1), (1, 5), (2, 1), (2, 3), (3, 4), (4, 8), (5, 2)):
        for _ in range(6):
            forward, backward, costs = times(P), times(P), times(k)
            with unaided(simulate_step, write="the events"):
                given = call(answer, list(forward), list(backward), list(costs))
            given = real(given, "the time", "s")
            expected, slips = _step_time(forward, backward, costs)
            if math.isclose(given, expected, rel_tol=1e-9):
                continue
            where = f"{P} ranks, {k} bucket{'s' * (k > 1)}"
            for value, hint in slips:
                if math.isclose(given, value, rel_tol=1e-9):
                    raise NotYet(f"{where}: {hint}")
            side = "late" if given > expected else "early"
            raise NotYet(f"{where}: your step ends too {side}")
    return "42 steps of one to five ranks and one to eight buckets, to the last digit"


def _step_time(forward, backward, costs):
    k, free, alone, first = len(costs), 0, 0, 0
    ends = [f + b for f, b in zip(forward, backward, strict=True)]
    slowest, last, both, one = max(ends), ends.index(max(ends)), 0, 0
    for i, cost in enumerate(costs):
        at = [f + b * (i + 1) / k for f, b in zip(forward, backward, strict=True)]
        free, first = max(free, max(at)) + cost, max(first, at[0]) + cost
        one = max(one, at[last]) + cost
        both = max(both, max(forward) + max(backward) * (i + 1) / k) + cost
        alone = max(alone, max(at) + cost)
    return free, [
        (slowest + sum(costs), "a bucket need not wait for the end of the backward pass"),
        (alone, "the network has one all-reduce at a time: the one before must be over"),
        (one, "a bucket waits for its last rank, which need not be the one that ends last"),
        (both, "the longest forward and the slowest backward pass may be those of two ranks"),
        (first, "a bucket waits for the last of all ranks, not for rank 0"),
    ]


@grader("ex-share-the-batch")
def share_the_batch(answer: Any) -> str:
    function(answer, "shares(batch, speeds)")
    draw = random.Random(8)
    cases = [(10, [1, 1, 2]), (7, [1.0]), (256, [1.0, 0.5]), (3, [1, 1, 1, 1]), (0, [1, 2])]
    cases += [
        (draw.randint(5, 80), [draw.uniform(0.2, 2) for _ in range(draw.randint(2, 8))])
        for _ in range(40)
    ]
    for batch, speeds in cases:
        where = f"{batch} samples, {len(speeds)} ranks"
        given = items(call(answer, batch, list(speeds)), f"{where}: the shares", len(speeds))
        sizes = [real(n, f"{where}: a share") for n in given]
        if any(n != int(n) or n < 0 for n in sizes):
            raise NotYet(f"{where}: a share must be a whole number of samples, 0 or more")
        if sum(sizes) != batch:
            raise NotYet(f"{where}: the shares add up to {sum(sizes):g}")
        slowest = max(n / s for n, s in zip(sizes, speeds, strict=True))
        if slowest > _earliest(batch, speeds) * (1 + 1e-9):
            equal = len(set(map(int, sizes))) <= 2 and max(sizes) - min(sizes) <= 1
            raise NotYet(
                f"{where}: equal shares leave the fast ranks idle"
                if equal
                else f"{where}: all samples are handed out, but another division is done earlier"
            )
    return "45 batches, none of which can be done earlier"


def _earliest(batch, speeds):
    given = [0] * len(speeds)
    for _ in range(batch):
        first = min(range(len(speeds)), key=lambda r: (given[r] + 1) / speeds[r])
        given[first] += 1
    return max(n / s for n, s in zip(given, speeds, strict=True))


@grader("ex-stale")
def stale(answer: Any) -> str:
    factor, mean = items(answer, "(factor, mean)", 2)
    factors = [math.exp(-0.1 * tau) for tau in range(16)]
    number(factor, factors[15], "(a)", tolerance=0.005, mistakes={
        math.exp(-1.6): "fresh is a staleness of 0",
        math.exp(1.5): "a stale gradient counts for less",
    })  # fmt: skip
    number(mean, sum(factors) / 16, "(b)", tolerance=0.0008, mistakes={
        sum(factors[1:]) / 15: "0 is one of them: a fresh gradient counts in full",
        math.exp(-0.75): "the mean of the factors is not the factor of the mean",
        sum(factors) / 15: "how many numbers are there from 0 to 15?",
    })  # fmt: skip
    return "one factor, and the mean of sixteen"


_KINDS = ("bitwise", "tolerance", "divergent")
_HINTS = {
    "a": "what could move a bit, if the algorithm adds in the same order?",
    "b": "the same samples, but how are their gradients grouped?",
    "c": "what decides at which rank a ring begins to add an element?",
    "d": "how many ways are there to add two numbers?",
    "e": "which samples does the first step see?",
    "f": "which numbers are dropped?",
}


@grader("ex-which-kind")
def which_kind(answer: Any) -> str:
    right = dict(zip("abcdef", (0, 1, 1, 0, 2, 2), strict=True))
    if not isinstance(answer, dict) or set(answer) != set(right):
        raise NotYet("pass a dict with the keys a, b, c, d, e, f")
    for key, kind in right.items():
        if answer[key] not in _KINDS:
            raise NotYet(f"({key}) must be one of {', '.join(_KINDS)}, got {answer[key]!r}")
        if answer[key] != _KINDS[kind]:
            raise NotYet(f"({key}) is of another kind: {_HINTS[key]}")
    return "two runs that agree in every bit, two that nearly do, two that do not"


@grader("ex-five-claims")
def five_claims(answer: Any) -> str:
    asked = {
        "a": (1, {1 / 32: "the ranks share the batch; together they average as many as before",
                  32: "a rank's own mean is noisier, but 32 of them are averaged"}),
        "b": (1.6, {1: "a mean of four means weighs the samples of the large rank less",
                    1 / 1.6: "the other way up",
                    0.1: "in multiples of the variance of 256 samples, please"}),
        "c": (32, {1: "a sum of 32 means is not a mean"}),
        "d": (1, {16: "over N, not times N", 4: "the batch has grown, too"}),
        "e": (2, {4: "the batch has grown, too", 1: "the batch enters by its root",
                  0.5: "the learning rate has grown, too"}),
    }  # fmt: skip
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet("pass a dict with the keys a, b, c, d, e")
    for key, (expected, mistakes) in asked.items():
        number(answer[key], expected, f"({key})", mistakes=mistakes)
    return "two claims about variance, one about sums, and two kinds of noise"


_STEP_HINTS = {
    "a": "are the parameters equal before the first step?",
    "b": "what does the loss of a sample depend on?",
    "c": "each rank computes a right gradient; of which samples is their sum?",
    "d": "do all ranks apply the same function?",
    "e": "each rank computes a right gradient; with which weights are they added?",
    "f": "are the parameters equal when the run goes on?",
}


@grader("ex-where-the-proof-stops")
def where_the_proof_stops(answer: Any) -> str:
    right = dict(zip("abcdef", (1, 2, 3, 4, 3, 1), strict=True))
    if not isinstance(answer, dict) or set(answer) != set(right):
        raise NotYet("pass a dict with the keys a, b, c, d, e, f")
    for key, step in right.items():
        given = real(answer[key], f"({key})")
        if given not in (1, 2, 3, 4):
            raise NotYet(f"({key}) must be the number of a step of the proof")
        if given != step:
            raise NotYet(f"({key}) stops at another step: {_STEP_HINTS[key]}")
    return "every condition of the theorem, and the step that needs it"
