"""Wrong answers of chapter 14 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.chapters.parallelism.ch14 import _shares


def nearly_the_best(batch, speeds):
    best = _shares(batch, speeds)
    if len(speeds) > 1 and best[0] > 1:
        best[0], best[1] = best[0] - 1, best[1] + 1
    return best


WRONG = [
    ("ex-how-much-is-hidden", lambda backward, comm, k: 0.5, "the result"),
    ("ex-events", lambda forward, backward, costs: 1e9, "too late"),
    ("ex-share-the-batch", nearly_the_best, "done earlier"),
]
