"""Wrong answers of chapter 15 that no slip derives: (exercise, answer, what it must be told)."""

RANKS = "ex-how-many-ranks"

# fmt: off
WRONG = [
    (RANKS, lambda heads, hidden, rho: min(heads, 1 + int(3 * hidden / rho)), "cannot share"),
    (RANKS, lambda heads, hidden, rho: heads, "forward pass cannot hide"),
    (RANKS, lambda heads, hidden, rho: 1, "more would"),
]
