"""Every check of chapter 2: the solution passes; the stub, wrong answers and dtlib's own fail."""

import math
from statistics import median

import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import PracticeJob
from dtlib.exercises.chapter_02 import _JOBS
from dtlib.exercises.practice_job import RunsSpent

GB, TB = 10**9, 10**12
PEAK, MEMORY = 989e12, 3.35e12


def million(**changes):
    right = {"intensity": 23809.52, "one_port": 1.20372, "eight_ports": 9.62974}
    return right | changes


def ridges(**changes):
    right = {
        "nvlink_a100": 1040,
        "ports_a100": 1560,
        "tokens_a100": 1040,
        "nvlink_h100": 2197.8,
        "ports_h100": 2472.5,
        "tokens_h100": 1648.3,
    }
    return right | changes


def optimizer(**changes):
    right = {"seconds": 140e9 / MEMORY, "tokens": 28 / 6 * PEAK / MEMORY}
    return right | {"sharded": right["seconds"] / 256} | changes


def cures(**changes):
    right = {"now": 60e9, "recomputed": 80e9, "fused": 40e9, "faster": 60e9}
    return {name: moved / MEMORY for name, moved in right.items()} | changes


def better(computing, comm):
    return "hide" if comm < 2 * computing else "buy"


def bottleneck(flops, moved, peak, rates):
    busy = {name: moved[name] / rates[name] for name in moved}
    slowest = max(busy, key=busy.get)
    if busy[slowest] <= flops / peak:
        return "arithmetic", 1.0
    return slowest, flops / peak / busy[slowest]


def as_printed(flops, moved, peak, rates):
    intensity = flops / sum(moved.values())
    slopes = {name: intensity * rates[name] for name in moved}
    lowest = min(slopes, key=slopes.get)
    return (lowest, slopes[lowest] / peak) if slopes[lowest] < peak else ("arithmetic", 1.0)


def layers_needed(hidden, v, element_bytes, peak, beta):
    return v * element_bytes * peak / (36 * hidden * beta)


def expert_width(ep, matrices, element_bytes, peak, beta):
    return 4 * element_bytes * (ep - 1) / ep * peak / beta / (6 * matrices)


def tokens_needed(params, active, P, element_bytes, peak, beta):
    return 2 * (P - 1) / P * element_bytes * params / (6 * active) * peak / beta


def largest_cluster(batch_tokens, nics, element_bytes, peak, beta):
    return 1 + math.floor(2 * batch_tokens * nics * beta / (element_bytes * peak))


def search(batch_tokens, nics, element_bytes, peak, beta):
    def waits(P):
        sending = 2 * (P - 1) / P * element_bytes / (nics * beta)
        return 4 * batch_tokens / P / peak < sending

    low, high = 1, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if waits(middle) else (middle, high)
    return low


def losses(job):
    now = job.run()
    alone, made = job.run(collectives=False), job.run(data="synthetic")
    more = job.run(micro_batches=2 * job.micro_batches)
    spread = max(now.busy) - median(now.busy)
    return now.step, {
        "communication": now.step - alone.step - spread,
        "data": now.step - made.step,
        "straggler": spread,
        "pipeline": 2 * (now.step - more.step),
    }


def diagnose(job):
    step, lost = losses(job)
    worst = max(lost, key=lost.get)
    return worst if lost[worst] > 0.05 * step else "memory"


def blames_what_vanishes_with_the_collectives(job):
    now, alone = job.run(), job.run(collectives=False)
    return "communication" if alone.step < 0.9 * now.step else diagnose(job)


def by_counters(job):
    return "memory" if job.counters["dram"] > 0.8 else diagnose(job)


def by_occupancy(job):
    return "memory" if job.counters["occupancy"] < 0.3 else diagnose(job)


def half_of_the_pipeline(job):
    step, lost = losses(job)
    lost["pipeline"] /= 2
    worst = max(lost, key=lost.get)
    return worst if lost[worst] > 0.05 * step else "memory"


def no_pipeline(job):
    step, lost = losses(job)
    lost["pipeline"] = 0
    worst = max(lost, key=lost.get)
    return worst if lost[worst] > 0.05 * step else "memory"


def tries_everything(job):
    for _ in range(7):
        job.run()


CASES = {
    "ex-million-tokens": Case(
        solution=million(),
        wrong=[
            (million(intensity=64 * 23809.52), "of all GPUs together"),
            (million(intensity=23809.52 / 3), "forward pass alone"),
            (million(intensity=2 * 23809.52), "travels twice|has 2 bytes"),
            (million(one_port=9.62974), "that is with eight"),
            (million(eight_ports=1 / 9.62974), "not the ridge over"),
            (million(eight_ports=1.20372), "that is with one"),
            ({"intensity": 23809.52}, "keys"),
        ],
        secret=[23809.52, 1.20372, 9.62974],
    ),
    "ex-four-ridges": Case(
        solution=ridges(),
        wrong=[
            (ridges(nvlink_h100=1098.9), "both directions"),
            (ridges(ports_a100=12480), "together"),
            (ridges(ports_h100=2472.5 / 8), "printed in bits"),
            (ridges(tokens_h100=2472.5), "two thirds|hide behind"),
            (ridges(tokens_a100=8320), "together"),
        ],
        secret=[1040, 1560, 2197.8, 2472.5, 1648.3],
    ),
    "ex-optimizer-roof": Case(
        solution=optimizer(),
        wrong=[
            (optimizer(seconds=5e9 * 14 / MEMORY), "also written"),
            (optimizer(seconds=5e9 * 16 / MEMORY), "two journeys"),
            (optimizer(seconds=5e9 * 26 / MEMORY), "in bf16"),
            (optimizer(seconds=41.79), "in seconds"),
            (optimizer(tokens=28 / 2 * PEAK / MEMORY), "6 operations"),
            (optimizer(sharded=140e9 / MEMORY / 8), "all 256"),
        ],
        secret=[0.04179, 1377.7, 0.000163246],
    ),
    "ex-three-cures": Case(
        solution=cures(),
        wrong=[
            (cures(recomputed=60e9 / MEMORY), "moves its bytes again"),
            (cures(recomputed=40e9 / MEMORY), "capacity"),
            (cures(fused=20e9 / MEMORY), "a third"),
            (cures(faster=30e9 / MEMORY), "what is the step waiting for"),
            (cures(now=20e9 / MEMORY), "forward pass alone"),
            (cures(now=17.91), "in seconds"),
        ],
        secret=[0.0179104, 0.0238806, 0.0119403],
    ),
    "ex-hide-or-buy": Case(
        solution=better,
        also_right=[lambda a, c: "hide" if max(a, c) < a + c / 2 else "buy"],
        wrong=[
            (lambda a, c: "hide", "the other choice"),
            (lambda a, c: "buy", "the other choice"),
            (lambda a, c: "hide" if c < a else "buy", "the other choice"),
            (lambda a, c: "hide" if c < 1.5 * a else "buy", "the other choice"),
            (lambda a, c: True, "'hide' or 'buy'"),
            (lambda a: "hide", r"must take better\(computing, comm\)"),
        ],
    ),
    "ex-one-axis": Case(
        solution=bottleneck,
        wrong=[
            (as_printed, "blame|whose bytes|its own bytes"),
            (lambda f, m, p, r: ("arithmetic", 1.0), "find nothing to blame"),
            (lambda f, m, p, r: (min(r, key=r.get), 0.5), "whose bytes|every resource keeps up"),
            (lambda f, m, p, r: (bottleneck(f, m, p, r)[0], 1.0), "share of the peak"),
            (lambda f, m, p, r: "memory", r"\(name, share\)"),
        ],
    ),
    "ex-stage-depth": Case(
        solution=layers_needed,
        wrong=[
            (lambda h, v, w, f, b: layers_needed(h, 1, w, f, b), "v has no effect"),
            (lambda h, v, w, f, b: layers_needed(h, 1 / v, w, f, b), "more entries"),
            (lambda h, v, w, f, b: layers_needed(h, v, w, f, b) / 2, "a gradient goes back"),
            (lambda h, v, w, f, b: 3 * layers_needed(h, v, w, f, b), "is work, too"),
            (lambda h, v, w, f, b: layers_needed(h, v, w, f, b) * h, "entered once"),
        ],
    ),
    "ex-expert-width": Case(
        solution=expert_width,
        wrong=[
            (lambda e, k, w, f, b: expert_width(1e30, k, w, f, b), "some tokens stay"),
            (lambda e, k, w, f, b: expert_width(e, 3, w, f, b), "`matrices` matrices"),
            (lambda e, k, w, f, b: expert_width(e, k, w, f, b) / 2, "and. back, twice"),
            (lambda e, k, w, f, b: expert_width(e, k, w, f, b) * 3, "is work, too"),
            (lambda e, k, w, f, b: expert_width(e, k, w, f, b) * 1.5, "of both"),
            (lambda e, k, w, f, b: expert_width(e, k, w, f, b) * 2, "a journey is sent once"),
            (lambda e, k, w, f, b: expert_width(e, k, w, f, b) * 7, "half of the tokens stay"),
        ],
    ),
    "ex-does-not-cancel": Case(
        solution=tokens_needed,
        wrong=[
            (lambda p, a, P, w, f, b: tokens_needed(1, 1, P, w, f, b), "does not cancel"),
            (lambda p, a, P, w, f, b: tokens_needed(a, p, P, w, f, b), "upside down"),
            (lambda p, a, P, w, f, b: tokens_needed(p, a, P, w, f, b) / 2, "travels twice"),
            (lambda p, a, P, w, f, b: tokens_needed(p, a, P, w, f, b) * 1.5, "may hide it"),
            (lambda p, a, P, w, f, b: tokens_needed(p, a, 1e30, w, f, b), "P has no effect"),
            (lambda p, a, P, w, f, b: tokens_needed(p, a, P, w, f, b) * 5, "all parameters"),
        ],
    ),
    "ex-largest-cluster": Case(
        solution=largest_cluster,
        also_right=[search],
        wrong=[
            (lambda B, k, w, f, b: largest_cluster(B, k, w, f, b) - 1, "one more still fits"),
            (lambda B, k, w, f, b: largest_cluster(1.5 * B, k, w, f, b), "only the backward"),
            (lambda B, k, w, f, b: largest_cluster(B, 1, w, f, b), "together"),
            (lambda B, k, w, f, b: largest_cluster(3 * B, k, w, f, b), "too many"),
            (lambda B, k, w, f, b: 1, "more GPUs would still"),
            (lambda B, k, w, f, b: 2 * B * k * b / (w * f), "whole number"),
            (lambda B, k, w, f, b: 0, "at least one"),
        ],
    ),
    "ex-diagnose": Case(
        solution=diagnose,
        wrong=[
            (lambda job: "communication", "next to nothing|nobody waits"),
            (blames_what_vanishes_with_the_collectives, "nobody waits for the slowest"),
            (by_counters, "some other change|Some other change"),
            (by_occupancy, "Some other change"),
            (half_of_the_pipeline, "only a part of the pipeline's idle time"),
            (no_pipeline, "ladder ends too early|another cause"),
            (tries_everything, "six runs"),
            (lambda job: "network", "name one of"),
        ],
    ),
}


class TestChapter02(EveryExercise):
    cases = CASES


def test_a_job_has_as_many_runs_as_were_paid_for():
    job = PracticeJob(runs=1)
    job.run()
    with pytest.raises(RunsSpent):
        job.run()


@pytest.mark.parametrize(
    ("changes", "said"), [({"data": "none"}, "'real' or"), ({"micro_batches": 0}, "at least 1")]
)
def test_a_job_refuses_runs_that_do_not_exist(changes, said):
    with pytest.raises(ValueError, match=said):
        PracticeJob().run(**changes)


def test_without_collectives_nobody_waits_for_a_straggler():
    job = PracticeJob(straggler=2.0)
    assert job.run().step > 1.9
    assert job.run(collectives=False).step < 1.1
    assert max(job.run().busy) > 1.9


@pytest.mark.parametrize(("cause", "facts"), _JOBS)
def test_each_job_has_one_cause_that_is_clearly_the_largest(cause, facts):
    step, lost = losses(PracticeJob(**facts))
    largest = sorted(lost.values())
    if cause == "memory":
        assert largest[-1] < 0.03 * step
    else:
        assert max(lost, key=lost.get) == cause
        assert largest[-1] > 0.15 * step and largest[-1] > 1.5 * largest[-2]
