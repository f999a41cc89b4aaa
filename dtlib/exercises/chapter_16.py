"""Graders of chapter 16, Pipeline Parallelism."""

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, unaided, whole
from dtlib.exercises.pipelines import built
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import simulate

GB, MB = 10**9, 10**6
BUILDERS = "dtlib.parallelism.pipeline.builders", "dtlib.parallelism.pipeline.v_shaped"


@grader("ex-whole-or-work")
def whole_or_work(answer: Any) -> str:
    given = _named(answer, "one_f_one_b", "interleaved", "interleaved_on_top")
    right = {"one_f_one_b": 7 / 55, "interleaved": 7 / 103, "interleaved_on_top": 7 / 96}
    mistakes = {
        "one_f_one_b": {7 / 48: "that is on top of the work, not of the whole step"},
        "interleaved": {
            7 / 96: "that is on top of the work, not of the whole step",
            7 / 110: "half of the share is not the share of half: the whole step shrinks as well",
        },
        "interleaved_on_top": {7 / 103: "that is of the whole step", 7 / 48: "stages are shorter"},
    }
    for name, value in given.items():
        percent = {100 * right[name]: "as a share, please, not in percent"}
        number(value, right[name], name, mistakes=mistakes[name] | percent)
    return "two shares of the whole that may be compared, and one on top of the work"


@grader("ex-what-stages-hold")
def what_stages_hold(answer: Any) -> str:
    all_forward, alternating = items(answer, "(GPipe, 1F1B)", 2)
    for name, given, right in (
        ("GPipe", all_forward, [16] * 4),
        ("1F1B", alternating, [4, 3, 2, 1]),
    ):
        values = items(given, name, 4)
        found = [real(v, f"{name}, rank {r}", "bytes") / (32 * MB) for r, v in enumerate(values)]
        if found == right[::-1] and found != right:
            raise NotYet(f"{name}: upside down; which rank waits longest for its first gradient?")
        if found == [3, 2, 1, 0]:
            raise NotYet(f"{name}: one more forward pass follows the warm-up before a gradient")
        for rank, (value, held) in enumerate(zip(found, right, strict=True)):
            number(32 * MB * value, 32 * MB * held, f"{name}, rank {rank}", "bytes")
    return "bytes held on four ranks, by two schedules that take equally long"


@grader("ex-three-phases")
def three_phases(answer: Any) -> str:
    given = _named(answer, "fill", "all_busy", "drain", "idle")
    turns = {"fill": 7, "all_busy": 9, "drain": 7}
    for name, count in turns.items():
        mistakes = {
            0.05 * (count + 1): "count the turns, not the ranks",
            0.05 * 16: "the last ranks are still filling when the first micro-batches pass",
            50.0 * count: "in seconds, please",
        }
        number(given[name], 0.05 * count, name, "s", mistakes=mistakes)
    mistakes = {
        14 / 23: "that is the time in which some rank waits; count all ranks' time",
        8 / 16: "stages over micro-batches is no share of anything",
        7 / 16: "that is on top of the work",
    }
    number(given["idle"], 7 / 23, "idle", mistakes=mistakes)
    return "23 turns: some ranks, all ranks, some ranks"


@grader("ex-rate-of-a-pipeline")
def rate_of_a_pipeline(answer: Any) -> str:
    seconds, efficiency, rate = items(answer, "(seconds, efficiency, rate)", 3)
    mistakes = {
        64 * 0.03: "filling and draining take time too",
        72 * 0.03: "p stages have p - 1 boundaries",
        2130.0: "in seconds, please",
    }
    number(seconds, 71 * 0.03, "the step", "s", mistakes=mistakes)
    number(efficiency, 64 / 71, "the efficiency", mistakes={7 / 71: "that is the idle share"})
    mistakes = {1 / 0.03: "that is the rate of a pipeline that is never filled nor drained"}
    number(rate, 64 / 71 / 0.03, "the rate", "1/s", mistakes=mistakes)
    return "one step, its efficiency and its rate"


@grader("ex-fair-bytes")
def fair_bytes(answer: Any) -> str:
    given = _named(answer, "message", "pipeline_rank", "replica_rank")
    message = 2 * 2 * 4096 * 8192
    number(
        given["message"],
        message,
        "message",
        "bytes",
        tolerance=0.001,
        mistakes={message / 2: "a number has two bytes", message / 1.048576: "decimal or binary?"},
    )
    number(
        given["pipeline_rank"],
        64 * message,
        "pipeline_rank",
        "bytes",
        mistakes={
            32 * message: "a rank in the middle sends both ways, forward and back",
            2 * message: "that is one micro-batch",
        },
    )
    number(
        given["replica_rank"],
        2 * 7 / 8 * 17.5 * GB,
        "replica_rank",
        "bytes",
        mistakes={
            140 * GB: "each rank holds an eighth of the model, and an all-reduce sends it twice",
            17.5 * GB: "an all-reduce sends almost twice what a rank holds",
            2 * 7 / 8 * 140 * GB: "each rank holds an eighth of the model",
        },
    )
    return "bytes that one rank sends in one step, for both"


@grader("ex-short-weight-gradients")
def short_weight_gradients(answer: Any) -> str:
    given = _named(answer, "one_f_one_b", "zb_h1", "zb_h2")
    work, lost = 32 * 2.3, {"one_f_one_b": 7 * 2.3, "zb_h1": 7 * 1.7, "zb_h2": 7 * 1.4}
    published = "that counts work as waiting, and it grows with m"
    wrong = {(0.3 * 32 - 7) / (2.3 * 32): published, 0.035: published}
    for name, value in given.items():
        on_top = {lost[name] / work: "divide by the work and the waiting together"}
        undivided = {7 / 39: "the backward pass is divided here"} if name != "one_f_one_b" else {}
        equal = {7 / (32 * 3 + 7): "t_W is 0.3 here, not 1"}
        expected = lost[name] / (work + lost[name])
        number(value, expected, name, mistakes=wrong | on_top | undivided | equal)
    return "what short weight gradients leave of the three schedules' gain"


@grader("ex-cut-the-layers")
def cut_the_layers(answer: Any) -> str:
    function(answer, "cut(times, p)")
    rng = random.Random(16)
    cases = [([10] * 4 + [20] * 4, 4), ([5, 1, 1, 1], 4), ([1, 1, 1, 9], 2), ([3], 1)]
    cases += [([rng.randint(1, 30) for _ in range(n)], p) for n in (5, 7, 9) for p in (2, 3, 4, 5)]
    for times, p in cases:
        where = f"times {times}, p = {p}"
        given = call(answer, list(times), p)
        counts = [whole(c, f"{where}: a count") for c in items(given, f"{where}: the counts", p)]
        if min(counts) < 1:
            raise NotYet(f"{where}: a stage without a layer; every rank needs one")
        if sum(counts) != len(times):
            raise NotYet(f"{where}: {sum(counts)} layers are dealt out, there are {len(times)}")
        ends = [sum(counts[:k]) for k in range(p + 1)]
        slowest = max(sum(times[a:b]) for a, b in pairwise(ends))
        if slowest > _least_slowest(times, p):
            raise NotYet(f"{where}: the slowest stage takes {slowest}, and it can be less")
    return f"the least slowest stage on {len(cases)} models, each cut by trying every cut"


def _least_slowest(times: Sequence[int], p: int) -> int:
    cuts = ((0, *inner, len(times)) for inner in combinations(range(1, len(times)), p - 1))
    return min(max(sum(times[a:b]) for a, b in pairwise(c)) for c in cuts)


@grader("ex-stage-that-remembers-less")
def stage_that_remembers_less(answer: Any) -> str:
    import torch

    from dtlib.exercises.stages import judged_stage

    for seed, leaves in ((0, True), (1, True), (2, False)):
        torch.manual_seed(seed)
        judged_stage(answer, needs_input_gradient=leaves)
    return "two forward passes a micro-batch, nothing kept but the input, every gradient right"


@grader("ex-right-the-warm-up")
def right_the_warm_up(answer: Any) -> str:
    function(answer, "my_1f1b(p, m)")
    for p, m in ((1, 3), (2, 2), (3, 8), (4, 2), (4, 4), (4, 8), (8, 16)):
        where = f"p = {p}, m = {m}"
        with unaided(*BUILDERS, write="the rows"):
            schedule = built(answer, where, p, m, ranks=p, batches=m, stages=p)
        timeline = simulate(schedule)
        if timeline.makespan > 3 * (m + p - 1):
            raise NotYet(f"{where}: legal, but slower than GPipe; which rank waits, and for whom?")
        for rank, held in enumerate(timeline.peak_activations):
            if held > min(m, p - rank):
                raise NotYet(
                    f"{where}: as fast as it can be, but rank {rank} holds {held} micro-batches, "
                    "more than it has to"
                )
    return "on 7 pipelines as fast as GPipe, and no rank holds more than it must"


@grader("ex-shorter-stairs")
def shorter_stairs(answer: Any) -> str:
    function(answer, "my_interleaved(p, m, v)")
    for p, m, v in ((2, 2, 2), (2, 4, 3), (4, 4, 2), (4, 8, 2), (4, 8, 4), (8, 16, 2)):
        where = f"p = {p}, m = {m}, v = {v}"
        with unaided(*BUILDERS, write="the rows"):
            schedule = built(answer, where, p, m, v, ranks=p, batches=m, stages=p * v)
        for rank in range(p):
            if schedule.stages_of(rank) != list(range(rank, p * v, p)):
                raise NotYet(f"{where}: rank {rank} holds stages {schedule.stages_of(rank)}")
        lost = simulate(schedule).makespan - 3 * m
        if lost > Fraction(3 * (p - 1), v):
            raise NotYet(
                f"{where}: legal, but {float(lost):.3g} units are lost; stairs may be shorter"
            )
    return "on 6 pipelines no more is lost than p - 1 steps of the length of one stage"


@grader("ex-against-what")
def against_what(answer: Any) -> str:
    values = items(answer, "(against 1F1B, against GPipe)", 2)
    known = {
        2.0: "a stage has only half of a rank's layers",
        1.0: "rank 0 must run further ahead before its first gradient is back",
        0.5: "that is 1F1B against GPipe",
    }
    for value, right, name in zip(
        values, (11.5 / 8, 11.5 / 16), ("against 1F1B", "against GPipe"), strict=True
    ):
        number(value, right, name, mistakes=known | {1 / right: "turn the fraction round"})
    return "more than one schedule and less than the other: say against what"


@grader("ex-not-quite-linear")
def not_quite_linear(answer: Any) -> str:
    at_32, limit = items(answer, "(at m = 32, limit)", 2)
    full = 8 * 32 / 39
    number(
        at_32,
        full * 3 / 4,
        "at m = 32",
        mistakes={
            full: "eight ranks that recompute do four units of work for every three",
            full * 2 / 3: "the forward pass is one unit of three, and it is repeated once",
        },
    )
    number(
        limit,
        6,
        "the limit",
        mistakes={8: "more micro-batches remove the bubble, and nothing else"},
    )
    return "what is left of eight ranks when the bubble is gone"


@grader("ex-unequal-turns")
def unequal_turns(answer: Any) -> str:
    from dtlib.parallelism.pipeline import gpipe

    function(answer, "step_time(forward, backward, m)")
    rng = random.Random(6)
    for p, m in ((1, 1), (1, 4), (3, 1), (2, 3), (4, 8), (5, 6), (8, 3)):
        forward, backward = ([rng.randint(1, 9) for _ in range(p)] for _ in range(2))
        value = real(call(answer, list(forward), list(backward), m), "the returned time")
        right = simulate(gpipe(p, m), f=forward, b=backward, w=[0] * p).makespan
        where = f"forward {forward}, backward {backward}, m = {m}"
        if value == (m + p - 1) * (max(forward) + max(backward)) != right:
            raise NotYet(f"{where}: too large; a micro-batch is slow only in the slowest stage")
        if value == m * (max(forward) + max(backward)) != right:
            raise NotYet(f"{where}: the pipeline must be filled and drained")
        if value != right:
            side = "large" if value > right else "small"
            raise NotYet(
                f"{where}: too {side}; what does the first micro-batch take, and the next?"
            )
    return "on 7 pipelines of unequal stages your time is that of every action played"


@grader("ex-time-against-memory")
def time_against_memory(answer: Any) -> str:
    function(answer, "front(p, N, a, c)")
    for p, N, a, c in ((4, 16, 10.0, 1.0), (8, 64, 5.0, 0.25), (2, 8, 3.0, 3.0), (4, 12, 7.0, 0.5)):
        where = f"p = {p}, N = {N}, a = {a}, c = {c}"
        given = call(answer, p, N, a, c)
        try:
            points = [tuple(real(x, f"{where}: a point") for x in point) for point in given]
        except TypeError:
            raise NotYet(f"{where}: give a list of points (time, bytes)") from None
        if any(len(point) != 2 for point in points):
            raise NotYet(f"{where}: a point is (time, bytes)")
        _compare_fronts(where, points, _front(p, N, a, c), _choices(p, N, a, c))
    return "on 4 machines every point that nothing beats, and no other"


def _choices(p: int, N: int, a: float, c: float) -> dict[tuple[float, float], str]:
    """Every (time, bytes) that can be had, and how."""
    found = {}
    for m in (k for k in range(1, N + 1) if N % k == 0):
        size = N / m
        for name, held in (("GPipe", m), ("1F1B", min(m, p))):
            found[(m + p - 1) * size * 3, held * size * a] = f"{name}, m = {m}"
            again = (m + p - 1) * size * 4, held * size * c + size * a
            found[again] = f"{name} with recomputation, m = {m}"
    return found


def _front(p: int, N: int, a: float, c: float) -> list[tuple[float, float]]:
    points = list(_choices(p, N, a, c))
    beaten = {x for x in points for y in points if y != x and y[0] <= x[0] and y[1] <= x[1]}
    return [x for x in points if x not in beaten]


def _compare_fronts(where: str, given: list, right: list, choices: dict) -> None:
    def known(point, points):
        return any(all(abs(x - y) <= 1e-6 * max(1, abs(y)) for x, y in zip(point, q, strict=True))
                   for q in points)  # fmt: skip

    for point in given:
        if not known(point, choices):
            raise NotYet(f"{where}: no schedule gives time {point[0]:.6g} and {point[1]:.6g} bytes")
        if not known(point, right):
            raise NotYet(f"{where}: time {point[0]:.6g}, bytes {point[1]:.6g} is beaten by another")
    missing = [point for point in right if not known(point, given)]
    if missing:
        raise NotYet(f"{where}: nothing that you list is wrong, but {len(missing)} are missing")


def _named(answer: Any, *names: str) -> dict[str, Any]:
    """``answer`` as a dict with these names, in this order."""
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    return {name: answer[name] for name in names}
