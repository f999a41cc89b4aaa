"""The longest first: Graham's bound on every small case, and the case that meets it."""

import itertools
import random
from fractions import Fraction

import pytest

from dtlib.foundations import longest_first


def busiest(costs, owners, P):
    return max(sum(c for c, r in zip(costs, owners, strict=True) if r == rank) for rank in range(P))


def best(costs, P):
    return min(busiest(costs, way, P) for way in itertools.product(range(P), repeat=len(costs)))


@pytest.mark.parametrize("P", [2, 3])
def test_the_busiest_rank_has_at_most_four_thirds_of_the_best_division(P):
    draw, bound = random.Random(P), Fraction(4, 3) - Fraction(1, 3 * P)
    for _ in range(60):
        costs = [draw.randint(1, 12) for _ in range(draw.randint(1, 8))]
        owners = longest_first(costs, P)
        assert busiest(costs, owners, P) <= bound * best(costs, P)


@pytest.mark.parametrize("P", [2, 3])
def test_grahams_worst_case_meets_the_bound(P):
    """Two jobs each of 2P - 1 down to P + 1, and three of P: best 3P, longest first 4P - 1."""
    costs = [size for size in range(2 * P - 1, P, -1) for _ in (0, 1)] + [P] * 3
    assert best(costs, P) == 3 * P
    assert busiest(costs, longest_first(costs, P), P) == 4 * P - 1


def test_sabotage_jobs_in_the_order_in_which_they_come_break_the_bound():
    costs, P = [1, 1, 2], 2
    owners, loads = [], [0] * P
    for cost in costs:
        owners.append(loads.index(min(loads)))
        loads[owners[-1]] += cost
    assert busiest(costs, owners, P) == 3 > (Fraction(4, 3) - Fraction(1, 6)) * best(costs, P)


def test_costs_that_are_no_costs_are_refused():
    assert longest_first([], 3) == []
    with pytest.raises(ValueError, match=r"costs\[1\] is -1"):
        longest_first([2, -1], 2)
    with pytest.raises(ValueError, match="P is 0"):
        longest_first([1], 0)
