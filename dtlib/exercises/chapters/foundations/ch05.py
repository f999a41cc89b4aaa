"""The exercises of chapter 5, What compute costs, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any

from dtlib import foundations
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import Limit, call, function, whole
from dtlib.exercises.judges.costs import nearly_best_interval
from dtlib.exercises.verdict import NotYet

# fmt: off
minute, hour, day, year = 60, 3600, 86400, 365.25 * 86400

_HOURS = 6 * 70e9 * 2e12 / (989e12 * 0.45) / hour

price_of_a_run = Numbers(
    "ex-price-of-a-run",
    About("The price of a run", "compute", 1, 5,
          "turn parameters, tokens and MFU into hours and money", ("x5.1",)),
    [
        Asked("gpu_hours", _HOURS, slips={
              _HOURS * hour: "in hours, please",
              _HOURS * 0.45: "at 45 % of the peak it takes longer than at the peak",
              _HOURS / 3: "six FLOP per parameter and token: forward and backward",
              _HOURS * 0.45**2: "the MFU stands in the denominator"}, tolerance=0.005),
        Asked("dollars", 4 * _HOURS, slips={
              2 * _HOURS: "at 4 dollars an hour", _HOURS: "that is the number of hours"},
              tolerance=0.005),
        Asked("days", _HOURS / 1024 / 24, slips={
              _HOURS / 1024: "that is hours", _HOURS / 24: "all 1,024 GPUs work at once"},
              tolerance=0.005),
    ],
    "the GPU-hours, their price, and how long 1,024 GPUs take for them", keyed=True,
)

_DEARER, _FASTER = 0.50 / 0.35, 1024 * 0.35 / (512 * 0.50)
_MORE, _SAVED = 512 * (_DEARER - 1) * 4, 1 - 1 / _FASTER

two_offers = Numbers(
    "ex-two-offers",
    About("Two offers", "compute", 1, 8,
          "keep dearer and faster apart, and price an hour saved", ("x5.2",)),
    [
        Asked("dearer", _DEARER, slips={
              0.30: "that is by which share the smaller offer is cheaper; how many times dearer?",
              0.43: "as a factor, please: 1 would be the same price",
              1 / _DEARER: "the other way round: (b) over (a)",
              2: "twice the GPUs, but not for the same time",
              _FASTER: "that is how much faster it is; the bill goes with the efficiency"}),
        Asked("faster", _FASTER, slips={
              2: "twice the GPUs at a lower efficiency are not twice as fast",
              1 / _FASTER: "that is the time of (b) over that of (a); how many times faster?",
              _DEARER: "that is how much dearer it is",
              0.7: "that is the ratio of the efficiencies alone"}),
        Asked("hour_saved", _MORE / _SAVED, "dollars", {
              _MORE: "per hour that (a) lasts; asked is per hour that is saved",
              512 * _DEARER * 4 / _SAVED: "only what (b) costs *more*",
              _MORE / _SAVED / 4: "that is GPU-hours; in dollars, please"}, tolerance=0.005),
    ],
    "dearer and faster are different factors, and their trade has a price per hour", keyed=True,
)


def _young(write, mtbf):
    return math.sqrt(2 * write * mtbf)


_WRITE, _MTBF, _FOUR = 20 * minute, 5 * year / 1000, 4 * hour
_BEST = math.sqrt(2 * _WRITE / _MTBF)

audit_checkpoints = Numbers(
    "ex-audit-checkpoints",
    About("An audit", "compute", 1, 8, "compute a gang's interval and what another one costs",
          ("Ex11",)),
    [
        Asked("mtbf", _MTBF, "s", {
              _MTBF * 1000: "that is the life of one GPU",
              _MTBF * 10: "that is the job of 100 GPUs",
              day: "a day is what the example assumes, against its own numbers"}),
        Asked("interval", _young(_WRITE, _MTBF), "s", {
              _young(_WRITE, _MTBF * 10): "that is the interval of 100 GPUs",
              _young(_WRITE, _MTBF) / math.sqrt(2): "two times the write time, under the root",
              _young(_WRITE, _MTBF) / minute: "in seconds, please"}),
        Asked("four_hours", _WRITE / _FOUR + _FOUR / 2 / _MTBF, slips={
              _WRITE / _FOUR: "the writing alone; what about the work that is lost?",
              _FOUR / 2 / _MTBF: "the lost work alone; what about the writing?",
              _WRITE / _FOUR + _FOUR / _MTBF: "a failure loses half an interval"}, tolerance=0.03),
        Asked("best", _BEST, slips={
              _BEST / 2: "there are two costs, equal at the best interval"}, tolerance=0.05),
    ],
    "the gang's failures, its interval, and what the wrong interval costs", keyed=True,
)

_JOULES = 2.788e6 * hour * 700 * 1.2

energy = Numbers(
    "ex-energy",
    About("The energy of a token", "compute", 1, 5, "turn GPU-hours into energy"),
    [
        Asked("run", _JOULES, "J", {
              _JOULES / 1.2: "and what the building adds", _JOULES / 3.6e9: "in joules, please",
              _JOULES / 3.6e6: "in joules, please: 1 kWh is 3.6 million of them",
              _JOULES / hour: "an hour has 3,600 seconds", _JOULES / 0.7: "700 W, not 1 kW"}),
        Asked("million_tokens", _JOULES / 14.8e6, "J", {
              _JOULES / 14.8e12: "that is one token", _JOULES / 14.8e6 / 3.6e6: "in joules, please",
              _JOULES / 14.8e6 / 1.2: "and what the building adds"}),
    ],
    "the energy of the run and of a million of its tokens",
)

_LIFE = 4 * year / hour


def _border(name: str, rent: float) -> Asked:
    hours = 40_000 / (rent - 0.5)
    return Asked(name, hours / _LIFE, slips={
        40_000 / _LIFE / rent: "owning has running costs, too",
        hours: "that is hours; as a share of the life, please",
        _LIFE / hours: "the other way round", hours / _LIFE / 4: "the life is 4 years",
        hours / _LIFE * 100: "as a share, please: 1 is the whole life"})


buy_or_rent = Numbers(
    "ex-buy-or-rent",
    About("Buy or rent", "compute", 1, 8, "find the utilisation from which owning pays"),
    [
        _border("against_4", 4),
        _border("against_2", 2),
        Asked("own_hour", 40_000 / _LIFE / 0.3 + 0.5, "dollars", {
              40_000 / _LIFE + 0.5: "the purchase is spread over the hours of use, not all hours",
              40_000 / _LIFE / 0.3: "and what it costs to run",
              (40_000 / _LIFE + 0.5) / 0.3: "the running cost is for an hour of use already"}),
    ],
    "the border between renting and buying is a utilisation",
)


def _draws(seed: int, *ranges: tuple | list) -> Iterator[tuple[str, tuple]]:
    """Ten cases: from a range (low, high) is drawn, from a list chosen."""
    draw = random.Random(seed)
    for _ in range(10):
        yield "", tuple(draw.choice(r) if isinstance(r, list) else draw.uniform(*r) for r in ranges)


def _spot_price(price, P, life, write, restart):
    mtbf = life / P
    return price * foundations.failure_multiplier(_young(write, mtbf), write, restart, mtbf)


def _first_order(price, P, life, write, restart, part=2):
    mtbf = life / P
    interval = _young(write, mtbf)
    return price * (1 + write / interval + (interval / part + restart) / mtbf)


repair_spot = Formula(
    "ex-repair-spot",
    About("A spot calculator", "repair", 2, 15,
          "price interruptions with the rate of the whole gang", ("x5.3",)),
    "spot_price(price, P, life, write, restart)", _spot_price,
    lambda: _draws(5, (0.5, 3), [1, 2, 8, 24, 64], (10 * hour, 60 * hour), (10, 200), (30, 900)),
    same_number, "on 10 gangs the price of an hour of progress is that of the exact model",
    {
        "the number of machines has no effect: whose life is it?":
            lambda price, P, *times: _spot_price(price, 1, *times),
        "that is what the page prints": lambda price, P, *times: _first_order(price, 1, *times, 1),
        "right to first order, and too cheap for a large gang: use the whole factor": _first_order,
        "a failure costs half an interval on average": lambda *gang: _first_order(*gang, 1),
        "the interval is that of one machine, the failures are those of all":
            lambda price, P, life, w, restart:
                price * foundations.failure_multiplier(_young(w, life), w, restart, life / P),
    },
    (Limit("there is one machine", {"P": 1}, "compare with the factor on the page"),),
)


def _largest_gang(spot, on_demand, *times, price=_spot_price):
    P = 0
    while price(spot, P + 1, *times) < on_demand:
        P += 1
    return P


_MARKETS = (
    (1.5, 4, 20 * hour, 120, 600), (1.5, 4, 20 * hour, 10, 600), (1.5, 4, 20 * hour, 120, 30),
    (2.4, 4, 100 * hour, 60, 300), (3.9, 4, 20 * hour, 120, 600), (1, 4, 5 * hour, 300, 1200),
    (1.5, 4, 500 * hour, 30, 120),
)


def _same_gang(given: Any, right: int, *market: float) -> None:
    given = whole(given, "the returned number")
    if given > right:
        raise NotYet("a gang of your size is not cheaper than on demand any more")
    if given < right:
        raise NotYet("one machine more is still cheaper")


largest_gang = Function(
    "ex-largest-gang",
    About("The largest gang", "derive", 2, 10, "find where a discount ends", ("x5.3",)),
    "largest_gang(spot, on_demand, life, write, restart)", _largest_gang,
    lambda: (("", market) for market in _MARKETS), _same_gang,
    "on 7 markets one machine more would not pay",
    {"right to first order, and too large: use the whole factor": {"price": _first_order}},
)


def _choose(compute, comm_ratio, price, deadline, budget, rounded=math.ceil):
    left = deadline - comm_ratio * compute
    P = rounded(compute / left) if left > 0 else math.inf
    return P if price * compute * (1 + comm_ratio * P) <= budget else None


def _limits() -> Iterator[tuple]:
    # met exactly, in numbers that floats hold exactly: 16 ranks for the deadline and for the budget
    yield from ((1024, 1 / 8, 2, 192.0, 6144.0), (1024, 1 / 8, 2, 192.0, 6143.0))
    draw = random.Random(7)
    for _ in range(22):
        compute, ratio = draw.randint(500, 5000), draw.choice([1 / 8, 1 / 50, 1 / 400])
        price = draw.choice([1, 2, 3.5])
        deadline = ratio * compute * draw.uniform(0.7, 6)
        yield compute, ratio, price, deadline, price * compute * draw.uniform(0.9, 4)


def _choice_law(answer: Callable) -> None:
    function(answer, "choose(compute, comm_ratio, price, deadline, budget)")
    for case in _limits():
        compute, ratio, price, deadline, budget = case
        meets = [P for P in range(1, 5000) if compute / P + ratio * compute <= deadline]
        right = next((P for P in meets if price * compute * (1 + ratio * P) <= budget), None)
        (given,) = call(lambda *case: [answer(*case)], *case)
        where = (f"with compute={compute}, comm_ratio={ratio:.3g}, price={price}, "
                 f"deadline={deadline:.5g}, budget={budget:.5g}")
        if given is None:
            if right:
                raise NotYet(f"{where}: it can be done")
            continue
        P = whole(given, "the returned number of ranks")
        if right is None:
            raise NotYet(f"{where}: {'over budget' if P in meets else 'too late'}; return None")
        if P not in meets:
            raise NotYet(f"{where}: {P} ranks are too late")
        if right < P:
            raise NotYet(f"{where}: fewer ranks meet the deadline as well, and cost less")


deadline_and_budget = Made(
    "ex-deadline-and-budget",
    About("A deadline and a budget", "derive", 2, 12, "choose a number of ranks under two limits"),
    _choice_law, lambda: _choose,
    "in 24 cases the cheapest number of ranks that meets both, or none where none does",
    {
        "over budget": lambda: lambda *case: _choose(*case[:4], 1e300),
        "fewer ranks meet": lambda: lambda *case: _choose(*case) and _choose(*case) + 1,
        "it can be done": lambda: lambda *case: None,
        "too late": lambda: lambda *case: max(1, (_choose(*case) or 2) - 1),
        "whole number": lambda: partial(_choose, rounded=float),
    },
)


def _predict(P1, e1, P2, e2, P):
    slope = (1 / e2 - 1 / e1) / (P2 - P1)
    return 1 / (1 / e1 + slope * (P - P1))


def _trials() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(17)
    for _ in range(10):
        P1, e0, half = draw.choice([8, 64, 512]), draw.uniform(0.3, 0.9), draw.uniform(200, 9000)
        P2, P = P1 * draw.choice([2, 3, 16]), draw.choice([1, 100, 4096, 20_000])
        yield "", (P1, e0 / (1 + P1 / half), P2, e0 / (1 + P2 / half), P)


two_runs = Formula(
    "ex-two-runs",
    About("Two runs make a curve", "derive", 2, 10, "extrapolate an efficiency from two runs",
          ("x5.2",)),
    "predict(P1, e1, P2, e2, P)", _predict, _trials, same_number,
    "ten curves through two points each, and every one right at a third",
    {
        "the efficiency itself is no straight line in P: it would become negative":
            lambda P1, e1, P2, e2, P: e1 + (e2 - e1) / (P2 - P1) * (P - P1),
        "that is a power law; what does the model of the page say about 1/e?":
            lambda P1, e1, P2, e2, P: e1 * (P / P1) ** (math.log(e2 / e1) / math.log(P2 / P1)),
        "that is the inverse of an efficiency": lambda *runs: 1 / _predict(*runs),
    },
    (Limit("P is one of the two", {"P": 8, "P1": 8}, "your curve misses what was seen"),),
)


def _interrupted(interval, write, restart, mtbf):
    return mtbf * math.exp(restart / mtbf) * math.expm1((interval + write) / mtbf) / interval


restart_interrupted = Formula(
    "ex-restart-interrupted",
    About("A restart is interrupted, too", "derive", 3, 15, "extend the exact model by one step"),
    "multiplier(interval, write, restart, mtbf)", _interrupted,
    lambda: _draws(13, (100, 3000), (10, 300), (30, 900), (400, 9000)), same_number,
    "on 10 jobs a restart is itself a piece of work that must be done without interruption",
    {
        "that restart cannot be interrupted": lambda *job: foundations.failure_multiplier(*job),
        "the first attempt has no restart before it":
            lambda i, write, restart, mtbf: mtbf * math.expm1((i + write + restart) / mtbf) / i,
        "per second of work: divide by the interval":
            lambda interval, *times: _interrupted(interval, *times) * interval,
    },
    (Limit("a restart takes no time", {"restart": 0}, "then it is the page's factor"),),
)


def _plan_law(answer: Callable) -> None:
    function(answer, "plan(log, write)")
    draw = random.Random(11)
    for mtbf, write in ((10 * hour, 30), (3 * hour, 60), (hour, 300), (hour, 2400), (1200, 1200)):
        stops = accumulate(draw.expovariate(3 / mtbf) for _ in range(1200))
        log = [(seconds, draw.choice(("unexpected", "planned", "planned"))) for seconds in stops]
        nearly_best_interval(call(answer, log, write), write, mtbf)


def _plan(log: list, write: float, interval: Callable | None = None) -> float:
    unexpected = [seconds for seconds, kind in log if kind == "unexpected"]
    return (interval or foundations.optimal_interval)(write, unexpected[-1] / len(unexpected))


design_interval = Made(
    "ex-design-interval",
    About("Design an interval", "design", 3, 20,
          "derive an interval from a failure log, also where Young fails", ("Ex11",)),
    _plan_law, lambda: _plan,
    "on 5 logs the job pays at most 2 % more overhead than with the best interval",
    {
        "still short against the time between": lambda: partial(_plan, interval=_young),
        "before a planned stop": lambda: lambda log, write:
            foundations.optimal_interval(write, log[-1][0] / len(log)),
        "your interval is too": lambda: lambda log, write: hour,
        "ever be finished": lambda: lambda log, write: 1e9,
        "positive": lambda: lambda log, write: 0,
    },
)
