"""The exercises of chapter 30, Reduced precision, in the order of its page."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from dtlib.efficiency.precision.cost import eight_bit_side
from dtlib.efficiency.precision.formats import BF16, E4M3, FP16, FloatFormat
from dtlib.efficiency.precision.windows import share_above, share_below, share_subnormal
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import items
from dtlib.exercises.verdict import NotYet

# fmt: off
_ODD = FloatFormat("E4M3 of IEEE", 4, 3)

borders_of_a_format = Numbers(
    "ex-borders-of-a-format",
    About("The borders of a format", "compute", 1, 10, "read a format's window from its bits"),
    [
        Asked("largest", _ODD.largest, slips={
              E4M3.largest: "that is the E4M3 of GPUs, whose highest exponent has numbers",
              480.0: "the highest exponent is taken by infinities and NaN",
              256.0: "the fraction of the largest is not zero"}),
        Asked("least_normal", _ODD.least_normal, slips={
              _ODD.least: "that is the smallest subnormal number",
              2.0**-7: "an exponent field of 0 has the subnormals; normal numbers begin at 1"}),
        Asked("least", _ODD.least, slips={
              _ODD.least_normal: "below it there are the subnormal numbers",
              2.0**-10: "a field of 0 has the exponent of a field of 1"}),
        Asked("roundoff", _ODD.roundoff, slips={
              2.0**-3: "that is the distance of neighbours; the error is half of it at most"}),
    ],
    "range is bought with exponent bits, precision with the others", keyed=True,
)


def _rounded(x, e, m, *, even=True, gradual=True, low=False, endless=True):
    """An IEEE format of e and m bits; each keyword is a way to be wrong."""
    if x == 0 or math.isinf(x) or math.isnan(x):
        return x
    bias = 2 ** (e - 1) - 1
    exponent = math.frexp(x)[1] - 1
    if gradual:
        exponent = max(exponent, 1 - bias)
    step = Fraction(2) ** (exponent - m)
    ratio = abs(Fraction(x)) / step
    up = round(ratio) if even else math.floor(ratio + Fraction(1, 2))
    whole = math.floor(ratio) if low else up
    size = whole * step
    largest = Fraction(2) ** bias * (2 - Fraction(1, 2**m))
    if size > largest:
        size = math.inf if endless else largest
    return math.copysign(float(size), x)


what_a_half_keeps = Numbers(
    "ex-what-a-half-keeps",
    About("What a half keeps", "compute", 1, 10, "tell what underflows from what loses digits"),
    [
        Asked("micro", _rounded(1e-6, 5, 10), slips={
              0.0: "it is subnormal, not zero",
              1e-6: "how far apart are neighbours there?",
              2.0**-24: "that is the smallest number above zero; which multiple of it is nearest?"},
              tolerance=1e-4),
        Asked("tenth", _rounded(1e-7, 5, 10), slips={
              0.0: "it is above half of the smallest number",
              2.0**-24: "1e-7 lies between one and two of the smallest; which is nearer?",
              1e-7: "only multiples of the smallest number are there"}, tolerance=1e-4),
        Asked("zero_below", 2.0**-25, slips={
              2.0**-24: "that is the smallest number; what is rounded up to it?",
              2.0**-14: "that is the smallest normal number"}),
        Asked("scale", 64.0, slips={
              32.0: "times 32 it is still subnormal",
              2.0**10: "a smaller power of two will do",
              61.03515625: "the next power of two, please"}),
    ],
    "below the normal numbers digits go one by one; only below half of the least all are gone",
    keyed=True,
)


def _same(given: Any, right: float, *args: Any) -> None:
    try:
        equal = float(given) == right
    except (TypeError, ValueError):
        raise NotYet(f"a float is asked for, got {given!r}") from None
    if not equal:
        raise NotYet("the number of the format is another one")


def _to_round() -> Iterator[tuple[str, tuple]]:
    yield "a number between two", (1.3, 4, 3)
    yield "half way, the lower one is even", (1 + 1 / 16, 4, 3)
    yield "half way, the upper one is even", (1 + 3 / 16, 4, 3)
    yield "a negative one", (-0.3, 5, 2)
    yield "up into the next power of two", (1.99, 4, 3)
    yield "subnormal", (3.3 * 2.0**-9, 4, 3)
    yield "less than half of the least", (2.0**-11, 4, 3)
    yield "zero", (0.0, 5, 10)
    yield "above the largest, and nearer to it", (65519.0, 5, 10)
    yield "beyond the largest", (65520.0, 5, 10)
    yield "infinite", (-math.inf, 5, 10)
    yield "of bf16", (3.14159265, 8, 7)


round_to_a_format = Function(
    "ex-round-to-a-format",
    About("Round to a format", "design", 3, 25, "round exactly, at the borders too"),
    "my_cast(x, e, m)", _rounded, _to_round, _same,
    "nearest, of two the even one, with subnormals and infinities",
    {
        "of two that are equally near take the one whose last bit is 0": {"even": False},
        "below the smallest normal number the step stays as it is there": {"gradual": False},
        "to the nearest, not to the lower one": partial(_rounded, low=True),
        "what rounds beyond the largest becomes infinite": {"endless": False},
    },
)


_SIGMA = 1e-4

gradients_in_the_window = Numbers(
    "ex-gradients-in-the-window",
    About("Gradients in the window", "compute", 2, 15,
          "tell what a scale loses above from what it keeps below", ("C.9",)),
    [
        Asked("subnormal", share_subnormal(FP16, _SIGMA), slips={
              math.erf(2.0**-24 / _SIGMA / 2**0.5): "that is the share near zero; up to the least "
              "normal number, please",
              1 - share_subnormal(FP16, _SIGMA): "that is the share of normal numbers"}),
        Asked("zero", share_below(FP16, _SIGMA), slips={
              math.erf(2.0**-24 / _SIGMA / 2**0.5): "what is above half of the least is rounded up",
              share_subnormal(FP16, _SIGMA): "subnormal numbers are not lost"}),
        Asked("overflow", share_above(FP16, _SIGMA, 2.0**28), slips={
              share_above(FP16, _SIGMA, 2.0**28) / 2: "gradients have two signs"}),
        Chosen("at_24", "none", {
               "some": "how many deviations is the border away?",
               "half": "how many deviations is the border away?"}),
    ],
    "digits are lost below, gradually; whole gradients above, all at once", keyed=True,
)


def _scales(flags, scale, interval, *, resets=True, halves=True, grows=True):
    """The scale of each step, for steps that overflow or not."""
    clean, used = 0, []
    for overflow in flags:
        used.append(scale)
        if overflow:
            scale, clean = scale / 2 if halves else scale, 0 if resets else clean
        else:
            clean += 1
            if clean == interval and grows:
                scale, clean = scale * 2, 0
    return used


def _same_scales(given: Any, right: list, *args: Any) -> None:
    found = items(given, "the scales", len(right))
    for step, (mine, due) in enumerate(zip(found, right, strict=True)):
        if mine != due:
            raise NotYet(f"step {step} has another scale")


scale_machine = Function(
    "ex-scale-machine",
    About("The scale as a machine", "design", 2, 15, "write the rule of dynamic loss scaling"),
    "my_scales(flags, scale, interval)", _scales,
    lambda: ((name, (flags, 1024.0, interval)) for name, flags, interval in (
        ("no overflow", [False] * 7, 3), ("one at once", [True, False, False, False, False], 3),
        ("one in between", [False, False, True, False, False, False, False], 3),
        ("two in a row", [False, True, True, False, False, False], 2), ("none", [], 2))),
    _same_scales,
    "half after an overflow, double after so many clean steps in a row",
    {
        "an overflow begins the count of clean steps anew": {"resets": False},
        "an overflow halves the scale of the next step": {"halves": False},
        "a scale that never grows stays where the worst step has put it":
            partial(_scales, grows=False),
    },
)

where_a_sum_stops = Formula(
    "ex-where-a-sum-stops",
    About("Where a sum stops", "derive", 2, 10, "find where a sum of equal terms stagnates"),
    "stops(step, m)", lambda step, m: step * 2.0 ** (m + 1),
    lambda: (("", case) for case in ((1.0, 7), (1.0, 10), (0.25, 7), (8.0, 3))),
    same_number,
    "there the step is half of the distance to the next number, and the even one stays",
    {
        "there the distance of neighbours is the step itself, and the next number is reached":
            lambda step, m: step * 2.0**m,
        "at half of that the step was already half of the distance":
            lambda step, m: step * 2.0 ** (m + 2),
        "it does not matter for the ratio, but for the sum: in which unit is it?":
            lambda step, m: 2.0 ** (m + 1),
    },
)


def _short(x: float) -> float:
    return _rounded(float(x), 8, 7)


def _kahan(values, fl, *, sign=1):
    total = lost = 0.0
    for x in values:
        y = fl(x - sign * lost)
        t = fl(total + y)
        lost = fl(fl(t - total) - y)
        total = t
    return total


def _near(given: Any, right: float, values: list, fl: Any) -> None:
    try:
        off = abs(float(given) - right)
    except (TypeError, ValueError):
        raise NotYet(f"a number is asked for, got {given!r}") from None
    if off > 4 * BF16.roundoff * math.fsum(map(abs, values)):
        raise NotYet("the sum is off by more than a few roundings")


carry_what_was_lost = Function(
    "ex-carry-what-was-lost",
    About("Carry what was lost", "repair", 2, 15, "compensate a sum"),
    "my_sum(values, fl)", _kahan,
    lambda: ((name, (values, _short)) for name, values in (
        ("a thousand ones", [1.0] * 1000), ("a large one first", [512.0] + [1.0] * 600),
        ("tenths", [_short(0.1)] * 3000), ("two signs", [300.0] + [0.5] * 400 + [-300.0]))),
    _near,
    "what an addition has lost comes along with the next term",
    {
        "the sum stops growing: which sign has what is missing?": {"sign": -1},
    },
)

who_shares_a_scale = Numbers(
    "ex-who-shares-a-scale",
    About("Who shares a scale", "derive", 2, 15, "say which outlier breaks which format"),
    [
        Asked("digits", 448 / E4M3.least_normal, slips={
              448 / E4M3.least: "that is where one unit is the least subnormal number",
              448.0: "numbers far below 1 have all their digits, too"}),
        Asked("zero", 2 * 448 / E4M3.least, slips={
              448 / E4M3.least: "half of the least number is still rounded to it"}),
        Asked("int8", 254.0, slips={
              127.0: "half of a step is still rounded to one",
              256.0: "from -127 to 127, please"}, tolerance=0.004),
        Asked("bits", 4.5, slips={
              4.0: "and the scale?", 4.25: "that is MXFP4: 8 bits for 32", 5.0: "8 bits for 16"}),
    ],
    "a float forgives an outlier of thousands, an integer does not forgive one of hundreds",
    keyed=True,
)

floor_or_ceil = Numbers(
    "ex-floor-or-ceil",
    About("Floor or ceil", "compute", 2, 12, "price the rounding of a shared exponent"),
    [
        Asked("floor", 1.0, slips={2.0: "2 to the floor of log2(500), over that of the largest",
                                   0.5: "above which powers of two are 500 and E4M3's largest?"}),
        Asked("kept", 448.0, slips={500.0: "is it a number of E4M3?", 512.0: "that is too large",
                                    480.0: "that code is NaN"}),
        Asked("worst", 1 - 448 / 512, slips={
              1 - 448 / 500: "that is what 500 loses; which block loses most?",
              0.0625: "that is the roundoff; how far above the largest may a number lie?"}),
        Asked("ceil", 512.0, slips={500.0: "neighbours are 64 apart there",
                                    448.0: "with the next power of two it does not saturate",
                                    496.0: "with a scale of 2 the neighbours are 64 apart"}),
    ],
    "rounded down the largest saturates; rounded up all others have half of the steps", keyed=True,
)

_H100 = {"bandwidth": 3.35e12, "peak": 989e12}
_ONE_PASS, _TWO_PASSES = (eight_bit_side(cast_bytes=c, **_H100) for c in (3, 5))

from_which_side = Numbers(
    "ex-from-which-side",
    About("From which side", "derive", 2, 12, "price the casts of an eight-bit product"),
    [
        Asked("one_pass", _ONE_PASS, slips={
              _ONE_PASS / 2: "both factors are cast", 2 * _ONE_PASS: "eight bits save half of the "
              "time of 2 n^3 / F, which is n^3 / F", 989e12 / 3.35e12: "that is the ridge"}),
        Asked("two_passes", _TWO_PASSES, slips={
              _ONE_PASS: "the scale of a whole tensor is known when all of it has been read",
              2 * _ONE_PASS: "only the reading is done twice"}),
        Asked("weight_kept", _TWO_PASSES / 2, slips={
              _TWO_PASSES: "a weight that is kept in eight bits needs no cast"}),
    ],
    "casts grow as the square of the side and what they save as its cube", keyed=True,
)


after_a_quiet_spell = Formula(
    "ex-after-a-quiet-spell",
    About("After a quiet spell", "derive", 2, 15, "follow Adam through a jump of its gradient"),
    "rates(b1, b2, k)", lambda b1, b2, k: (1 - b1**k) / math.sqrt(1 - b2**k),
    lambda: (("", case) for case in (
        (0.9, 0.999, 1), (0.9, 0.999, 12), (0.9, 0.95, 1), (0.9, 0.95, 30), (0.5, 0.9, 4))),
    same_number,
    "the second average is slow: steps grow before they shrink",
    {
        "that is the first step; the averages go on to fill":
            lambda b1, b2, k: (1 - b1) / math.sqrt(1 - b2),
        "Adam divides by the root of the second average":
            lambda b1, b2, k: (1 - b1**k) / (1 - b2**k),
        "with k equal gradients the average lacks b1^k": lambda b1, b2, k:
            (1 - b1 ** (k - 1)) / math.sqrt(1 - b2 ** k),
    },
)


def _part(numbers, unit, *, late=False):
    if late:
        return round(sum(numbers) / unit)
    return sum(round(x / unit) for x in numbers)


_DRAWN = [(7919 * i * i + 104729 * i) % 2003 - 1001 for i in range(60)]
_NUMBERS = [x / 1001 * 2.0 ** (i % 9 - 8) for i, x in enumerate(_DRAWN)]


def _any_order(given: Any, right: int, numbers: list, unit: float) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        raise NotYet(f"whole numbers add up in any order; got {type(given).__name__}")
    if abs(given * unit - math.fsum(numbers)) > len(numbers) * unit:
        raise NotYet("the sum is off by more than half a unit for each number")
    if given != right:
        raise NotYet("dealt out to other ranks, the same numbers have another sum")


same_bits = Function(
    "ex-same-bits",
    About("The same bits", "design", 3, 20, "add so that nobody can tell who added first"),
    "my_part(numbers, unit)", _part,
    lambda: ((f"{len(numbers)} numbers, unit 2^{math.log2(unit):.0f}", (numbers, unit))
             for numbers in (_NUMBERS, _NUMBERS[::-1], _NUMBERS[:7], [0.1] * 10)
             for unit in (2.0**-20, 2.0**-6)),
    _any_order,
    "each number is rounded once, by itself; then all sums are exact",
    {"what is rounded after a sum depends on what was in the sum": {"late": True}},
)
