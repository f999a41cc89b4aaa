"""The longest first: Graham's bound on every small case, and the case that meets it."""

import itertools
import random
import statistics
from fractions import Fraction

import pytest

from dtlib.foundations import expected_straggler, longest_first, pack_costs


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


def test_a_rank_with_room_for_so_many_takes_no_more_and_the_bound_is_then_another():
    costs, P = [9, 2, 2, 2, 2, 1], 2
    assert max(map(longest_first(costs, P, most=3).count, range(P))) == 3
    assert longest_first(costs, P, most=6) == longest_first(costs, P)
    assert busiest(costs, longest_first(costs, P, 3), P) > busiest(
        costs, longest_first(costs, P), P
    )
    with pytest.raises(ValueError, match="most is 2, but must be enough for 6 jobs"):
        longest_first(costs, P, most=2)


def by_token(lengths, room):
    """The same costs from the pairs themselves: which document each token of a pack is of."""
    tokens = [i for i, length in enumerate(lengths) for _ in range(length)]
    packs = [tokens[first : first + room] for first in range(0, len(tokens) - room + 1, room)]
    return [sum(a == b for a in pack for b in pack) for pack in packs]


def test_a_pack_costs_its_pairs_of_tokens_of_one_document():
    draw = random.Random(3)
    for _ in range(30):
        lengths = [draw.randint(1, 20) for _ in range(draw.randint(1, 8))]
        assert pack_costs(lengths, 12) == by_token(lengths, 12)
    assert pack_costs([3], 4) == [] and sum(pack_costs([12] * 5, 12)) == 5 * 144
    with pytest.raises(ValueError, match=r"lengths\[1\] is 0"):
        pack_costs([3, 0], 4)


def test_the_expected_straggler_is_the_mean_of_many_draws():
    draw, P, packs = random.Random(4), 8, 16
    seen = []
    for _ in range(2000):
        loads = [sum(draw.gammavariate(4, 0.25) for _ in range(packs)) for _ in range(P)]
        seen.append(max(loads) / statistics.mean(loads))
    assert statistics.mean(seen) == pytest.approx(expected_straggler(0.5, packs, P), rel=0.02)


def test_sabotage_without_the_root_it_is_not():
    assert (
        abs(expected_straggler(0.5, 16, 8) - (1 + (expected_straggler(0.5, 1, 8) - 1) / 16)) > 0.1
    )
