"""Answers of the lab 'Your own scaling law' that no slip derives; right ones."""

import copy
import math
import zlib

from dtlib.exercises.labs.your_own_scaling_law import saying, sharing

SHARE, EXCESS, ROW, SAY = "ex-law-share", "ex-law-excess", "ex-law-row", "ex-law-say"


def lightest_first(costs, P):
    return sharing.share(
        costs, P, order=lambda costs: sorted(range(len(costs)), key=costs.__getitem__)
    )


def to_the_last_rank(costs, P):
    return [[] for _ in range(P - 1)] + [list(range(len(costs)))]


def best_of_all(costs, P):
    """Right, too: the dearest first, from the last rank on."""
    return sharing.share(costs, P)[::-1]


def backwards(truth, log_q):
    """The divergence of the truth from the model."""
    model = [[math.exp(q) for q in row] for row in log_q]
    return saying.excess(model, [[math.log(p) if p else -99 for p in row] for row in truth])


def shallow(learner, budgets, factor):
    return sharing.row(learner, budgets, factor, copied=copy.copy)


def one_step_late(learner, budgets, factor):
    return sharing.row(learner, budgets, factor, start=lambda steps: steps - steps // 5 + 1)


def largest_only(learner, budgets, factor):
    found = sharing.row(learner, [max(budgets)], factor)
    return found | dict.fromkeys(budgets, found[max(budgets)])


def copies_first(learner, budgets, factor):
    """Right, too: leaves the learner that it was given as it was."""
    return sharing.row(copy.deepcopy(learner), budgets, factor)


def checksum(said):
    """Right, too: 32 bits that every digit moves."""
    return zlib.crc32(repr(sorted(said.items())).encode())


WRONG = [
    (SHARE, (sharing.trunk_tokens, lightest_first), "and all wait for it"),
    (SHARE, (sharing.trunk_tokens, to_the_last_rank), "rank 1 works 18"),
    (SHARE, (sharing.trunk_tokens, lambda costs, P: [[]]), "share must have 2 items"),
    (SHARE, (lambda budgets: None, sharing.share), "returns nothing yet"),
    (EXCESS, (saying.entropy_rate, backwards), "whose probabilities are the weights?"),
    (EXCESS, (saying.entropy_rate, lambda truth, log_q: -saying.excess(truth, log_q)),
     "who knows nothing: excess is wrong"),
    (EXCESS, (lambda p, length: -saying.entropy_rate(p, length), saying.excess), "wrong sign"),
    (ROW, shallow, "has an earlier branch changed the trunk"),
    (ROW, one_step_late, "after 20 steps the run is another one"),
    (ROW, largest_only, "the run is another one than alone"),
    (SAY, (lambda runs, E, N, D: 0.03, saying.seed_of), "forecast must have 3 items"),
    (SAY, (saying.forecast, lambda said: str(said["excess"])), "a seed is a whole number"),
    (SAY, (saying.forecast, lambda said: int(1e9 * said["excess"])), "another width, the same"),
]  # fmt: skip
RIGHT = [
    (SHARE, (lambda budgets: float(sharing.trunk_tokens(budgets)), best_of_all)),
    (ROW, copies_first),
    (SAY, (lambda *at: list(saying.forecast(*at)), checksum)),
]
