"""Wrong answers of chapter 11 that no slip derives: (exercise, answer, what it must be told)."""

import numpy as np

BACKWARD = "ex-repair-the-backward-pass"


def backward_in_place(grads):
    for other in grads[1:]:
        grads[0] += other
    return np.split(grads[0], len(grads))


WRONG = [
    (BACKWARD, lambda grads: [sum(grads)] * len(grads), "shape"),
    (BACKWARD, lambda grads: np.split(sum(grads), len(grads))[::-1], "differs at"),
    (BACKWARD, backward_in_place, "read-only"),
]
