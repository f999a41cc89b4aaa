"""Every check of chapter 1: the solution passes; the stub, wrong answers and dtlib's own fail."""

import math
from fractions import Fraction

from exercise_cases import Case, EveryExercise

DAY, HOUR = 86400, 3600


def money(**changes):
    return {"saved": 3e6, "times_the_tokens": 0.5 / 0.35, "saved_at_peak": 6.5e6} | changes


def training_days(params, tokens, gpus, tflops, mfu):
    return 6 * params * tokens / (gpus * tflops * 1e12 * mfu) / DAY


def days_as_printed(params, tokens, gpus, tflops, mfu):
    return mfu * (2 * params * tokens + 4 * params) / (gpus * tflops * 1e12) / HOUR


def days_times_mfu(params, tokens, gpus, tflops, mfu):
    return mfu * 6 * params * tokens / (gpus * tflops * 1e12) / DAY


def days_of_one_backward(params, tokens, gpus, tflops, mfu):
    return (2 * params * tokens + 4 * params) / (gpus * tflops * 1e12 * mfu) / DAY


def in_hours(params, tokens, gpus, tflops, mfu):
    return training_days(params, tokens, gpus, tflops, mfu) * 24


def walls(P, memory, peak, mfu, seconds, r):
    return {"memory": P * memory / 16, "time": math.sqrt(seconds * P * peak * mfu / (6 * r))}


def largest_model(*machine):
    found = walls(*machine)
    wall = min(found, key=found.get)
    return found[wall], wall


def farther_wall(*machine):
    found = walls(*machine)
    wall = max(found, key=found.get)
    return found[wall], wall


def weights_alone(P, memory, peak, mfu, seconds, r):
    found = walls(P, memory, peak, mfu, seconds, r)
    wall = min(found, key=found.get)
    return (P * memory / 2 if wall == "memory" else found[wall]), wall


def without_root(P, memory, peak, mfu, seconds, r):
    found = walls(P, memory, peak, mfu, seconds, r)
    wall = min(found, key=found.get)
    return (found[wall] ** 2 if wall == "time" else found[wall]), wall


def speedup(P, rho):
    return 1.0 if P == 1 else P / (1 + P * rho)


def printed_speedup(P, rho):
    return P / (1 + (P - 1) * rho)


def always_talking(P, rho):
    return P / (1 + P * rho)


def enough(rho, share):
    if share <= rho:
        return 1
    return math.ceil(share / (1 - share) / rho * (1 - 1e-12))


def enough_by_fractions(rho, share):
    rho, share = Fraction(str(rho)), Fraction(str(share))
    return 1 if share <= rho else math.ceil(share / (1 - share) / rho)


def enough_rounded_up(rho, share):
    return 1 if share <= rho else math.ceil(share / (1 - share) / rho)


def enough_that_always_talk(rho, share):
    return math.ceil(share / (1 - share) / rho * (1 - 1e-12))


def steps_between(compute, comm, efficiency):
    return max(1, math.ceil(efficiency / (1 - efficiency) * comm / compute * (1 - 1e-12)))


def steps_by_fractions(compute, comm, efficiency):
    share = Fraction(str(efficiency))
    return max(1, math.ceil(share / (1 - share) * Fraction(str(comm)) / Fraction(str(compute))))


def steps_rounded_up(compute, comm, efficiency):
    return max(1, math.ceil(efficiency / (1 - efficiency) * comm / compute))


def too_few_steps(compute, comm, efficiency):
    return max(1, math.ceil(efficiency * comm / compute))


def too_many_steps(compute, comm, efficiency):
    return steps_between(compute, comm, efficiency) + 1


def best_ranks(work, fixed, per_rank):
    root = math.sqrt(work / per_rank)
    return min({max(1, int(root)), int(root) + 1}, key=lambda n: work / n + per_rank * n)


def rounded_down(work, fixed, per_rank):
    return max(1, int(math.sqrt(work / per_rank)))


def with_the_floor(work, fixed, per_rank):
    return max(1, round(math.sqrt(work / (per_rank + fixed))))


def step_time(backward, messages):
    computed = sent = 0.0
    for work, message in zip(reversed(backward), reversed(messages), strict=True):
        computed += work
        sent = max(sent, computed) + message
    return sent


def step_as_printed(backward, messages):
    done = computed = 0.0
    for work, message in zip(backward, messages, strict=True):
        done = max(done, computed + message)
        computed += work
    return done


def early_messages(backward, messages):
    computed = sent = 0.0
    for work, message in zip(reversed(backward), reversed(messages), strict=True):
        sent = max(sent, computed) + message
        computed += work
    return sent


def all_at_once(backward, messages):
    computed = sent = 0.0
    for work, message in zip(reversed(backward), reversed(messages), strict=True):
        computed += work
        sent = max(sent, computed + message)
    return sent


def first_layer_first(backward, messages):
    return step_time(backward[::-1], messages[::-1])


def kind(before, after):
    falls = any(a < b for a, b in zip(after, before, strict=True))
    rises = any(a > b for a, b in zip(after, before, strict=True))
    if falls:
        return "move" if rises else "removal"
    return "loss" if rises else "nothing"


def by_the_sum(before, after):
    return "removal" if sum(after) < sum(before) else "move"


CASES = {
    "ex-thirteen-billion": Case(
        (208e9, 3),
        [
            ((26e9, 1), "weights alone"),
            ((156e9, 2), "optimizer's part"),
            ((104e9, 2), "numbers of four bytes"),
            ((208, 3), "in bytes"),
            ((208e9, 2), "would one fewer not"),
            ((208e9, 2.6), "only whole cards"),
            (26e9, "must have 2 items"),
        ],
        secret=[208e9],
    ),
    "ex-half-of-the-rated-speed": Case(
        (1966.1, 66),
        [
            ((655.4, 22), "that is the forward pass"),
            ((983.1, 33), "is the MFU used"),
            ((491.5, 17), "the MFU divides the speed"),
            ((1966.1 * 24, 66), "in days"),
            ((1966.1, 65), "would not be done"),
            ((1966.1, 67), "more than are needed"),
            ((1966.1, 65.5), "a whole number"),
        ],
        secret=[1966.1],
    ),
    "ex-lost-compared-with-what": Case(
        money(),
        [
            (money(saved=1.5e6), "compare GPU-hours"),
            (money(saved=6.5e6), "compares with the rated speed"),
            (money(times_the_tokens=0.7), "more tokens, not fewer"),
            (money(times_the_tokens=0.4286), "not how many more"),
            (money(saved_at_peak=3.5e6), "would have cost"),
            ({"saved": 3e6}, "pass a dict"),
        ],
        secret=[3e6, 1.4286, 6.5e6],
    ),
    "ex-repair-training-days": Case(
        training_days,
        [
            (days_as_printed, "three mistakes"),
            (days_times_mfu, "makes your run slower"),
            (days_of_one_backward, "for every token"),
            (in_hours, "in hours"),
            (lambda p, d, g, f, m: training_days(p, d, g, f, 1), "has no effect"),
            (lambda p, d, g, f, m: training_days(p, d, g, f, m) * 4 / 6, "twice the forward"),
        ],
    ),
    "ex-which-wall": Case(
        largest_model,
        [
            (farther_wall, "must pass both walls"),
            (weights_alone, "weights alone"),
            (without_root, "the work is a square"),
            (lambda *machine: largest_model(*machine)[0], "must have 2 items"),
            (lambda *machine: (largest_model(*machine)[0], "money"), "must be 'memory' or"),
        ],
    ),
    "ex-half-of-the-limit": Case(
        (speedup, enough),
        [
            ((printed_speedup, enough), "Amdahl's formula"),
            ((always_talking, enough), "one rank alone says nothing"),
            ((lambda P, rho: P * (1 + rho) / (1 + P * rho), enough), "is charged"),
            ((speedup, lambda rho, share: math.ceil(share / rho)), "do not reach"),
            ((speedup, lambda rho, share: enough(rho, share) + 2), "fewer than"),
            ((speedup, enough_rounded_up), "a rounding error above"),
            ((speedup, enough_that_always_talk), "one alone does not communicate"),
            (speedup, "must have 2 items"),
        ],
        also_right=[(speedup, enough_by_fractions)],
    ),
    "ex-four-times-the-workers": Case(
        (100.0, 0.3, 10),
        [
            ((100.0, 0.0, 10), "less than a tenth"),
            ((100.0, 5.0, 10), "three times as fast"),
            ((0, 1, 1), "work must be positive"),
            ((100.0, 0.3), "must have 3 items"),
        ],
        also_right=[(36, 1, 1), (1e-3, 3e-6, 10)],
    ),
    "ex-talk-less-often": Case(
        steps_between,
        [
            (too_few_steps, "too few"),
            (too_many_steps, "are enough"),
            (steps_rounded_up, "a rounding error above"),
            (lambda compute, comm, efficiency: 0, "at least one"),
        ],
        also_right=[steps_by_fractions],
    ),
    "ex-where-the-square-root-is": Case(
        (100, 50.5, best_ranks),
        [
            ((10, 50.5, best_ranks), "set work/n equal"),
            ((100, 10, best_ranks), "that is the square root"),
            ((100, 50, best_ranks), "one included"),
            ((100, 50.5, rounded_down), "more than"),
            ((100, 50.5, with_the_floor), "ranks are faster"),
            ((100, 50.5, lambda *step: 0), "at least one"),
        ],
        secret=[50.5],
    ),
    "ex-repair-overlap": Case(
        step_time,
        [
            (step_as_printed, "three mistakes"),
            (early_messages, "before its gradient"),
            (all_at_once, "network at once"),
            (first_layer_first, "the last layer comes first"),
            (lambda b, m: sum(b) + sum(m), "nothing is hidden"),
            (lambda b, m: max(sum(b), sum(m)), "that is the bound"),
            (lambda b, m: 0.9 * step_time(b, m), "ends before its"),
            (lambda b, m: 1.1 * step_time(b, m), "is too long"),
        ],
    ),
    "ex-moves-and-removals": Case(
        kind,
        [
            (by_the_sum, "that is no"),
            (lambda before, after: "move", "that is no 'move'"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES
