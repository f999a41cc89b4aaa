"""The laws of the lab 'How large a batch': each says what is wrong, and where."""

import math
from collections.abc import Callable
from random import Random
from typing import Any

from dtlib.exercises.judge import call, function, functions, items, number, real, whole
from dtlib.exercises.labs.how_large_a_batch import noise, price
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.replicas import record_replicas
from dtlib.later import torch
from dtlib.scaling_laws.noise.estimate import NoiseScale, noise_scale


def squares_law(answer: Callable, P: int) -> None:
    draw = Random(P)
    rows = [[draw.randint(-9, 9) for _ in range(5)] for _ in range(P)]
    gradients = [torch.tensor(row, dtype=torch.float64) for row in rows]
    trace = record_replicas(lambda comm: answer(gradients[comm.rank].clone(), comm), P)
    found = [
        [real(x, name) for x, name in zip(items(pair, "two_squares", 2), ("small", "large"))]  # noqa: B905
        for pair in trace.results
    ]
    if any(pair != found[0] for pair in found):
        raise NotYet("the ranks hold different numbers: which square is a mean over all of them?")
    small, large = found[0]
    due_large = sum((sum(column) / P) ** 2 for column in zip(*rows, strict=True))
    due_small = sum(x * x for row in rows for x in row) / P
    number(large, due_large, "the square of the mean gradient", tolerance=1e-9, mistakes={
        due_large * P**2: "a sum is no mean",
        due_large**0.5: "that is a norm, and its square was asked for",
    })  # fmt: skip
    number(small, due_small, "the mean of the ranks' squares", tolerance=1e-9, mistakes={
        due_large: "was the gradient still this rank's own when you took its square?",
        due_small * P: "a sum is no mean",
        sum(sum(x * x for x in row) ** 0.5 for row in rows) / P: "that is a mean of norms",
    })  # fmt: skip


OWN, RANKS = 4, 8


def moments_law(answer: Any) -> None:
    moments, scale, allowed = functions(
        answer,
        "moments(small, large, own, P)",
        "scale(signals, noises)",
        "allowed(ratio, signals, noises)",
    )
    for name, signals, noises in measured():
        small = [s + n / OWN for s, n in zip(signals, noises, strict=True)]
        large = [s + n / (OWN * RANKS) for s, n in zip(signals, noises, strict=True)]
        _judge_moments(call(moments, small, large, OWN, RANKS), small, large)
        due = noise_scale(small, large, OWN, OWN * RANKS)
        _judge_scale(call(scale, list(signals), list(noises)), signals, noises, name)
        _judge_allowed(lambda r: call(allowed, r, list(signals), list(noises)), due, name)  # noqa: B023


def measured():
    """Steps that know their noise scale well, and steps that cannot tell the gradient from 0."""
    noises = [38.0, 44.0, 41.0, 35.0, 43.0, 39.0]
    yield "steps that say much", [2.2, 1.8, 2.4, 1.7, 2.0, 1.9], noises
    yield "steps that say little", [1.6, -0.9, 0.4, 1.7, -1.0, 1.2], noises


def _judge_moments(found: Any, small: list, large: list) -> None:
    rows = [items(row, "a list of moments", len(small)) for row in items(found, "moments", 2)]
    due_signals, due_noises = noise.moments(small, large, OWN, RANKS)
    _, of_a_rank = noise.moments(small, large, OWN, RANKS, sample=False)
    for step in range(len(small)):
        where = f"small {small[step]:.2f}, large {large[step]:.2f}, {RANKS} ranks of {OWN} samples"
        number(rows[1][step], due_noises[step], f"{where}: tr Sigma of one sample",
               tolerance=1e-9, mistakes={
            of_a_rank[step]: "that is the noise of a rank's gradient, and a sample has more",
            due_signals[step]: "first |G|^2, then tr Sigma",
            OWN * (small[step] - large[step]): "the large batch has noise as well",
        })  # fmt: skip
        number(rows[0][step], due_signals[step], f"{where}: |G|^2", tolerance=1e-9, mistakes={
            large[step]: "the large batch has noise as well",
        })  # fmt: skip


def _judge_scale(found: Any, signals: list, noises: list, where: str) -> None:
    value = real(found, f"{where}: scale", "samples")
    each = noise.ratios_first(signals, noises)
    due = noise.scale(signals, noises)
    number(value, due, f"{where}: scale", "samples", tolerance=1e-9, mistakes={
        each: "a mean of ratios is not the ratio of means: add up first, divide last",
        1 / due: "noise over signal",
    })  # fmt: skip


def _judge_allowed(allows: Callable, due: NoiseScale, where: str) -> None:
    if not allows(due.value):
        raise NotYet(f"{where}: the ratio of the means itself is not allowed")
    if due.high == math.inf:
        if not allows(1e9):
            raise NotYet(
                f"{where}: |G|^2 may be 0 for all that they know, and then no noise scale is too "
                "large; judge the gap noise - ratio * signal of each step"
            )
        return
    for end, inside, outside in ((due.low, 1.01, 0.99), (due.high, 0.99, 1.01)):
        if not allows(end * inside):
            raise NotYet(f"{where}: the interval is narrower than 95 % demand (how few steps?)")
        if allows(end * outside):
            raise NotYet(
                f"{where}: the interval is wider than 95 % demand (of a mean, not of one?)"
            )


VALLEYS = ((0, 2), (0, 0), (4, -3), (-9, -8), (7, 7))


def tuned_law(answer: Any) -> None:
    tune = function(answer, "tuned(steps_at, guess)")
    for guess, best in VALLEYS:
        tried: list[int] = []

        def steps_at(place, best=best, tried=tried):
            tried.append(whole(place, "a rate's place"))
            if place > best + 7:
                return math.inf  # such a rate diverges
            return 100.0 + 3 * (place - best) ** 2 + (place - best) / 8

        _judge_tuned(call(tune, steps_at, guess), tried, guess, best)


def _judge_tuned(found: Any, tried: list[int], guess: int, best: int) -> None:
    where = f"from {guess} on"
    place, steps = items(found, "tuned", 2)
    if whole(place, "the place of the best rate") != best:
        raise NotYet(f"{where}: tuned returns {place}, and a neighbour of it needs fewer steps")
    if real(steps, "steps") != 100:
        raise NotYet(f"{where}: tuned returns the steps that the best rate needs, too")
    missing = {best - 1, best + 1} - set(tried)
    if missing:
        raise NotYet(f"{where}: nobody has tried {min(missing)}: a best rate has a worse neighbour "
                     "on either side")  # fmt: skip
    if len(set(tried)) < len(tried):
        raise NotYet(
            f"{where}: the same rate is run twice; a run costs seconds here, days elsewhere"
        )
    if len(tried) > abs(best - guess) + 3:
        raise NotYet(f"{where}: {len(tried)} runs; walk downhill, and stop where it rises")


PRICES = (
    # fewest, noise, sample_time, fixed, sizes
    (1000, 64, 0.5, 2.0, (1, 2, 4, 8, 16, 32)),
    (40, 300, 0.01, 0.5, (8, 16, 64)),
    (5000, 10, 2.0, 0.1, (1, 3, 6, 12)),
)


def choose_law(answer: Any) -> None:
    choose = function(answer, "choose(fewest, noise, sample_time, fixed, sizes, deadline)")
    for *given, sizes in PRICES:
        least = _least_time(*given, sizes)
        for slack in (1.05, 1.5, 3.0, 50.0):
            found = call(choose, *given, list(sizes), least * slack)
            _judge_choice(found, given, sizes, least * slack)
        try:
            choose(*given, list(sizes), least * 0.99)
        except ValueError:
            continue
        raise NotYet(
            f"no way of {list(sizes)} ranks meets {least * 0.99:.0f} s: raise a ValueError"
        )


def _least_time(fewest, noise_batch, sample_time, fixed, sizes) -> float:
    return min(
        price.seconds(fewest, noise_batch, P * own, own, sample_time, fixed)
        for P in sizes
        for own in range(1, 400)
    )


def _judge_choice(found: Any, given: list, sizes: tuple, deadline: float) -> None:
    fewest, noise_batch, sample_time, fixed = given
    P, own = (whole(x, "choose") for x in items(found, "choose: (P, own)", 2))
    where = f"{sizes} ranks, deadline {deadline:.0f} s: {P} ranks of {own}"
    if P not in sizes or own < 1:
        raise NotYet(f"{where}: there are no such ranks")
    time = price.seconds(fewest, noise_batch, P * own, own, sample_time, fixed)
    if time > deadline * (1 + 1e-12):
        raise NotYet(f"{where} take {time:.0f} s")
    right = price.choose(*given, sizes, deadline)
    least = right[0] * price.seconds(
        fewest, noise_batch, right[0] * right[1], right[1], sample_time, fixed
    )
    if P * time > least * (1 + 1e-9):
        raise NotYet(f"{where} are in time, and not the cheapest: what is paid is P times the time")
