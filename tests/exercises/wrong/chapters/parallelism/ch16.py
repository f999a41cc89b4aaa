"""Wrong answers of chapter 16 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.judges.recomputed import Stage
from dtlib.parallelism.pipeline import Action, PipelineSchedule, gpipe, interleaved


def cut_until_full(times, p):
    """The greedy cut that may make more stages than there are ranks."""
    limit, counts, total = sum(times) / p, [0], 0
    for t in times:
        if total + t > limit and counts[-1]:
            counts, total = [*counts, 0], 0
        counts[-1] += 1
        total += t
    return counts


class StageThatKeepsItsGraph(Stage):
    def forward(self, i, x):
        inside = x.detach().requires_grad_()
        self.inputs[i] = inside, self.module(inside)
        return self.inputs[i][1].detach()

    def backward(self, i, dy):
        inside, y = self.inputs.pop(i)
        y.backward(dy)
        return inside.grad


class StageThatForgets(Stage):
    def backward(self, i, dy):
        self.module.zero_grad()
        return super().backward(i, dy)


class StageOfTheLast(Stage):
    def backward(self, i, dy):
        return super().backward(max(self.inputs), dy)


def one_by_one(p, m, v):
    """Each micro-batch goes through all stages and back before the next."""
    rows = []
    for r in range(p):
        stages, row = range(r, p * v, p), []
        for i in range(m):
            row += [Action("F", s, i) for s in stages] + [Action("BW", s, i) for s in stages[::-1]]
        rows.append(row)
    return PipelineSchedule(rows, m, p * v)


WARM_UP, STAIRS, STAGE = "ex-right-the-warm-up", "ex-shorter-stairs", "ex-stage-that-remembers-less"
CUT, FRONT = "ex-cut-the-layers", "ex-time-against-memory"

# fmt: off
WRONG = [
    ("ex-whole-or-work", 5, "a dict with the keys one_f_one_b"),
    ("ex-what-stages-hold", 5, "2 items"),
    ("ex-what-stages-hold", ([512e6] * 4, [128e6] * 4), "1F1B, rank 1"),
    ("ex-what-stages-hold", ([32e6] * 4, [128e6, 96e6, 64e6, 32e6]), "GPipe, rank 0"),
    (WARM_UP, gpipe, "the library's own gpipe"),
    (WARM_UP, lambda p, m: PipelineSchedule(["0F0 0BW0"], 1), "asked are"),
    (WARM_UP, lambda p, m: [[]], "return a PipelineSchedule, got list"),
    (WARM_UP, lambda p, m: PipelineSchedule([["0F0"]] * p, m), "does not do all the work once"),
    (STAIRS, one_by_one, "units are lost"),
    (STAIRS, interleaved, "the library's own interleaved"),
    ("ex-unequal-turns", lambda forward, backward, m: sum(forward) + 2 * sum(backward), "m = 1"),
    (CUT, cut_until_full, "must have|can be less"),
    (CUT, lambda times, p: [1] * p, "are dealt out"),
    (CUT, lambda times: [1], r"must take cut\(times, p\)"),
    (STAGE, StageThatKeepsItsGraph, "kept more than its input"),
    (STAGE, StageThatForgets, "not the sum over"),
    (STAGE, StageOfTheLast, "micro-batch 0: the gradient of the input is wrong"),
    (STAGE, lambda module: module, "no method backward|forward"),
    (FRONT, lambda p, N, a, c: [(1.0, 1.0)], "no schedule gives"),
    (FRONT, lambda p, N, a, c: 5, "give a list of points"),
]
