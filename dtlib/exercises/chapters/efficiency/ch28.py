"""The exercises of chapter 28, Gradient compression, in the order of its page."""

from functools import partial
from typing import Any

from dtlib.collectives import ring_all_reduce_time
from dtlib.efficiency import levels_variance_bound, low_rank_fraction, sparse_border_ranks
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import items, number

# fmt: off
_DENSE = ring_all_reduce_time(2e9, 64, 0, 12.5e9)

as_fast_as_the_gpu = Numbers(
    "ex-as-fast-as-the-gpu",
    About("As fast as the GPU", "compute", 1, 8, "turn bytes into a ratio that is needed",
          ("x28.3",)),
    [
        Asked("seconds", _DENSE, "s", {
              2e9 / 12.5e9: "a ring sends nearly everything twice",
              2 * 63 * 2e9 / 12.5e9: "each hop carries a 64th of the gradient"}),
        Asked("ratio", _DENSE / 0.1, slips={
              0.1 / _DENSE: "that is the share that may be sent; how many times fewer bytes?",
              _DENSE / 0.1 - 1: "that is by how much it is longer"}),
    ],
    "2 (P - 1)/P of 2 GB at 12.5 GB/s, against 100 ms", keyed=True,
)

_PLACES = 4 * 1000 / (8 * 1)

bytes_of_a_sparse_message = Numbers(
    "ex-bytes-of-a-sparse-message",
    About("Bytes of a sparse message", "compute", 1, 10, "count places as well as numbers",
          ("x28.5", "C.6")),
    [
        Asked("thousandth", _PLACES, slips={
              1000: "each number that is kept needs its place, 4 bytes more",
              100: "99.9 % left out keeps one in a thousand"}),
        Asked("hundredth", 50, slips={100: "each number that is kept needs its place"}),
        Asked("mask", 4 / (1 / 8 + 0.04), slips={
              100: "and the mask itself?",
              50: "a mask of one bit for each number of the whole vector, and no places",
              4 / (1 + 0.04): "a bit is an eighth of a byte"}),
        Chosen("shorter", "places", {
               "mask": "compare 8 d / 100 bytes with d / 8 + 4 d / 100"}),
    ],
    "a place costs as much as its number, and a mask an eighth of a byte for every number",
    keyed=True,
)


def _feedback(gradients, k, *, remembers=True, of_due=True):
    memory = [0.0] * len(gradients[0]) if gradients else []
    sent = []
    for gradient in gradients:
        due = [g + e for g, e in zip(gradient, memory, strict=True)]
        size = due if of_due else gradient
        kept = sorted(range(len(due)), key=lambda i: (-abs(size[i]), i))[:k]
        out = [x if i in kept else 0.0 for i, x in enumerate(due)]
        sent.append(out)
        if remembers:
            memory = [x - y for x, y in zip(due, out, strict=True)]
    return sent


def _same_numbers(given: Any, right: list, name: str, where: str = "") -> None:
    for place, (x, y) in enumerate(zip(items(given, name, len(right)), right, strict=True)):
        number(x, y, f"{where}number {place}", tolerance=1e-9)


def _same_rows(given: Any, right: list, *args: Any) -> None:
    rows = items(given, "what was sent", len(right))
    for step, (row, due) in enumerate(zip(rows, right, strict=True)):
        _same_numbers(row, due, f"step {step}", f"step {step}, ")


remember_the_rest = Function(
    "ex-remember-the-rest",
    About("Remember the rest", "repair", 2, 20, "write error feedback", ("x28.2", "C.6")),
    "my_feedback(gradients, k)", _feedback,
    lambda: ((f"case {n}", case) for n, case in enumerate((
        ([[4.0, 3.0, -1.0]], 1), ([[4.0, 3.0], [4.0, 3.0]], 1),
        ([[4.0, 3.0, -1.0], [1.0, 3.0, -1.0], [0.0, 0.5, -1.0]], 1),
        ([[1.0, 2.0, 3.0, -4.0], [1.0, 2.0, -3.0, 0.0], [9.0, 0.0, 0.0, 1.0]], 2),
        ([[0.0, -2.0], [1.5, -1.0], [1.0, 0.0], [1.0, 0.25]], 1)))),
    _same_rows,
    "what is left out is added to the next gradient before the largest are chosen",
    {
        "what is left out of one step must come back in the next": {"remembers": False},
        "choose among what is due, memory included, not among the gradient":
            partial(_feedback, of_due=False),
    },
)


def _merge(messages, length, *, by_count=False, adds=True, mean=True):
    total, count = [0.0] * length, [0] * length
    for message in messages:
        for place, x in message.items():
            total[place] = total[place] + x if adds else x
            count[place] += 1
    if by_count:
        return [t / c if c else 0.0 for t, c in zip(total, count, strict=True)]
    return [t / len(messages) for t in total] if mean else total


def _same_vector(given: Any, right: list, *args: Any) -> None:
    _same_numbers(given, right, "the mean")


merge_sparse_messages = Function(
    "ex-merge-sparse-messages",
    About("Merge sparse messages", "repair", 2, 15, "divide a sum by the right number", ("A.7",)),
    "my_merge(messages, length)", _merge,
    lambda: ((f"case {n}", case) for n, case in enumerate((
        ([{0: 4.0}, {1: 2.0}], 3), ([{0: 4.0, 2: 1.0}, {0: 2.0}, {2: -1.0}, {}], 3),
        ([{1: 3.0}, {1: 5.0}, {0: 8.0}], 2)))),
    _same_vector,
    "who does not send a number counts as zero, in a mean over all ranks",
    {
        "a rank that did not send a number counts, too": partial(_merge, by_count=True),
        "where two ranks send the same place their numbers add up": {"adds": False},
        "that is the sum": partial(_merge, mean=False),
    },
)

where_gathering_loses = Formula(
    "ex-where-gathering-loses",
    About("Where gathering loses", "derive", 2, 12, "find the border of sparse messages"),
    "border(share, number_bytes, place_bytes)",
    lambda share, number_bytes, place_bytes: sparse_border_ranks(share, number_bytes, place_bytes),
    lambda: (("", case) for case in ((0.01, 4, 4), (0.001, 2, 4), (0.1, 4, 8), (0.03, 2, 2))),
    same_number,
    "(P - 1) messages against 2 (P - 1)/P gradients",
    {
        "the dense ring sends nearly twice the gradient":
            lambda share, number_bytes, place_bytes:
                number_bytes / ((number_bytes + place_bytes) * share),
        "and the places?": lambda share, number_bytes, place_bytes: 2 / share,
        "places make a message longer, and the border lower":
            lambda share, number_bytes, place_bytes:
                2 * (number_bytes + place_bytes) / number_bytes / share,
    },
)

variance_of_levels = Formula(
    "ex-variance-of-levels",
    About("The variance of levels", "derive", 3, 15, "bound a stochastic rounding",
          ("x28.1", "B.11")),
    "bound(d, s, norm)", lambda d, s, norm: d / (4 * s**2) * norm**2,
    lambda: (("", case) for case in ((512, 7, 1.0), (100, 3, 2.0), (8, 127, 0.5))),
    same_number,
    "f (1 - f) is a quarter at most, times the square of a gap, for each number",
    {
        "f (1 - f) is at most 1/4": lambda d, s, norm: d / s**2 * norm**2,
        "a gap is norm / s, and its square counts": lambda d, s, norm: d / (4 * s) * norm**2,
        "a variance grows with the square of the norm": lambda d, s, norm: d / (4 * s**2) * norm,
        "that is the variance of one number": lambda d, s, norm: norm**2 / (4 * s**2),
        "f (1 - f) is meant, not the 1/12 of an error that is uniform":
            lambda d, s, norm: d / (12 * s**2) * norm**2,
    },
)

_WHOLE, _BUCKET = levels_variance_bound(1e6, 255), levels_variance_bound(512, 255)

why_buckets = Numbers(
    "ex-why-buckets",
    About("Why buckets", "compute", 1, 8, "see what a common norm costs", ("B.11", "C.6")),
    [
        Asked("whole", _WHOLE, slips={
              1e6 / 255**2: "there are two bounds; take the smaller",
              1e3: "and the levels?"}),
        Asked("bucket", _BUCKET, slips={
              512**0.5 / 255: "there are two bounds; take the smaller"}),
        Asked("extra", 100 * 4 / 512, slips={
              100 / 512: "a norm has four bytes", 4 / 512: "in percent"}),
        Chosen("contractive", "bucket", {
               "both": "an error that is larger than the vector keeps nothing of it",
               "whole": "below 1, please"}),
    ],
    "a norm for each 512 numbers, and the error is a hundredth of the vector's square",
    keyed=True,
)

scale_it_down = Formula(
    "ex-scale-it-down",
    About("Scale it down", "derive", 3, 15, "make an unbiased compressor contractive", ("A.7",)),
    "delta(omega)", lambda omega: 1 / (1 + omega),
    lambda: (("", (omega,)) for omega in (0.25, 1.0, 3.9, 99.0)),
    same_number,
    "E|C - x|^2 for C/(1 + omega) is omega/(1 + omega) of |x|^2",
    {
        "that is what is lost; delta is what is kept": lambda omega: omega / (1 + omega),
        "negative where omega is above 1: scale before you compare": lambda omega: 1 - omega,
        "expand |a C(x) - x|^2 and use E C(x) = x": lambda omega: 1 / (1 + omega) ** 2,
    },
)

_AT_20, _AT_21 = 1 / low_rank_fraction(20, 4096, 4096), 1 / low_rank_fraction(21, 4096, 4096)
_TAIL = {
    a: (sum(i ** (-2 * a) for i in range(21, 4097)) / sum(i ** (-2 * a) for i in range(1, 4097)))
    ** 0.5 for a in (0.5, 1.0)
}

a_rank_for_a_hundred = Numbers(
    "ex-a-rank-for-a-hundred",
    About("A rank for a hundred", "compute", 2, 12, "weigh a rank against what it leaves out",
          ("x28.4",)),
    [
        Asked("rank", 20, slips={
              21: "that saves a little less than a hundred times",
              40: "two factors, of 4,096 rows each",
              41: "two factors, of 4,096 rows each"}, tolerance=0.001),
        Asked("ratio", _AT_20, slips={_AT_21: "that is one column too many"}),
        Asked("slow", _TAIL[0.5], slips={
              _TAIL[0.5] ** 2: "a norm is the root of a sum of squares",
              1 - _TAIL[0.5]: "that is what it is short of one"}),
        Asked("fast", _TAIL[1.0], slips={
              _TAIL[1.0] ** 2: "a norm is the root of a sum of squares",
              1 - _TAIL[1.0]: "that is what it is short of one"}),
    ],
    "the tail of the singular values, and nothing else, decides what a rank is worth", keyed=True,
)


def _largest_ratio(d: int, steps: int, *, after=True) -> float:
    memory, squares = [0.0] * d, 0.0
    for _ in range(steps):
        due = [e + 1 for e in memory]
        sent = max(range(d), key=due.__getitem__)
        memory = [0.0 if i == sent else x for i, x in enumerate(due)]
        squares += sum(x * x for x in (memory if after else due))
    return squares / (steps * d)


how_large_the_memory = Function(
    "ex-how-large-the-memory",
    About("How large the memory", "design", 2, 15, "refute a bound by a run"),
    "my_ratio(d, steps)", _largest_ratio,
    lambda: ((f"{d} numbers, {steps} steps", (d, steps)) for d, steps in (
        (1, 3), (2, 4), (4, 4), (10, 100), (30, 40))),
    same_number,
    "the squares of the memory over those of the gradients",
    {
        "the memory after each step, not before": partial(_largest_ratio, after=False),
        "the gradient's square is d in every step":
            lambda d, steps: _largest_ratio(d, steps) * d,
    },
)


slow_enough = Numbers(
    "ex-slow-enough",
    About("Slow enough", "compute", 2, 10, "find the bandwidth below which coding pays", ("C.6",)),
    [
        Asked("bandwidth", (1.5e9 - 0.03e9) / 0.05, "bytes/s", {
              1.5e9 / 0.05: "compressed bytes travel, too",
              0.03e9 / 0.05: "that is what is still sent; what is saved?"}),
        Asked("overlapped", 1.5e9 / 0.4, "bytes/s", {
              (1.5e9 - 0.03e9) / 0.05: "what hides below 400 ms costs nothing: when does it not?",
              (1.5e9 - 0.03e9) / 0.4: "when does the dense all-reduce take 400 ms?"}),
    ],
    "what is saved over what coding takes; and where all is hidden nothing is saved", keyed=True,
)
