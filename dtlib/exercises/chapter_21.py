"""Graders of chapter 21, Recomputing activations."""

import random
from functools import cache
from itertools import chain as chained
from itertools import combinations
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, unaided, whole
from dtlib.exercises.verdict import NotYet
from dtlib.memory.recompute.planner import best_schedule
from dtlib.memory.recompute.schedule import (
    RecomputeError,
    RecomputeSchedule,
    check_recompute,
    fewest_advances,
    revolve,
    revolve_advances,
    uniform,
)
from dtlib.memory.recompute.simulation import Chain, simulate_recompute

GB, MiB = 1e9, 2.0**20


@grader("ex-forty-eight-layers")
def forty_eight_layers(answer: Any) -> str:
    held, best, least, share = items(answer, "(bytes_6, best_k, bytes_best, share)", 4)
    number(held, 218, "the bytes for segments of six", tolerance=0.003, mistakes={
        220: "the last segment is taped at once: its input needs no slot",
        206: "the inputs take 2 bytes for each number, and there are several of them",
        212: "a layer's 34 bytes include its own input; the other segments' inputs come on top",
    })  # fmt: skip
    if whole(best, "the best length") == 7:
        raise NotYet("the best length: that is the root of 48, for layers that keep only an input")
    if whole(best, "the best length") != 2:
        raise NotYet("the best length is another: try the whole numbers one after the other")
    number(least, 114, "the bytes at the best length", mistakes={
        116: "the last segment is taped at once: its input needs no slot",
    })  # fmt: skip
    number(share, (1 - 2 / 48) / 3, "the share of work", mistakes={
        1 - 2 / 48: "that is a share of the forward pass; a step has three times its work",
        1 / 3: "the last segment is not run again",
        (1 - 1 / 48) / 3: "that is for segments of one layer",
    })  # fmt: skip
    return "two layers in a segment, where the root of the layers says seven"


@grader("ex-a-step-of-100-ms")
def a_step_of_100_ms(answer: Any) -> str:
    a, b, c = items(answer, "(seconds_a, seconds_b, seconds_c)", 3)
    unit = "in seconds, please"
    number(a, 0.4 / 3, "(a)", "s", mistakes={
        0.2: "one more forward pass, not one more step",
        0.15: "the forward pass is a third of the step, not half",
        0.125: "that is for a backward pass of three times the forward pass",
        400 / 3: unit,
    })  # fmt: skip
    number(b, 0.125, "(b)", "s", mistakes={
        0.4 / 3: "here the backward pass takes three forward passes, so a step takes four",
        125: unit,
    })  # fmt: skip
    number(c, 0.125, "(c)", "s", mistakes={
        0.4 / 3: "the last quarter of the layers is not run again",
        0.1 + 0.1 / 12: "a quarter is spared, three quarters are run again",
        125: unit,
    })  # fmt: skip
    return "a forward pass more, of whatever share of the step it has"


@grader("ex-drop-the-scores")
def drop_the_scores(answer: Any) -> str:
    a, b, c = items(answer, "(bytes_a, bytes_b, share_c)", 3)
    number(a, 5248 * MiB, "(a)", "B", tolerance=0.004, mistakes={
        2624 * MiB: "16-bit numbers take two bytes each",
        (5248 - 4096 + 128) * MiB: "there is a score for every pair of tokens, in every head",
        1280 * MiB: "there is a score for every pair of tokens, in every head",
        5248: "in bytes, please",
    })  # fmt: skip
    number(b, 1152 * MiB, "(b)", "B", tolerance=0.004, mistakes={
        576 * MiB: "16-bit numbers take two bytes each",
        1152: "in bytes, please",
        640 * MiB: "only the scores are dropped; the inner numbers are kept",
    })  # fmt: skip
    number(c, 4 / 84, "(c)", mistakes={
        2 / 84: "the core is two products: scores, and the mix of values",
        4 / 28: "that is a share of the forward pass; a step has three times its work",
        4 / 88: "compare with the step without the repeat",
    })  # fmt: skip
    return "four fifths of the bytes for a twentieth of the work"


@grader("ex-eight-bit-states")
def eight_bit_states(answer: Any) -> str:
    a, b, error = items(answer, "(ratio_a, ratio_b, error)", 3)
    number(a, 10 / 13, "(a)", mistakes={
        0.5: "only the kept inputs shrink; the tapes are made again in 16 bits",
        10.5 / 14: "the last segment is taped at once: its input needs no slot",
        1.3: "the other way up: new over old",
    })  # fmt: skip
    number(b, 81 / 128, "(b)", mistakes={
        0.5: "only the kept inputs shrink; the tapes are made again in 16 bits",
        82 / 130: "the last segment is taped at once: its input needs no slot",
        128 / 81: "the other way up: new over old",
    })  # fmt: skip
    number(error, 0.0236, "the mean error", tolerance=0.1, mistakes={
        0.0625: "that is the largest error, not the mean",
        2.26: "as a share, not in percent",
    })  # fmt: skip
    return "states may be coarser, but then the tape is no longer the same"


@grader("ex-needed-and-done")
def needed_and_done(answer: Any) -> str:
    a, b = items(answer, "(mfu, layers)", 2)
    done = (3 + 79 / 80) / 3
    number(a, 0.52 / done, "the MFU", tolerance=0.001, mistakes={
        0.52 * 3 / 4: "nearly: the last layer is not run again",
        0.52 * done: "the machine does more than the model needs, not less",
        0.52 / 2: "one more forward pass, not one more step",
        52 / done: "as a share, not in percent",
    })  # fmt: skip
    number(b, 160 / 3, "the layers", tolerance=0.02, mistakes={
        80 / 3: "those are the layers that run again",
        9: "the root does not come in",
        40: "a third of a forward pass is repeated",
    })  # fmt: skip
    return "what is done is not what is needed"


@grader("ex-longest-that-fits")
def longest_that_fits(answer: Any) -> str:
    function(answer, "longest(layers, state_bytes, layer_bytes, budget)")
    draw = random.Random(21)
    cases = [(80, 2, 34, budget) for budget in (95, 192, 193, 194, 500, 2719, 2720)]
    for _ in range(60):
        layers, state = draw.randint(1, 24), draw.randint(1, 9)
        layer = state * draw.randint(1, 12)
        cases.append((layers, state, layer, draw.randint(state, layers * layer + 9)))
    for case in cases:
        try:
            _judge_longest(answer, case)
        except NotYet as said:
            raise NotYet(f"{case}: {said}") from None
    return f"the least work that fits, in {len(cases)} chains"


def _judge_longest(answer, case):
    layers, state, layer, budget = case
    peaks = _peaks(layers, state, layer)
    fitting = [k for k in peaks if peaks[k] <= budget]
    try:
        found = answer(*case)
    except Exception as error:
        raise NotYet(f"raises {type(error).__name__}: {error}") from None
    if found is Ellipsis or (found is None and fitting):
        raise NotYet("there is a length that fits, but your function returns none")
    if not fitting:
        if found is not None:
            raise NotYet("nothing fits: return None")
        return
    found = whole(found, "the length")
    if found not in peaks:
        raise NotYet(f"a segment of {found} layers, in a chain of {layers}")
    if found not in fitting:
        raise NotYet(f"segments of {found} hold more than the budget")
    if found != fitting[-1]:
        raise NotYet(f"segments of {found} fit, but longer ones do too, and repeat less")


@cache
def _peaks(layers: int, state: int, layer: int) -> dict[int, int]:
    """The peak in bytes of each length of segment."""
    chain = Chain.equal(layers, state, layer - state)
    return {k: simulate_recompute(uniform(layers, k), chain).peak_bytes
            for k in range(1, layers + 1)}  # fmt: skip


@grader("ex-four-corners-of-a-pipeline")
def four_corners_of_a_pipeline(answer: Any) -> str:
    a, b, c, d = items(answer, "(bytes_a, bytes_b, bytes_c, bytes_d)", 4)
    unit = "in bytes, please"
    number(a, 163.2 * GB, "(a)", "B", mistakes={
        652.8 * GB: "under 1F1B the first stage holds p micro-batches, not m",
        20.4 * GB: "that is one micro-batch",
        163.2: unit,
    })  # fmt: skip
    number(b, 11.2 * GB, "(b)", "B", tolerance=0.004, mistakes={
        9.6 * GB: "while a layer is repeated its tape is there as well",
        22.4 * GB: "the workspace is one for all micro-batches: one goes back at a time",
        23.2 * GB: "the workspace is one for all micro-batches: one goes back at a time",
        11.3 * GB: "the input of the layer that is repeated is counted twice",
        11.2: unit,
    })  # fmt: skip
    number(c, 3.9 * GB, "(c)", "B", mistakes={
        8.1 * GB: "that is the first stage; the last has fewer micro-batches under way",
        2.2 * GB: "a segment of two layers has two tapes",
        4.0 * GB: "the input of the segment that is repeated is counted twice",
        3.9: unit,
    })  # fmt: skip
    number(d, 40 * GB, "(d)", "B", mistakes={
        11.2 * GB: "GPipe sends all micro-batches forward before the first goes back",
        38.4 * GB: "while a layer is repeated its tape is there as well",
        40: unit,
    })  # fmt: skip
    return "inputs for each micro-batch under way, and one workspace"


@grader("ex-along-which-axis")
def along_which_axis(answer: Any) -> str:
    a, b, c = items(answer, "(share_a, share_b, share_c)", 3)
    for name, value, m in (("(a)", a, 16), ("(b)", b, 256)):
        number(value, (m * 1.2 + 1.6) / (m * 20.4), name, tolerance=0.004, mistakes={
            m**-0.5: "that is what the rule says, not what is held",
            1 / 17: "while a layer is repeated its tape is there as well",
            m * 20.4 / (m * 1.2 + 1.6): "the other way up",
            (m * 1.2 + m * 1.6) / (m * 20.4): "one workspace serves all micro-batches",
            (m * 1.2 + 1.7) / (m * 20.4): "the input of the repeated layer is counted twice",
        })  # fmt: skip
    number(c, 0.25, "(c)", mistakes={1 / 16: "that is for 256", 4: "the other way up"})
    return "every micro-batch keeps its own inputs: the saving is per layer"


@grader("ex-knapsack-of-a-layer")
def knapsack_of_a_layer(answer: Any) -> str:
    function(answer, "keep(operations, budget)")
    draw = random.Random(5)
    cases = [
        ({"scores": (4096, 2), "product": (512, 8), "gelu": (512, 0)}, 600),
        ({"a": (6, 60), "b": (5, 49), "c": (5, 49)}, 10),
        ({"a": (10, 10), "b": (1, 2)}, 10),
        ({"a": (3, 1)}, 2),
    ]
    for _ in range(25):
        names = "abcdefgh"[: draw.randint(1, 8)]
        ops = {name: (draw.randint(1, 30), draw.randint(0, 40)) for name in names}
        cases.append((ops, draw.randint(0, sum(size for size, _ in ops.values()))))
    for operations, budget in cases:
        given = {**operations}
        found = call(answer, given, budget)
        where = f"{operations}, {budget}"[:150]
        if isinstance(found, str | dict) or not hasattr(found, "__iter__"):
            raise NotYet(f"return the names that are kept, got {type(found).__name__}")
        kept = list(found)
        unknown = [name for name in kept if name not in operations]
        if unknown or len(set(kept)) != len(kept):
            raise NotYet(f"{where}: {unknown or kept} are not names, each once")
        if sum(operations[name][0] for name in kept) > budget:
            raise NotYet(f"{where}: what is kept does not fit")
        saved = sum(operations[name][1] for name in kept)
        subsets = chained.from_iterable(
            combinations(operations.values(), n) for n in range(len(operations) + 1)
        )
        best = max(sum(w for _, w in s) for s in subsets if sum(b for b, _ in s) <= budget)
        if saved < best:
            raise NotYet(f"{where}: it fits, but another choice spares more work than {kept}")
    return f"the most work spared within the budget, for {len(cases)} layers"


@grader("ex-your-own-revolve")
def your_own_revolve(answer: Any) -> str:
    function(answer, "my_plan(layers, slots)")
    cases = [(1, 1), (2, 1), (3, 1), (5, 1), (2, 2), (3, 2), (4, 2), (6, 2), (7, 3), (10, 2)]
    cases += [(10, 3), (11, 3), (16, 4), (20, 3), (32, 2), (32, 3), (32, 5), (12, 12), (9, 20)]
    for layers, slots in cases:
        where = f"{layers} layers, {slots} slots"
        fewest_advances.cache_clear()
        own = (revolve, revolve_advances, fewest_advances.__wrapped__, best_schedule)
        with unaided(*own, write="the plan"):
            given = call(answer, layers, slots)
        try:
            actions = given.split() if isinstance(given, str) else [str(a) for a in given]
            schedule = RecomputeSchedule("your plan", layers, tuple(actions))
            check_recompute(schedule)
        except (RecomputeError, TypeError) as error:
            raise NotYet(f"{where}: {error}"[:280]) from None
        cost = simulate_recompute(schedule, Chain.equal(layers, 1, 10))
        if cost.peak_slots > slots:
            raise NotYet(f"{where}: {cost.peak_slots} states are kept at once")
        if any(a.kind == "T" and a.stop - a.start > 1 for a in schedule.actions):
            raise NotYet(f"{where}: more than one layer is taped at a time")
        if cost.peak_bytes > slots + 11:
            raise NotYet(f"{where}: more than one layer has a tape at a time")
        if cost.extra_forwards > fewest_advances(layers, slots):
            raise NotYet(f"{where}: it runs, but {cost.extra_forwards} advances are too many")
    return f"no plan does with fewer advances, in {len(cases)} chains"


@grader("ex-your-own-checkpoint")
def your_own_checkpoint(answer: Any) -> str:
    from dtlib.exercises.again import judged_again

    function(answer, "again(function, x)")
    with unaided(
        "dtlib.memory.recompute.run", "dtlib.memory.recompute.policy", "torch.utils.checkpoint",
        write="the two runs",
    ):  # fmt: skip
        judged_again(answer)
    return "twice forward, the input kept and nothing else, every gradient with all its bits"
