"""Wrong answers of chapter 21 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.memory import uniform

LONGEST, KEEP, PLAN = "ex-longest-that-fits", "ex-knapsack-of-a-layer", "ex-your-own-revolve"


def longest_until_one_fails(layers, state_bytes, layer_bytes, budget):
    found = None
    for k in range(1, layers + 1):
        if (-(-layers // k) - 1) * state_bytes + k * layer_bytes > budget:
            return found
        found = k
    return found


def longest_of_a_fraction(layers, state_bytes, layer_bytes, budget):
    lengths = range(1, layers + 1)
    fitting = [k for k in lengths if (layers / k - 1) * state_bytes + k * layer_bytes <= budget]
    return max(fitting, default=None)


# fmt: off
WRONG = [
    (LONGEST, longest_until_one_fails, "there is a length that fits"),
    (LONGEST, longest_of_a_fraction, "more than the budget"),
    (LONGEST, lambda layers, state_bytes, layer_bytes, budget: 1, "more than|longer|nothing fits"),
    (KEEP, lambda operations, budget: [], "spares more"),
    (KEEP, lambda operations, budget: ["zz"], "not names"),
    (PLAN, lambda layers, slots: [f"T{i}:{i + 1}" for i in range(layers)]
     + [f"B{i}:{i + 1}" for i in reversed(range(layers))], "more than one layer has"),
    (PLAN, lambda layers, slots: uniform(layers, 1).actions, "kept at once|more than"),
    (PLAN, lambda layers, slots: 5, "not iterable"),
]
