"""Compressors that send some of the numbers: the largest, or places drawn with a common seed."""

import math

import torch

from dtlib.efficiency.compression.compressor import Compressor, Gathered, Sent
from dtlib.efficiency.compression.programs import Mean
from dtlib.formulas.require import require

_SAMPLED = 2**14  # a vector shorter than this is sorted whole
_STRIDE, _MARGIN = 97, 1.3  # of the sample that finds a threshold; and how far below it to look


class TopK(Gathered):
    r"""The numbers of the largest size, with their places; the others count as zero.

    Equation: \(C(x)_i = x_i\) for the k largest \(|x_i|\), else 0, with \(k = \lceil\rho d\rceil\).
    Contractive with \(\delta = k/d\); not linear, since each rank keeps other places.
    Arguments: `share`, the kept share \(\rho\) of the numbers, above 0 and at most 1.
    A message has k numbers and k places of 4 bytes. Raises ValueError for another share.
    Source: Aji & Heafield 2017; Stich et al. 2018.

    >>> TopK(share=0.5)(torch.tensor([3.0, -1.0, 0.5, -4.0]))
    tensor([ 3.,  0.,  0., -4.])
    """

    settings = ("share",)

    def __init__(self, share: float):
        self.share = _share("TopK", share)

    def encode(self, flat, rank):
        """Numbers and places."""
        places = largest(flat, kept(self.share, flat.numel()))
        return flat[places], places.to(torch.int32)

    def add(self, message, into):
        """Each number at its place."""
        numbers, places = message
        into.index_add_(0, places, numbers)


class RandK(Compressor):
    r"""Numbers at random places, the same places on every rank: so no places are sent.

    Equation: \(C(x)_i = x_i\) for k places drawn from a seed that all ranks have, else 0;
    unbiased, times \(d/k\). Linear, contractive with \(\delta = k/d\) on average; unbiased with
    \(\omega = d/k - 1\).
    Arguments: `share`, as for `TopK`; `seed`, the same on all ranks; `unbiased`.
    Source: Stich et al. 2018; Konecny et al. 2016.

    >>> RandK(share=0.5, seed=1)(torch.tensor([3.0, -1.0, 0.5, -4.0])).count_nonzero()
    tensor(2)
    """

    linear = True
    settings = ("share", "seed", "unbiased")

    def __init__(self, share: float, seed: int = 0, *, unbiased: bool = False):
        self.share, self.seed, self.unbiased = _share("RandK", share), seed, unbiased
        self.step = 0

    def rounds(self, flat, shapes):
        """One all-reduce of k numbers."""
        d = flat.numel()
        k = kept(self.share, d)
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + self.step)
        self.step += 1
        places = torch.randperm(d, generator=draw)[:k].to(flat.device)
        numbers = flat[places] * (d / k if self.unbiased else 1)
        return Sent(*(_at(places, each, flat) for each in ((yield Mean(numbers)), numbers)))


def kept(share: float, d: int) -> int:
    """How many of d numbers are sent: at least one.

    >>> kept(0.01, 1000), kept(0.01, 5)
    (10, 1)
    """
    return min(d, math.ceil(share * d))


def largest(flat: torch.Tensor, k: int) -> torch.Tensor:
    """The places of the k numbers of the largest size, in no order.

    A sample of a long vector says about where the k-th lies; only what is above a little less is
    sorted. Where the sample misled and fewer than k are there, everything is.
    """
    size = flat.abs()
    d = flat.numel()
    if d < _SAMPLED or k * 2 > d:
        return size.topk(k, sorted=False).indices
    sample = size[::_STRIDE]
    wanted = min(len(sample), math.ceil(_MARGIN * k / d * len(sample)) + 8)
    candidates = (size >= sample.topk(wanted, sorted=False).values.min()).nonzero().view(-1)
    if len(candidates) < k:
        return size.topk(k, sorted=False).indices
    return candidates[size[candidates].topk(k, sorted=False).indices]


def _at(places: torch.Tensor, numbers: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like).index_copy_(0, places, numbers.to(like.dtype))


def _share(owner: str, share: float) -> float:
    require(0 < share <= 1, owner, "share", share, "above 0 and at most 1")
    return share
