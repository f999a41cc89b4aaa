"""Graders of chapter 11, Collectives and their adjoints."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtlib.collectives.check import ScheduleError, check_primitive
from dtlib.collectives.primitives import PRIMITIVES
from dtlib.collectives.schedule import Schedule
from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, whole
from dtlib.exercises.verdict import NotYet

MB = 10**6


def named(answer: Any, keys: tuple[str, ...]) -> Mapping:
    """``answer`` as a dict with exactly these keys."""
    if not isinstance(answer, dict) or set(answer) != set(keys):
        raise NotYet(f"pass a dict with the keys {', '.join(keys)}")
    return answer


@grader("ex-what-must-travel")
def what_must_travel(answer: Any) -> str:
    n, P = 600 * MB, 6
    right = {
        "broadcast": (P - 1) * n,
        "gather": (P - 1) * n / P,
        "reduce-scatter": (P - 1) * n,
        "all-to-all": (P - 1) * n,
    }
    given = named(answer, tuple(right))
    for name, expected in right.items():
        mistakes = {
            expected / MB: "in bytes, please",
            P * n: "who has a piece already need not receive it",
            n: "count what everybody receives who lacks something"
            if name != "gather"
            else "one of the chunks is at rank 0 already",
        }
        if name != "gather":
            mistakes[(P - 1) * n / P] = "that is what one rank sends or receives"
            mistakes[n * np.log2(P)] = "rounds are not bytes: count what must be received"
        number(given[name], expected, name, "bytes", mistakes=mistakes)
    return "count what must be received, and nothing can do with less"


@grader("ex-relief-at-the-root")
def relief_at_the_root(answer: Any) -> str:
    total, busiest = items(answer, "(factor_a, factor_b)", 2)
    number(
        total,
        1,
        "factor_a",
        mistakes={
            32: "that is one port; add up the bytes of all ranks",
            64: "add up the bytes of all ranks, for both algorithms",
        },
    )
    number(
        busiest,
        32,
        "factor_b",
        mistakes={
            64: "the ring's rank sends in both halves",
            63: "how much does one rank of the ring send, in both halves?",
            31.5: "the ring sends a little less than two vectors from each rank",
            16: "count only what the root sends, and only what a ring's rank sends",
            1 / 32: "by which factor does the ring lower it?",
        },
    )
    return "the same bytes, from all ports instead of one"


@grader("ex-sentences-backwards")
def sentences_backwards(answer: Any) -> str:
    right = ("reduce-scatter", "gather", "reduce", 1), ("all-gather", "reduce", "gather", 8)
    for i, (given, wanted) in enumerate(
        zip(items(answer, "the answer", 2), right, strict=True), start=1
    ):
        first, then, result, times = items(given, f"sentence {i}", 4)
        words = tuple(
            str(w).strip().lower().replace("_", "-").replace(" ", "-")
            for w in (first, then, result)
        )
        for word in words:
            if word not in PRIMITIVES:
                raise NotYet(f"sentence {i}: {word!r} is none of {', '.join(PRIMITIVES)}")
        if words[:2] == (wanted[1], wanted[0]):
            raise NotYet(f"sentence {i}: the order of the two turns round as well")
        if words[:2] != wanted[:2]:
            raise NotYet(f"sentence {i}: each of the two becomes its adjoint; look at the theorem")
        if words[2] != wanted[2]:
            raise NotYet(f"sentence {i}: the result becomes its adjoint, too")
        if whole(times, f"times of sentence {i}") != wanted[3]:
            raise NotYet(f"sentence {i}: how many ranks hold a chunk in between?")
    return "each becomes its adjoint, and the order turns round"


@grader("ex-which-pairs-fit")
def which_pairs_fit(answer: Any) -> str:
    fit, once, same = (
        whole(v, what)
        for v, what in zip(
            items(answer, "(fit, once, no_change)", 3), ("fit", "once", "no_change"), strict=True
        )
    )
    if fit != 17:
        hint = " (all-reduce begins and ends at every rank)" if fit in (12, 14, 16) else ""
        raise NotYet(f"fit: for each place, count what arrives and what leaves, and multiply{hint}")
    if once != 8:
        raise NotYet("once: through which of the three places does every contribution go once?")
    if same != 2:
        raise NotYet("no_change: a sum is a change; who moves pieces there and back again?")
    return "two places join arrows, the third one multiplies"


@grader("ex-three-properties")
def three_properties(answer: Any) -> str:
    a, c, e = "associative", "commutative", "elementwise"
    right = {
        "float sum": ({c, e}, {a: "(a + b) + c need not be a + (b + c): think of the 1.0"}),
        "minus": ({e}, {a: "(3 - 2) - 1 and 3 - (2 - 1)", c: "3 - 2 and 2 - 3"}),
        "mean": ({c, e}, {a: "take the mean of 0 and 0, and then with 4; now start from the end"}),
        "left": ({a, e}, {c: "left(x, y) and left(y, x)", a: "what is left of x, y and z?"}),
        "matrix product": ({a}, {c: "try two matrices", e: "one element needs a row and a column"}),
        "four largest": ({a, c}, {e: "can one element be decided without the others?"}),
    }
    given = named(answer, tuple(right))
    for name, (wanted, hints) in right.items():
        if not isinstance(given[name], set | frozenset | list | tuple):
            raise NotYet(f"{name}: pass a set of words, got {given[name]!r}")
        words = set(given[name])
        if not words <= {a, c, e}:
            raise NotYet(f"{name}: the words are {a}, {c}, {e}")
        for word in (a, c, e):
            if (word in words) != (word in wanted):
                raise NotYet(f"{name}, {word}? {hints.get(word, 'try it on small numbers')}")
    return "associative and elementwise is what the two halves need"


@grader("ex-repair-the-backward-pass")
def repair_the_backward_pass(answer: Any) -> str:
    backward = function(answer, "backward(grads)")
    generator = np.random.default_rng(11)
    for P, k in ((1, 2), (2, 1), (3, 2), (5, 4)):
        grads = [generator.integers(-99, 99, P * k) for _ in range(P)]
        kept = [g.copy() for g in grads]
        given = call(backward, grads)
        if any(not np.array_equal(g, h) for g, h in zip(grads, kept, strict=True)):
            raise NotYet("the function changes the gradients that it is given")
        given = items(given, "the answer", P)
        total = sum(kept)
        own = [g[r * k : (r + 1) * k] for r, g in enumerate(kept)]
        wanted = [total[r * k : (r + 1) * k] for r in range(P)]
        where = f"{P} ranks with chunks of {k}: "
        try:
            arrays = [np.asarray(g, dtype=float) for g in given]
        except (TypeError, ValueError):
            raise NotYet(f"{where}every rank gets an array of numbers") from None
        for r, array in enumerate(arrays):
            if array.shape != (k,):
                raise NotYet(
                    f"{where}rank {r} gets an array of shape {array.shape}, its chunk has {k}"
                )
        if all(np.array_equal(g, w) for g, w in zip(arrays, wanted, strict=True)):
            continue
        if all(np.array_equal(g, o) for g, o in zip(arrays, own, strict=True)):
            raise NotYet(f"{where}what the other ranks did with a rank's chunk is missing")
        if all(np.allclose(g * P, w) for g, w in zip(arrays, wanted, strict=True)):
            raise NotYet(f"{where}that is a mean; the adjoint of copying is a sum")
        raise NotYet(f"{where}<Ax, w> and <x, A'w> differ")
    return "the adjoint of an all-gather is a reduce-scatter"


class _Value:
    """A value, or what `add` made of two: it says nothing, so that nobody can make one up."""

    __slots__ = ()


@grader("ex-brackets-for-a-sum")
def brackets_for_a_sum(answer: Any) -> str:
    total = function(answer, "total(values, add)")
    for n in (1, 2, 3, 4, 5, 7, 8, 13, 16, 33):
        values = [_Value() for _ in range(n)]
        depths = {value: [(i, 0)] for i, value in enumerate(values)}  # value number, additions

        def add(x: Any, y: Any, depths: dict = depths) -> _Value:
            if not all(isinstance(part, _Value) and part in depths for part in (x, y)):
                raise TypeError("add takes two of the values, or results of add")
            both = _Value()
            depths[both] = [(i, d + 1) for i, d in depths[x] + depths[y]]
            return both

        result = call(total, list(values), lambda x, y, add=add: add(x, y))
        if not isinstance(result, _Value) or result not in depths:
            raise NotYet(f"{n} values: return what add gives, got {type(result).__name__}")
        order = [i for i, _ in depths[result]]
        if sorted(order) != list(range(n)):
            missing = sorted(set(range(n)) - set(order))
            what = f"value {missing[0]} is missing" if missing else "a value is used twice"
            raise NotYet(f"{n} values: {what}")
        if order != list(range(n)):
            raise NotYet(f"{n} values: they do not stay in their order")
        deepest = max(d for _, d in depths[result])
        if deepest > (n - 1).bit_length():
            raise NotYet(f"{n} values: one of them takes part in {deepest} additions, too many")
    return "in order, and no value rounded more than log2 n times"


@grader("ex-broadcast-crossover")
def broadcast_crossover(answer: Any) -> str:
    P, unit = 64, 5e-6 * 50e9
    share = 2 * (P - 1) / P
    number(
        answer,
        (P - 1) * unit / (6 - share),
        "the size",
        "bytes",
        mistakes={
            (P - 1) * unit / (6 - share / 2): "scatter and all-gather both carry bytes",
            (P + 5) * unit / (6 - share): "the tree has starts, too",
            (P - 1) * unit / 6: "the second one carries bytes as well",
            (P - 1) * unit / (6 - share) / MB: "in bytes, please",
            (P - 1) * unit / (6 - share) / 8: "the link is given in bytes, not in bits",
        },
    )
    return "below it the tree, above it scatter and all-gather"


@grader("ex-counted-once")
def counted_once(answer: Any) -> str:
    one, two, mended = items(answer, "(factor_a, factor_b, factor_c)", 3)
    number(
        one,
        8,
        "factor_a",
        mistakes={
            1: "how many losses does the transpose add up?",
            64: "there is one all-reduce here, and it adds up once",
            1 / 8: "too large, not too small",
        },
    )
    number(
        two,
        8,
        "factor_b",
        mistakes={
            64: "the first all-reduce adds different v_r: that sum belongs to the derivative",
            16: "follow the gradient through each all-reduce in turn",
            1: "every rank still starts from its own copy of the loss",
        },
    )
    number(
        mended,
        1,
        "factor_c",
        mistakes={
            8: "which of the two sums did count the losses?",
            1 / 8: "the first all-reduce still adds the different v_r, as it must",
        },
    )
    return "the factor is the number of losses, not of all-reduces"


@grader("ex-across-the-cut")
def across_the_cut(answer: Any) -> str:
    right = {"all-gather": 0.5, "reduce-scatter": 0.5, "all-to-all": 16, "all-reduce": 1}
    hints = {
        "all-gather": {
            16: "over there they can pass it on: each chunk need cross only once",
            1: "the other side has its own chunks already",
            31.5: "that is a half of the total; how many chunks must cross?",
        },
        "reduce-scatter": {
            16: "this side can add up first: one partial sum for each chunk over there",
            1: "only the chunks that are owned over there must cross",
            31.5: "that is a half of the total; how many partial sums must cross?",
        },
        "all-to-all": {
            0.5: "no block is like another, and each has one receiver: count the blocks",
            31.5: "not everything that is sent crosses: count the pairs of ranks",
            32: "in one direction only",
        },
        "all-reduce": {
            2: "in one direction only",
            0.5: "every rank over there needs this side's sum, of every chunk",
            16: "this side can add up first",
        },
    }
    given = named(answer, tuple(right))
    for name, expected in right.items():
        number(given[name], expected, name, "units of n", mistakes=hints[name])
    return "the same total, 32 times as much across the line"


@grader("ex-one-round")
def one_round(answer: Any) -> str:
    build = function(answer, "direct_reduce_scatter(P)")
    for P in (2, 3, 4, 7):
        schedule = call(build, P)
        if not isinstance(schedule, Schedule):
            raise NotYet(f"return a Schedule, got {type(schedule).__name__}")
        if schedule.P != P:
            raise NotYet(f"P = {P}: the schedule is for {schedule.P} ranks")
        if schedule.chunks != P:
            raise NotYet(f"P = {P}: cut the vector into P chunks, not into {schedule.chunks}")
        if len(schedule) != 1:
            raise NotYet(f"P = {P}: a single round, please; this has {len(schedule)}")
        for wanted, what in (
            (schedule, "reduce-scatter"),
            (schedule >> schedule.reversed(), "all-reduce"),
        ):
            try:
                check_primitive(wanted, PRIMITIVES[what])
            except ScheduleError as error:
                problem = str(error.problems[0]) if error.problems else str(error)
                raise NotYet(f"P = {P}, {what}: {problem}") from None
    return "one round there, one round back, and every contribution counted once"
