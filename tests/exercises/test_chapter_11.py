"""Every check of chapter 11: the solution passes; the stub, wrong answers and dtlib's own fail."""

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.collectives import Schedule, Send, halving_doubling_reduce_scatter, ring_reduce_scatter
from dtlib.exercises import NotYet, check

MB = 10**6
LEAST = {
    "broadcast": 3000 * MB,
    "gather": 500 * MB,
    "reduce-scatter": 3000 * MB,
    "all-to-all": 3000 * MB,
}
A, C, E = "associative", "commutative", "elementwise"
WORDS = {
    "float sum": {C, E},
    "minus": {E},
    "mean": {C, E},
    "left": {A, E},
    "matrix product": {A},
    "four largest": {A, C},
}
SENTENCES = [("reduce-scatter", "gather", "reduce", 1), ("all-gather", "reduce", "gather", 8)]
CROSSING = {"all-gather": 0.5, "reduce-scatter": 0.5, "all-to-all": 16, "all-reduce": 1}


def backward(grads):
    return np.split(sum(grads), len(grads))


def leaky_backward(grads):
    return [np.split(g, len(grads))[r] for r, g in enumerate(grads)]


def backward_in_place(grads):
    for other in grads[1:]:
        grads[0] += other
    return np.split(grads[0], len(grads))


def total(values, add):
    if len(values) == 1:
        return values[0]
    middle = (len(values) + 1) // 2
    return add(total(values[:middle], add), total(values[middle:], add))


def total_by_neighbours(values, add):
    while len(values) > 1:
        pairs = [add(*values[i : i + 2]) for i in range(0, len(values) - 1, 2)]
        values = pairs + ([values[-1]] if len(values) % 2 else [])
    return values[0]


def total_in_order(values, add):
    result = values[0]
    for value in values[1:]:
        result = add(result, value)
    return result


def total_without_the_odd_one(values, add):
    while len(values) > 1:
        values = [add(*values[i : i + 2]) for i in range(0, len(values) - 1, 2)]
    return values[0]


def total_folded(values, add):
    while len(values) > 1:
        half = (len(values) + 1) // 2
        rest = values[half:]
        values = [add(a, b) for a, b in zip(values, rest, strict=False)] + values[len(rest) : half]
    return values[0]


def direct(P, reduce=True, chunk=lambda src, dst: dst):
    sends = [Send(s, d, chunk(s, d), reduce) for s in range(P) for d in range(P) if s != d]
    return Schedule(P, P, [sends])


CASES = {
    "ex-what-must-travel": Case(
        solution=LEAST,
        wrong=[
            (LEAST | {"broadcast": 600 * MB * np.log2(6)}, "rounds are not bytes"),
            (LEAST | {"broadcast": 3600 * MB}, "need not receive it"),
            (LEAST | {"gather": 600 * MB}, "at rank 0 already"),
            (LEAST | {"reduce-scatter": 500 * MB}, "what one rank sends"),
            ({k: v / MB for k, v in LEAST.items()}, "in bytes, please"),
            ({"broadcast": 1}, "the keys broadcast, gather"),
        ],
        secret=[3e9, 5e8],
    ),
    "ex-relief-at-the-root": Case(
        solution=(1, 32),
        wrong=[
            ((32, 32), "factor_a: that is one port"),
            ((1, 64), "in both halves"),
            ((1, 31.5), "a little less than two"),
            ((1, 1 / 32), "does the ring lower it"),
        ],
    ),
    "ex-sentences-backwards": Case(
        solution=SENTENCES,
        also_right=[[tuple(SENTENCES[0]), ("all_gather", "Reduce", "gather", 8.0)]],
        wrong=[
            ([("gather", "reduce-scatter", "reduce", 1), SENTENCES[1]], "turns round as well"),
            ([SENTENCES[0], ("all-gather", "reduce", "scatter", 8)], "result becomes its adjoint"),
            ([SENTENCES[0], ("all-gather", "reduce", "gather", 1)], "how many ranks hold"),
            ([("scatter", "all-gather", "reduce", 1), SENTENCES[1]], "becomes its adjoint; look"),
            ([("sum", "gather", "reduce", 1), SENTENCES[1]], "is none of broadcast"),
        ],
    ),
    "ex-which-pairs-fit": Case(
        solution=(17, 8, 2),
        wrong=[
            ((12, 8, 2), "all-reduce begins and ends"),
            ((17, 17, 2), "through which of the three places"),
            ((17, 8, 3), "a sum is a change"),
            ((17, 8), "3 items"),
        ],
    ),
    "ex-three-properties": Case(
        solution=WORDS,
        also_right=[{k: sorted(v) for k, v in WORDS.items()}],
        wrong=[
            (WORDS | {"float sum": {A, C, E}}, "float sum, associative"),
            (WORDS | {"mean": {A, C, E}}, "mean, associative"),
            (WORDS | {"left": {E}}, "left, associative"),
            (WORDS | {"four largest": {A, C, E}}, "decided without the others"),
            (WORDS | {"minus": {"linear"}}, "the words are"),
            (WORDS | {"minus": E}, "pass a set of words"),
        ],
    ),
    "ex-repair-the-backward-pass": Case(
        solution=backward,
        also_right=[lambda grads: list(np.sum(grads, axis=0).reshape(len(grads), -1))],
        wrong=[
            (leaky_backward, "other ranks did with a rank's chunk is missing"),
            (lambda grads: np.split(np.mean(grads, axis=0), len(grads)), "that is a mean"),
            (lambda grads: [sum(grads)] * len(grads), "shape"),
            (lambda grads: backward(grads)[::-1], "differ"),
            (backward_in_place, "changes the gradients"),
        ],
    ),
    "ex-brackets-for-a-sum": Case(
        solution=total,
        also_right=[total_by_neighbours],
        wrong=[
            (total_in_order, "too many"),
            (total_without_the_odd_one, "is missing"),
            (total_folded, "stay in their order"),
            (lambda values, add: add(values[0], values[0]), "used twice|is missing"),
            (lambda values, add: sum(range(len(values))), "return what add gives"),
            (lambda values, add: type(values[0])(), "return what add gives"),
        ],
    ),
    "ex-broadcast-crossover": Case(
        solution=63 * 250_000 / (6 - 126 / 64),
        wrong=[
            (63 * 250_000 / (6 - 63 / 64), "both carry bytes"),
            (69 * 250_000 / (6 - 126 / 64), "the tree has starts, too"),
            (3.907, "in bytes, please"),
        ],
        secret=[3.907e6, 3.907],
    ),
    "ex-counted-once": Case(
        solution=(8, 8, 1),
        wrong=[
            ((1, 8, 1), "how many losses"),
            ((64, 8, 1), "one all-reduce here"),
            ((8, 1, 1), "its own copy of the loss"),
            ((8, 8, 1 / 8), "as it must"),
            ((8, 64, 1), "belongs to the derivative"),
            ((8, 8, 8), "which of the two sums"),
        ],
    ),
    "ex-across-the-cut": Case(
        solution=CROSSING,
        wrong=[
            (CROSSING | {"all-gather": 16}, "cross only once"),
            (CROSSING | {"reduce-scatter": 1}, "owned over there"),
            (CROSSING | {"all-to-all": 0.5}, "count the blocks"),
            (CROSSING | {"all-reduce": 2}, "one direction"),
        ],
    ),
    "ex-one-round": Case(
        solution=direct,
        wrong=[
            (lambda P: direct(P, reduce=False), "P = 2|P = 3"),
            (lambda P: direct(P, chunk=lambda src, dst: src), "P = 2, reduce-scatter"),
            (ring_reduce_scatter, "a single round"),
            (lambda P: direct(4), "P = 2: the schedule is for"),
            (lambda P: [[]], "return a Schedule, got list"),
            (lambda P: Schedule(P, 1, [[Send(r, 0, 0, True) for r in range(1, P)]]), "P chunks"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("builder", [ring_reduce_scatter, halving_doubling_reduce_scatter])
def test_the_librarys_own_builders_are_no_answer(builder):
    with pytest.raises(NotYet):
        check("ex-one-round", builder)
