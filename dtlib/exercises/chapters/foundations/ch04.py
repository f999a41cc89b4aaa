"""The exercises of chapter 4, The alpha-beta Model, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from statistics import mean, median
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import Limit, call, function, items, real, whole
from dtlib.exercises.judges import costs
from dtlib.exercises.practice.link import BudgetSpent, PracticeLink
from dtlib.exercises.verdict import NotYet

# fmt: off
GB, MB, KB, us, ms = 10**9, 10**6, 10**3, 1e-6, 1e-3


def _bandwidth(name: str, beta: float, factor: int, slip: str) -> Asked:
    return Asked(name, beta, "bytes/s", {beta * factor: slip, beta / GB: "in bytes/s, please"})


def _ratio(name: str, ratio: float) -> Asked:
    return Asked(name, ratio, "", {
        2 * ratio: "a factor of 2 slipped in: one direction against one direction",
        ratio / 8: "a factor of 8 slipped in: bytes against bytes",
        2 * ratio / 8: "two factors slipped in: 2 for the directions and 8 for the bits",
        1 / ratio: "NVLink to InfiniBand, please, not the other way round"})


two_datasheets = Numbers(
    "ex-two-datasheets",
    About("Two data sheets", "compute", 1, 5,
          "turn data-sheet bandwidths into bytes per second and direction", ("x4.3",)),
    [
        _bandwidth("nvlink4", 450 * GB, 2, "the sum of both directions"),
        _bandwidth("ndr", 50 * GB, 8, "still in bits"),
        _bandwidth("nvlink3", 300 * GB, 2, "the sum of both directions"),
        _bandwidth("hdr", 25 * GB, 8, "still in bits"),
        _ratio("ratio_now", 9), _ratio("ratio_before", 12),
    ],
    "four bandwidths in bytes per second and direction, and two ratios that may be formed",
    keyed=True,
)

ninety_percent = Formula(
    "ex-ninety-percent",
    About("Ninety per cent", "derive", 1, 5, "invert the efficiency of a link", ("x4.3",)),
    "size_for(efficiency, alpha, beta)", lambda e, alpha, beta: e / (1 - e) * alpha * beta,
    lambda: [("", link) for link in product((0.1, 0.6, 0.95), (1 * us, 30 * us), (GB, 700 * GB))],
    same_number, "on 12 links the message of that size uses exactly the share that was asked",
    {
        "the size does not depend on the efficiency that is asked": lambda e, a, b: a * b,
        "a message of that size uses less than asked": lambda e, a, b: e * a * b,
        "a message of that size uses more than asked": lambda e, a, b: a * b / (1 - e),
        "the better the use, the smaller your message": lambda e, a, b: (1 - e) / e * a * b,
    },
    (Limit("half is asked", {"efficiency": 0.5}, "that is the size with its own name"),),
)

_ROUNDS, _START = 2 * 31, 5 * us
_SAVED = 499 * _ROUNDS * _START


def _ring(name: str, times: int, n: float) -> Asked:
    bytes_alone = 2 * 31 / 32 * n / (50 * GB)
    right = times * (_ROUNDS * _START + bytes_alone)
    return Asked(name, right, "s", {
        times * (_START + bytes_alone): "a ring pays alpha in every round, not once",
        times * (_ROUNDS * _START + n / (50 * GB)): "how many bytes are sent for n bytes?",
        right / 2: "that is one phase of two", right / ms: "in seconds, please"})


fuse_the_gradients = Numbers(
    "ex-fuse-the-gradients",
    About("Fuse the gradients", "compute", 1, 5,
          "price many small collectives against one large one", ("x4.2",)),
    [
        _ring("separate", 500, 200 * KB), _ring("fused", 1, 100 * MB),
        Asked("saved", _SAVED, "s", {
              _SAVED / _ROUNDS: "that is the saving of single messages; a ring pays in every round",
              _SAVED * 500 / 499: "the fused all-reduce still pays its own latency"}, 1e-3),
    ],
    "the bytes are the same; what fusing saves is rounds",
)


def _step(count=200, n=4 * MB, alpha=5 * us, beta=50 * GB) -> float:
    return count * 2 * (127 * alpha + 127 / 128 * n / beta)


def _offer(name: str, right: float, slips: dict[float, str]) -> Asked:
    return Asked(name, right, "s", {
        **slips, right / 2: "that is one phase of two: a reduce-scatter *and* an all-gather",
        right / 200: "that is one all-reduce; a step makes many",
        right / ms: "in seconds, please"}, tolerance=1e-3)


what_to_buy = Numbers(
    "ex-what-to-buy",
    About("What would you buy?", "compute", 1, 8,
          "price a step, and see on which side of the knee it stands", ("x4.1",)),
    [
        _offer("now", _step(), {}),
        _offer("bandwidth", _step(beta=100 * GB), {_step() / 2: "only the bytes become faster"}),
        _offer("latency", _step(alpha=2.5 * us), {_step() / 2: "only the starts become shorter"}),
        _offer("fused", _step(100, 8 * MB), {
               _step(200, 8 * MB): "in pairs there are half as many all-reduces",
               _step(100): "a pair has twice the bytes"}),
    ],
    "four prices of one step, and two of them are the same for a reason", keyed=True,
)


def _all_reduce_seconds(n, P, port_gbit, gpus, *, bits=8, shared=True, all_of_it=False):
    sent = P * n if all_of_it else 2 * (P - 1) / P * n
    return sent / (port_gbit * 1e9 / bits / (gpus if shared else 1))


repair_sixteen_seconds = Formula(
    "ex-repair-sixteen-seconds",
    About("Sixteen seconds", "repair", 2, 10,
          "find unit and traffic errors in a planning script", ("Ex.8",)),
    "all_reduce_seconds(n, P, port_gbit, gpus_per_port)", _all_reduce_seconds,
    lambda: [("", (100 * MB, 256, 100, 8)), ("", (1 * GB, 8, 400, 1)),
             ("", (3 * MB, 6, 200, 4)), ("", (7 * GB, 64, 25, 2))],
    same_number, "on four machines, and sixteen seconds have become a fraction of one",
    {
        "8 times too fast: a Gb/s port has bits": {"bits": 1},
        "gpus_per_port has no effect: they share a port": {"shared": False},
        "grows with P: who sends all gradients?": {"all_of_it": True},
        "half of the traffic: a reduce-scatter *and* an all-gather":
            lambda *machine: _all_reduce_seconds(*machine) / 2,
    },
)


def _timed(link: PracticeLink, n: float, one: Callable, warm: int) -> list[float]:
    for _ in range(warm):
        one(link, n)
    times = []
    for _ in range(9):
        start = link.clock()
        one(link, n)
        times.append(link.clock() - start)
    return times


def _measured(link, sizes, *, one=PracticeLink.round_trip, trips=2, warm=1, collect=median):
    from dtlib.foundations import fit_alpha_beta

    return fit_alpha_beta([(n, collect(_timed(link, n, one, warm)) / trips) for n in sizes])


def _measure_law(answer: Callable) -> None:
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
            costs.same_link((fit.alpha, fit.beta), (alpha, beta), 0.15, where)


repair_measure = Made(
    "ex-repair-measure",
    About("A measurement of something else", "repair", 2, 20,
          "measure a link in spite of warm-up and jitter", ("x13.6",)),
    _measure_law, lambda: _measured,
    "alpha and beta of twelve links, quiet, cold and noisy, within 15 %",
    {
        "alpha is that of a whole all-reduce":
            lambda: partial(_measured, one=PracticeLink.all_reduce, trips=1),
        "off by two: a round trip is two messages": lambda: partial(_measured, trips=1),
        "the first call of a size": lambda: partial(_measured, warm=0, collect=mean),
        "a mean carries every late call": lambda: partial(_measured, collect=mean),
    },
)


def _chain_time(k: int, n: float, h: int, alpha: float, beta: float) -> float:
    return (h + k - 1) * (alpha + n / (k * beta))


def _chains() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(7)
    chains = [(10 ** draw.uniform(3, 8.5), draw.choice([1, 1, 2, 3, 4, 8, 16]),
               draw.uniform(1, 20) * us, GB * beta) for beta in (5, 25, 50, 200) for _ in range(5)]
    for chain in [*chains, (10.0 * MB, 1, 2 * us, 50.0 * GB), (8.0, 4, 2 * us, 50.0 * GB)]:
        yield "", chain


def _as_fast(given: Any, right: int, n: float, h: int, *link: float) -> None:
    given = whole(given, "the number of chunks")
    if given < 1:
        raise NotYet(f"{given} chunks; at least one must be sent")
    if math.isclose(*(_chain_time(k, n, h, *link) for k in (given, right)), rel_tol=1e-12):
        return
    if h == 1:
        raise NotYet("over one hop nothing can overlap, and cutting only costs")
    raise NotYet(f"{'fewer' if given > right else 'more'} chunks are faster")


optimal_chunks = Function(
    "ex-optimal-chunks",
    About("The best number of pieces", "derive", 3, 15, "minimise a cost over whole numbers"),
    "best_chunks(n, h, alpha, beta)",
    lambda *chain: min(range(1, 5001), key=lambda k: _chain_time(k, *chain)),
    _chains, _as_fast, "no other number of chunks is faster, on 22 chains",
    {
        "off by one hop: how many hops does the first chunk wait for?":
            lambda n, h, a, b: max(1, round(math.sqrt(h * n / (a * b)))),
        "a neighbouring whole number is faster: compare both":
            lambda n, h, a, b: max(1, int(math.sqrt((h - 1) * n / (a * b)))),
    },
)

bucket_size = Formula(
    "ex-bucket-size",
    About("The size of a bucket", "derive", 2, 10,
          "carry the half-performance size over from a message to a collective"),
    "bucket_bytes(efficiency, P, alpha, beta)",
    lambda e, P, alpha, beta: e / (1 - e) * P * alpha * beta,
    lambda: [("", run) for run in product((0.2, 0.9), (2, 64, 500), (3 * us,), (GB, 400 * GB))],
    same_number, "on 12 machines the bucket uses exactly the share of the bandwidth that was asked",
    {
        "too small: a bucket judged as one message": lambda e, P, a, b: e / (1 - e) * a * b,
        "the size does not depend on the efficiency": lambda e, P, a, b: P * a * b,
        "too large: the bandwidth term has a factor 2(P - 1) as well":
            lambda e, P, a, b: e / (1 - e) * 2 * (P - 1) * a * b,
        "only n/P travels in each round": lambda e, P, a, b: e / (1 - e) * (P - 1) * a * b,
    },
    (Limit("half is asked", {"efficiency": 0.5}, "set the two terms of the ring equal"),),
)

_O, _GAP, _BYTE = 1 * us, 1.5 * us, 1 / (50 * GB)
_ALPHA = 3 * us + 2 * _O
_TURNS = 10_000 * (_ALPHA + 64 * _BYTE)
_FLIGHT = _ALPHA + 64 * _BYTE + 9_999 * _GAP

issue_rate = Numbers(
    "ex-issue-rate",
    About("The rate of issue", "compute", 2, 10, "see where two parameters are too few"),
    [
        Asked("(a)", _TURNS, "s", {0.03: "alpha is L + 2o", _TURNS / ms: "in seconds, please"}),
        Asked("(b)", _FLIGHT, "s", {_TURNS: "the latencies of messages in flight overlap",
              10_000 * _O: "the gap g is longer than the overhead o",
              20_000 * _O: "sender and receiver pay their overheads at the same time",
              _FLIGHT / ms: "in seconds, please"}),
        Asked("(c)", _GAP / _BYTE, "bytes", {
              _O / _BYTE: "what limits the issue here is the gap g, not the overhead o",
              _ALPHA / _BYTE: "that is the half-performance size of a single message",
              _GAP / _BYTE / KB: "in bytes, please"}),
    ],
    "one after another, back to back, and the size from which the link is the limit",
)


def _calibrate(link: PracticeLink, enough: float = 5, method: str = "relative") -> tuple:
    from dtlib.foundations import fit_alpha_beta

    n, samples = 8, []
    while not samples or samples[-1][1] < enough * samples[0][1]:
        samples.append((n, median(_timed(link, n, PracticeLink.round_trip, 1)) / 2))
        n *= 8 if samples[-1][1] < 2 * samples[0][1] else 2
    fit = fit_alpha_beta(samples, method=method)
    return fit.alpha, fit.beta


def _calibrate_with(link: PracticeLink, *, sizes: tuple) -> tuple:
    fit = _measured(link, sizes)
    return fit.alpha, fit.beta


def _calibration_law(answer: Callable) -> None:
    function(answer, "calibrate(link)")
    links = [(0.5, 400), (2, 50), (5, 25), (20, 100), (100, 0.5), (100, 400), (50, 2.34), (90, 30)]
    for seed, (alpha, beta) in enumerate(links):
        where = f"on link {seed + 1} of {len(links)}"
        link = PracticeLink(alpha * us, beta * GB, cold=1 * ms, jitter=0.03, spikes=0.05,
                            budget=100 * ms, seed=seed)
        try:
            given = call(answer, link, passing=(BudgetSpent,))
        except BudgetSpent:
            slow = "it is slow: " if beta < 10 else ""
            raise NotYet(f"{where} the 100 ms are spent: {slow}when is a message long enough?"
                         ) from None
        pair = items(given, f"{where}: (alpha, beta)", 2)
        costs.same_link(pair, (alpha * us, beta * GB), 0.10, where)


design_calibration = Made(
    "ex-design-calibration",
    About("Design a calibration", "design", 3, 25,
          "plan a measurement within a budget", ("x13.6",)),
    _calibration_law, lambda: _calibrate,
    "eight links from 0.5 to 100 us and 0.5 to 400 GB/s, within 10 % and 100 ms each",
    {
        "the 100 ms are spent": lambda: partial(_calibrate_with, sizes=(8, KB, MB, GB)),
        "alpha is too": lambda: partial(_calibrate, enough=2000, method="ordinary"),
        "no bandwidth fits": lambda: partial(_calibrate_with, sizes=(8, 64, 512)),
    },
)


def _property_law(answer: Any) -> None:
    cost, n = items(answer, "(cost, n)", 2)
    function(cost, "cost(n)")
    n = real(n, "n", "bytes")
    if n <= 0:
        raise NotYet(f"n must be positive, got {n}")
    costs.rises_without_a_jump(cost, n)
    if call(cost, 2 * n) <= 2 * call(cost, n):
        raise NotYet("one message of 2n is not dearer than two of n: batching still wins there")


without_the_property = Made(
    "ex-without-the-property",
    About("Without the property", "derive", 3, 10,
          "show that a property is needed, by a counterexample"),
    _property_law, lambda: (lambda n: 1 + n**2, 10.0),
    "a cost that rises without a jump, and for which one large message loses",
    {
        "batching still wins": lambda: (lambda n: min(1e-6 + n / 1e9, 1e-5 + n / 1e10), 1e5),
        "not increasing": lambda: (lambda n: 100 - n, 10.0),
        "must be positive": lambda: (lambda n: n**2 - 1, 10.0),
        "jumps near n = 1": lambda: (lambda n: 1 + n + (5 * n if n > 15 else 0), 10.0),
    },
)
