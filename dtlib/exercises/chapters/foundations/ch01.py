"""The exercises of chapter 1, One machine is not enough, in the order of its page."""

import math
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, functions, items, number, real, whole
from dtlib.exercises.verdict import NotYet

# fmt: off
GiB, DAY = 2**30, 86400

thirteen_billion = Numbers(
    "ex-thirteen-billion",
    About("Thirteen billion", "compute", 1, 3, "count the bytes of a training state", ("x1.1",)),
    [
        Asked("state", 16 * 13e9, "bytes", {
              2 * 13e9: "those are the weights alone",
              8 * 13e9: "the optimizer keeps numbers of four bytes",
              12 * 13e9: "that is the optimizer's part; weights and gradients are kept, too",
              18 * 13e9: "that is with gradients of four bytes",
              16 * 13: "in bytes, please"}, tolerance=1e-6),
        Asked("cards", 3, "", {2: "do they hold all of it?", 4: "would one fewer not hold it?",
              16 * 13 / 80: "there are only whole cards"}, tolerance=1e-9),
    ],
    "sixteen bytes for each of thirteen billion, and the cards that hold them",
)

_DAYS = 6 * 7e9 * 2e12 / (989e12 * 0.5) / DAY

half_of_the_rated_speed = Numbers(
    "ex-half-of-the-rated-speed",
    About("Half of the rated speed", "compute", 1, 5,
          "turn parameters and tokens into days", ("x1.2",)),
    [
        Asked("days", _DAYS, "days", {
              _DAYS / 3: "that is the forward pass; the backward pass is twice as much",
              _DAYS / 2: "at half of the rated speed it takes longer, not shorter: is the MFU used",
              _DAYS / 4: "the MFU divides the speed, so the time grows",
              _DAYS * 24: "in days, please", _DAYS * DAY: "in days, please"}),
        Asked("gpus", 66, "", {65: "they would not be done in 30 days",
              67: "that is more than are needed", _DAYS / 30: "a whole number"}, tolerance=1e-9),
    ],
    "the days of one GPU, and the GPUs of one month",
)

lost_compared_with_what = Numbers(
    "ex-lost-compared-with-what",
    About("Lost, compared with what?", "compute", 1, 8, "name the baseline of a loss", ("x1.3",)),
    [
        Asked("saved", 3e6, "", {
              1.5e6: "the cost goes like 1/MFU: compare GPU-hours, not percentage points",
              10e6 * (0.5 / 0.35 - 1): "that is what the lost tokens would have cost on top",
              7e6: "that is what the run would have cost", 3.0: "in dollars, please",
              6.5e6: "that compares with the rated speed"}),
        Asked("times_the_tokens", 0.5 / 0.35, "", {0.35 / 0.5: "more tokens, not fewer",
              0.5 / 0.35 - 1: "how many times as many, not how many more",
              1.15: "fifteen percentage points are not fifteen per cent",
              1.3: "the money is the same; it is the hours that become cheaper"}),
        Asked("saved_at_peak", 6.5e6, "", {3.5e6: "that is what the run would have cost",
              6.5: "in dollars, please", 3e6: "that compares with an MFU of 50 %"}),
    ],
    "three numbers, one run, three baselines", keyed=True,
)


def _training_days(params, tokens, gpus, tflops, mfu, *, work=6, once=0, power=1, day=DAY):
    return (work * tokens + once) * params / (gpus * tflops * 1e12 * mfu**power) / day


repair_training_days = Formula(
    "ex-repair-training-days",
    About("An estimate with three mistakes", "repair", 2, 10,
          "check an estimate's units and factors", ("Def.14",)),
    "training_days(params, tokens, gpus, tflops, mfu)", _training_days,
    lambda: [("", (70e9, 15e12, 256, 312, 0.4)), ("", (7e9, 2e12, 1, 989, 0.5)),
             ("", (405e9, 15.6e12, 16384, 989, 0.41)), ("", (1e9, 20e9, 8, 19.5, 0.2))],
    same_number, "four runs, from one GPU to sixteen thousand",
    {
        "the result is still in hours": {"day": 3600},
        "the backward pass happens for every token, too": {"work": 2, "once": 4},
        "a higher MFU makes your run slower": {"power": -1},
        "backward is twice the forward pass": lambda *run: _training_days(*run, work=4),
        "the MFU has no effect": lambda *run: _training_days(*run, power=0),
    },
)


def _largest_model(P, memory, peak, mfu, seconds, r, *, each=16, work=6, root=0.5, pick=min):
    walls = {"memory": P * memory / each, "time": (seconds * P * peak * mfu / (work * r)) ** root}
    wall = pick(walls, key=walls.get)
    return walls[wall], wall


def _clusters() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(5)
    for _ in range(40):
        P, r = 2 ** draw.randrange(0, 15), draw.choice([1, 5, 20, 200, 2000])
        memory, peak = draw.choice([40, 80, 192]) * GiB, draw.choice([312, 989, 2250]) * 1e12
        mfu, seconds = draw.uniform(0.1, 0.6), draw.choice([1, 7, 90, 365]) * DAY
        yield f"P = {P}, {r} tokens for every parameter", (P, memory, peak, mfu, seconds, r)


def _same_wall(given: Any, right: tuple, *cluster: float) -> None:
    params, wall = items(given, "(params, wall)", 2)
    if wall not in ("memory", "time"):
        raise NotYet(f"the wall must be 'memory' or 'time', got {wall!r}")
    if wall != right[1]:
        raise NotYet("the other wall stops it")
    number(params, right[0], "params", tolerance=1e-6)


which_wall = Function(
    "ex-which-wall",
    About("Which wall?", "derive", 2, 10, "find the limit that binds"),
    "largest_model(P, memory, peak, mfu, seconds, tokens_per_param)",
    _largest_model, _clusters, _same_wall,
    "on 40 machines the nearer wall, and where it stands",
    {
        "a model must pass both walls, so the nearer one decides": {"pick": max},
        "two bytes for a parameter are the weights alone": {"each": 2},
        "the backward pass is twice the forward pass": {"work": 2},
        "the tokens grow with the model: the work is a square":
            lambda *cluster: _largest_model(*cluster, root=1),
        "the state is split among all of them": lambda P, m, *rest: _largest_model(P, m / P, *rest),
        "is the MFU used?": lambda P, m, peak, mfu, *rest: _largest_model(P, m, peak, 1, *rest),
    },
)

_ROUNDING = "a quotient that should be whole may come out a rounding error above it"


def _fewest(quotient: float) -> int:
    """The least whole number that is not below a quotient, whose last bits are rounded."""
    return max(1, math.ceil(quotient * (1 - 1e-9)))


def _enough(rho: float, share: float) -> int:
    return 1 if share <= rho else _fewest(share / (1 - share) / rho)


def _speedup(P: int, rho: float) -> float:
    return 1.0 if P == 1 else P / (1 + P * rho)


def _limit_law(answer: Any) -> None:
    speedup, enough = functions(answer, "speedup(P, rho)", "enough(rho, share)")
    for rho, P in product((0.7, 1.0, 0.1, 0.02, 0.003), (2, 3, 8, 64, 1000, 1)):
        number(call(speedup, P, rho), _speedup(P, rho), f"speedup({P}, {rho})", tolerance=1e-9,
               mistakes={
                   P / (1 + P * rho): "one rank alone says nothing",
                   P / (1 + (P - 1) * rho): "Amdahl's formula, in which rho is part of the work",
                   P * (1 + rho) / (1 + P * rho): "a single rank is charged for communication here",
                   float(P): "communication is missing"})
    for rho, share in product((0.003, 0.01, 0.05, 0.1, 0.6, 0.9), (0.35, 0.5, 0.8, 0.9, 0.99)):
        where, fewest = f"enough({rho}, {share})", _enough(rho, share)
        given = whole(call(enough, rho, share), where)
        if given < fewest:
            raise NotYet(f"{where}: {given} ranks do not reach that share of the limit")
        if given > fewest:
            why = "one alone does not communicate" if fewest == 1 else _ROUNDING
            raise NotYet(f"{where}: fewer than {given} ranks are enough ({why})")


half_of_the_limit = Made(
    "ex-half-of-the-limit",
    About("Half of the limit", "derive", 2, 10,
          "derive a speedup and what reaches a share of its limit", ("Def.20", "T.5")),
    _limit_law, lambda: (_speedup, _enough),
    "speedups up to a thousand ranks, and the fewest that reach a share of the limit",
    {
        "Amdahl's formula": lambda: (lambda P, rho: P / (1 + (P - 1) * rho), _enough),
        "is charged": lambda: (lambda P, rho: P * (1 + rho) / (1 + P * rho), _enough),
        "one rank alone says nothing": lambda: (lambda P, rho: P / (1 + P * rho), _enough),
        "do not reach": lambda: (_speedup, lambda rho, x: math.ceil(x / rho)),
        "one alone does not": lambda: (_speedup, lambda rho, x: _fewest(x / (1 - x) / rho)),
        "a rounding error": lambda: (_speedup, lambda rho, x: math.ceil(x / (1 - x) / rho)),
    },
)


def _bound_law(answer: Any) -> None:
    work, comm, P = items(answer, "(work, comm, P)", 3)
    work, comm, P = real(work, "work", "s"), real(comm, "comm", "s"), whole(P, "P")
    if work <= 0 or comm < 0 or P < 1:
        raise NotYet("work must be positive, comm not negative, and P at least 1")
    before, after = work / P + comm, work / (4 * P) + comm
    if comm < 0.1 * after * (1 - 1e-9):
        raise NotYet("on 4P ranks less than a tenth of the step is communication")
    if before / after <= 3:
        raise NotYet("from P to 4P ranks this step does not become three times as fast")


four_times_the_workers = Made(
    "ex-four-times-the-workers",
    About("Four times the workers", "derive", 2, 8, "refute a bound by an example", ("A.8",)),
    _bound_law, lambda: (100.0, 0.3, 10),
    "a step that refutes the bound, with its communication counted",
    {"less than a tenth": lambda: (100.0, 0.0, 10), "must be positive": lambda: (0, 1, 1),
     "three times as fast": lambda: (100.0, 5.0, 10)},
)


def _steps_between(compute: float, comm: float, efficiency: float) -> int:
    return _fewest(efficiency / (1 - efficiency) * comm / compute)


def _same_steps(given: Any, right: int, *step: float) -> None:
    given = whole(given, "the number of steps")
    if given != right:
        raise NotYet(f"{given} steps are {'too few' if given < right else 'more than it takes'}")


talk_less_often = Function(
    "ex-talk-less-often",
    About("Talk less often", "derive", 2, 8, "spread communication over several steps", ("A.18",)),
    "steps_between(compute, comm, efficiency)", _steps_between,
    lambda: (("", s) for s in product((0.7, 1, 2, 4, 7, 10, 19), (0.05, 8, 10), (0.3, 0.8, 0.9))),
    _same_steps,
    "on 63 machines the fewest steps that keep the share",
    {
        "the share is of all the time, computing and talking":
            lambda compute, comm, share: _fewest(share * comm / compute),
        _ROUNDING: lambda compute, comm, share:
            max(1, math.ceil(share / (1 - share) * comm / compute)),
    },
)


def _best_ranks(work: float, fixed: float, per_rank: float) -> int:
    near = max(1, math.isqrt(math.ceil(work / per_rank)) - 2)
    return min(range(near, near + 6), key=lambda n: work / n + per_rank * n)


def _root_law(answer: Any) -> None:
    ranks, gain, best_ranks = items(answer, "(ranks, gain, best_ranks)", 3)
    Asked("ranks", 100, "", {10: "set work/n equal to 1 s"}, 1e-9).judge(ranks)
    Asked("gain", 50.5, "", {
          10: "that is the square root; divide the two times", 100: "communication is missing",
          50: "the single rank pays for communication as well: 'one included'",
          101: "the step on those ranks communicates, too"}, 1e-3).judge(gain)
    function(best_ranks, "best_ranks(work, fixed, per_rank)")
    for work, fixed, c in product((0.3, 1.0, 6.0, 290.0), (0.0, 1.0, 4.0), (2e-4, 0.1, 1.0, 8.0)):
        where, least = f"best_ranks({work}, {fixed}, {c})", _best_ranks(work, fixed, c)
        given = whole(call(best_ranks, work, fixed, c), where)
        if given < 1:
            raise NotYet(f"{where}: {given} ranks; at least one must work")
        if work / given + c * given > (work / least + c * least) * (1 + 1e-12):
            raise NotYet(f"{where}: {'fewer' if given > least else 'more'} than {given} are faster")


where_the_square_root_is = Made(
    "ex-where-the-square-root-is",
    About("Where the square root is", "derive", 3, 20,
          "tell a floor from a rate", ("B.17", "T.10")),
    _root_law, lambda: (100, 50.5, _best_ranks),
    "a speedup far above the square root, and the number of ranks that pays",
    {
        "set work/n equal": lambda: (10, 50.5, _best_ranks),
        "that is the square root": lambda: (100, 10, _best_ranks),
        "one included": lambda: (100, 50, _best_ranks),
        "more than": lambda: (100, 50.5, lambda w, fixed, c: max(1, int(math.sqrt(w / c)))),
        "are faster": lambda: (100, 50.5, lambda w, fixed, c: _best_ranks(w, fixed, c + fixed)),
    },
)


def _step_time(backward, messages, *, last_first=True, early=False, alone=True) -> float:
    """When the last message of a backward pass has arrived."""
    computed = sent = 0.0
    turn = -1 if last_first else 1
    for work, message in zip(backward[::turn], messages[::turn], strict=True):
        ready = computed if early else computed + work
        sent = max(sent, ready) + message if alone else max(sent, ready + message)
        computed += work
    return sent


def _passes() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(10)
    passes = [([5e-3] * 96, [1e-3] * 96), ([1.0] * 3, [0.0, 2.0, 0.0]), ([1.0, 5.0], [2.0, 0.0])]
    for _ in range(30):
        layers, scale = draw.randrange(1, 9), draw.choice([0.2, 1, 5])
        backward = [draw.uniform(0.1, 2) for _ in range(layers)]
        passes.append((backward, [scale * draw.uniform(0.1, 2) for _ in range(layers)]))
    for step in passes:
        yield f"a step of {len(step[0])} layers", step


def _same_time(given: Any, right: float, backward: list, messages: list) -> None:
    given = real(given, "the returned time", "s")
    if math.isclose(given, right, rel_tol=1e-9):
        return
    for what, bound in (("computing", sum(backward)), ("messages", sum(messages))):
        if given < bound * (1 - 1e-6):
            raise NotYet(f"it ends before its {what}")
    raise NotYet(f"it is too {'long' if given > right else 'short'}")


repair_overlap = Function(
    "ex-repair-overlap",
    About("A step faster than its own computing", "repair", 3, 20,
          "simulate overlap within its bounds", ("C.10",)),
    "step_time(backward, messages)", _step_time, _passes, _same_time,
    "33 backward passes, none faster than its computing or its messages",
    {
        "a message leaves before its gradient is computed": {"early": True},
        "two messages are on the network at once": {"alone": False},
        "in a backward pass the last layer comes first": {"last_first": False},
        "nothing is hidden any more": lambda b, m: sum(b) + sum(m),
        "that is the bound: what hides the last message?": lambda b, m: max(sum(b), sum(m)),
    },
)


def _kind(before: tuple, after: tuple) -> str:
    falls = any(a < b for a, b in zip(after, before, strict=True))
    rises = any(a > b for a, b in zip(after, before, strict=True))
    return {(1, 0): "removal", (1, 1): "move", (0, 1): "loss", (0, 0): "nothing"}[falls, rises]


def _changes() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(11)
    for size in (2, 3, 3, 4) * 12:
        before = tuple(draw.randrange(1, 9) for _ in range(size))
        after = tuple(b + draw.choice([-0.5, 0, 0, 0.5]) for b in before)
        yield f"{before} becomes {after}", (before, after)


def _same_kind(given: Any, right: str, before: tuple, after: tuple) -> None:
    if given != right:
        raise NotYet(f"that is no {str(given)!r}: what falls, and what rises?")


moves_and_removals = Function(
    "ex-moves-and-removals",
    About("Moves and removals", "derive", 2, 10, "compare techniques on a Pareto front"),
    "kind(before, after)", _kind, _changes, _same_kind,
    "48 changes, by what falls and what rises",
    {"operations and bytes have no sum: compare each by itself":
        lambda before, after: "removal" if sum(after) < sum(before) else "move"},
)
