"""Sums over ranks that have the same bits whoever adds first, and however many ranks there are.

Additions of floats depend on their order; additions of whole numbers do not. So all numbers are
rounded once, to whole multiples of one grid, and from then on every sum is exact.
"""

import math

import torch
import torch.distributed as dist

from dtlib.formulas.require import require
from dtlib.runtime.process_group import ranks_of

HEADROOM = 20  # 2^20 numbers may be added before 63 bits are full
_DIGITS = 62 - HEADROOM  # of the largest number


def reproducible_sum(shares_sn: torch.Tensor, group) -> torch.Tensor:
    r"""The sum of all shares of all ranks, with the same bits for any order and number of ranks.

    Equation: \(2^e \sum_i \mathrm{round}(x_i / 2^e)\), with 2^e = 2^(exponent of the largest - 42).

    Arguments: `shares_sn`, what this rank adds: s shares of n numbers, float32 or float64, at most
    2^20 shares on all ranks together; `group`. Sent are one number for the largest, and 8 bytes
    for each of n.
    Returns float64 of shape (n,), off by at most half of 2^e for each share.
    Raises ValueError for numbers that are not finite, on all ranks alike.
    Source: Demmel & Nguyen 2013, with one bin.
    """
    ranks_of(group)
    own = float(shares_sn.abs().max()) if shares_sn.numel() else 0.0
    known = torch.tensor([own, len(shares_sn)], dtype=torch.float64)
    known[0] = torch.nan_to_num(known[0], nan=math.inf)
    largest, shares = known[:1], known[1:]
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    dist.all_reduce(shares, group=group)
    owner, most, count = "reproducible_sum", largest.item(), int(shares.item())
    require(math.isfinite(most), owner, "the largest number", most, "finite")
    require(count <= 2**HEADROOM, owner, "shares", count, "at most 2^20")
    exponent = math.frexp(most)[1] - _DIGITS
    units = _times_power(shares_sn.double(), -exponent)
    whole = torch.round(units).long().sum(0)
    dist.all_reduce(whole, group=group)
    return _times_power(whole.double(), exponent)


def ordered_sum(shares_sn: torch.Tensor, group) -> torch.Tensor:
    """The same promise, kept by hand: gather all shares everywhere, and add them in their order.

    The bits are those of a loop over all shares in one process, in the dtype given; received are
    the shares of all other ranks, so P/2 times what a ring all-reduce of one share brings.
    Every rank must have as many shares.
    """
    _, P = ranks_of(group)
    all_shares = [torch.empty_like(shares_sn) for _ in range(P)]
    dist.all_gather(all_shares, shares_sn.contiguous(), group=group)
    total = torch.zeros_like(shares_sn[0])
    for share in torch.cat(all_shares):
        total += share
    return total


def _times_power(x: torch.Tensor, exponent: int) -> torch.Tensor:
    """x 2^exponent in float64, in two steps where one factor would be infinite or zero."""
    half = exponent // 2
    return x * 2.0**half * 2.0 ** (exponent - half)
