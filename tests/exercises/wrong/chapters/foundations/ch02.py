"""Wrong answers of chapter 2 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.chapters.foundations import ch02
from dtlib.exercises.chapters.foundations.ch02 import _bottleneck, _diagnose

CHOICE, AXIS, JOB = "ex-hide-or-buy", "ex-one-axis", "ex-diagnose"


def blames_what_vanishes_with_the_collectives(job):
    now, alone = job.run(), job.run(collectives=False)
    return "communication" if alone.step < 0.9 * now.step else _diagnose(job)


# fmt: off
WRONG = [
    (CHOICE, lambda a, c: "hide", "the other choice"),
    (CHOICE, lambda a, c: "buy", "the other choice"),
    (CHOICE, lambda a, c: "hide" if c < 1.5 * a else "buy", "the other choice"),
    (CHOICE, lambda a, c: True, "'hide' or 'buy'"),
    (AXIS, lambda f, m, p, r: ("arithmetic", 1.0), "find nothing to blame"),
    (AXIS, lambda f, m, p, r: (min(r, key=r.get), 0.5), "whose bytes|every resource keeps up"),
    (AXIS, lambda *step: (_bottleneck(*step)[0], 1.0), "share of the peak"),
    (AXIS, lambda f, m, p, r: "memory", r"\(name, share\)"),
    ("ex-stage-depth", lambda h, *m: ch02._layers_needed(h, *m) * h, "entered once"),
    ("ex-expert-width", lambda *m: ch02._expert_width(*m) * 7, "half of the tokens stay"),
    ("ex-does-not-cancel", lambda *m: ch02._tokens_needed(*m) * 5, "all parameters"),
    ("ex-largest-cluster", lambda B, *m: ch02._largest_cluster(3 * B, *m), "too many"),
    ("ex-largest-cluster", lambda B, k, w, f, b: 1, "more GPUs would still"),
    ("ex-largest-cluster", lambda B, k, w, f, b: 2 * B * k * b / (w * f), "whole number"),
    ("ex-largest-cluster", lambda B, k, w, f, b: 0, "more GPUs would still"),
    (JOB, blames_what_vanishes_with_the_collectives, "nobody waits for the slowest"),
    (JOB, lambda j: "memory" if j.counters["occupancy"] < 0.3 else _diagnose(j), "Some other"),
    (JOB, lambda job: "network", "name one of"),
]
