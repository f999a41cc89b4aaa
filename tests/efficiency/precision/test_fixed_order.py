"""Sums over real ranks whose bits do not depend on who adds what, or on how many there are."""

import pytest
import torch

from dtlib import launch
from dtlib.runtime.errors import RankError


def sums(P, order, which):
    """Each rank adds its shares of twelve, dealt out in that order."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import ordered_sum, reproducible_sum

    draw = torch.Generator().manual_seed(5)
    shares = torch.randn(12, 301, generator=draw) * torch.exp(
        4 * torch.randn(12, 1, generator=draw)
    )
    mine = (
        shares[order][dist.get_rank() :: P]
        if which != "ordered"
        else (shares[order].chunk(P)[dist.get_rank()])
    )
    if which == "plain":
        total = mine.sum(0)
        dist.all_reduce(total)
        return total
    add = reproducible_sum if which == "fixed" else ordered_sum
    return add(mine, dist.group.WORLD)


ORDERS = [list(range(12)), list(range(11, -1, -1)), [5, 0, 7, 2, 9, 4, 11, 6, 1, 8, 3, 10]]


@pytest.fixture(scope="module")
def found():
    results = {}
    for P in (1, 2, 3, 4):
        with launch(P) as ranks:
            for which in ("fixed", "plain", "ordered"):
                for number, order in enumerate(ORDERS):
                    totals = ranks.run(sums, P, order, which)
                    assert all(torch.equal(one, totals[0]) for one in totals)
                    results[which, P, number] = totals[0]
    return results


def test_any_order_and_any_number_of_ranks_give_the_same_bits(found):
    due = found["fixed", 1, 0]
    assert all(torch.equal(total, due) for key, total in found.items() if key[0] == "fixed")


def test_a_plain_all_reduce_gives_others(found):
    due = found["plain", 1, 0]
    assert not all(torch.equal(total, due) for key, total in found.items() if key[0] == "plain")


def test_a_sum_in_order_has_the_bits_of_one_process_and_the_order_shows(found):
    for number in range(3):
        due = found["ordered", 1, number]
        assert all(torch.equal(found["ordered", P, number], due) for P in (2, 3, 4))
    assert not torch.equal(found["ordered", 1, 0], found["ordered", 1, 1])


def test_the_sum_on_the_grid_is_nearer_to_the_exact_one_than_float32s(found):
    draw = torch.Generator().manual_seed(5)
    shares = torch.randn(12, 301, generator=draw) * torch.exp(
        4 * torch.randn(12, 1, generator=draw)
    )
    exact, most = shares.double().sum(0), shares.abs().max().item()
    assert (found["fixed", 1, 0] - exact).abs().max() <= 12 * most * 2.0**-42
    assert (found["plain", 1, 0] - exact).abs().max() > 12 * most * 2.0**-42


def not_finite():
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import reproducible_sum

    shares = torch.ones(1, 4)
    if dist.get_rank() == 1:
        shares[0, 2] = float("nan")
    try:
        reproducible_sum(shares, dist.group.WORLD)
    except ValueError as error:
        return str(error)


def empty_and_tiny():
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import reproducible_sum

    zeros = reproducible_sum(torch.zeros(2, 3), dist.group.WORLD)
    tiny = reproducible_sum(torch.full((1, 3), 1e-300, dtype=torch.float64), dist.group.WORLD)
    huge = reproducible_sum(torch.full((1, 3), 1e300, dtype=torch.float64), dist.group.WORLD)
    none = reproducible_sum(torch.ones(dist.get_rank(), 3), dist.group.WORLD)
    return zeros, tiny, huge, none


def test_all_ranks_refuse_what_is_not_finite_and_take_what_is_small_large_or_nothing():
    with launch(2) as ranks:
        said = ranks.run(not_finite)
        zeros, tiny, huge, none = ranks.run(empty_and_tiny)[0]
        with pytest.raises(RankError, match="process group is given explicitly"):
            ranks.run(lambda: __import__("dtlib.efficiency", fromlist=["x"])
                      .reproducible_sum(torch.ones(1, 1), None))  # fmt: skip
    assert said[0] == said[1] and "the largest number is inf" in said[0]
    assert (zeros == 0).all() and (none == 1).all()
    assert torch.allclose(tiny, torch.full((3,), 2e-300, dtype=torch.float64), rtol=1e-12)
    assert torch.allclose(huge, torch.full((3,), 2e300, dtype=torch.float64), rtol=1e-12)
