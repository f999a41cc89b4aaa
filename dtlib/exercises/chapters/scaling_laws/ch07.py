"""The exercises of chapter 7, Loss as a function of compute, in the order of its page."""

import math

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import Limit, number
from dtlib.exercises.judges.runs import same_counts, same_division
from dtlib.scaling_laws.loss_surface.surface import BESIROGLU

# fmt: off
_DAY, _PEAK = 86400, 989.4e12
_E, _A, _ALPHA, _B, _BETA = BESIROGLU
_HOFFMANN = (1.69, 406.4, 0.34, 410.7, 0.28)


def _loss(N: float, D: float, E=_E, A=_A, alpha=_ALPHA, B=_B, beta=_BETA) -> float:
    return E + A / N**alpha + B / D**beta


def _best(C, A=_A, alpha=_ALPHA, B=_B, beta=_BETA, *, ratio=None, power=None, six=6.0):
    ratio = alpha * A / (beta * B) if ratio is None else ratio
    N = ratio ** (1 / (alpha + beta)) * (C / six) ** (beta / (alpha + beta))
    return N, C / six / N


three_terms = Numbers(
    "ex-three-terms",
    About("Three terms", "compute", 1, 8, "say what a run lacks, and for what"),
    [
        Asked("size", _A / 7e9**_ALPHA, "nats", {
              _A / 2e12**_ALPHA: "the size's term has the parameters in it",
              _E + _A / 7e9**_ALPHA: "without the least loss: the term alone"}),
        Asked("data", _B / 2e12**_BETA, "nats", {
              _B / 7e9**_BETA: "the data's term has the tokens in it",
              _E + _B / 2e12**_BETA: "without the least loss: the term alone"}),
        Asked("loss", _loss(7e9, 2e12), "nats", {
              _loss(7e9, 2e12) - _E: "and the least loss?"}),
        Asked("endless", _E + _A / 7e9**_ALPHA, "nats", {
              _E: "the model stays as small as it is",
              _A / 7e9**_ALPHA: "and the least loss?"}),
    ],
    "a small model on much text: what it lacks is size", keyed=True,
)

_RATE = 512 * _PEAK * 0.45

how_long = Numbers(
    "ex-days-of-a-budget",
    About("Days of a budget", "compute", 1, 8, "turn a rate into a budget and a date", ("x7.2",)),
    [
        Asked("rate", _RATE, "FLOP/s", {
              2 * _RATE: "the dense rate counts, without sparsity",
              512 * _PEAK: "45 % of the peak are reached"}),
        Asked("days", 1e24 / _RATE / _DAY, slips={
              1e24 / _RATE / _DAY / 2: "that is at twice the rate: the dense peak counts",
              1e24 / _RATE: "a day has 86,400 seconds",
              1e24 / _RATE / 3600: "those are hours"}),
        Asked("years", 2 ** (1 / 0.178) * 1e24 / _RATE / _DAY / 365, slips={
              2 ** (1 / 0.178) * 1e24 / _RATE / _DAY: "in years of 365 days",
              2 * 1e24 / _RATE / _DAY / 365: "the excess falls as compute to the power -0.178"}),
    ],
    "51 days; and seven years for half of what is then left", keyed=True,
)

_N20 = math.sqrt(1e24 / 120)

two_divisions = Numbers(
    "ex-two-divisions",
    About("Two divisions of one budget", "compute", 2, 12,
          "compare a rule with a fit, in size and in loss", ("x7.1",)),
    [
        Asked("rule", _N20, slips={
              1e24 / 120: "the size enters squared",
              math.sqrt(1e24 / 20): "compute is 6 FLOP for each parameter and token",
              20 * _N20: "those are the tokens"}),
        Asked("fit", _best(1e24)[0], slips={
              _best(1e24)[1]: "those are the tokens",
              _best(1e24, six=1.0)[0]: "compute is 6 FLOP for each parameter and token",
              _best(1e24, ratio=_A / _B)[0]: "it is alpha A over beta B"}),
        Asked("printed", _best(1e24, *_HOFFMANN[1:])[0], slips={
              _best(1e24, *_HOFFMANN[1:])[1]: "those are the tokens"}),
        Asked("lost", _loss(_best(1e24, *_HOFFMANN[1:])[0], _best(1e24, *_HOFFMANN[1:])[1])
              - _loss(*_best(1e24)), "nats", {
              _loss(_N20, 20 * _N20) - _loss(*_best(1e24)):
              "that is what the rule loses; what does the printed size lose?",
              0: "the sizes differ, so it cannot be nothing"}),
    ],
    "less than half the size, and less than a hundredth of a nat", keyed=True,
)

_D7 = 20 * 7e9


def _equivalent() -> float:
    low, high, goal = 7e9, 1e12, _loss(7e9, 2e12)
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _loss(middle, 20 * middle) > goal else (low, middle)
    return low


trained_longer = Numbers(
    "ex-trained-longer",
    About("Trained longer", "compute", 2, 15, "price an over-trained model in size", ("x7.3",)),
    [
        Asked("tokens", _D7, slips={7e9 / 20: "20 tokens for each parameter"}),
        Asked("times", 2e12 / _D7, slips={_D7 / 2e12: "the other way round"}),
        Asked("gained", _loss(7e9, _D7) - _loss(7e9, 2e12), "nats", {
              _loss(7e9, 2e12) - _loss(7e9, _D7): "it is a gain: the earlier loss less the later",
              _B / _D7**_BETA: "the term of data is smaller at 2 trillion, and not gone"}),
        Asked("equal", _equivalent(), slips={
              7e9 * 2e12 / _D7: "14 times the tokens are not worth 14 times the size",
              2e12 / 20: "that model would have seen as much; which has the same loss?"}),
    ],
    "14 times the tokens are worth 2.8 times the size", keyed=True,
)

same_compute = Numbers(
    "ex-same-compute",
    About("Small and long, large and short", "derive", 2, 12,
          "see that an answer belongs to a fit"),
    [
        Asked("anew", _loss(7e9, 2e12) - _loss(70e9, 200e9), "nats", {
              _loss(70e9, 200e9) - _loss(7e9, 2e12): "small less large"}),
        Asked("printed", _loss(7e9, 2e12, *_HOFFMANN) - _loss(70e9, 200e9, *_HOFFMANN), "nats", {
              _loss(70e9, 200e9, *_HOFFMANN) - _loss(7e9, 2e12, *_HOFFMANN): "small less large"}),
        Chosen("between", "a model between the two is better than both, by both laws", {
               "the two are the best of this budget": "try 20 billion parameters",
               "it depends on the law": "the bottom of each valley: where does it lie?"}),
    ],
    "the two lie on both sides of one valley, and the sign is the fit's", keyed=True,
)

tokens_to_a_loss = Formula(
    "ex-tokens-to-a-loss",
    About("A line of equal loss", "derive", 2, 12, "solve the law for its data", ("x7.4",)),
    "tokens(N, loss, E, A, alpha, B, beta)",
    lambda N, loss, E, A, alpha, B, beta: (B / (loss - E - A / N**alpha)) ** (1 / beta),
    lambda: (("", case) for case in (
        (7e10, 2.1, _E, _A, _ALPHA, _B, _BETA), (1e9, 3.0, *_HOFFMANN), (4.0, 2.5, 1, 2, 1, 3, 1),
        (1e12, 2.0, 1.5, 100.0, 0.5, 50.0, 0.25))),
    same_number,
    "what the size leaves is the data's to fill; for small models nothing is left",
    {
        "the least loss is below all three: take it off, too":
            lambda N, loss, E, A, alpha, B, beta: (B / (loss - A / N**alpha)) ** (1 / beta),
        "the power comes off with its inverse":
            lambda N, loss, E, A, alpha, B, beta: (B / (loss - E - A / N**alpha)) ** beta,
        "the size enters by its power":
            lambda N, loss, E, A, alpha, B, beta: (B / (loss - E - A / N)) ** (1 / beta),
    },
    limits=(Limit("an endless model", {
                "N": 1e30, "loss": 2.0, "E": 1.0, "A": 1.0, "alpha": 1.0, "B": 3.0, "beta": 1.0},
                "an endless model: what is left is B over D to beta"),),
)

_GAIN_N = _A / 70e9**_ALPHA * (1 - 2**-_ALPHA)
_GAIN_D = _B / 1.4e12**_BETA * (1 - 2**-_BETA)

which_doubling = Numbers(
    "ex-which-doubling",
    About("Which doubling", "derive", 2, 12, "compare what two doublings are worth", ("x7.5",)),
    [
        Asked("size", _GAIN_N, "nats", {
              _A / 70e9**_ALPHA: "the term does not vanish: which part of it goes?",
              _A / 70e9**_ALPHA / 2: "the size enters by its power"}),
        Asked("data", _GAIN_D, "nats", {
              _B / 1.4e12**_BETA: "the term does not vanish: which part of it goes?",
              _B / 1.4e12**_BETA / 2: "the tokens enter by their power"}),
        Asked("ratio", (1 - 2**-0.34) / 0.34 / ((1 - 2**-0.28) / 0.28), slips={
              1: "at the best division small changes are equal; a doubling is not small",
              (1 - 2**-0.34) / (1 - 2**-0.28): "the terms differ there: alpha a = beta b",
              (1 - 2**-0.28) / 0.28 / ((1 - 2**-0.34) / 0.34): "the size's over the data's"}),
    ],
    "nearly equal, and not quite: a doubling is not a small change", keyed=True,
)

power_of_compute = Formula(
    "ex-power-of-compute",
    About("The power of compute", "derive", 2, 12, "follow an excess along the best runs"),
    "times(alpha, beta, share)",
    lambda alpha, beta, share: share ** -((alpha + beta) / (alpha * beta)),
    lambda: (("", case) for case in (
        (0.5, 0.5, 0.5), (_ALPHA, _BETA, 0.5), (0.34, 0.28, 0.5), (1.0, 1.0, 0.1),
        (2.0, 0.2, 0.9))),
    same_number,
    "the two powers add up like resistors side by side: one over the sum of the inverses",
    {
        "a budget is shared: both terms must fall":
            lambda alpha, beta, share: share ** (-1 / alpha),
        "that is the mean of the two; the budget is shared":
            lambda alpha, beta, share: share ** (-2 / (alpha + beta)),
        "more compute, not less":
            lambda alpha, beta, share: share ** ((alpha + beta) / (alpha * beta)),
        "half the harmonic mean, not all of it":
            lambda alpha, beta, share: share ** -((alpha + beta) / (2 * alpha * beta)),
    },
)

_N24, _D24 = _best(1e24)
_SLOPE = _ALPHA * _A / _N24**_ALPHA


def _rise(k: float) -> float:
    return _loss(k * _N24, _D24 / k) - _loss(_N24, _D24)


flat_valley = Numbers(
    "ex-flat-valley",
    About("How flat a valley", "derive", 2, 15, "measure a valley, exactly and as a parabola"),
    [
        Asked("half", _rise(0.5), "nats", {
              _rise(0.25): "half the best size, and twice the tokens",
              _loss(0.5 * _N24, _D24) - _loss(_N24, _D24): "the budget stays: twice the tokens"}),
        Asked("parabola", _SLOPE * (_ALPHA + _BETA) / 2 * math.log(2) ** 2, "nats", {
              _SLOPE * (_ALPHA + _BETA) / 2 * 0.25: "u is the logarithm of the size",
              _SLOPE * (_ALPHA + _BETA) * math.log(2) ** 2: "a parabola has a half in front"}),
        Asked("factor", math.exp(math.sqrt(0.01 / (_SLOPE * (_ALPHA + _BETA) / 2))), slips={
              math.sqrt(0.01 / (_SLOPE * (_ALPHA + _BETA) / 2)):
              "that is the logarithm of the factor"}),
    ],
    "a factor of almost 3 to either side for a hundredth of a nat", keyed=True,
)

nats_and_bits = Numbers(
    "ex-nats-and-bits",
    About("Nats, bits, bytes", "compute", 1, 10, "carry a loss to another tokenizer"),
    [
        Asked("bits", _E / math.log(2), slips={
              _E * math.log(2): "a bit is smaller than a nat, so there are more of them",
              _E: "a bit is ln 2 nats"}),
        Asked("per_byte", _E / math.log(2) / 4, slips={
              _E / math.log(2) * 4: "four bytes share one token's bits",
              _E / 4: "in bits"}),
        Asked("other", _E / 4 * 3.2, "nats", {
              _E * 4 / 3.2: "shorter tokens have fewer nats each",
              _E: "the text has so many nats per byte, however it is cut"}),
        Chosen("powers", "stay", {
               "grow with the tokens' length": "a fixed factor in D goes into B",
               "shrink with the tokens' length": "a fixed factor in D goes into B"}),
    ],
    "E, A and B follow the unit; the powers have none", keyed=True,
)


def _huber(measured, fitted, delta, *, logs=True, edge=True):
    total = 0.0
    for one, other in zip(measured, fitted, strict=True):
        r = abs(math.log(one / other) if logs else one - other)
        total += r * r / 2 if r <= delta else delta * (r - (delta / 2 if edge else 0))
    return total


my_penalty = Function(
    "ex-huber-penalty",
    About("A penalty that outliers cannot bend", "design", 2, 15,
          "write the sum that is minimised"),
    "my_penalty(measured, fitted, delta)", _huber,
    lambda: ((f"case {i + 1}", case) for i, case in enumerate((
        ([2.0], [2.0], 0.001), ([2.001, 3.0], [2.0, 2.5], 0.001), ([5.0, 2.0], [2.5, 2.002], 0.01),
        ([2.2], [2.0], 0.2), ([1.9, 2.1, 3.3], [2.0, 2.0, 3.0], 0.05)))),
    lambda given, right, *args: number(given, right, "the sum", tolerance=1e-9),
    "a square near zero, a line beyond, and no jump between them",
    {
        "it is the logarithms that are compared": {"logs": False},
        "at the border the line must meet the square: delta (|r| - delta/2)": {"edge": False},
    },
)


def _division(A, alpha, B, beta, C, *, six=6.0, slopes=True, swapped=False):
    ratio = alpha * A / (beta * B) if slopes else A / B
    power = (alpha if swapped else beta) / (alpha + beta)
    N = ratio ** (1 / (alpha + beta)) * (C / six) ** power
    return N, C / six / N


my_division = Function(
    "ex-best-division",
    About("The bottom of the valley", "design", 2, 15,
          "find where equal loss touches equal compute"),
    "my_division(A, alpha, B, beta, C)", _division,
    lambda: ((f"C = {case[-1]:.0e}", case) for case in (
        (482.01, 0.3478, 2085.43, 0.3658, 1e22), (406.4, 0.34, 410.7, 0.28, 5.76e23),
        (8.0, 1.0, 2.0, 1.0, 600.0), (30.0, 0.64, 235.0, 0.57, 2e13))),
    same_division,
    "at the bottom alpha a = beta b, and 6 N D is the budget",
    {
        "compute is 6 FLOP for each parameter and token": {"six": 1.0},
        "equal are the slopes of the terms, not the terms: alpha A over beta B": {"slopes": False},
        "which power does the size have: the other one's": {"swapped": True},
    },
)


def _counts(cells, chosen, *, together=True, again=True):
    found = []
    for place, cell in enumerate(cells):
        first = together or cells.index(cell) == place
        times = sum(one == cell for one in chosen)
        found.append((times if again else min(times, 1)) if first else 0)
    return found


my_resample = Function(
    "ex-resample-cells",
    About("Runs that belong together", "design", 3, 20,
          "draw what is independent, and nothing else"),
    "my_counts(cells, chosen)", _counts,
    lambda: ((f"{len(cells)} runs", (cells, chosen)) for cells, chosen in (
        ([0, 1, 2], [0, 1, 2]), ([0, 0, 1, 1, 2], [1, 1, 0]), ([0, 1, 0, 2], [2, 2, 2]),
        ([3, 3, 1, 0, 2, 2], [3, 0, 3, 2]))),
    same_counts,
    "cells are drawn, and each brings all of its runs, as often as it was drawn",
    {
        "two seeds of a cell come together": {"together": False},
        "drawn twice counts twice": {"again": False},
    },
)

what_is_blind = Numbers(
    "ex-what-is-blind",
    About("What is not seen", "derive", 3, 15, "find the direction that a grid cannot see"),
    [
        Chosen("one_size", "E against A", {
               "B against beta": "the tokens differ, so both are seen",
               "alpha against beta": "beta is seen; what of alpha at one size?",
               "none": "at one size two of the terms are one number"}),
        Chosen("centred", "at the middle of the runs", {
               "at one parameter": "there the line is extrapolated far, and A moves with alpha",
               "at the largest run": "the line turns about the middle of its points"}),
        Asked("moved", math.exp(0.01 * math.log(1e9)), slips={
              1.01: "by 0.01 in the power, over so many powers of e",
              0.01 * math.log(1e9): "that is the logarithm of the factor"}),
    ],
    "A is a place on a line far from the points: it moves with every digit of the power",
    keyed=True,
)
