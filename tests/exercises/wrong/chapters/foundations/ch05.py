"""Wrong answers of chapter 5 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.chapters.foundations.ch05 import _interrupted, _largest_gang, _spot_price

GANG = "ex-largest-gang"


def one_too_many(compute, comm_ratio, price, deadline, budget):
    left = deadline - comm_ratio * compute
    P = int(compute / left) + 1 if left > 0 else 10**9
    return P if price * compute * (1 + comm_ratio * P) <= budget else None


# fmt: off
WRONG = [
    ("ex-repair-spot", lambda *gang: 2 * _spot_price(*gang), "when there is one machine"),
    (GANG, lambda *market: _largest_gang(*market) + 1, "not cheaper than on demand any more"),
    (GANG, lambda *market: max(0, _largest_gang(*market) - 1), "one machine more"),
    (GANG, lambda *market: _largest_gang(*market) + 0.5, "whole number"),
    (GANG, lambda *market: -1, "one machine more"),
    ("ex-deadline-and-budget", one_too_many, "it can be done"),
    ("ex-restart-interrupted", lambda i, w, r, m: _interrupted(i, 0, r, m),
     "wrong already when a restart takes no time"),
]
