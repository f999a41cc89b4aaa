"""Every check of chapter 16: the solution passes; the stub, wrong answers and dtlib's own fail."""

from itertools import combinations, pairwise

import torch
from exercise_cases import Case, EveryExercise

from dtlib.parallelism.pipeline import (
    Action,
    PipelineSchedule,
    gpipe,
    interleaved,
    one_f_one_b,
    zero_bubble,
)

MB, GB = 10**6, 10**9
MESSAGE = 2 * 2 * 4096 * 8192


def shares(**changes):
    right = {"one_f_one_b": 7 / 55, "interleaved": 7 / 103, "interleaved_on_top": 7 / 96}
    return right | changes


def phases(**changes):
    return {"fill": 0.35, "all_busy": 0.45, "drain": 0.35, "idle": 7 / 23} | changes


def sent(**changes):
    right = {"message": MESSAGE, "pipeline_rank": 64 * MESSAGE, "replica_rank": 30.625 * GB}
    return right | changes


def waited(**changes):
    right = {"one_f_one_b": 7 / 39, "zb_h1": 11.9 / 85.5, "zb_h2": 9.8 / 83.4}
    return right | changes


def cut(times, p):
    cuts = ((0, *inner, len(times)) for inner in combinations(range(1, len(times)), p - 1))
    best = min(cuts, key=lambda c: max(sum(times[a:b]) for a, b in pairwise(c)))
    return [b - a for a, b in pairwise(best)]


def cut_until_full(times, p):
    """The greedy cut that may make more stages than there are ranks."""
    limit, counts, total = sum(times) / p, [0], 0
    for t in times:
        if total + t > limit and counts[-1]:
            counts, total = [*counts, 0], 0
        counts[-1] += 1
        total += t
    return counts


def cut_evenly(times, p):
    return [len(times) * (k + 1) // p - len(times) * k // p for k in range(p)]


class Stage:
    def __init__(self, module):
        self.module, self.inputs = module, {}

    def forward(self, i, x):
        self.inputs[i] = x.detach()
        with torch.no_grad():
            return self.module(x)

    def backward(self, i, dy):
        x = self.inputs.pop(i).requires_grad_()
        self.module(x).backward(dy)
        return x.grad


class StageThatKeepsAll(Stage):
    def forward(self, i, x):
        self.inputs[i] = x.detach().requires_grad_()
        self.kept = self.module(self.inputs[i])
        return self.kept


class StageThatKeepsItsGraph(Stage):
    def forward(self, i, x):
        inside = x.detach().requires_grad_()
        self.inputs[i] = inside, self.module(inside)
        return self.inputs[i][1].detach()

    def backward(self, i, dy):
        inside, y = self.inputs.pop(i)
        y.backward(dy)
        return inside.grad


class StageOfThree(Stage):
    def backward(self, i, dy):
        x = self.inputs[i].clone().requires_grad_()
        self.module(x)
        return super().backward(i, dy) if x is not None else None


class StageThatForgets(Stage):
    def backward(self, i, dy):
        self.module.zero_grad()
        return super().backward(i, dy)


class StageOfTheLast(Stage):
    def backward(self, i, dy):
        return super().backward(max(self.inputs), dy)


def merged(p, m):
    """ZB-H1 of the library, with its backward passes put together again."""
    rows = [
        [action._replace(kind="BW") if action.kind == "B" else action for action in row]
        for row in zero_bubble(p, m, 1).rows
    ]
    return PipelineSchedule([[a for a in row if a.kind != "W"] for row in rows], m)


def my_1f1b(p, m, ahead=lambda p, r: p - 1 - r):
    rows = []
    for r in range(p):
        warm = min(ahead(p, r), m)
        row = [Action("F", r, i) for i in range(warm)]
        for i in range(m):
            row += [Action("F", r, warm + i)] if warm + i < m else []
            row.append(Action("BW", r, i))
        rows.append(row)
    return PipelineSchedule(rows, m)


def upside_down(p, m):
    return my_1f1b(p, m, ahead=lambda p, r: r)


def eager(p, m):
    return my_1f1b(p, m, ahead=lambda p, r: 2 * (p - 1 - r))


def hesitant(p, m):
    return my_1f1b(p, m, ahead=lambda p, r: (p - 1 - r) // 2 if m > 2 else p - 1 - r)


def looped(p, m, v):
    rows = []
    for r in range(p):
        stages = range(r, p * v, p)
        row = [Action("F", s, i) for s in stages for i in range(m)]
        row += [Action("BW", s, i) for s in reversed(stages) for i in range(m)]
        rows.append(row)
    return PipelineSchedule(rows, m, p * v)


def interleaved_by_hand(p, m, v):
    rows = [list(row) for row in interleaved(p, m, v).rows]
    return PipelineSchedule(rows, m, p * v)


def one_by_one(p, m, v):
    rows = []
    for r in range(p):
        stages = range(r, p * v, p)
        row = []
        for i in range(m):
            row += [Action("F", s, i) for s in stages]
            row += [Action("BW", s, i) for s in reversed(stages)]
        rows.append(row)
    return PipelineSchedule(rows, m, p * v)


def contiguous(p, m, v):
    rows = [
        [Action("F", s, i) for i in range(m) for s in range(r * v, r * v + v)]
        + [Action("BW", s, i) for i in range(m) for s in reversed(range(r * v, r * v + v))]
        for r in range(p)
    ]
    return PipelineSchedule(rows, m, p * v)


def step_time(forward, backward, m):
    return sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))


def choices(p, N, a, c):
    for m in (k for k in range(1, N + 1) if N % k == 0):
        for held in (m, min(m, p)):
            yield (m + p - 1) * N / m * 3, held * N / m * a
            yield (m + p - 1) * N / m * 4, held * N / m * c + N / m * a


def front(p, N, a, c):
    points = set(choices(p, N, a, c))
    return sorted(
        x for x in points if not any(y != x and y[0] <= x[0] and y[1] <= x[1] for y in points)
    )


CASES = {
    "ex-whole-or-work": Case(
        solution=shares(),
        wrong=[
            (shares(one_f_one_b=7 / 48), "one_f_one_b: that is on top"),
            (shares(interleaved=7 / 96), "interleaved: that is on top"),
            (shares(interleaved=7 / 110), "whole step shrinks"),
            (shares(interleaved_on_top=7 / 103), "of the whole step"),
            (shares(one_f_one_b=100 * 7 / 55), "not in percent"),
            (5, "a dict with the keys one_f_one_b"),
        ],
        secret=[7 / 55, 7 / 103, 7 / 96],
    ),
    "ex-what-stages-hold": Case(
        solution=([512 * MB] * 4, [128 * MB, 96 * MB, 64 * MB, 32 * MB]),
        wrong=[
            (([512 * MB] * 4, [32 * MB, 64 * MB, 96 * MB, 128 * MB]), "1F1B: upside down"),
            (([512 * MB] * 4, [96 * MB, 64 * MB, 32 * MB, 0]), "one more forward pass"),
            (([32 * MB] * 4, [128 * MB, 96 * MB, 64 * MB, 32 * MB]), "GPipe, rank 0"),
            (([512 * MB] * 4, [128 * MB] * 4), "1F1B, rank 1"),
            (5, "2 items"),
        ],
        secret=[512e6, 128e6, 96e6, 64e6],
    ),
    "ex-three-phases": Case(
        solution=phases(),
        wrong=[
            (phases(fill=0.4), "fill: count the turns"),
            (phases(all_busy=0.8), "still filling"),
            (phases(drain=350), "in seconds"),
            (phases(idle=14 / 23), "some rank waits"),
            (phases(idle=0.5), "no share of anything"),
            (phases(idle=7 / 16), "on top"),
            (5, "keys fill"),
        ],
        secret=[0.35, 0.45, 7 / 23],
    ),
    "ex-rate-of-a-pipeline": Case(
        solution=(2.13, 64 / 71, 64 / 2.13),
        wrong=[
            ((1.92, 64 / 71, 64 / 2.13), "filling and draining"),
            ((2.16, 64 / 71, 64 / 2.13), "boundaries"),
            ((2130.0, 64 / 71, 64 / 2.13), "in seconds"),
            ((2.13, 7 / 71, 64 / 2.13), "the idle share"),
            ((2.13, 64 / 71, 1 / 0.03), "never filled"),
            (5, "3 items"),
        ],
        secret=[2.13, 64 / 71, 64 / 2.13],
    ),
    "ex-fair-bytes": Case(
        solution=sent(),
        wrong=[
            (sent(message=MESSAGE / 2), "two bytes"),
            (sent(message=MESSAGE / 1.048576), "decimal or binary"),
            (sent(pipeline_rank=32 * MESSAGE), "both ways"),
            (sent(pipeline_rank=2 * MESSAGE), "one micro-batch"),
            (sent(replica_rank=140 * GB), "an eighth"),
            (sent(replica_rank=17.5 * GB), "almost twice"),
            (sent(replica_rank=245 * GB), "an eighth"),
            (5, "keys message"),
        ],
        secret=[MESSAGE, 64 * MESSAGE, 30.625 * GB],
    ),
    "ex-short-weight-gradients": Case(
        solution=waited(),
        wrong=[
            (waited(zb_h1=(0.3 * 32 - 7) / (2.3 * 32)), "counts work as waiting"),
            (waited(one_f_one_b=7 / 32), "together"),
            (waited(zb_h2=9.8 / 73.6), "together"),
            (waited(zb_h1=7 / 39), "divided here"),
            (waited(zb_h2=0), "not be zero"),
            ({}, "keys one_f_one_b"),
        ],
        secret=[7 / 39, 11.9 / 85.5, 9.8 / 83.4],
    ),
    "ex-cut-the-layers": Case(
        solution=cut,
        also_right=[lambda times, p: tuple(cut(times, p))],
        wrong=[
            (cut_until_full, "must have|can be less"),
            (cut_evenly, "it can be less"),
            (lambda times, p: [len(times), *[0] * (p - 1)], "without a layer"),
            (lambda times, p: [1] * p, "are dealt out|can be less"),
            (lambda times: [1], r"must take cut\(times, p\)"),
        ],
    ),
    "ex-stage-that-remembers-less": Case(
        solution=Stage,
        wrong=[
            (StageThatKeepsAll, "still hangs on a graph"),
            (StageThatKeepsItsGraph, "kept more than its input"),
            (StageOfThree, "makes 2 forward passes"),
            (StageThatForgets, "not the sum over"),
            (StageOfTheLast, "micro-batch 0: the gradient of the input is wrong"),
            (lambda module: module, "no method backward|forward"),
        ],
    ),
    "ex-right-the-warm-up": Case(
        solution=my_1f1b,
        also_right=[],
        wrong=[
            (upside_down, "never ends: ranks 0, 1 wait for each other"),
            (eager, "rank 0 holds"),
            (hesitant, "slower than GPipe"),
            (gpipe, "the library's own gpipe"),
            (merged, "the library's own zero_bubble"),
            (lambda p, m: one_f_one_b(p, m), "the library's own one_f_one_b"),
            (lambda p, m: PipelineSchedule(["0F0 0BW0"], 1), "asked are"),
            (lambda p, m: [[]], "return a PipelineSchedule, got list"),
            (lambda p, m: PipelineSchedule([["0F0"]] * p, m), "does not do all the work once"),
        ],
    ),
    "ex-shorter-stairs": Case(
        solution=looped,
        wrong=[
            (one_by_one, "units are lost"),
            (contiguous, "holds stages"),
            (interleaved, "the library's own interleaved"),
            (interleaved_by_hand, "the library's own interleaved"),
            (lambda p, m, v: my_1f1b(p, m), "stages, asked are"),
        ],
    ),
    "ex-against-what": Case(
        solution=(11.5 / 8, 11.5 / 16),
        wrong=[
            ((2.0, 11.5 / 16), "half of a rank's layers"),
            ((1.0, 11.5 / 16), "run further ahead"),
            ((11.5 / 8, 16 / 11.5), "turn the fraction round"),
            ((8 / 11.5, 11.5 / 16), "turn the fraction round"),
            (5, "2 items"),
        ],
        secret=[11.5 / 8, 11.5 / 16],
    ),
    "ex-not-quite-linear": Case(
        solution=(192 / 39, 6),
        wrong=[
            ((256 / 39, 6), "four units of work for every three"),
            ((256 / 39 * 2 / 3, 6), "repeated once"),
            ((192 / 39, 8), "nothing else"),
            (1, "2 items"),
        ],
        secret=[192 / 39, 6],
    ),
    "ex-unequal-turns": Case(
        solution=step_time,
        wrong=[
            (
                lambda f, b, m: (m + len(f) - 1) * (max(f) + max(b)),
                r"must take step_time|too large",
            ),
            (
                lambda forward, backward, m: (
                    (m + len(forward) - 1) * (max(forward) + max(backward))
                ),
                "slow only in the slowest stage",
            ),
            (lambda forward, backward, m: m * (max(forward) + max(backward)), "filled and drained"),
            (
                lambda forward, backward, m: (
                    sum(forward) + sum(backward) + m * (max(forward) + max(backward))
                ),
                "too large; what does the first",
            ),
        ],
    ),
    "ex-time-against-memory": Case(
        solution=front,
        also_right=[lambda p, N, a, c: front(p, N, a, c)[::-1]],
        wrong=[
            (lambda p, N, a, c: list(choices(p, N, a, c)), "is beaten by another"),
            (lambda p, N, a, c: front(p, N, a, c)[1:], "1 are missing"),
            (lambda p, N, a, c: [(1.0, 1.0)], "no schedule gives"),
            (lambda p, N, a, c: 5, "give a list of points"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES
