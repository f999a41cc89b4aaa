"""Every check of chapter 4: the solution passes; the stub, wrong answers and dtlib's own fail."""

import math
from statistics import mean, median
from types import SimpleNamespace

import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, PracticeLink, check
from dtlib.exercises.practice_link import BudgetSpent
from dtlib.foundations import fit_alpha_beta

GB, MB, KB, us, ms = 10**9, 10**6, 10**3, 1e-6, 1e-3


def sheets(**changes):
    right = {
        "nvlink4": 450e9,
        "ndr": 50e9,
        "nvlink3": 300e9,
        "hdr": 25e9,
        "ratio_now": 9,
        "ratio_before": 12,
    }
    return right | changes


def prices(**changes):
    right = {"now": 0.28575, "bandwidth": 0.269875, "latency": 0.15875, "fused": 0.15875}
    return right | changes


def size_for(efficiency, alpha, beta):
    return efficiency / (1 - efficiency) * alpha * beta


def all_reduce_seconds(n, P, port_gbit, gpus_per_port):
    beta = port_gbit * 1e9 / 8 / gpus_per_port
    return 2 * (P - 1) / P * n / beta


def measure(one, collect, warm=1):
    """A measurement that reduces the repetitions ``collect`` of a call ``one`` to a sample."""

    def measure_link(link, sizes):
        samples = []
        for n in sizes:
            for _ in range(warm):
                one(link, n)
            times = []
            for _ in range(9):
                start = link.clock()
                one(link, n)
                times.append((link.clock() - start) / 2)
            samples.append((n, collect(times)))
        return fit_alpha_beta(samples)

    return measure_link


def measure_as_printed(link, sizes):
    samples = []
    for n in sizes:
        start = link.clock()
        link.all_reduce(n)
        samples.append((n, link.clock() - start))
    return fit_alpha_beta(samples)


def measure_round_trips(link, sizes):
    fit = measure(PracticeLink.round_trip, median)(link, sizes)
    return SimpleNamespace(alpha=2 * fit.alpha, beta=fit.beta / 2)


def best_chunks(n, h, alpha, beta):
    root = math.sqrt((h - 1) * n / (alpha * beta))
    near = {max(1, math.floor(root)), max(1, math.ceil(root))}
    return min(near, key=lambda k: (h + k - 1) * (alpha + n / (k * beta)))


def bucket_bytes(efficiency, P, alpha, beta):
    return efficiency / (1 - efficiency) * P * alpha * beta


def one_way(link, n, repetitions=5):
    link.round_trip(n)
    times = []
    for _ in range(repetitions):
        start = link.clock()
        link.round_trip(n)
        times.append((link.clock() - start) / 2)
    return median(times)


def calibrate(link, n=8, enough=5, step=2, method="relative"):
    samples = [(n, one_way(link, n, repetitions=9))]
    while samples[-1][1] < enough * samples[0][1]:
        n *= 8 if samples[-1][1] < 2 * samples[0][1] else step
        samples.append((n, one_way(link, n, repetitions=9)))
    fit = fit_alpha_beta(samples, method=method)
    return fit.alpha, fit.beta


def calibrate_with_sizes(*sizes):
    def calibrate(link):
        fit = fit_alpha_beta([(n, one_way(link, n)) for n in sizes])
        return fit.alpha, fit.beta

    return calibrate


CASES = {
    "ex-two-datasheets": Case(
        solution=sheets(),
        wrong=[
            (sheets(nvlink4=900e9), "nvlink4: the sum of both directions"),
            (sheets(ndr=400e9), "ndr: still in bits"),
            (sheets(hdr=25), "hdr: in bytes/s, please"),
            (sheets(ratio_now=18), "factor of 2 slipped"),
            (sheets(ratio_now=2.25), "two factors"),
            (sheets(ratio_before=24), "ratio_before: a factor of 2"),
            (sheets(ratio_before=1 / 12), "other way round"),
            ({"nvlink4": 450e9}, "keys"),
        ],
        secret=[450e9, 300e9],
    ),
    "ex-ninety-percent": Case(
        solution=size_for,
        wrong=[
            (lambda e, a, b: e * a * b, "less than asked"),
            (lambda e, a, b: a * b, "does not depend"),
            (lambda e, a, b: a * b / (1 - e), "more than asked"),
            (lambda e, a, b: (1 - e) / e * a * b, "the smaller your message"),
            (lambda e, a, b: 2 * size_for(e, a, b), "wrong already when half is asked"),
            (lambda e, a, b: size_for(e, a, b) + 1, "close, but a little too large|wrong already"),
            (lambda e, a: 0, r"must take size_for\(efficiency, alpha, beta\)"),
            (lambda e, a, b: "much", "must be a number"),
        ],
    ),
    "ex-fuse-the-gradients": Case(
        solution=(0.158875, 0.004185, 499 * 62 * 5e-6),
        wrong=[
            ((0.158875, 0.004185, 499 * 5e-6), "saving of single messages"),
            ((0.158875, 0.004185, 500 * 62 * 5e-6), "still pays its own latency"),
            ((500 * (310e-6 + 4e-6), 0.004185, 0.15469), "how many bytes"),
            ((500 * (5e-6 + 7.75e-6), 0.004185, 0.15469), "in every round"),
            ((0.158875, 4.185, 0.15469), "in seconds, please"),
        ],
        secret=[0.158875, 0.004185, 0.15469],
    ),
    "ex-what-to-buy": Case(
        solution=prices(),
        wrong=[
            (prices(bandwidth=0.28575 / 2), "bandwidth: .*only the bytes"),
            (prices(latency=0.28575 / 2), "latency: .*only the starts"),
            (prices(fused=0.3175), "half as many"),
            (prices(fused=0.142875), "a pair has twice the bytes|one phase of two"),
            (prices(now=0.142875), "one phase of two"),
            (prices(now=285.75), "in seconds, please"),
            (prices(now=0.28575 / 200), "a step makes many"),
            ({"now": 0.28575}, "keys"),
        ],
        secret=[0.28575, 0.269875, 0.15875],
    ),
    "ex-repair-sixteen-seconds": Case(
        solution=all_reduce_seconds,
        wrong=[
            (lambda n, P, p, g: all_reduce_seconds(n, P, 8 * p, g), "8 times too fast"),
            (lambda n, P, p, g: all_reduce_seconds(n, P, p, 1), "no effect: they share"),
            (lambda n, P, p, g: all_reduce_seconds(n, P, p, g) / 2, "reduce-scatter .and. an"),
            (lambda n, P, p, g: P * n / (p * 1e9 / 8 / g), "grows with P: who"),
            (lambda n, P, p, g: P * n / (p * 1e9), "as on the page"),
        ],
    ),
    "ex-repair-measure": Case(
        solution=measure(PracticeLink.round_trip, min),
        also_right=[measure(PracticeLink.round_trip, median)],
        wrong=[
            (measure_as_printed, "alpha is that of a whole all-reduce"),
            (measure_round_trips, "off by two: a round trip is two messages"),
            (measure(PracticeLink.round_trip, mean, warm=0), "first call"),
            (measure(PracticeLink.round_trip, mean), "jitter.*a mean carries every late call"),
            (measure(PracticeLink.round_trip, max), "jitter"),
            (lambda link, sizes: (1e-6, 1e9), r"a fit with \.alpha and \.beta, got tuple"),
        ],
    ),
    "ex-optimal-chunks": Case(
        solution=best_chunks,
        wrong=[
            (lambda n, h, a, b: max(1, round(math.sqrt(h * n / (a * b)))), "one hop|over one hop"),
            (lambda n, h, a, b: max(1, int(math.sqrt((h - 1) * n / (a * b)))), "neighbouring"),
            (lambda n, h, a, b: max(1, round(n / (a * b))), "fewer chunks|over one hop"),
            (lambda n, h, a, b: round(math.sqrt((h - 1) * n / (a * b))), "at least one"),
            (lambda n, h, a, b: math.sqrt((h - 1) * n / (a * b)), "whole number"),
            (lambda n, h, a, b: 1, "more chunks are faster"),
        ],
    ),
    "ex-bucket-size": Case(
        solution=bucket_bytes,
        wrong=[
            (lambda e, P, a, b: size_for(e, a, b), "judged as one message"),
            (lambda e, P, a, b: P * a * b, "does not depend"),
            (lambda e, P, a, b: 2 * (P - 1) * size_for(e, a, b), "n/P travels in each round"),
        ],
    ),
    "ex-issue-rate": Case(
        solution=(0.0500128, 0.0150035, 75_000),
        wrong=[
            ((0.0300128, 0.0150035, 75_000), r"\(a\)"),
            ((0.0500128, 0.0500128, 75_000), "in flight overlap"),
            ((0.0500128, 0.010, 75_000), "the gap g is longer"),
            ((0.0500128, 0.0150035, 50_000), "gap g, not the overhead"),
            ((0.0500128, 0.0150035, 75), "in bytes, please"),
        ],
        secret=[0.0500128, 0.0150035, 75_000],
    ),
    "ex-design-calibration": Case(
        solution=calibrate,
        wrong=[
            (calibrate_with_sizes(8, 1 * KB, 1 * MB, 1 * GB), "the 100 ms are spent"),
            (lambda link: calibrate(link, enough=20, step=8), "the 100 ms are spent"),
            (calibrate_with_sizes(8, 64, 512), "beta is|raises ValueError"),
            (lambda link: calibrate(link, enough=2000, method="ordinary"), "alpha is too"),
            (calibrate_with_sizes(1 * MB), "raises ValueError"),
            (lambda link: 2e-6, "2 items"),
        ],
    ),
    "ex-without-the-property": Case(
        solution=(lambda n: 1 + n**2, 10.0),
        also_right=[(lambda n: 1e-6 + n / 1e9 if n < 1e6 else 1e-6 + 1e-3 + (n - 1e6) / 1e8, 1e6)],
        wrong=[
            ((lambda n: min(1e-6 + n / 1e9, 1e-5 + n / 1e10), 1e5), "batching still wins"),
            ((lambda n: 100 - n, 10.0), "not increasing|positive"),
            ((lambda n: n**2 - 1, 10.0), "positive"),
            ((lambda n: 1 + n + (5 * n if n > 15 else 0), 10.0), "jumps near n = 1[45]"),
            ((lambda n: 1 + n**2, 0.1), "batching still wins"),
            ((lambda n: 1 + n**2, -1), "n must be positive"),
            (lambda n: n, "2 items"),
        ],
        stub=(lambda n: None, 1),
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("slug", [slug for slug in CASES if callable(CASES[slug].solution)])
def test_the_librarys_own_fit_is_no_answer(slug):
    with pytest.raises(NotYet):
        check(slug, fit_alpha_beta)


def test_a_practice_link_counts_its_own_time():
    link = PracticeLink(2e-6, 50e9, budget=1e-4)
    link.round_trip(100 * KB)
    assert link.clock() == 2 * (2e-6 + 1e5 / 50e9)
    link.all_reduce(800 * KB)
    assert link.clock() == 2 * (2e-6 + 1e5 / 50e9) + 14 * (2e-6 + 1e5 / 50e9)
    with pytest.raises(BudgetSpent, match="are spent"):
        link.round_trip(1 * GB)


def test_a_practice_link_is_slow_once_and_late_at_times():
    link = PracticeLink(1e-6, 1e9, cold=5e-3, spikes=0.05, seed=1)
    times = []
    for _ in range(2000):
        start = link.clock()
        link.round_trip(0)
        times.append(link.clock() - start)
    assert times[0] >= 5e-3
    late = sum(t > 10e-6 for t in times[1:]) / 1999
    assert 0.03 < late < 0.07
