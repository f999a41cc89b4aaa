"""Every check of chapter 6: the solution passes; the stub, wrong answers and dtlib's own fail."""

import math

import pytest
from exercise_cases import Case, EveryExercise

from dtlib.collectives import ring_all_reduce_time
from dtlib.exercises import NotYet, check
from dtlib.foundations import Sheet, line
from dtlib.memory import weight_bytes

GB, us = 10**9, 1e-6
LAYER = 4096 * 8 * 5120 * 56.0
KEPT = 2 * 4096 * 8 * 5120
REST = 6.5e9 + 5e9


def fits(**changes):
    right = {
        "layer": LAYER,
        "every_4": 10 * KEPT + 4 * LAYER + REST,
        "every_1": 40 * KEPT + LAYER + REST,
    }
    return right | changes


def speed(**changes):
    peak = 128 * 989e12 / 180e9
    return {"at_peak": peak, "mfu": 150e3 / peak} | changes


def fleet(**changes):
    return {"fewest": 94, "days_694": 9.4433, "dollars": 314_570} | changes


def exchange_sheet(params, P, port_gbit, bits=8, width=2):
    return Sheet(
        {"params": params, "P": P, "alpha": 2 * us, "beta": port_gbit * 1e9 / bits,
         "element_bytes": width},
        {"gradient": weight_bytes, "exchange": line(ring_all_reduce_time, n="gradient")},
    )  # fmt: skip


def exponent(f, inputs, name):
    up, down = (f(**inputs | {name: inputs[name] * s}) for s in (1.0001, 1 / 1.0001))
    return (math.log(up) - math.log(down)) / (2 * math.log(1.0001))


def derivative(f, inputs, name):
    step = 1e-6 * inputs[name]
    return (f(**inputs | {name: inputs[name] + step}) - f(**inputs)) / step


def spread(exponents, factors):
    squares = [(e * math.log(f)) ** 2 for e, f in zip(exponents, factors, strict=True)]
    return math.exp(math.sqrt(sum(squares)))


def fermi(**changes):
    rough = {
        "state_405b": 6.4e12, "flops_8b": 7.2e23, "days_1t": 190, "speed_70b": 950,
        "ring_16gb": 0.64, "logits": 6.2e9, "kept_7b": 18e9, "dollars_70b": 800e3,
    }  # fmt: skip
    return rough | changes


def best_segment(layers, c):
    root = math.floor(math.sqrt(layers / c))
    beside = {min(max(1, k), layers) for k in (root, root + 1)}
    return min(beside, key=lambda k: layers / k + c * k)


def bandwidth(**changes):
    return {"rate": 394e12, "bandwidth": 15.7e9} | changes


def design(**changes):
    options = {"tp": 4, "pp": 8, "zero": 2, "sequence_parallel": True}
    return options | changes


def tornado(sheet, name, share, signs=(-1, 1), order=-1, every=False):
    rows = []
    for feed in sheet.given if every else sheet.feeds(name):
        value = sheet.given[feed].value
        low, high = (sheet.values_at(**{feed: value * (1 + s * share)})[name] for s in signs)
        if low != high or every:
            rows.append((feed, low, high))
    return sorted(rows, key=lambda row: order * abs(row[2] - row[1]))


CASES = {
    "ex-whose-utilisation": Case(
        solution=speed(),
        wrong=[
            (speed(at_peak=2 * 703288), "are the matrices of the larger figure dense"),
            (speed(at_peak=3 * 703288.89), "the forward pass alone"),
            (speed(mfu=0.10664), "half of it"),
            (speed(mfu=21.328), "not in per cent"),
            ({"mfu": 0.2}, "keys"),
        ],
        secret=[703289, 0.21328],
    ),
    "ex-fewest-for-a-deadline": Case(
        solution=fleet(),
        wrong=[
            (fleet(fewest=694), "the most that the budget pays for"),
            (fleet(fewest=93), "a little too late"),
            (fleet(fewest=93.6), "whole number"),
            (fleet(days_694=9.4433 * 86400), "in days, please"),
            (fleet(dollars=2.33e6), "that is the budget"),
            ({"fewest": 94}, "keys"),
        ],
        secret=[9.4433, 314_570],
    ),
    "ex-does-it-fit": Case(
        solution=fits(),
        wrong=[
            (fits(layer=LAYER * 48.5 / 56), "only the 24 and the scores"),
            (fits(layer=LAYER * 194 / 56), "nothing was divided"),
            (fits(layer=LAYER / 8), "eight sequences"),
            (fits(layer=9.395), "in bytes, please"),
            (fits(every_4=4 * LAYER + REST), "kept inputs themselves are missing"),
            (fits(every_1=40 * KEPT + REST), "recomputed at the moment is missing"),
            (fits(every_1=40 * KEPT + LAYER + 5e9), "where is the state"),
        ],
        secret=[LAYER, fits()["every_4"], fits()["every_1"]],
    ),
    "ex-repair-the-units": Case(
        solution=exchange_sheet,
        wrong=[
            (lambda p, P, port: exchange_sheet(p, P, port, bits=1), "counts bits"),
            (lambda p, P, port: exchange_sheet(p, P, port, width=1), "They have two"),
            (lambda p, P, port: exchange_sheet(p, P, port, bits=1, width=1), "and a port"),
            (lambda p, P, port: 0.1, "a Sheet that has a line 'exchange'"),
            (
                lambda p, P, port: Sheet(
                    {"params": p, "element_bytes": 2}, {"exchange": weight_bytes}
                ),
                "must be a time, but is in B",
            ),
        ],
    ),
    "ex-exponent": Case(
        solution=exponent,
        wrong=[
            (derivative, "the derivative itself"),
            (lambda f, i, n: -exponent(f, i, n), "the sign is wrong"),
            (lambda f, i, n: 1.0, "the exponent is off"),
            (lambda f, i, n: f(x=1.0), "raises TypeError"),
        ],
    ),
    "ex-rule-of-squares": Case(
        solution=spread,
        wrong=[
            (lambda e, f: math.prod(x ** abs(k) for k, x in zip(e, f, strict=True)), "worst"),
            (lambda e, f: spread([1] * len(f), f), "the exponents have no effect"),
            (lambda e, f: math.log(spread(e, f)), "the logarithm of the factor"),
            (
                lambda e, f: 1 + math.hypot(*(k * (x - 1) for k, x in zip(e, f, strict=True))),
                "logarithms that add as squares",
            ),
        ],
    ),
    "ex-fermi": Case(
        solution=fermi(),
        also_right=[fermi(state_405b=6.4e12 * 3, logits=6.2e9 / 3)],
        wrong=[
            (fermi(days_1t=190 * 86400), "days_1t is too large, by more than a factor of eight"),
            (fermi(ring_16gb=0.01), "ring_16gb is too small"),
            ({k: 3.5 * v for k, v in fermi().items()}, "your score is 1.8 doublings"),
            (fermi(logits=-1), "must be positive"),
            ({"logits": 1}, "keys"),
        ],
    ),
    "ex-best-segment": Case(
        solution=best_segment,
        wrong=[
            (lambda layers, c: max(1, round(math.sqrt(layers))), "the square root of the folklore"),
            (lambda layers, c: 1, "more layers in a segment"),
            (lambda layers, c: layers, "fewer layers|neighbouring"),
            (lambda layers, c: min(layers, max(1, int((layers / c) ** 0.5))), "neighbouring"),
            (lambda layers, c: 0, "at least 1"),
            (lambda layers, c: (layers / c) ** 0.5, "whole number"),
        ],
    ),
    "ex-which-bandwidth": Case(
        solution=bandwidth(),
        also_right=[bandwidth(rate=395.9e12, bandwidth=15.69e9)],
        wrong=[
            (bandwidth(rate=788e12), "only half of the arithmetic"),
            (bandwidth(rate=144e12), "not all of the first step"),
            (bandwidth(rate=197e12), "384 GPUs share"),
            (bandwidth(rate=394), "in FLOP/s"),
            (bandwidth(bandwidth=15.7e9 / 3), "three times the model"),
            (bandwidth(bandwidth=12.84e9), "the first row is not all exchange"),
            (bandwidth(bandwidth=20.2e9), "that supposes that nothing hides"),
            (bandwidth(bandwidth=15.7), "in bytes per second"),
            ({"rate": 394e12}, "keys"),
        ],
        secret=[394, 15.7e9],
    ),
    "ex-design-a-fit": Case(
        solution=design(),
        also_right=[
            {"pp": 8, "interleave": 10, "zero": 1, "recompute": "full"},
            {"tp": 4, "pp": 8, "zero": 3, "sequence_parallel": True},
        ],
        wrong=[
            ({"zero": 3}, "times the card; the largest part is: activations"),
            ({"tp": 8}, "times the card"),
            (design(recompute="full"), "beside computing: tensor parallelism"),
            (design(tp=3), "tp . pp is 24, but must be a divisor"),
            (design(mfu=0.6), "option 'mfu' is not yours to choose"),
            (design(batch=1), "option 'batch' is not yours"),
            ({}, "pass a dict of options"),
        ],
    ),
    "ex-tornado": Case(
        solution=tornado,
        wrong=[
            (lambda s, n, x: tornado(s, n, x, order=1), "the widest comes first"),
            (lambda s, n, x: tornado(s, n, x, signs=(1, -1)), "the lower .input. comes first"),
            (lambda s, n, x: tornado(s, n, x / 2), "by the share that is asked"),
            (lambda s, n, x: tornado(s, n, x, every=True), "changes nothing is listed"),
            (lambda s, n, x: tornado(s, n, x)[:-1], "is missing"),
            (lambda s, n, x: 1.0, "a list of"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_sheets_own_exponents_are_no_tornado():
    with pytest.raises(NotYet):
        check("ex-tornado", lambda sheet, name, share: list(sheet.exponents(name).items()))
