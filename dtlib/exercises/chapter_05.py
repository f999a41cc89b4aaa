"""Graders of chapter 5, What compute costs."""

import math
import random
from collections.abc import Callable
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import Limit, call, formula, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet

minute, hour, day = 60, 3600, 86400
H100 = 989e12


def keyed(answer: Any, names: list[str]) -> dict:
    """``answer`` if it is a dict with exactly these keys."""
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    return answer


def young(write: float, mtbf: float) -> float:
    return math.sqrt(2 * write * mtbf)


def multiplier(interval: float, write: float, restart: float, mtbf: float) -> float:
    return math.expm1((interval + write) / mtbf) * (mtbf + restart) / interval


def gang_price(price: float, P: int, life: float, write: float, restart: float) -> float:
    mtbf = life / P
    return price * multiplier(young(write, mtbf), write, restart, mtbf)


@grader("ex-price-of-a-run")
def price_of_a_run(answer: Any) -> str:
    given = keyed(answer, ["gpu_hours", "dollars", "days"])
    hours = 6 * 70e9 * 2e12 / (H100 * 0.45) / hour
    slips = {
        hours * hour: "in hours, please",
        hours * 0.45: "at 45 % of the peak it takes longer than at the peak",
        hours / 3: "six FLOP per parameter and token: forward and backward",
        hours * 0.45**2: "the MFU stands in the denominator",
    }
    number(given["gpu_hours"], hours, "gpu_hours", tolerance=0.005, mistakes=slips)
    slips = {2 * hours: "at 4 dollars an hour", hours: "that is the number of hours"}
    number(given["dollars"], 4 * hours, "dollars", tolerance=0.005, mistakes=slips)
    slips = {hours / 1024: "that is hours", hours / 24: "all 1,024 GPUs work at once"}
    number(given["days"], hours / 1024 / 24, "days", tolerance=0.005, mistakes=slips)
    return "the GPU-hours, their price, and how long 1,024 GPUs take for them"


@grader("ex-two-offers")
def two_offers(answer: Any) -> str:
    given = keyed(answer, ["dearer", "faster", "hour_saved"])
    dearer, faster = 0.50 / 0.35, 1024 * 0.35 / (512 * 0.50)
    slips = {
        0.30: "that is by which share the smaller offer is cheaper; how many times dearer is (b)?",
        0.43: "as a factor, please: 1 would be the same price",
        dearer - 1: "as a factor, please: 1 would be the same price",
        1 / dearer: "the other way round: (b) over (a)",
        2.0: "twice the GPUs, but not for the same time",
        faster: "that is how much faster it is; the bill goes with the efficiency",
    }
    number(given["dearer"], dearer, "dearer", mistakes=slips)
    slips = {
        2.0: "twice the GPUs at a lower efficiency are not twice as fast",
        1 / faster: "that is the time of (b) over that of (a); how many times faster?",
        dearer: "that is how much dearer it is",
        0.7: "that is the ratio of the efficiencies alone",
    }
    number(given["faster"], faster, "faster", mistakes=slips)
    extra = 512 * (dearer - 1) * 4 / (1 - 1 / faster)
    slips = {
        512 * (dearer - 1) * 4: "per hour that (a) lasts; asked is per hour that is saved",
        512 * dearer * 4 / (1 - 1 / faster): "only what (b) costs *more*",
        extra / 4: "that is GPU-hours; in dollars, please",
    }
    number(given["hour_saved"], extra, "hour_saved", "dollars", tolerance=0.005, mistakes=slips)
    return "dearer and faster are different factors, and their trade has a price per hour"


@grader("ex-repair-spot")
def repair_spot(answer: Any) -> str:
    draw = random.Random(5)
    cases = [
        {
            "price": draw.uniform(0.5, 3),
            "P": draw.choice([1, 2, 8, 24, 64]),
            "life": draw.uniform(10, 60) * hour,
            "write": draw.uniform(10, 200),
            "restart": draw.uniform(30, 900),
        }
        for _ in range(10)
    ]

    def first_order(price, P, life, write, restart, part=2):
        mtbf = life / P
        interval = young(write, mtbf)
        return price * (1 + write / interval + (interval / part + restart) / mtbf)

    def of_one_interval(price, P, life, write, restart):
        return price * multiplier(young(write, life), write, restart, life / P)

    def of_one(price, P, life, write, restart):
        return gang_price(price, 1, life, write, restart)

    hints = [
        (of_one, "the number of machines has no effect: whose life is it?"),
        (lambda c, P, *rest: first_order(c, 1, *rest, 1), "that is what the page prints"),
        (lambda c, P, *rest: first_order(c, 1, *rest), "the number of machines has no effect"),
        (first_order, "right to first order, and too cheap for a large gang: use the whole factor"),
        (lambda *case: first_order(*case, 1), "a failure costs half an interval on average"),
        (of_one_interval, "the interval is that of one machine, the failures are those of all"),
    ]
    formula(
        answer,
        gang_price,
        "spot_price(price, P, life, write, restart)",
        cases,
        wrong=hints,
        limits=[Limit("there is one machine", {"P": 1}, "compare with the factor on the page")],
    )
    return "on 10 gangs the price of an hour of progress is that of the exact model"


@grader("ex-largest-gang")
def largest_gang(answer: Any) -> str:
    signature = "largest_gang(spot, on_demand, life, write, restart)"
    function(answer, signature)
    cases = [
        (1.5, 4, 20 * hour, 120, 600),
        (1.5, 4, 20 * hour, 10, 600),
        (1.5, 4, 20 * hour, 120, 30),
        (2.4, 4, 100 * hour, 60, 300),
        (3.9, 4, 20 * hour, 120, 600),
        (1, 4, 5 * hour, 300, 1200),
        (1.5, 4, 500 * hour, 30, 120),
    ]
    for spot, on_demand, *times in cases:
        P = whole(call(answer, spot, on_demand, *times), "the returned number")
        shown = f"with spot={spot}, on_demand={on_demand}, life={times[0] / hour:.0f} h"
        if P < 0:
            raise NotYet(f"{shown}: a number of machines, or 0 if spot never pays")
        if P > 10**5 or (P and gang_price(spot, P, *times) >= on_demand):
            raise NotYet(f"{shown}: a gang of your size is not cheaper than on demand any more")
        if gang_price(spot, P + 1, *times) < on_demand:
            raise NotYet(f"{shown}: one machine more is still cheaper")
    return "on 7 markets one machine more would not pay"


@grader("ex-deadline-and-budget")
def deadline_and_budget(answer: Any) -> str:
    signature = "choose(compute, comm_ratio, price, deadline, budget)"
    function(answer, signature)
    draw = random.Random(7)
    # met exactly, in numbers that floats hold exactly: 16 ranks for the deadline and for the budget
    cases = [(1024, 1 / 8, 2, 192.0, 6144.0), (1024, 1 / 8, 2, 192.0, 6143.0)]
    while len(cases) < 24:
        compute, ratio = draw.randint(500, 5000), draw.choice([1 / 8, 1 / 50, 1 / 400])
        price = draw.choice([1, 2, 3.5])
        limit = ratio * compute * draw.uniform(0.7, 6)
        budget = price * compute * draw.uniform(0.9, 4)
        cases.append((compute, ratio, price, limit, budget))
    for compute, ratio, price, limit, budget in cases:
        meets = [P for P in range(1, 5000) if compute / P + ratio * compute <= limit]
        right = next((P for P in meets if price * compute * (1 + ratio * P) <= budget), None)
        try:
            given = answer(compute, ratio, price, limit, budget)
        except NotImplementedError:
            raise NotYet("there is nothing here yet") from None
        except Exception as error:
            raise NotYet(f"{signature} raises {type(error).__name__}: {error}") from None
        shown = (
            f"with compute={compute}, comm_ratio={ratio:.3g}, price={price}, "
            f"deadline={limit:.5g}, budget={budget:.5g}"
        )
        _judge_choice(given, right, meets, shown)
    return "in 24 cases the cheapest number of ranks that meets both, or none where none does"


def _judge_choice(given: Any, right: int | None, meets: list[int], shown: str) -> None:
    if given is None:
        if right is not None:
            raise NotYet(f"{shown}: it can be done")
        return
    P = whole(given, "the returned number of ranks")
    if right is None:
        raise NotYet(f"{shown}: {'over budget' if P in meets else 'too late'}; return None")
    if P < 1 or P not in meets:
        raise NotYet(f"{shown}: {P} ranks are too late")
    if right < P:
        raise NotYet(f"{shown}: fewer ranks meet the deadline as well, and cost less")


@grader("ex-audit-checkpoints")
def audit_checkpoints(answer: Any) -> str:
    given = keyed(answer, ["mtbf", "interval", "four_hours", "best"])
    mtbf, write = 5 * 365.25 * day / 1000, 20 * minute
    slips = {
        mtbf * 1000: "that is the life of one GPU",
        mtbf * 10: "that is the job of 100 GPUs",
        day: "a day is what the example assumes, against its own numbers",
    }
    number(given["mtbf"], mtbf, "mtbf", "s", mistakes=slips)
    slips = {
        young(write, mtbf * 10): "that is the interval of 100 GPUs",
        young(write, mtbf) / math.sqrt(2): "two times the write time, under the root",
        young(write, mtbf) / minute: "in seconds, please",
    }
    number(given["interval"], young(write, mtbf), "interval", "s", mistakes=slips)
    four = 4 * hour
    overhead = write / four + four / 2 / mtbf
    slips = {
        write / four: "the writing alone; what about the work that is lost?",
        four / 2 / mtbf: "the lost work alone; what about the writing?",
        write / four + four / mtbf: "a failure loses half an interval on average",
    }
    number(given["four_hours"], overhead, "four_hours", tolerance=0.03, mistakes=slips)
    best = math.sqrt(2 * write / mtbf)
    slips = {best / 2: "there are two costs, and at the best interval they are equal"}
    number(given["best"], best, "best", tolerance=0.05, mistakes=slips)
    return "the gang's failures, its interval, and what the wrong interval costs"


def _exact_interval(write: float, mtbf: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        late = math.log1p(-middle) + middle < -write / mtbf
        low, high = (low, middle) if late else (middle, high)
    return low * mtbf


def _failure_log(mtbf: float, count: int, draw: random.Random) -> list[tuple[float, str]]:
    now, log = 0.0, []
    while sum(kind == "unexpected" for _, kind in log) < count:
        now += draw.expovariate(3 / mtbf)
        log.append((now, "unexpected" if draw.random() < 1 / 3 else "planned"))
    return log


@grader("ex-design-interval")
def design_interval(answer: Any) -> str:
    function(answer, "plan(log, write)")
    draw = random.Random(11)
    cases = [(10 * hour, 30), (3 * hour, 60), (hour, 300), (hour, 2400), (20 * minute, 1200)]
    for mtbf, write in cases:
        log = _failure_log(mtbf, 400, draw)
        interval = real(call(answer, list(log), write), "the returned interval", "s")
        shown = f"with {write} s to write and a failure every {mtbf / minute:.0f} min or so"
        if interval <= 0:
            raise NotYet(f"{shown}: an interval is positive")
        if (interval + write) / mtbf > 500:
            raise NotYet(f"{shown}: no segment of your length would ever be finished")
        best = multiplier(_exact_interval(write, mtbf), write, 0, mtbf)
        if multiplier(interval, write, 0, mtbf) - 1 > 1.02 * (best - 1):
            side = "long" if interval > _exact_interval(write, mtbf) else "short"
            why = ""
            if math.isclose(interval, young(write, mtbf), rel_tol=0.15):
                why = ": is the writing still short against the time between failures?"
            elif math.isclose(interval, _exact_interval(write, mtbf / 3), rel_tol=0.15):
                why = ": before a planned stop the job saves, and loses nothing"
            raise NotYet(f"{shown} your interval is too {side}{why}")
    return "on 5 logs the job pays at most 2 % more overhead than with the best interval"


@grader("ex-restart-interrupted")
def restart_interrupted(answer: Any) -> str:
    draw = random.Random(13)
    cases = [
        {
            "interval": draw.uniform(100, 3000),
            "write": draw.uniform(10, 300),
            "restart": draw.uniform(30, 900),
            "mtbf": draw.uniform(400, 9000),
        }
        for _ in range(10)
    ]

    def right(interval, write, restart, mtbf):
        return mtbf * math.exp(restart / mtbf) * math.expm1((interval + write) / mtbf) / interval

    def piece(interval, write, restart, mtbf):
        return mtbf * math.expm1((interval + write + restart) / mtbf) / interval

    hints = [
        (multiplier, "that restart cannot be interrupted"),
        (piece, "the first attempt has no restart before it"),
        (lambda i, w, r, m: right(i, w, r, m) * i, "per second of work: divide by the interval"),
    ]
    formula(
        answer,
        right,
        "multiplier(interval, write, restart, mtbf)",
        cases,
        wrong=hints,
        limits=[Limit("a restart takes no time", {"restart": 0}, "then it is the page's factor")],
    )
    return "on 10 jobs a restart is itself a piece of work that must be done without interruption"


@grader("ex-buy-or-rent")
def buy_or_rent(answer: Any) -> str:
    least_4, least_2, per_hour = items(answer, "(against_4, against_2, own_hour)", 3)
    life = 4 * 365.25 * 24
    for what, value, rent in (("against_4", least_4, 4), ("against_2", least_2, 2)):
        slips = {
            40_000 / life / rent: "owning has running costs, too",
            40_000 / (rent - 0.5): "that is hours; as a share of the life, please",
            (rent - 0.5) * life / 40_000: "the other way round",
            40_000 / (rent - 0.5) / life / 4: "the life is 4 years",
            40_000 / (rent - 0.5) / life * 100: "as a share, please: 1 is the whole life",
        }
        number(value, 40_000 / (rent - 0.5) / life, what, mistakes=slips)
    slips = {
        40_000 / life + 0.5: "the purchase is spread over the hours of use, not all hours",
        40_000 / life / 0.3: "and what it costs to run",
        (40_000 / life + 0.5) / 0.3: "the running cost is for an hour of use already",
    }
    number(per_hour, 40_000 / life / 0.3 + 0.5, "own_hour", "dollars", mistakes=slips)
    return "the border between renting and buying is a utilisation"


@grader("ex-energy")
def energy(answer: Any) -> str:
    run, each = items(answer, "(run, million_tokens)", 2)
    joules = 2.788e6 * hour * 700 * 1.2
    slips = {
        joules / 1.2: "and what the building adds",
        joules / 3.6e6: "in joules, please: 1 kWh is 3.6 million of them",
        joules / 3.6e9: "in joules, please",
        joules / hour: "an hour has 3,600 seconds",
        joules / 700 * 1000: "700 W, not 1 kW",
    }
    number(run, joules, "run", "J", mistakes=slips)
    share = joules / 14.8e6
    slips = {
        joules / 14.8e12: "that is one token",
        share / 3.6e6: "in joules, please",
        share / 1.2: "and what the building adds",
    }
    number(each, share, "million_tokens", "J", mistakes=slips)
    return "the energy of the run and of a million of its tokens"


@grader("ex-two-runs")
def two_runs(answer: Any) -> str:
    draw = random.Random(17)
    cases = []
    for _ in range(10):
        first, e0, half = draw.choice([8, 64, 512]), draw.uniform(0.3, 0.9), draw.uniform(200, 9000)
        second = first * draw.choice([2, 3, 16])
        cases.append(
            {
                "P1": first,
                "e1": e0 / (1 + first / half),
                "P2": second,
                "e2": e0 / (1 + second / half),
                "P": draw.choice([1, 100, 4096, 20_000]),
            }
        )

    def right(P1, e1, P2, e2, P):
        slope = (1 / e2 - 1 / e1) / (P2 - P1)
        return 1 / (1 / e1 + slope * (P - P1))

    def straight(P1, e1, P2, e2, P):
        return e1 + (e2 - e1) / (P2 - P1) * (P - P1)

    def power(P1, e1, P2, e2, P):
        return e1 * (P / P1) ** (math.log(e2 / e1) / math.log(P2 / P1))

    hints: list[tuple[Callable, str]] = [
        (straight, "the efficiency itself is no straight line in P: it would become negative"),
        (power, "that is a power law; what does the model of the page say about 1/e?"),
        (lambda *case: 1 / right(*case), "that is the inverse of an efficiency"),
    ]
    formula(
        answer, right, "predict(P1, e1, P2, e2, P)", cases, wrong=hints, tolerance=1e-6,
        limits=[Limit("P is one of the two", {"P": 8, "P1": 8}, "your curve misses what was seen")],
    )  # fmt: skip
    return "ten curves through two points each, and every one right at a third"
