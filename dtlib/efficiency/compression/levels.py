"""Compressors that send few bits of every number: its sign, or the nearest of a few levels."""

import math
from typing import ClassVar

import torch

from dtlib.efficiency.compression.compressor import Gathered
from dtlib.formulas.require import require
from dtlib.later import np

WIDTHS = (2, 4, 8)


class SignSGD(Gathered):
    r"""Signs, and one size for all of them.

    Equation: \(C(x) = \frac{\|x\|_1}{d}\,\mathrm{sign}(x)\), with sign(0) = 1. Contractive with
    \(\delta = \|x\|_1^2 / (d\,\|x\|_2^2)\); not linear.
    A message has 1 bit for each number, and 4 bytes.
    Source: Seide et al. 2014; Bernstein et al. 2018; the scale: Karimireddy et al. 2019.

    >>> SignSGD()(torch.tensor([3.0, -1.0, 0.5, -4.5]))
    tensor([ 2.2500, -2.2500,  2.2500, -2.2500])
    """

    def encode(self, flat, rank):
        """Signs, eight to a byte, and the mean size."""
        size = flat.abs().mean(dtype=torch.float32)
        return pack_bits(flat >= 0), size.view(1)

    def add(self, message, into):
        """The size, with each sign."""
        bits, size = message
        signs = unpack_bits(bits, into.numel()).to(into.dtype)
        into.add_(signs.mul_(2).sub_(1).mul_(size.to(into.dtype)))


class Levels(Gathered):
    r"""Each number as a whole multiple of its bucket's unit, in 2, 4 or 8 bits: blocks of ZeRO++.

    Equation: \(C(x)_i = \frac{\nu}{s}\,\mathrm{round}(s\,x_i/\nu)\), with \(\nu\) the largest size
    in the bucket of \(x_i\), and \(s = 2^{\text{bits}-1} - 1\). No error is above
    \(\nu/2s\). Not linear.
    Arguments: `bits`, 2, 4 or 8; `bucket`, how many neighbours share a unit.
    Source: Dettmers et al. 2022; Wang et al. 2023.

    >>> Levels(bits=4)(torch.tensor([7.0, -1.2, 0.4, -3.6]))
    tensor([ 7., -1.,  0., -4.])
    """

    settings: ClassVar[tuple[str, ...]] = ("bits", "bucket")

    def __init__(self, bits: int = 8, bucket: int = 512):
        owner = type(self).__name__
        require(bits in WIDTHS, owner, "bits", bits, f"one of {WIDTHS}")
        require(bucket >= 1, owner, "bucket", bucket, "a positive number of neighbours")
        self.bits, self.bucket, self.levels = bits, bucket, 2 ** (bits - 1) - 1

    def encode(self, flat, rank):
        """Multiples, and the unit of each bucket."""
        rows = in_rows(flat.float(), self.bucket)
        unit = self.sizes(rows) / self.levels
        multiples = rows / torch.where(unit > 0, unit, 1)[:, None]
        whole = self.rounded(multiples, rank).view(-1)[: flat.numel()]
        return pack_small(whole.to(torch.int8), self.bits), unit

    def add(self, message, into):
        """Multiples times units."""
        small, unit = message
        whole = unpack_small(small, self.bits, into.numel()).to(torch.float32)
        rows = in_rows(whole, self.bucket).mul_(unit[:, None])
        into.add_(rows.view(-1)[: into.numel()].to(into.dtype))

    def sizes(self, rows: torch.Tensor) -> torch.Tensor:
        """What the levels of each bucket reach to."""
        return rows.abs().amax(1)

    def rounded(self, multiples: torch.Tensor, rank: int) -> torch.Tensor:
        """To the nearest; of two the even one."""
        return multiples.round()


class QSGD(Levels):
    r"""Each number as one of a few levels, up or down by chance, so that the mean is right.

    Equation: \(C(x)_i = \frac{\nu}{s}\,\lfloor s\,x_i/\nu + u_i\rfloor\), with \(u_i\) uniform in
    [0, 1) and \(\nu\) the norm of the bucket of \(x_i\). Unbiased, with
    \(\omega \le \min(d/s^2, \sqrt{d}/s)\) for a bucket of d numbers; not linear.
    Arguments: as for `Levels`; `norm`, "two", whose bound that is, or "largest", whose levels lie
    closer; `seed`, of which every rank draws numbers of its own.
    Source: Alistarh et al. 2017.

    >>> draws = [QSGD(bits=4, seed=s)(torch.tensor([3.0, 4.0])) for s in range(400)]
    >>> torch.stack(draws).mean(0).round(decimals=1)
    tensor([3., 4.])
    """

    settings = ("bits", "bucket", "norm", "seed")

    def __init__(self, bits: int = 4, bucket: int = 512, *, norm: str = "two", seed: int = 0):
        super().__init__(bits, bucket)
        require(norm in ("two", "largest"), "QSGD", "norm", norm, "'two' or 'largest'")
        self.norm, self.seed, self.step = norm, seed, 0

    def sizes(self, rows):
        """The norm of each bucket."""
        return rows.norm(dim=1) if self.norm == "two" else super().sizes(rows)

    def rounded(self, multiples, rank):
        """Up with the share of the gap that the number is above the lower level."""
        draw = torch.Generator(multiples.device)
        draw.manual_seed((self.seed * 1_000_003 + self.step) * 65_537 + rank)
        self.step += 1
        up = torch.rand(multiples.shape, generator=draw, device=multiples.device)
        return (multiples + up).floor_().clamp_(-self.levels, self.levels)


def in_rows(flat: torch.Tensor, bucket: int) -> torch.Tensor:
    """A vector in rows of so many numbers; zeros fill up the last.

    >>> in_rows(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[1., 2.],
            [3., 0.]])
    """
    missing = -flat.numel() % bucket
    return torch.nn.functional.pad(flat, (0, missing)).view(-1, bucket)


def pack_bits(bits: torch.Tensor) -> torch.Tensor:
    """Booleans, eight to a byte, the first in the lowest bit.

    >>> pack_bits(torch.tensor([True, False, True]))
    tensor([5], dtype=torch.uint8)
    """
    if bits.device.type == "cpu":
        return torch.from_numpy(np.packbits(bits.numpy(), bitorder="little"))
    rows = torch.nn.functional.pad(bits.to(torch.uint8), (0, -bits.numel() % 8)).view(-1, 8)
    return (rows << torch.arange(8, device=bits.device)).sum(1, dtype=torch.uint8)


def unpack_bits(packed: torch.Tensor, count: int) -> torch.Tensor:
    """The booleans again, as 0 and 1.

    >>> unpack_bits(torch.tensor([5], dtype=torch.uint8), 3)
    tensor([1, 0, 1], dtype=torch.uint8)
    """
    if packed.device.type == "cpu":
        found = np.unpackbits(packed.numpy(), count=count, bitorder="little")
        return torch.from_numpy(found)
    places = torch.arange(8, device=packed.device)
    return (packed[:, None] >> places & 1).view(-1)[:count]


def pack_small(whole: torch.Tensor, bits: int) -> torch.Tensor:
    """Whole numbers of so many bits, with their signs, as many to a byte as fit.

    >>> pack_small(torch.tensor([1, -1], dtype=torch.int8), bits=4)
    tensor([241], dtype=torch.uint8)
    """
    if bits == 8:
        return whole.view(torch.uint8)
    each = 8 // bits
    fields = in_rows(whole.view(torch.uint8) & (2**bits - 1), each)
    byte = fields[:, 0].clone()
    for place in range(1, each):
        byte |= fields[:, place] << bits * place
    return byte


def unpack_small(packed: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """The whole numbers again.

    >>> unpack_small(torch.tensor([241], dtype=torch.uint8), bits=4, count=2)
    tensor([ 1, -1], dtype=torch.int8)
    """
    if bits == 8:
        return packed.view(torch.int8)
    high = 8 - bits  # moved up, so that moving down again carries the sign
    fields = [packed << high - bits * place for place in range(8 // bits)]
    return (torch.stack(fields, 1).view(torch.int8) >> high).view(-1)[:count]


def level_variance(x: torch.Tensor, levels: int) -> float:
    r"""E|C(x) - x|^2 of QSGD in one bucket, exactly: the sum of f (1 - f) times the unit squared.

    f is the share of the gap that a number is above its lower level.

    >>> level_variance(torch.tensor([3.0, 4.0]), levels=1)  # 5^2 (0.6 * 0.4 + 0.8 * 0.2)
    10.0...
    """
    unit = float(x.double().norm()) / levels
    above = x.double() / unit
    above = above - above.floor()
    return math.fsum((above * (1 - above)).tolist()) * unit**2
