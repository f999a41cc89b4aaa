"""The exercises of chapter 14, Data parallelism, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers, one_of
from dtlib.exercises.judge import call, function, items, real
from dtlib.exercises.verdict import NotYet

# fmt: off
ms = 1e-3

_RHO = 989e12 / 450e9
_OWN = "a rank of eight keeps its own eighth: it sends 7/8, twice"

tokens_to_hide = Numbers(
    "ex-tokens-to-hide",
    About("Tokens to hide under", "compute", 1, 8, "find the tokens that hide an all-reduce",
          ("x14.2",)),
    [
        Asked("(a)", 7 / 6 * _RHO, "tokens", {
              7 / 12 * _RHO: "twice as long as the all-reduce; and 450 GB/s are one direction",
              4 / 3 * _RHO: _OWN,
              7 / 3 * _RHO: "6 operations for each parameter and token: 2 forward and 4 backward",
              7 / 4 * _RHO: "the whole step computes, not only its backward pass"}),
        Asked("(b)", 7 / 8 * _RHO, "tokens", {
              7 / 12 * _RHO: "that is the whole step; the backward pass is two thirds of it",
              _RHO: _OWN,
              7 / 4 * _RHO: "the backward pass has twice the operations of the forward pass"}),
    ],
    "tokens, not samples, and no parameter count in either",
)


def _weighed(name: str, n: int) -> Asked:
    right = 2048 / (4 * n)
    return Asked(name, right, slips={
        4 * right: "the mean over the ranks divides by their number as well",
        1 / right: "the other way up: what it weighs, over what it should",
        right / 2048: "that is what it weighs; compare it with what it should"})


weight_of_a_token = Numbers(
    "ex-weight-of-a-token",
    About("The weight of a token", "compute", 1, 6,
          "see what a mean of means does to shares of other sizes", ("Def.2", "Def.17", "x14.1")),
    [_weighed("(a)", 8), _weighed("(b)", 1032)],
    "what each token weighs, over what it should",
)

_OVER = "that is when all is over; how much of it is beyond the backward pass?"

hundred_layers = Numbers(
    "ex-hundred-layers",
    About("A hundred layers, and then ten", "compute", 1, 6,
          "tell the two regimes of overlap apart", ("Ex.1", "x14.3")),
    [
        Asked("(a)", 28 * ms, "s", {
              108 * ms: _OVER, 20.8 * ms: "that is for 100 buckets",
              20 * ms: "the network waits for the first bucket",
              10 * ms: "the network is slower here: more than the last bucket is late"}),
        Asked("(b)", 4 * ms, "s", {
              84 * ms: _OVER, 0.4 * ms: "that is for 100 buckets",
              40 * ms: "nine of the ten buckets travel under the backward pass"}),
    ],
    "a slow network is late by more than its last bucket, a fast one by just that",
)

four_micro_batches = Numbers(
    "ex-four-micro-batches",
    About("Four micro-batches", "compute", 1, 8,
          "say what accumulation communicates, and what of it hides", ("A.20", "x14.5")),
    [
        Asked("(a)", 440 * ms, "s", {
              560 * ms: "with no_sync only the last micro-batch communicates",
              400 * ms: "nothing overlaps here"}),
        Asked("(b)", 560 * ms, "s", {
              440 * ms: "without no_sync every backward pass ends with an all-reduce"}),
        Asked("(c)", 400 * ms, "s", {
              440 * ms: "the last backward pass is there to hide under",
              370 * ms: "hidden communication takes no time off the computing"}),
    ],
    "accumulation communicates once, and that once hides",
)


def _exchanged(name: str, P: int) -> Asked:
    return Asked(name, (10 + 0.75 * P) * ms, "s", {
        11.5 * ms: "the ranks keep other places: nothing can be added on the way",
        10.5 * ms: "places take bytes too, and everybody needs everybody's list",
        0.75 * P * ms: "finding the values and putting them back takes its time, too",
        (10 + 0.25 * P) * ms: "each value brings its place along"}, tolerance=0.004)


top_one_percent = Numbers(
    "ex-top-one-percent",
    About("One in a hundred", "compute", 2, 10, "price a sparse exchange as what it is",
          ("x14.4",)),
    [_exchanged("(a)", 8), _exchanged("(b)", 64)],
    "an all-gather of lists, which grows with every rank",
)


def _hidden(backward, comm, k):
    return 1 - (max(backward + comm / k, backward / k + comm) - backward) / comm


how_much_is_hidden = Formula(
    "ex-how-much-is-hidden",
    About("How much is hidden", "repair", 2, 12, "check a formula in a limit whose answer is known",
          ("x14.3",)),
    "hidden(backward, comm, k)", _hidden,
    lambda: (("", case) for case in
             ((80, 100, 100), (80, 40, 10), (3.0, 0.001, 7), (5, 500, 20), (1, 1, 1))),
    same_number, "from networks that hide all but a bucket to those that hide little",
    {
        "that is still the printed formula: it hides nothing when it should hide all":
            lambda b, comm, k: sum(min(1, comm / (b * i)) for i in range(1, k + 1)) / k,
        "right while the network keeps up; what if it is the slower one?":
            lambda backward, comm, k: 1 - 1 / k,
        "what of the first bucket, or of the last one?":
            lambda backward, comm, k: min(1, backward / comm),
    },
)


def _ready(forward: list, backward: list, part: Fraction) -> Fraction:
    return max(f + b * part for f, b in zip(forward, backward, strict=True))


def _ready_on_the_last(forward: list, backward: list, part: Fraction) -> Fraction:
    _, f, b = max((f + b, f, b) for f, b in zip(forward, backward, strict=True))
    return f + b * part


def _step_time(forward, backward, costs, ready=_ready, queue=True):
    free = 0
    for i, cost in enumerate(costs, 1):
        at = ready(forward, backward, Fraction(i, len(costs)))
        free = max(free, at) + cost if queue else max(free, at + cost)
    return free


def _steps() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(14)

    def times(count: int) -> list[Fraction]:
        return [Fraction(draw.randint(1, 40), draw.randint(1, 6)) for _ in range(count)]

    for P, k in ((1, 1), (1, 5), (2, 1), (2, 3), (3, 4), (4, 8), (5, 2)):
        for _ in range(6):
            yield f"{P} ranks, {k} bucket{'s' * (k > 1)}", (times(P), times(P), times(k))


def _same_end(given, right, *step) -> None:
    given = real(given, "the time", "s")
    if not math.isclose(given, right, rel_tol=1e-9):
        raise NotYet(f"your step ends too {'late' if given > right else 'early'}")


events = Function(
    "ex-events",
    About("Events", "design", 3, 30, "simulate a step of unequal ranks", ("C.1",)),
    "step_time(forward, backward, costs)", _step_time, _steps, _same_end,
    "42 steps of one to five ranks and one to eight buckets, to the last digit",
    {
        "a bucket need not wait for the end of the backward pass":
            partial(_step_time, ready=lambda forward, backward, part: _ready(forward, backward, 1)),
        "the network has one all-reduce at a time: the one before must be over":
            partial(_step_time, queue=False),
        "a bucket waits for its last rank, which need not be the one that ends last":
            partial(_step_time, ready=_ready_on_the_last),
        "the longest forward and the slowest backward pass may be those of two ranks":
            partial(_step_time, ready=lambda forward, backward, part:
                    max(forward) + max(backward) * part),
        "a bucket waits for the last of all ranks, not for rank 0":
            partial(_step_time, ready=lambda forward, backward, part:
                    forward[0] + backward[0] * part),
    },
)


def _shares(batch: int, speeds: list[float]) -> list[int]:
    given = [0] * len(speeds)
    for _ in range(batch):
        given[min(range(len(speeds)), key=lambda r: (given[r] + 1) / speeds[r])] += 1
    return given


def _equal_shares(batch: int, speeds: list[float]) -> list[int]:
    P = len(speeds)
    return [batch // P + (r < batch % P) for r in range(P)]


def _end(sizes: list[float], speeds: list[float]) -> float:
    return max(n / s for n, s in zip(sizes, speeds, strict=True))


def _batches() -> Iterator[tuple[int, list[float]]]:
    yield from ((10, [1, 1, 2]), (7, [1.0]), (256, [1.0, 0.5]), (3, [1, 1, 1, 1]), (0, [1, 2]))
    draw = random.Random(8)
    for _ in range(40):
        yield draw.randint(5, 80), [draw.uniform(0.2, 2) for _ in range(draw.randint(2, 8))]


def _shares_law(answer: Callable) -> None:
    function(answer, "shares(batch, speeds)")
    for batch, speeds in _batches():
        where = f"{batch} samples, {len(speeds)} ranks"
        given = items(call(answer, batch, [*speeds]), f"{where}: the shares", len(speeds))
        sizes = [real(n, f"{where}: a share") for n in given]
        if any(n != int(n) or n < 0 for n in sizes):
            raise NotYet(f"{where}: a share must be a whole number of samples, 0 or more")
        if sum(sizes) != batch:
            raise NotYet(f"{where}: the shares add up to {sum(sizes):g}")
        if _end(sizes, speeds) > _end(_shares(batch, speeds), speeds) * (1 + 1e-9):
            if max(sizes) - min(sizes) <= 1:
                raise NotYet(f"{where}: equal shares leave the fast ranks idle")
            raise NotYet(f"{where}: all are handed out, but another division is done earlier")


share_the_batch = Made(
    "ex-share-the-batch",
    About("Share the batch", "design", 3, 20, "balance unequal ranks in whole samples", ("C.8",)),
    _shares_law, lambda: _shares, "45 batches, none of which can be done earlier",
    {
        "leave the fast ranks idle": lambda: _equal_shares,
        "add up to": lambda: lambda n, speeds: [round(n * s / sum(speeds)) for s in speeds],
        "whole number": lambda: lambda n, speeds: [n * s / sum(speeds) for s in speeds],
    },
)

_FACTORS = [math.exp(-0.1 * tau) for tau in range(16)]

stale = Numbers(
    "ex-stale",
    About("Stale, and trusted less", "compute", 1, 6, "count staleness from zero",
          ("Def.8", "x14.6")),
    [
        Asked("(a)", _FACTORS[15], slips={
              math.exp(-1.6): "fresh is a staleness of 0",
              math.exp(1.5): "a stale gradient counts for less"}, tolerance=0.005),
        Asked("(b)", sum(_FACTORS) / 16, slips={
              sum(_FACTORS[1:]) / 15: "0 is one of them: a fresh gradient counts in full",
              math.exp(-0.75): "the mean of the factors is not the factor of the mean",
              sum(_FACTORS) / 15: "how many numbers are there from 0 to 15?"}, tolerance=0.0008),
    ],
    "one factor, and the mean of sixteen",
)


which_kind = Numbers(
    "ex-which-kind",
    About("The same in which sense", "derive", 2, 10,
          "tell bitwise, tolerance and divergence apart", ("C.19", "Def.6", "x14.7")),
    one_of(
        ("bitwise", "tolerance", "divergent"),
        a=("bitwise", "what could move a bit, if the algorithm adds in the same order?"),
        b=("tolerance", "the same samples, but how are their gradients grouped?"),
        c=("tolerance", "what decides at which rank a ring begins to add an element?"),
        d=("bitwise", "how many ways are there to add two numbers?"),
        e=("divergent", "which samples does the first step see?"),
        f=("divergent", "which numbers are dropped?"),
    ),
    "two runs that agree in every bit, two that nearly do, two that do not",
    keyed=True,
)

_GREW = "the batch has grown, too"

five_claims = Numbers(
    "ex-five-claims",
    About("Five claims in numbers", "derive", 2, 12,
          "decide claims about batches by a computation", ("A.1", "A.5", "A.10", "A.19", "B.16")),
    [
        Asked("a", 1, slips={
              1 / 32: "the ranks share the batch; together they average as many as before",
              32: "a rank's own mean is noisier, but all of them are averaged"}),
        Asked("b", 1.6, slips={
              1: "a mean of four means weighs the samples of the large rank less",
              1 / 1.6: "the other way up",
              0.1: "in multiples of the variance of 256 samples, please"}),
        Asked("c", 32, slips={1: "a sum of means is not a mean"}),
        Asked("d", 1, slips={16: "over N, not times N", 4: _GREW}),
        Asked("e", 2, slips={4: _GREW, 1: "the batch enters by its root",
              0.5: "the learning rate has grown, too"}),
    ],
    "two claims about variance, one about sums, and two kinds of noise",
    keyed=True,
)

where_the_proof_stops = Numbers(
    "ex-where-the-proof-stops",
    About("Where the proof stops", "derive", 3, 15,
          "find the condition of a theorem that a program breaks", ("B.1", "Def.6")),
    one_of(
        (1, 2, 3, 4),
        a=(1, "are the parameters equal before the first step?"),
        b=(2, "what does the loss of a sample depend on?"),
        c=(3, "each rank computes a right gradient; of which samples is their sum?"),
        d=(4, "do all ranks apply the same function?"),
        e=(3, "each rank computes a right gradient; with which weights are they added?"),
        f=(1, "are the parameters equal when the run goes on?"),
    ),
    "every condition of the theorem, and the step that needs it",
    keyed=True,
)
