"""Graders of chapter 1, One machine is not enough."""

import math
import random
from collections.abc import Callable
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, formula, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet

GB, GiB, DAY, HOUR = 10**9, 2**30, 86400, 3600


@grader("ex-thirteen-billion")
def thirteen_billion(answer: Any) -> str:
    state, cards = items(answer, "(state, cards)", 2)
    mistakes = {
        k * 13e9: hint
        for k, hint in (
            (2, "those are the weights alone"),
            (4, "weights and gradients; what does Adam keep?"),
            (8, "the optimizer keeps numbers of four bytes"),
            (12, "that is the optimizer's part; weights and gradients are kept, too"),
            (18, "that is with gradients of four bytes"),
        )
    }
    mistakes[16 * 13] = "in bytes, please"
    number(state, 16 * 13e9, "state", "bytes", tolerance=1e-6, mistakes=mistakes)
    if real(cards, "cards") != int(real(cards, "cards")):
        raise NotYet("cards: there are only whole cards")
    if whole(cards, "cards") != math.ceil(16 * 13e9 / 80e9):
        raise NotYet("cards: do they hold all of it, and would one fewer not?")
    return "sixteen bytes for each of thirteen billion, and the cards that hold them"


@grader("ex-half-of-the-rated-speed")
def half_of_the_rated_speed(answer: Any) -> str:
    right = 6 * 7e9 * 2e12 / (989e12 * 0.5) / DAY
    days, gpus = items(answer, "(days, gpus)", 2)
    mistakes = {
        right / 3: "that is the forward pass; the backward pass is twice as much",
        right / 2: "at half of the rated speed it takes longer, not shorter: is the MFU used?",
        right / 4: "the MFU divides the speed, so the time grows",
        right * 24: "in days, please",
        right * DAY: "in days, please",
    }
    number(days, right, "days", "days", mistakes=mistakes)
    fewest = math.ceil(right / 30)
    given = real(gpus, "gpus")
    if given != int(given):
        raise NotYet("gpus: a whole number")
    if given != fewest:
        late = "would not be done in 30 days" if given < fewest else "are more than are needed"
        raise NotYet(f"gpus: {given:.0f} {late}")
    return "the days of one GPU, and the GPUs of one month"


@grader("ex-lost-compared-with-what")
def lost_compared_with_what(answer: Any) -> str:
    names = ("saved", "times_the_tokens", "saved_at_peak")
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    right = {"saved": 3e6, "times_the_tokens": 0.5 / 0.35, "saved_at_peak": 6.5e6}
    mistakes = {
        "saved": {
            1.5e6: "the cost goes like 1/MFU: compare GPU-hours, not percentage points",
            10e6 * (0.5 / 0.35 - 1): "that is what the lost tokens would have cost on top",
            7e6: "that is what the run would have cost",
            3.0: "in dollars, please",
            6.5e6: "that compares with the rated speed",
        },
        "times_the_tokens": {
            0.35 / 0.5: "more tokens, not fewer",
            0.5 / 0.35 - 1: "how many times as many, not how many more",
            1.15: "fifteen percentage points are not fifteen per cent",
            1.3: "the money is the same; it is the hours that become cheaper",
        },
        "saved_at_peak": {
            3.5e6: "that is what the run would have cost",
            6.5: "in dollars, please",
            3e6: "that compares with an MFU of 50 %",
        },
    }
    for name in names:
        number(answer[name], right[name], name, mistakes=mistakes[name])
    return "three numbers, one run, three baselines"


@grader("ex-repair-training-days")
def repair_training_days(answer: Any) -> str:
    def days(params, tokens, gpus, tflops, mfu, work=6.0, day=DAY, inverse=True):
        return work * params * tokens / (gpus * tflops * 1e12 * (mfu if inverse else 1 / mfu)) / day

    hints = [
        (lambda p, d, g, f, m: days(p, d, g, f, m, day=HOUR), "the result is still in hours"),
        (
            lambda p, d, g, f, m: days(p, d, g, f, m, work=2 + 4 / d),
            "the backward pass happens for every token, too",
        ),
        (
            lambda p, d, g, f, m: days(p, d, g, f, m, inverse=False),
            "a higher MFU makes your run slower",
        ),
        (lambda p, d, g, f, m: days(p, d, g, f, m, work=4), "backward is twice the forward pass"),
        (lambda p, d, g, f, m: days(p, d, g, f, 1.0), "the MFU has no effect"),
        (
            lambda p, d, g, f, m: days(p, d, g, f, m, work=2 + 4 / d, inverse=False, day=HOUR),
            "as on the page: there are three mistakes",
        ),
        (
            lambda p, d, g, f, m: days(p, d, g, f, m, inverse=False, day=HOUR),
            "a higher MFU makes your run slower, and the result is in hours",
        ),
        (
            lambda p, d, g, f, m: days(p, d, g, f, m, work=2 + 4 / d, day=HOUR),
            "the backward pass happens for every token, and the result is in hours",
        ),
        (
            lambda p, d, g, f, m: days(p, d, g, f, m, work=2 + 4 / d, inverse=False),
            "the backward pass happens for every token, and a higher MFU makes your run slower",
        ),
    ]
    names = ("params", "tokens", "gpus", "tflops", "mfu")
    cases = [
        (70e9, 15e12, 256, 312, 0.4),
        (7e9, 2e12, 1, 989, 0.5),
        (405e9, 15.6e12, 16384, 989, 0.41),
        (1e9, 20e9, 8, 19.5, 0.2),
    ]
    formula(
        answer,
        days,
        "training_days(params, tokens, gpus, tflops, mfu)",
        [dict(zip(names, case, strict=True)) for case in cases],
        wrong=hints,
    )
    return "four runs, from one GPU to sixteen thousand"


@grader("ex-which-wall")
def which_wall(answer: Any) -> str:
    function(answer, "largest_model(P, memory, peak, mfu, seconds, tokens_per_param)")
    draw = random.Random(5)
    for _ in range(40):
        P, r = 2 ** draw.randrange(0, 15), draw.choice([1, 5, 20, 200, 2000])
        memory, peak = draw.choice([40, 80, 192]) * GiB, draw.choice([312, 989, 2250]) * 1e12
        mfu, seconds = draw.uniform(0.1, 0.6), draw.choice([1, 7, 90, 365]) * DAY
        held = P * memory / 16
        done = math.sqrt(seconds * P * peak * mfu / (6 * r))
        where = f"P = {P}, {r} tokens for every parameter"
        params, wall = items(
            call(answer, P, memory, peak, mfu, seconds, r), f"{where}: (params, wall)", 2
        )
        names = {"memory": held, "time": done}
        if wall not in names:
            raise NotYet(f"{where}: the wall must be 'memory' or 'time', got {wall!r}")
        value = real(params, f"{where}: params")
        first = min(names, key=names.get)
        if math.isclose(value, max(held, done), rel_tol=1e-6):
            raise NotYet(f"{where}: a model must pass both walls, so the nearer one decides")
        if wall != first:
            raise NotYet(f"{where}: the other wall stops it")
        slips = {
            P * memory / 2: "that counts the weights alone",
            P * memory: "how many bytes has one parameter?",
            memory / 16: "the state is split among all of them",
            done**2: "the tokens grow with the model: the work is a square",
            done * math.sqrt(6): "how many operations for a parameter and a token?",
            done * math.sqrt(3): "the backward pass is twice the forward pass",
            done * mfu**0.5: "the MFU divides the work by more than it should",
            done / mfu**0.5: "is the MFU used?",
        }
        number(value, names[first], f"{where}: params", tolerance=1e-6, mistakes=slips)
    return "on 40 machines the nearer wall, and where it stands"


_ROUNDING = "a quotient that should be whole may come out a rounding error above it"


def _fewest(quotient: float) -> int:
    """The least whole number that is not below a quotient, whose last bits are rounded."""
    return max(1, math.ceil(quotient * (1 - 1e-9)))


@grader("ex-half-of-the-limit")
def half_of_the_limit(answer: Any) -> str:
    speedup, enough = items(answer, "(speedup, enough)", 2)
    function(speedup, "speedup(P, rho)")
    function(enough, "enough(rho, share)")
    for rho in (0.7, 1.0, 0.1, 0.02, 0.003):
        for P in (2, 3, 8, 64, 1000):
            value = real(call(speedup, P, rho), f"speedup({P}, {rho})")
            slips = {
                P / (1 + (P - 1) * rho): "Amdahl's formula, in which rho is part of the work",
                P * (1 + rho) / (1 + P * rho): "a single rank is charged for communication here",
                float(P): "communication is missing",
            }
            number(value, P / (1 + P * rho), f"speedup({P}, {rho})", tolerance=1e-9, mistakes=slips)
        one = real(call(speedup, 1, rho), f"speedup(1, {rho})")
        number(one, 1.0, f"speedup(1, {rho}): one rank alone says nothing; it", tolerance=1e-9)
    draw = random.Random(6)
    cases = [
        (draw.uniform(0.001, 0.05), draw.choice([0.5, 0.9, 0.99, draw.uniform(0.3, 1)]))
        for _ in range(20)
    ]
    whole_quotients = [(0.01, 0.9), (0.001, 0.8), (0.1, 0.9), (0.05, 0.8), (0.004, 0.5)]
    for rho, share in [*cases, *whole_quotients, (0.6, 0.5), (0.9, 0.9), (0.3, 0.35)]:
        fewest = 1 if share <= rho else _fewest(share / (1 - share) / rho)
        given = whole(call(enough, rho, share), "enough: the number of ranks")
        where = f"enough({rho:.4g}, {share:.3g})"
        if given < fewest:
            raise NotYet(f"{where}: {given} ranks do not reach that share of the limit")
        if given > fewest:
            why = "one alone does not communicate" if fewest == 1 else _ROUNDING
            raise NotYet(f"{where}: fewer than {given} ranks are enough ({why})")
    return "speedups up to a thousand ranks, and the fewest that reach a share of the limit"


@grader("ex-four-times-the-workers")
def four_times_the_workers(answer: Any) -> str:
    work, comm, P = items(answer, "(work, comm, P)", 3)
    work, comm, P = real(work, "work", "s"), real(comm, "comm", "s"), whole(P, "P")
    if work <= 0 or comm < 0 or P < 1:
        raise NotYet("work must be positive, comm not negative, and P at least 1")
    before, after = work / P + comm, work / (4 * P) + comm
    if comm < 0.1 * after * (1 - 1e-9):
        raise NotYet("on 4P ranks less than a tenth of the step is communication")
    if before / after <= 3:
        raise NotYet("from P to 4P ranks this step does not become three times as fast")
    return "a step that refutes the bound, with its communication counted"


@grader("ex-talk-less-often")
def talk_less_often(answer: Any) -> str:
    function(answer, "steps_between(compute, comm, efficiency)")
    draw = random.Random(7)
    cases = [
        (draw.uniform(0.5, 20), draw.uniform(0.01, 50), draw.uniform(0.05, 0.99)) for _ in range(60)
    ]
    for compute, comm, efficiency in [*cases, (10, 10, 0.9), (1, 10, 0.8), (4, 8, 0.9)]:
        fewest = _fewest(efficiency / (1 - efficiency) * comm / compute)
        where = f"compute = {compute:.3g}, comm = {comm:.3g}, efficiency = {efficiency:.3g}"
        given = whole(call(answer, compute, comm, efficiency), "the number of steps")
        if given < 1:
            raise NotYet(f"{where}: at least one step lies between two conversations")
        if given < fewest:
            raise NotYet(f"{where}: {given} steps are too few for that share")
        if given > fewest:
            raise NotYet(f"{where}: fewer than {given} steps are enough ({_ROUNDING})")
    return f"on {len(cases) + 3} machines the fewest steps that keep the share"


@grader("ex-where-the-square-root-is")
def where_the_square_root_is(answer: Any) -> str:
    ranks, gain, best_ranks = items(answer, "(ranks, gain, best_ranks)", 3)
    number(ranks, 100, "ranks", tolerance=1e-9, mistakes={10: "set work/n equal to 1 s"})
    slips = {
        10: "that is the square root; divide the two times",
        100: "communication is missing",
        50: "the single rank pays for communication as well: 'one included'",
        101: "the step on those ranks has communication, too",
    }
    number(gain, 50.5, "gain", tolerance=1e-3, mistakes=slips)
    function(best_ranks, "best_ranks(work, fixed, per_rank)")
    draw = random.Random(9)
    cases = [
        (draw.uniform(0.1, 300), draw.uniform(0, 5), 10 ** draw.uniform(-4, 1)) for _ in "x" * 25
    ]
    for work, fixed, per_rank in [*cases, (1.0, 0.0, 8.0), (6.0, 1.0, 1.0)]:
        where = f"best_ranks({work:.4g}, {fixed:.4g}, {per_rank:.4g})"
        given = whole(call(best_ranks, work, fixed, per_rank), where)
        if given < 1:
            raise NotYet(f"{where}: {given} ranks; at least one must work")

        def time(n, work=work, fixed=fixed, per_rank=per_rank):
            return work / n + fixed + per_rank * n

        near = max(1, math.isqrt(math.ceil(work / per_rank)) - 2)
        least = min(map(time, range(near, near + 6)))
        if time(given) > least * (1 + 1e-12):
            side = "fewer" if given > math.sqrt(work / per_rank) else "more"
            raise NotYet(f"{where}: {side} than {given} ranks are faster")
    return "a speedup far above the square root, and the number of ranks that pays"


def _finish(backward, messages, *, last_first=True, early=False, alone=True) -> float:
    """When the last message of a backward pass has arrived, or when its mistakes say so."""
    computed = sent = 0.0
    turn = -1 if last_first else 1
    for work, message in zip(backward[::turn], messages[::turn], strict=True):
        ready = computed if early else computed + work
        sent = max(sent, ready) + message if alone else max(sent, ready + message)
        computed += work
    return sent


@grader("ex-repair-overlap")
def repair_overlap(answer: Any) -> str:
    function(answer, "step_time(backward, messages)")
    draw = random.Random(10)
    cases = [([5e-3] * 96, [1e-3] * 96), ([1.0] * 3, [0.0, 2.0, 0.0]), ([1.0, 5.0], [2.0, 0.0])]
    for _ in range(30):
        layers, scale = draw.randrange(1, 9), draw.choice([0.2, 1, 5])
        backward = [draw.uniform(0.1, 2) for _ in range(layers)]
        cases.append((backward, [scale * draw.uniform(0.1, 2) for _ in range(layers)]))
    given = [real(call(answer, list(b), list(m)), "the returned time", "s") for b, m in cases]
    if _all_close(given, cases, _finish):
        return f"{len(cases)} backward passes, none faster than its computing or its messages"
    early, order = "a message leaves before its gradient is computed", "the last layer comes first"
    both = "two messages are on the network at once"
    hints: list[tuple[Callable, str]] = [
        (
            lambda b, m: _finish(b, m, last_first=False, early=True, alone=False),
            "as on the page: there are three mistakes",
        ),
        (lambda b, m: _finish(b, m, early=True), early),
        (lambda b, m: _finish(b, m, alone=False), both),
        (lambda b, m: _finish(b, m, last_first=False), f"in a backward pass {order}"),
        (lambda b, m: _finish(b, m, last_first=False, early=True), f"{early}, and {order}"),
        (lambda b, m: _finish(b, m, last_first=False, alone=False), f"{both}, and {order}"),
        (lambda b, m: _finish(b, m, early=True, alone=False), f"{early}, and {both}"),
        (lambda b, m: sum(b) + sum(m), "nothing is hidden any more"),
        (lambda b, m: max(sum(b), sum(m)), "that is the bound: what hides the last message?"),
    ]
    for wrong, hint in hints:
        if _all_close(given, cases, wrong):
            raise NotYet(hint)
    for value, (backward, messages) in zip(given, cases, strict=True):
        short = (1 - 1e-9) * value if value else 0.0
        if short < sum(backward) * (1 - 1e-6):
            raise NotYet(f"a step of {len(backward)} layers ends before its computing")
        if short < sum(messages) * (1 - 1e-6):
            raise NotYet(f"a step of {len(backward)} layers ends before its messages")
    for value, case in zip(given, cases, strict=True):
        if not math.isclose(value, _finish(*case), rel_tol=1e-9):
            side = "long" if value > _finish(*case) else "short"
            raise NotYet(f"a step of {len(case[0])} layers is too {side}")
    raise NotYet("some steps are slightly off")


def _all_close(given, cases, reference) -> bool:
    return all(
        math.isclose(value, reference(*case), rel_tol=1e-9)
        for value, case in zip(given, cases, strict=True)
    )


@grader("ex-moves-and-removals")
def moves_and_removals(answer: Any) -> str:
    function(answer, "kind(before, after)")
    draw = random.Random(11)
    for size in (2, 3, 3, 4) * 12:
        before = [draw.randrange(1, 9) for _ in range(size)]
        after = [b + draw.choice([-0.5, 0, 0, 0.5]) for b in before]
        falls = any(a < b for a, b in zip(after, before, strict=True))
        rises = any(a > b for a, b in zip(after, before, strict=True))
        right = {(1, 0): "removal", (1, 1): "move", (0, 1): "loss", (0, 0): "nothing"}[falls, rises]
        given = call(answer, tuple(before), tuple(after))
        if given != right:
            some = {True: "something", False: "nothing"}
            raise NotYet(
                f"{before} becomes {after}, {some[falls]} falls and {some[rises]} rises: "
                f"that is no {str(given)!r}"
            )
    return "48 changes, by what falls and what rises"
