"""Graders of chapter 4, The alpha-beta Model."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import Limit, call, formula, function, items, number, real, whole
from dtlib.exercises.practice_link import BudgetSpent, PracticeLink
from dtlib.exercises.verdict import NotYet

GB, MB, KB, us, ms = 10**9, 10**6, 10**3, 1e-6, 1e-3


@grader("ex-two-datasheets")
def two_datasheets(answer: Any) -> str:
    sheets = {
        "nvlink4": (450 * GB, "the sum of both directions"),
        "ndr": (50 * GB, "still in bits"),
        "nvlink3": (300 * GB, "the sum of both directions"),
        "hdr": (25 * GB, "still in bits"),
    }
    if not isinstance(answer, dict) or set(answer) != {*sheets, "ratio_now", "ratio_before"}:
        raise NotYet(f"pass a dict with the keys {', '.join(sheets)}, ratio_now, ratio_before")
    for name, (beta, slip) in sheets.items():
        factor = 2 if "nvlink" in name else 8
        mistakes = {beta * factor: slip, beta / GB: "in bytes/s, please"}
        number(answer[name], beta, name, "bytes/s", mistakes=mistakes)
    for name, ratio in (("ratio_now", 9), ("ratio_before", 12)):
        mistakes = {
            2 * ratio: "a factor of 2 slipped in: one direction against one direction",
            ratio / 8: "a factor of 8 slipped in: bytes against bytes",
            2 * ratio / 8: "two factors slipped in: 2 for the directions and 8 for the bits",
            1 / ratio: "NVLink to InfiniBand, please, not the other way round",
        }
        number(answer[name], ratio, name, mistakes=mistakes)
    return "four bandwidths in bytes per second and direction, and two ratios that may be formed"


@grader("ex-ninety-percent")
def ninety_percent(answer: Any) -> str:
    draw = random.Random(4)
    cases = [
        {
            "efficiency": draw.uniform(0.05, 0.99),
            "alpha": draw.uniform(0.5, 50) * us,
            "beta": draw.uniform(1, 900) * GB,
        }
        for _ in range(12)
    ]
    formula(
        answer,
        lambda e, alpha, beta: e / (1 - e) * alpha * beta,
        "size_for(efficiency, alpha, beta)",
        cases,
        wrong=[
            (lambda e, a, b: a * b, "the size does not depend on the efficiency that is asked"),
            (lambda e, a, b: e * a * b, "a message of that size uses less than asked"),
            (lambda e, a, b: a * b / (1 - e), "a message of that size uses more than asked"),
            (lambda e, a, b: (1 - e) / e * a * b, "the better the use, the smaller your message"),
        ],
        limits=[Limit("half is asked", {"efficiency": 0.5}, "that is the size with its own name")],
    )
    return "on 12 links the message of that size uses exactly the share that was asked"


@grader("ex-fuse-the-gradients")
def fuse_the_gradients(answer: Any) -> str:
    k, n, P, alpha, beta = 500, 200 * KB, 32, 5 * us, 50 * GB

    def seconds(n, latencies=2 * (P - 1), share=2 * (P - 1) / P):
        return latencies * alpha + share * n / beta

    separate, fused, saved = items(answer, "(separate, fused, saved)", 3)
    for what, value, times, size in (("separate", separate, k, n), ("fused", fused, 1, k * n)):
        mistakes = {
            times * seconds(size, latencies=1): "a ring pays alpha in every round, not once",
            times * seconds(size, share=1): "how many bytes does a rank send for its n bytes?",
            times * seconds(size, P - 1, (P - 1) / P): "that is one phase of two",
            times * seconds(size) / ms: "in seconds, please",
        }
        number(value, times * seconds(size), what, "s", mistakes=mistakes)
    mistakes = {
        (k - 1) * alpha: "that is the saving of single messages; a ring pays alpha in every round",
        k * 2 * (P - 1) * alpha: "the fused all-reduce still pays its own latency",
    }
    right = (k - 1) * 2 * (P - 1) * alpha
    number(saved, right, "saved", "s", tolerance=1e-3, mistakes=mistakes)
    return "the bytes are the same; what fusing saves is rounds"


@grader("ex-what-to-buy")
def what_to_buy(answer: Any) -> str:
    def seconds(count=200, n=4 * MB, alpha=5 * us, beta=50 * GB, phases=2):
        return count * phases * (127 * alpha + 127 / 128 * n / beta)

    now = seconds()
    offers = {
        "now": (now, {}),
        "bandwidth": (seconds(beta=100 * GB), {now / 2: "only the bytes become faster"}),
        "latency": (seconds(alpha=2.5 * us), {now / 2: "only the starts become shorter"}),
        "fused": (
            seconds(100, 8 * MB),
            {
                seconds(200, 8 * MB): "in pairs there are half as many all-reduces",
                seconds(100): "a pair has twice the bytes",
            },
        ),
    }
    if not isinstance(answer, dict) or set(answer) != set(offers):
        raise NotYet(f"pass a dict with the keys {', '.join(offers)}")
    for name, (right, slips) in offers.items():
        mistakes = slips | {
            right / 2: "that is one phase of two: a reduce-scatter *and* an all-gather",
            right / 200: "that is one all-reduce; a step makes many",
            right / ms: "in seconds, please",
        }
        number(answer[name], right, name, "s", tolerance=1e-3, mistakes=mistakes)
    return "four prices of one step, and two of them are the same for a reason"


@grader("ex-repair-sixteen-seconds")
def repair_sixteen_seconds(answer: Any) -> str:
    def seconds(n, P, port_gbit, gpus_per_port, share=2, bits=8):
        return share * (P - 1) / P * n / (port_gbit * 1e9 / bits / gpus_per_port)

    hints = [
        (lambda n, P, p, g: seconds(n, P, p, g, bits=1), "8 times too fast: a Gb/s port has bits"),
        (lambda n, P, p, g: seconds(n, P, p, 1), "gpus_per_port has no effect: they share a port"),
        (
            lambda n, P, p, g: seconds(n, P, p, 1, bits=1),
            "gpus_per_port has no effect, and a Gb/s port has bits",
        ),
        (
            lambda n, P, p, g: seconds(n, P, p, g, share=1),
            "half of the traffic: a reduce-scatter *and* an all-gather",
        ),
        (lambda n, P, p, g: P * n / (p * 1e9 / 8 / g), "grows with P: who sends all gradients?"),
        (
            lambda n, P, p, g: P * n / (p * 1e9),
            "as on the page: traffic, bits and sharing are all wrong",
        ),
        (lambda n, P, p, g: P * n / (p * 1e9 / 8), "grows with P, and the port is not shared"),
        (lambda n, P, p, g: P * n / (p * 1e9 / g), "grows with P, and a Gb/s port has bits"),
    ]
    names = ("n", "P", "port_gbit", "gpus_per_port")
    cases = [(100 * MB, 256, 100, 8), (1 * GB, 8, 400, 1), (3 * MB, 6, 200, 4), (7 * GB, 64, 25, 2)]
    formula(
        answer,
        seconds,
        "all_reduce_seconds(n, P, port_gbit, gpus_per_port)",
        [dict(zip(names, case, strict=True)) for case in cases],
        wrong=hints,
    )
    return "on four machines, and sixteen seconds have become a fraction of one"


@grader("ex-repair-measure")
def repair_measure(answer: Any) -> str:
    function(answer, "measure_link(link, sizes)")
    noisy = {"jitter": 0.05, "spikes": 0.05}
    conditions = {
        "on a quiet link": {},
        "on a link whose first call of each size is slow": {"cold": 5 * ms},
        "on a link with jitter, where one call in twenty is late": noisy,
        "on a link with slow first calls and jitter": {"cold": 5 * ms, **noisy},
    }
    for where, condition in conditions.items():
        for seed, (alpha, beta) in enumerate([(2 * us, 50 * GB), (40 * us, 2 * GB), (5 * us, GB)]):
            link = PracticeLink(alpha, beta, **condition, seed=seed)
            fit = call(answer, link, [64 * 4**i for i in range(11)])
            if not (hasattr(fit, "alpha") and hasattr(fit, "beta")):
                raise NotYet(f"return a fit with .alpha and .beta, got {type(fit).__name__}")
            _judge_fit(fit.alpha, fit.beta, alpha, beta, 0.15, where)
    return "alpha and beta of twelve links, quiet, cold and noisy, within 15 %"


def _judge_fit(
    alpha: Any, beta: Any, true_alpha: float, true_beta: float, tolerance: float, where: str
) -> None:
    off_alpha = real(alpha, f"{where}: alpha", "s") / true_alpha
    off_beta = real(beta, f"{where}: beta", "bytes/s") / true_beta
    if max(abs(off_alpha - 1), abs(off_beta - 1)) <= tolerance:
        return
    if math.isclose(off_alpha, 2, rel_tol=0.1) and math.isclose(off_beta, 0.5, rel_tol=0.1):
        raise NotYet(f"{where}: both numbers are off by two: a round trip is two messages")
    if math.isclose(off_alpha, 14, rel_tol=0.1):
        raise NotYet(f"{where}: alpha is that of a whole all-reduce, not of one message")
    named = [("alpha", off_alpha), ("beta", off_beta)]
    sides = [
        f"{name} is too {'large' if off > 1 else 'small'}"
        for name, off in named
        if abs(off - 1) > tolerance
    ]
    raise NotYet(f"{where} {' and '.join(sides)}: {_cause(where, off_alpha, off_beta, tolerance)}")


def _cause(where: str, off_alpha: float, off_beta: float, tolerance: float) -> str:
    if "first call" in where:
        return "the first call of a size is no sample of the link"
    if "jitter" in where:
        return "one call is not enough, and a mean carries every late call"
    if abs(off_alpha - 1) <= tolerance:
        return "is the longest message well past the knee?"
    return "do the largest messages alone decide the fit?"


@grader("ex-optimal-chunks")
def optimal_chunks(answer: Any) -> str:
    function(answer, "best_chunks(n, h, alpha, beta)")
    k = np.arange(1, 5001)
    cases = list(_chains())
    given = [whole(call(answer, *case), "the number of chunks") for case in cases]
    for case, chosen in zip(cases, given, strict=True):
        n, h, alpha, beta = case
        where = f"n = {n:.3g}, h = {h}, alpha = {alpha:.2g}, beta = {beta:.2g}"
        if chosen < 1:
            raise NotYet(f"{where}: {chosen} chunks; at least one must be sent")
        times = (h + k - 1) * (alpha + n / (k * beta))
        time = (h + chosen - 1) * (alpha + n / (chosen * beta))
        if time <= times.min() * (1 + 1e-12):
            continue
        best = int(k[times.argmin()])
        if h == 1:
            raise NotYet(f"{where}: over one hop nothing can overlap, and cutting only costs")
        if given == [max(1, round(math.sqrt(c[1] * c[0] / (c[2] * c[3])))) for c in cases]:
            raise NotYet(f"{where}: off by one hop: how many hops does the first chunk wait for?")
        if abs(chosen - best) == 1:
            raise NotYet(f"{where}: a neighbouring whole number is faster: compare both")
        many = "fewer" if chosen > best else "more"
        raise NotYet(f"{where}: {many} chunks are faster")
    return f"no other number of chunks is faster, on {len(cases)} chains"


def _chains() -> list[tuple[float, int, float, float]]:
    draw = random.Random(7)
    hops = [1, 1, 2, 3, 4, 8, 16]
    chains = [
        (10 ** draw.uniform(3, 8.5), draw.choice(hops), draw.uniform(1, 20) * us, GB * beta)
        for beta in (5, 25, 50, 200)
        for _ in range(5)
    ]
    return [*chains, (10.0 * MB, 1, 2 * us, 50.0 * GB), (8.0, 4, 2 * us, 50.0 * GB)]


@grader("ex-bucket-size")
def bucket_size(answer: Any) -> str:
    draw = random.Random(8)
    cases = [
        {
            "efficiency": draw.uniform(0.1, 0.95),
            "P": draw.choice([2, 3, 8, 64, 500]),
            "alpha": draw.uniform(1, 20) * us,
            "beta": draw.uniform(10, 400) * GB,
        }
        for _ in range(12)
    ]
    formula(
        answer,
        lambda e, P, alpha, beta: e / (1 - e) * P * alpha * beta,
        "bucket_bytes(efficiency, P, alpha, beta)",
        cases,
        wrong=[
            (lambda e, P, a, b: e / (1 - e) * a * b, "too small: a bucket judged as one message"),
            (lambda e, P, a, b: P * a * b, "the size does not depend on the efficiency"),
            (
                lambda e, P, a, b: e / (1 - e) * 2 * (P - 1) * a * b,
                "too large: the bandwidth term has a factor 2(P - 1) as well, and only n/P "
                "travels in each round",
            ),
            (lambda e, P, a, b: e / (1 - e) * (P - 1) * a * b, "n/P travels in each round"),
        ],
        limits=[Limit("half is asked", {"efficiency": 0.5}, "set the two terms of the ring equal")],
    )
    return "on 12 machines the bucket uses exactly the share of the bandwidth that was asked"


@grader("ex-issue-rate")
def issue_rate(answer: Any) -> str:
    k, n, L, o, g, G = 10_000, 64, 3 * us, 1 * us, 1.5 * us, 1 / (50 * GB)
    one, flight = L + 2 * o + n * G, L + 2 * o + n * G + (k - 1) * g
    a, b, c = items(answer, "(a, b, c)", 3)
    in_ms = "in seconds, please"
    number(a, k * one, "(a)", "s", mistakes={k * L: "alpha is L + 2o", k * one / ms: in_ms})
    mistakes = {
        k * one: "the latencies of messages in flight overlap",
        k * o: "the gap g is longer than the overhead o",
        k * 2 * o: "sender and receiver pay their overheads at the same time",
        flight / ms: in_ms,
    }
    number(b, flight, "(b)", "s", mistakes=mistakes)
    mistakes = {
        o / G: "what limits the issue here is the gap g, not the overhead o",
        (L + 2 * o) / G: "that is the half-performance size of a single message",
        g / G / KB: "in bytes, please",
    }
    number(c, g / G, "(c)", "bytes", mistakes=mistakes)
    return "one after another, back to back, and the size from which the link is the limit"


@grader("ex-design-calibration")
def design_calibration(answer: Any) -> str:
    function(answer, "calibrate(link)")
    links = [(0.5, 400), (2, 50), (5, 25), (20, 100), (100, 0.5), (100, 400), (50, 2.34), (90, 30)]
    for seed, (alpha_us, beta_gb) in enumerate(links):
        where = f"on link {seed + 1} of {len(links)}"
        alpha, beta = alpha_us * us, beta_gb * GB
        noise = {"cold": 1 * ms, "jitter": 0.03, "spikes": 0.05}
        link = PracticeLink(alpha, beta, **noise, budget=100 * ms, seed=seed)
        try:
            given = call(answer, link, passing=(BudgetSpent,))
        except BudgetSpent:
            slow = "it is slow: " if alpha * beta < 1 * MB and beta < 10 * GB else ""
            raise NotYet(
                f"{where} the 100 ms are spent: {slow}when is a message long enough?"
            ) from None
        pair = items(given, f"{where}: (alpha, beta)", 2)
        _judge_fit(*pair, alpha, beta, 0.10, where)
    return "eight links from 0.5 to 100 us and 0.5 to 400 GB/s, within 10 % and 100 ms each"


@grader("ex-without-the-property")
def without_the_property(answer: Any) -> str:
    cost, n = items(answer, "(cost, n)", 2)
    function(cost, "cost(n)")
    n = real(n, "n", "bytes")
    if n <= 0:
        raise NotYet(f"n must be positive, got {n}")
    grid = np.geomspace(n / 100, 4 * n, 2001)
    values = [_cost(cost, x) for x in grid]
    if min(values) <= 0:
        raise NotYet("a message that costs nothing, or less: the cost must be positive")
    steps = np.diff(values)
    if (steps <= 0).any():
        raise NotYet(
            f"not increasing: near n = {grid[int(np.argmin(steps))]:.4g} it stays or falls"
        )
    for i in np.argsort(steps)[-5:]:
        if _jumps(cost, grid[i], grid[i + 1]):
            raise NotYet(f"not continuous: the cost jumps near n = {grid[i]:.4g}")
    if _cost(cost, 2 * n) <= 2 * _cost(cost, n):
        raise NotYet("one message of 2n is not dearer than two of n: batching still wins there")
    return "a cost that rises without a jump, and for which one large message loses"


def _cost(cost: Callable, n: float) -> float:
    return real(call(cost, float(n)), f"cost({n:.4g})")


def _jumps(cost: Callable, low: float, high: float) -> bool:
    """Halve the interval towards its steeper half; a jump keeps its height, a slope does not."""
    height = _cost(cost, high) - _cost(cost, low)
    for _ in range(40):
        middle = (low + high) / 2
        if _cost(cost, middle) - _cost(cost, low) > _cost(cost, high) - _cost(cost, middle):
            high = middle
        else:
            low = middle
    return _cost(cost, high) - _cost(cost, low) > 0.01 * height
