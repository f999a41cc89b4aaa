"""The exercises of chapter 27, Searching configurations, in the order of its page."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judges.choices import halving, same_border, same_places, same_ways
from dtlib.layout import divisors
from dtlib.parallelism.pipeline.cost import pipeline_bubble_fraction

# fmt: off
how_many_ways = Numbers(
    "ex-how-many-ways",
    About("How many ways", "compute", 1, 8, "count choices whose product is given", ("x27.1",)),
    [
        Asked("three", math.comb(9 + 2, 2), slips={
              10 * 10: "two degrees chosen freely leave no whole number for the third",
              10 ** 3: "the three are not free: their product is 512",
              math.comb(9 + 3, 3): "two bars make three groups"}),
        Asked("narrow", 16, slips={
              64: "dp follows from the other two",
              math.comb(9 + 2, 2): "tp and pp are at most 8"}),
        Asked("twice", math.comb(10 + 2, 2) / math.comb(9 + 2, 2), slips={
              2: "one more power of two to deal out: from 9 to 10",
              1: "there are more ways to write 1,024"}),
    ],
    "powers of two are dealt out to axes; twice the GPUs are hardly more ways", keyed=True,
)

_OWN, _TOKENS = 30e9 / 16, 4 * 4096
_KEPT = 34 * _TOKENS * 7168 / 4
_INPUT = 2 * _TOKENS * 7168

does_it_fit = Numbers(
    "ex-fits-on-a-stage",
    About("Does it fit?", "compute", 2, 15,
          "account for state and activations of a stage", ("x27.2",)),
    [
        Asked("held", 4 * _OWN, "bytes", {
              4 * 30e9 / 4: "stages divide the parameters as well",
              2 * _OWN: "weights and gradients have two bytes each",
              16 * _OWN: "the optimizer's state is asked for on its own"}),
        Asked("divided", 12 * _OWN / 16, "bytes", {
              12 * _OWN: "stage 1 of ZeRO divides it among 16 replicas",
              12 * _OWN / 256: "tp and pp have divided it already: what is left for dp?"}),
        Asked("layer", _KEPT, "bytes", {
              4 * _KEPT: "each of 4 ranks keeps its tokens only",
              _KEPT / 4: "a micro-batch has 4 sequences"}),
        Asked("kept", 10 * 4 * _KEPT, "bytes", {
              10 * _KEPT: "four micro-batches are under way on the first stage",
              40 * 4 * _KEPT: "a stage has ten of the 40 layers",
              4 * _KEPT: "a stage has ten layers"}),
        Asked("again", 10 * 4 * _INPUT / 4 + _KEPT, "bytes", {
              10 * 4 * _INPUT / 4: "and the layer that is being computed again?",
              10 * 4 * _INPUT + _KEPT: "its ranks divide the inputs, too"}),
    ],
    "a first stage keeps all that is under way; inputs alone are a 17th of it", keyed=True,
)

what_a_search_costs = Numbers(
    "ex-what-a-search-costs",
    About("What a search costs", "compute", 1, 8,
          "price trials in GPU-hours", ("x27.3", "x27.4")),
    [
        Asked("left", 700, slips={
              0: "each share is taken of what the one before has left",
              8000: "80 % go, 20 % stay",
              300: "30 % of the last thousand go"}),
        Asked("saved", 95 * 3600, "s", {
              5 * 3600: "that is what 50 trials take",
              100 * 3600: "50 trials still take their time"}),
        Asked("gpu_hours", 512 * 95, slips={
              512 * 100: "50 trials still take their time",
              95: "every hour is one of 512 GPUs"}),
    ],
    "rules leave 700 of 10,000; each trial is a bill", keyed=True,
)

same_gpus = Numbers(
    "ex-same-gpus-same-batch",
    About("The same GPUs, the same batch", "derive", 2, 12,
          "compare depths where cluster and batch are given", ("x27.6",)),
    [
        Asked("four", pipeline_bubble_fraction(4, 16, 1), slips={
              3 / 16: "that is the share of the work, not of the step"}),
        Asked("eight", pipeline_bubble_fraction(8, 32, 1), slips={
              pipeline_bubble_fraction(8, 16, 1): "half the replicas: how many micro-batches each?",
              7 / 32: "that is the share of the work, not of the step"}),
        Asked("least", 38, slips={
              37: "a little too few: try it",
              16: "with as many micro-batches eight stages wait longer",
              32: "that is what the same batch gives"}),
    ],
    "with the cluster given depth doubles the micro-batches, too, and costs little", keyed=True,
)



when_the_host_is_slower = Numbers(
    "ex-when-the-host-is-slower",
    About("When the host is slower", "derive", 2, 12,
          "see where dividing a layer no longer helps"),
    [
        Asked("two", 6e-3, "s", {
              9e-3: "host and GPU work at the same time",
              12e-3: "two ranks share the work of the GPU"}),
        Asked("eight", 3e-3, "s", {
              1.5e-3: "can the GPU run what the host has not started?",
              4.5e-3: "host and GPU work at the same time"}),
        Asked("widest", 4, slips={
              8: "what do eight ranks gain over the width before?",
              2: "the GPU is still the slower one at 2"}),
        Asked("times", 8 * 3e-3 / 12e-3, slips={
              1: "each of eight GPUs is busy or waits for 3 ms",
              0.5: "the other way round"}),
    ],
    "beyond the width at which the host takes over, GPUs are paid for waiting", keyed=True,
)



def _pipeline(stages: list[float], m: int) -> float:
    return (m - 1) * max(stages) + sum(stages)


the_slowest_stage = Numbers(
    "ex-the-slowest-stage",
    About("The slowest stage", "design", 2, 15, "lay layers where stages are uneven"),
    [
        Asked("even", _pipeline([0.32, 0.32, 0.32, 0.48], 16), "s", {
              16 * 0.48: "the others fill and drain around the slowest",
              _pipeline([0.36] * 4, 16): "all wait for the slowest stage, not for the mean",
              19 * 0.48: "the first micro-batch passes three faster stages"}),
        Asked("moved", _pipeline([0.36, 0.36, 0.36, 0.36], 16), "s", {
              19 * 0.32: "layers that leave the last stage lie on the others then"}),
        Asked("layers", 5, slips={
              8: "the head is worth so many layers",
              4: "the other three have nine each then: how many are left?",
              6: "add them up: 9 + 9 + 9 + 6 are 33"}),
    ],
    "an even time is worth more than an even number of layers", keyed=True,
)


def _ways(gpus: int, axes: int) -> list[tuple[int, ...]]:
    if axes == 1:
        return [(gpus,)]
    return [(d, *rest) for d in divisors(gpus) for rest in _ways(gpus // d, axes - 1)]


def _unordered(gpus, axes):
    return sorted({tuple(sorted(way)) for way in _ways(gpus, axes)})


def _powers(gpus, axes):
    return [way for way in _ways(gpus, axes) if all(x & (x - 1) == 0 for x in way)]


every_way = Function(
    "ex-every-way",
    About("Every way", "design", 2, 15, "enumerate degrees whose product is given"),
    "my_ways(gpus, axes)", _ways,
    lambda: (("", case) for case in ((8, 1), (8, 2), (12, 2), (12, 3), (1, 3), (30, 3), (64, 4))),
    same_ways,
    "each order of the same factors is another layout, and any divisor may be a degree",
    {
        "tp 2 and pp 4 is another layout than tp 4 and pp 2": _unordered,
        "a degree need not be a power of two": _powers,
    },
)


def _largest(fits: Callable, sizes: list) -> Any:
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if fits(sizes[middle]):
            low = middle + 1
        else:
            high = middle
    return sizes[low - 1] if low else 0


def _in_order(fits, sizes):
    found = [size for size in sizes if fits(size)]
    return found[-1] if found else 0


def _at_least_one(fits, sizes):
    return _largest(fits, sizes) or sizes[0]


def _smallest(fits, sizes):
    return sizes[0] if fits(sizes[0]) else 0


few_trials = Made(
    "ex-few-trials",
    About("Few trials", "design", 2, 15, "use that what is larger needs no less"),
    halving, lambda: _largest,
    "half of what is left goes with each trial, and that nothing fits is an answer",
    {
        "trials, where": lambda: _in_order,
        "no size fits": lambda: _at_least_one,
        "another size is the largest": lambda: _smallest,
    },
)


def _border(points: list, *, ties=True, both=True) -> list:
    def beaten(time, memory):
        if both:
            return any(t <= time and m <= memory and (t, m) != (time, memory) for t, m in points)
        return any(t < time or m < memory for t, m in points)

    found = [(t, m) for t, m in points if not beaten(t, m)]
    return sorted(found if ties else dict.fromkeys(found))


def _clouds() -> Iterator[tuple[str, tuple]]:
    yield "three in a row", ([(1.0, 9), (2.0, 5), (3.0, 1)],)
    yield "one behind", ([(1.0, 9), (2.0, 9), (3.0, 1)],)
    yield "the same time", ([(1.0, 9), (1.0, 7), (3.0, 1)],)
    yield "one point", ([(5.0, 5)],)
    yield "many", ([((7 * i * i) % 31 + 1.0, (11 * i) % 29) for i in range(40)],)


on_the_border = Function(
    "ex-on-the-border",
    About("On the border", "design", 2, 15, "find what nothing beats in both"),
    "border(points)", _border, _clouds, same_border,
    "what stays is beaten by none, as good in one and better in the other",
    {"a point may be worse in one and better in the other": {"both": False}},
)

change_places = Formula(
    "ex-change-places",
    About("Two layouts change places", "derive", 2, 12, "find the error that turns an order round"),
    "factor(first, first_part, second, second_part)",
    lambda first, first_part, second, second_part:
        1 + (second - first) / (first_part - second_part),
    lambda: (("", case) for case in ((10.0, 2.0, 10.5, 1.0), (4.0, 3.0, 4.4, 1.0),
                                     (9.0, 1.0, 9.9, 4.0), (7.0, 0.5, 7.1, 0.1))),
    same_number,
    "the difference of all, over the difference of the part, and one",
    {
        "a factor of 1 is no error: count from there":
            lambda first, first_part, second, second_part:
                (second - first) / (first_part - second_part),
        "the second one's part grows, too":
            lambda first, first_part, second, second_part: 1 + (second - first) / first_part,
        "which of the two becomes slower?":
            lambda first, first_part, second, second_part:
                1 + (second - first) / (second_part - first_part),
    },
)


def _may_be_fastest(times: list, e: float, *, low=True, high=True) -> list[int]:
    most = min(times) * (1 + e if high else 1)
    return [i for i, time in enumerate(times) if time * (1 - e if low else 1) <= most]


def _cases_of_errors() -> Iterator[tuple[str, tuple]]:
    times = [10.0, 12.3, 11.0, 9.0, 10.9, 30.0, 9.2]
    for e in (0.0, 0.05, 0.1, 0.3):
        yield f"errors up to {e:.0%}", (times, e)


worth_a_measurement = Function(
    "ex-worth-a-measurement",
    About("Worth a measurement", "derive", 2, 12, "say which layouts an error leaves open"),
    "may_be_fastest(times, e)", _may_be_fastest, _cases_of_errors, same_places,
    "what is slower than the least by more than both errors is out",
    {
        "it may be faster than predicted, too": {"low": False},
        "the least one may be slower than predicted": {"high": False},
    },
)

the_most_flattering = Numbers(
    "ex-the-most-flattering",
    About("The most flattering error", "derive", 3, 20,
          "see what choosing the least does to errors"),
    [
        Asked("three", -0.05, slips={
              -0.1: "the least of three is not always the extreme",
              -0.1 / 3: "three points cut an interval into how many parts?"}),
        Asked("nine", -0.08, slips={
              0.08: "the least of nine errors: is it above or below 0?",
              -0.1: "the least of nine is not always the extreme",
              -0.1 * 8 / 9: "nine points cut an interval into how many parts?"}),
        Asked("many", -0.1 * (1 - 2 / 1000), slips={
              -0.1 / 999: "they do not average: the least is chosen"}),
        Chosen("remedy", "measure the first few", {
               "search more layouts": "what does the least of more errors do?",
               "take the second": "its error is hardly less flattering"}),
    ],
    "the more one searches, the more the winner owes to its error", keyed=True,
)
