"""The exercises of chapter 11, Collectives and their adjoints, in the order of its page."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from dtlib import collectives
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, items, whole
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.judges.schedules import must_pass, schedule_of
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
MB = 10**6
_VECTOR = 600 * MB


def _travels(name: str) -> Asked:
    return Asked(name, 5 * _VECTOR, "bytes", {
        6 * _VECTOR: "who has a piece already need not receive it",
        _VECTOR: "count what everybody receives who lacks something",
        5 / 6 * _VECTOR: "that is what one rank sends or receives",
        math.log2(6) * _VECTOR: "rounds are not bytes: count what must be received"})


what_must_travel = Numbers(
    "ex-what-must-travel",
    About("What must travel", "compute", 1, 6, "count what a collective must move", ("x11.3",)),
    [
        _travels("broadcast"),
        Asked("gather", 5 / 6 * _VECTOR, "bytes", {
              6 * _VECTOR: "who has a piece already need not receive it",
              _VECTOR: "one of the chunks is at rank 0 already"}),
        _travels("reduce-scatter"),
        _travels("all-to-all"),
    ],
    "count what must be received, and nothing can do with less",
    keyed=True,
)

relief_at_the_root = Numbers(
    "ex-relief-at-the-root",
    About("Relief at the root", "compute", 1, 6, "tell total bytes from the busiest port",
          ("x11.3",)),
    [
        Asked("factor_a", 1, slips={
              32: "that is one port; add up the bytes of all ranks",
              64: "add up the bytes of all ranks, for both algorithms"}),
        Asked("factor_b", 32, slips={
              64: "the ring's rank sends in both halves",
              63: "how much does one rank of the ring send, in both halves?",
              31.5: "the ring sends a little less than two vectors from each rank",
              16: "count only what the root sends, and only what a ring's rank sends",
              1 / 32: "by which factor does the ring lower it?"}),
    ],
    "the same bytes, from all ports instead of one",
)

_BACKWARDS = [("reduce-scatter", "gather", "reduce", 1), ("all-gather", "reduce", "gather", 8)]


def _sentence_law(given: Any, right: tuple, where: str) -> None:
    *said, times = items(given, where, 4)
    words = [str(w).strip().lower().replace("_", "-").replace(" ", "-") for w in said]
    for word in words:
        if word not in collectives.PRIMITIVES:
            raise NotYet(f"{where}: {word!r} is none of {', '.join(collectives.PRIMITIVES)}")
    first, then, result, count = right
    if words[:2] == [then, first]:
        raise NotYet(f"{where}: the order of the two turns round as well")
    if words[:2] != [first, then]:
        raise NotYet(f"{where}: each of the two becomes its adjoint; look at the theorem")
    if words[2] != result:
        raise NotYet(f"{where}: the result becomes its adjoint, too")
    if whole(times, f"times of {where}") != count:
        raise NotYet(f"{where}: how many ranks hold a chunk in between?")


def _sentences_law(answer: Any) -> None:
    for i, given in enumerate(items(answer, "the answer", 2)):
        _sentence_law(given, _BACKWARDS[i], f"sentence {i + 1}")


sentences_backwards = Made(
    "ex-sentences-backwards",
    About("Sentences backwards", "compute", 1, 8, "transpose a composition", ("x11.4",)),
    _sentences_law, lambda: _BACKWARDS, "each becomes its adjoint, and the order turns round",
    {
        "the order of the two turns round":
            lambda: [("gather", "reduce-scatter", "reduce", 1), _BACKWARDS[1]],
        "the result becomes its adjoint":
            lambda: [_BACKWARDS[0], ("all-gather", "reduce", "scatter", 8)],
        "how many ranks hold": lambda: [_BACKWARDS[0], ("all-gather", "reduce", "gather", 1)],
        "look at the theorem": lambda: [("scatter", "all-gather", "reduce", 1), _BACKWARDS[1]],
        "is none of broadcast": lambda: [("sum", "gather", "reduce", 1), _BACKWARDS[1]],
    },
)

_FITS = "for each place, count what arrives and what leaves, and multiply"
_ENDS = f"{_FITS} (all-reduce begins and ends at every rank)"

which_pairs_fit = Numbers(
    "ex-which-pairs-fit",
    About("Which pairs fit", "compute", 1, 8, "compose collectives, and count contributions",
          ("x11.4",)),
    [
        Asked("fit", 17, slips={12: _ENDS, 14: _ENDS, 16: _ENDS, 7: _FITS, 49: _FITS}),
        Asked("once", 8, slips=dict.fromkeys(
              (17, 4, 9), "through which of the three places does every contribution go once?")),
        Asked("no_change", 2, slips=dict.fromkeys(
              (3, 4, 8), "a sum is a change; who moves pieces there and back again?")),
    ],
    "two places join arrows, the third one multiplies",
)

_A, _C, _E = "associative", "commutative", "elementwise"
_OPERATORS = {
    "float sum": ({_C, _E}, {_A: "(a + b) + c need not be a + (b + c): think of the 1.0"}),
    "minus": ({_E}, {_A: "(3 - 2) - 1 and 3 - (2 - 1)", _C: "3 - 2 and 2 - 3"}),
    "mean": ({_C, _E}, {_A: "take the mean of 0 and 0, and then with 4; now start from the end"}),
    "left": ({_A, _E}, {_C: "left(x, y) and left(y, x)", _A: "what is left of x, y and z?"}),
    "matrix product": ({_A}, {_C: "try two matrices", _E: "one element needs a row and a column"}),
    "four largest": ({_A, _C}, {_E: "can one element be decided without the others?"}),
}


def _properties_law(answer: Any) -> None:
    if not isinstance(answer, dict) or set(answer) != set(_OPERATORS):
        raise NotYet(f"pass a dict with the keys {', '.join(_OPERATORS)}")
    for name, (right, hints) in _OPERATORS.items():
        if not isinstance(answer[name], set | frozenset | list | tuple):
            raise NotYet(f"{name}: pass a set of words, got {answer[name]!r}")
        words = set(answer[name])
        if not words <= {_A, _C, _E}:
            raise NotYet(f"{name}: the words are {_A}, {_C}, {_E}")
        for word in (_A, _C, _E):
            if (word in words) != (word in right):
                raise NotYet(f"{name}, {word}? {hints.get(word, 'try it on small numbers')}")


def _properties(**changes: Any) -> dict[str, Any]:
    return {name: words for name, (words, _) in _OPERATORS.items()} | changes


three_properties = Made(
    "ex-three-properties",
    About("Three properties", "compute", 2, 10,
          "name what an operator must have to be all-reduced in two halves"),
    _properties_law, _properties, "associative and elementwise is what the two halves need",
    {
        "float sum, associative": lambda: _properties(**{"float sum": {_A, _C, _E}}),
        "mean, associative": lambda: _properties(mean={_A, _C, _E}),
        "left, associative": lambda: _properties(left={_E}),
        "decided without the others": lambda: _properties(**{"four largest": {_A, _C, _E}}),
        "the words are": lambda: _properties(minus={"linear"}),
        "pass a set of words": lambda: _properties(minus=_E),
    },
)


def _backward(grads: list) -> list:
    return np.split(sum(grads), len(grads))


def _gradients() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(11)
    for P, k in ((1, 2), (2, 1), (3, 2), (5, 4)):
        grads = rng.integers(-99, 99, (P, P * k))
        grads.flags.writeable = False
        yield f"{P} ranks with chunks of {k}", ([*grads],)


def _same_chunks(given: Any, right: list, grads: list) -> None:
    for r, chunk in enumerate(items(given, "the answer", len(grads))):
        same_array(chunk, right[r], f"<Ax, w> is not <x, A'w>: rank {r}'s gradient", 1e-12)


repair_the_backward_pass = Function(
    "ex-repair-the-backward-pass",
    About("Repair the backward pass", "repair", 2, 12, "find the adjoint of a collective"),
    "backward(grads)", _backward, _gradients, _same_chunks,
    "the adjoint of an all-gather is a reduce-scatter",
    {
        "what the other ranks did with a rank's chunk is missing":
            lambda grads: [np.split(g, len(grads))[r] for r, g in enumerate(grads)],
        "that is a mean; the adjoint of copying is a sum":
            lambda grads: [chunk / len(grads) for chunk in _backward(grads)],
    },
)


@dataclass(frozen=True)
class _Sum:
    """What `_add` made: of each value in it the number, and in how many additions it took part."""

    parts: tuple[tuple[int, int], ...]


def _add(x: _Sum, y: _Sum) -> _Sum:
    return _Sum(tuple((value, additions + 1) for value, additions in x.parts + y.parts))


def _brackets_law(answer: Callable) -> None:
    function(answer, "total(values, add)")
    for n in (1, 2, 3, 4, 5, 7, 8, 13, 16, 33):
        result = call(answer, [_Sum(((i, 0),)) for i in range(n)], _add)
        if not isinstance(result, _Sum):
            raise NotYet(f"{n} values: return what add gives, got {type(result).__name__}")
        order = [value for value, _ in result.parts]
        for missing in sorted({*range(n)} - {*order}):
            raise NotYet(f"{n} values: value {missing} is missing")
        if len(order) > n:
            raise NotYet(f"{n} values: a value is used twice")
        if order != [*range(n)]:
            raise NotYet(f"{n} values: they do not stay in their order")
        deepest = max(additions for _, additions in result.parts)
        if deepest > (n - 1).bit_length():
            raise NotYet(f"{n} values: one of them takes part in {deepest} additions, too many")


def _total(values: list, add: Callable) -> Any:
    if len(values) == 1:
        return values[0]
    middle = (len(values) + 1) // 2
    return add(_total(values[:middle], add), _total(values[middle:], add))


def _without_the_odd_one(values: list, add: Callable) -> Any:
    while len(values) > 1:
        values = [add(*pair) for pair in zip(values[::2], values[1::2], strict=False)]
    return values[0]


brackets_for_a_sum = Made(
    "ex-brackets-for-a-sum",
    About("Brackets for a sum", "design", 2, 12, "sum in order with few roundings", ("x11.2",)),
    _brackets_law, lambda: _total, "in order, and no value rounded more than log2 n times",
    {
        "too many": lambda: lambda values, add: reduce(add, values),
        "is missing": lambda: _without_the_odd_one,
        "stay in their order": lambda: lambda values, add: _total(values[::-1], add),
        "used twice": lambda: lambda values, add: add(values[0], _total(values, add)),
        "return what add gives": lambda: lambda values, add: len(values),
    },
)


def _crossing(starts: float = 63, share: float = 2 * 63 / 64) -> float:
    return starts * 5e-6 * 50e9 / (6 - share)


broadcast_crossover = Numbers(
    "ex-broadcast-crossover",
    About("Two broadcasts", "derive", 2, 12, "derive where two algorithms cross", ("x11.6",)),
    [
        Asked("the size", _crossing(), "bytes", {
              _crossing(share=63 / 64): "scatter and all-gather both carry bytes",
              _crossing(starts=69): "the tree has starts, too",
              _crossing(share=0): "the second one carries bytes as well"}),
    ],
    "below it the tree, above it scatter and all-gather",
)

counted_once = Numbers(
    "ex-counted-once",
    About("Counted once", "derive", 3, 20,
          "say when the transpose counts a loss more than once"),
    [
        Asked("factor_a", 8, slips={
              1: "how many losses does the transpose add up?",
              64: "there is one all-reduce here, and it adds up once",
              1 / 8: "too large, not too small"}),
        Asked("factor_b", 8, slips={
              64: "the first all-reduce adds different v_r: that sum belongs to the derivative",
              16: "follow the gradient through each all-reduce in turn",
              1: "every rank still starts from its own copy of the loss"}),
        Asked("factor_c", 1, slips={
              8: "which of the two sums did count the losses?",
              1 / 8: "the first all-reduce still adds the different v_r, as it must"}),
    ],
    "the factor is the number of losses, not of all-reduces",
)

across_the_cut = Numbers(
    "ex-across-the-cut",
    About("Across the cut", "derive", 3, 15, "bound what crosses a cut", ("x11.5",)),
    [
        Asked("all-gather", 0.5, "units of n", {
              16: "over there they can pass it on: each chunk need cross only once",
              1: "the other side has its own chunks already",
              31.5: "that is a half of the total; how many chunks must cross?"}),
        Asked("reduce-scatter", 0.5, "units of n", {
              16: "this side can add up first: one partial sum for each chunk over there",
              1: "only the chunks that are owned over there must cross",
              31.5: "that is a half of the total; how many partial sums must cross?"}),
        Asked("all-to-all", 16, "units of n", {
              0.5: "no block is like another, and each has one receiver: count the blocks",
              31.5: "not everything that is sent crosses: count the pairs of ranks",
              32: "in one direction only"}),
        Asked("all-reduce", 1, "units of n", {
              2: "in one direction only",
              0.5: "every rank over there needs this side's sum, of every chunk",
              16: "this side can add up first"}),
    ],
    "the same total, 32 times as much across the line",
    keyed=True,
)


def _direct(P: int, adds: bool = True, chunk: Callable = lambda src, dst: dst) -> Any:
    sends = [collectives.Send(s, d, chunk(s, d), adds)
             for s in range(P) for d in range(P) if s != d]
    return collectives.Schedule(P, P, [sends])


def _one_round_law(answer: Callable) -> None:
    function(answer, "direct_reduce_scatter(P)")
    for P in (2, 3, 4, 7):
        where = f"P = {P}"
        schedule = schedule_of(call(answer, P), P, where)
        if schedule.chunks != P:
            raise NotYet(f"{where}: cut the vector into P chunks, not into {schedule.chunks}")
        if len(schedule) != 1:
            raise NotYet(f"{where}: a single round, please; this has {len(schedule)}")
        must_pass(collectives.check_reduce_scatter, schedule, where)
        must_pass(collectives.check_all_reduce, schedule >> schedule.reversed(), where)


one_round = Made(
    "ex-one-round",
    About("One round", "design", 3, 15,
          "build a reduce-scatter and check it against its promise", ("x11.1",)),
    _one_round_law, lambda: _direct,
    "one round there, one round back, and every contribution counted once",
    {
        "no reduce-scatter": lambda: lambda P: _direct(P, adds=False),
        "P = 2: schedule": lambda: lambda P: _direct(P, chunk=lambda src, dst: src),
        "a single round": lambda: lambda P: collectives.ring_reduce_scatter(P),
        "the schedule is for": lambda: lambda P: _direct(4),
        "return a Schedule, got list": lambda: lambda P: [[]],
        "P chunks": lambda: lambda P: collectives.flat_reduce(P),
    },
)
