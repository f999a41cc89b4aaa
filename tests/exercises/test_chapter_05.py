"""Every check of chapter 5: the solution passes; the stub, wrong answers and dtlib's own fail."""

import math

from exercise_cases import Case, EveryExercise

from dtlib.foundations import day, hour, minute, optimal_interval

HOURS = 6 * 70e9 * 2e12 / (989e12 * 0.45) / 3600
MTBF = 5 * 365.25 * day / 1000
LIFE = 4 * 365.25 * 24
JOULES = 2.788e6 * hour * 700 * 1.2


def changed(right: dict):
    return lambda **changes: right | changes


price = changed({"gpu_hours": HOURS, "dollars": 4 * HOURS, "days": HOURS / 1024 / 24})
offers = changed({"dearer": 0.50 / 0.35, "faster": 1.4, "hour_saved": 3072.0})
audit = changed(
    {
        "mtbf": MTBF,
        "interval": math.sqrt(2 * 20 * minute * MTBF),
        "four_hours": 20 / 240 + 2 * hour / MTBF,
        "best": math.sqrt(2 * 20 * minute / MTBF),
    }
)


def spot_price(price, P, life, write, restart):
    mtbf = life / P
    interval = math.sqrt(2 * write * mtbf)
    return price * (math.exp((interval + write) / mtbf) - 1) * (mtbf + restart) / interval


def printed_spot(price, P, life, write, restart):
    interval = math.sqrt(2 * write * life)
    return price * (1 + write / interval + (interval + restart) / life)


def linear_spot(price, P, life, write, restart):
    interval = math.sqrt(2 * write * life / P)
    return price * (1 + write / interval + (interval / 2 + restart) * P / life)


def largest_gang(spot, on_demand, life, write, restart):
    P = 0
    while spot_price(spot, P + 1, life, write, restart) < on_demand:
        P += 1
    return P


def choose(compute, comm_ratio, price, deadline, budget):
    if deadline <= comm_ratio * compute:
        return None
    P = math.ceil(compute / (deadline - comm_ratio * compute))
    return P if price * compute * (1 + comm_ratio * P) <= budget else None


def unrounded(compute, comm_ratio, price, deadline, budget):
    P = compute / max(1e-9, deadline - comm_ratio * compute)
    return P if price * compute * (1 + comm_ratio * P) <= budget else None


def blind_to_budget(compute, comm_ratio, price, deadline, budget):
    return choose(compute, comm_ratio, price, deadline, math.inf)


def one_too_many(compute, comm_ratio, price, deadline, budget):
    if deadline <= comm_ratio * compute:
        return None
    P = int(compute / (deadline - comm_ratio * compute)) + 1
    return P if price * compute * (1 + comm_ratio * P) <= budget else None


def generous(compute, comm_ratio, price, deadline, budget):
    return choose(compute, comm_ratio, price, deadline, budget) and int(
        (budget / (price * compute) - 1) / comm_ratio
    )


def plan(log, write):
    unexpected = [t for t, kind in log if kind == "unexpected"]
    return optimal_interval(write, unexpected[-1] / len(unexpected))


def plan_by_young(log, write):
    unexpected = [t for t, kind in log if kind == "unexpected"]
    return math.sqrt(2 * write * unexpected[-1] / len(unexpected))


def plan_for_all_stops(log, write):
    return optimal_interval(write, log[-1][0] / len(log))


def interrupted(interval, write, restart, mtbf):
    once = math.exp((interval + write) / mtbf) - 1
    return once * mtbf * math.exp(restart / mtbf) / interval


def undisturbed(interval, write, restart, mtbf):
    return (math.exp((interval + write) / mtbf) - 1) * (mtbf + restart) / interval


def predict(P1, e1, P2, e2, P):
    slope = (1 / e2 - 1 / e1) / (P2 - P1)
    return 1 / (1 / e1 + slope * (P - P1))


CASES = {
    "ex-price-of-a-run": Case(
        solution=price(),
        wrong=[
            (price(gpu_hours=HOURS * 3600), "in hours, please"),
            (price(gpu_hours=HOURS / 3), "six FLOP"),
            (price(gpu_hours=HOURS * 0.45), "longer than at the peak"),
            (price(dollars=HOURS), "number of hours"),
            (price(days=HOURS / 24), "work at once"),
            ({"gpu_hours": HOURS}, "keys"),
        ],
        secret=[HOURS, 4 * HOURS, HOURS / 1024 / 24],
    ),
    "ex-two-offers": Case(
        solution=offers(),
        wrong=[
            (offers(dearer=0.30), "smaller offer is cheaper"),
            (offers(dearer=0.43), "as a factor"),
            (offers(dearer=2), "not for the same time"),
            (offers(faster=2), "lower efficiency"),
            (offers(faster=0.714), "how many times faster"),
            (offers(hour_saved=768), "in dollars"),
            (offers(hour_saved=4 * 512 * 3 / 7), "per hour that is saved"),
        ],
        secret=[0.50 / 0.35, 3072.0],
    ),
    "ex-repair-spot": Case(
        solution=spot_price,
        wrong=[
            (printed_spot, "that is what the page prints"),
            (linear_spot, "first order"),
            (lambda c, P, *rest: spot_price(c, 1, *rest), "number of machines has no effect"),
            (
                lambda c, P, life, w, r: 2 * spot_price(c, P, life, w, r),
                "wrong already when there is one machine",
            ),
        ],
    ),
    "ex-largest-gang": Case(
        solution=largest_gang,
        wrong=[
            (lambda *case: largest_gang(*case) + 1, "not cheaper than on demand any more"),
            (lambda *case: max(0, largest_gang(*case) - 1), "one machine more"),
            (lambda *case: 68, "one machine more|not cheaper"),
            (lambda *case: largest_gang(*case) + 0.5, "whole number"),
            (lambda *case: -1, "or 0"),
        ],
        stub=lambda *case: None,
    ),
    "ex-deadline-and-budget": Case(
        solution=choose,
        wrong=[
            (unrounded, "whole number"),
            (blind_to_budget, "over budget"),
            (generous, "fewer ranks meet the deadline"),
            (one_too_many, "it can be done"),
            (lambda *case: None, "it can be done"),
            (lambda *case: max(1, (choose(*case) or 2) - 1), "too late"),
        ],
    ),
    "ex-audit-checkpoints": Case(
        solution=audit(),
        wrong=[
            (audit(mtbf=MTBF * 1000), "life of one GPU"),
            (audit(mtbf=86400), "a day"),
            (audit(interval=math.sqrt(20 * minute * MTBF)), "under the root"),
            (audit(four_hours=20 / 240), "lost"),
            (audit(four_hours=20 / 240 + 4 * hour / MTBF), "half an interval"),
            (audit(best=math.sqrt(2 * 20 * minute / MTBF) / 2), "two costs"),
        ],
        secret=[MTBF, math.sqrt(2 * 20 * minute * MTBF)],
    ),
    "ex-design-interval": Case(
        solution=plan,
        wrong=[
            (plan_by_young, "still short against the time between failures"),
            (plan_for_all_stops, "planned stop"),
            (lambda log, write: hour, "too (long|short)"),
            (lambda log, write: 1e9, "ever be finished"),
            (lambda log, write: 0, "positive"),
        ],
    ),
    "ex-restart-interrupted": Case(
        solution=interrupted,
        wrong=[
            (undisturbed, "cannot be interrupted"),
            (
                lambda i, w, r, m: m * (math.exp((i + w + r) / m) - 1) / i,
                "first attempt has no restart",
            ),
            (lambda i, w, r, m: interrupted(i, w, r, m) * i, "divide by the interval"),
            (lambda i, w, r, m: interrupted(i, 0, r, m), "wrong already when a restart takes no"),
        ],
    ),
    "ex-buy-or-rent": Case(
        solution=(40_000 / 3.5 / LIFE, 40_000 / 1.5 / LIFE, 40_000 / LIFE / 0.3 + 0.5),
        wrong=[
            ((10_000 / LIFE, 40_000 / 1.5 / LIFE, 4.3), "running costs"),
            ((40_000 / 3.5, 1, 1), "share of the life"),
            ((32.6, 1, 1), "as a share"),
            ((40_000 / 3.5 / LIFE, 40_000 / 1.5 / LIFE, 40_000 / LIFE + 0.5), "hours of use"),
            ((1, 2), "3 items"),
        ],
        secret=[40_000 / 3.5 / LIFE, 40_000 / 1.5 / LIFE, 40_000 / LIFE / 0.3 + 0.5],
    ),
    "ex-energy": Case(
        solution=(JOULES, JOULES / 14.8e6),
        wrong=[
            ((JOULES / 1.2, 1), "building"),
            ((JOULES / 3.6e6, 1), "in joules"),
            ((JOULES, JOULES / 14.8e12), "one token"),
            ((JOULES, JOULES / 14.8e6 / 3.6e6), "in joules"),
        ],
        secret=[JOULES, JOULES / 14.8e6],
    ),
    "ex-two-runs": Case(
        solution=predict,
        wrong=[
            (lambda P1, e1, P2, e2, P: e1 + (e2 - e1) / (P2 - P1) * (P - P1), "straight line"),
            (
                lambda P1, e1, P2, e2, P: e1 * (P / P1) ** (math.log(e2 / e1) / math.log(P2 / P1)),
                "power law",
            ),
            (lambda *case: 1 / predict(*case), "inverse"),
        ],
    ),
}


class TestChapter5(EveryExercise):
    cases = CASES
