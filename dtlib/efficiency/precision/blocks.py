"""Scales: one for the whole tensor, for a block of neighbours, for a tile; MX and NVFP4.

A format of few bits has a narrow window. A scale moves the window to where the numbers are, and
`block` says who shares one. What an element becomes is `cast`'s business.
"""

import math
import sys
from dataclasses import dataclass
from typing import Any

from dtlib.efficiency.precision.formats import E2M1, E4M3, FloatFormat
from dtlib.efficiency.precision.rounding import cast
from dtlib.formulas.require import require, require_count, require_divisor
from dtlib.later import np

SCALE_BITS = {"float32": 32, "floor": 8, "ceil": 8, "two-level": 8}
_E8M0 = 127  # exponents of a scale of eight bits go from -127 to 127


@dataclass(frozen=True)
class Blocks:
    """What blocks of few bits stand for: `values`, their `scales`, and `bits` for each number.

    `values` has the shape of what was given; `scales` a number for each block; `bits` counts the
    element's and its share of the scale.
    """

    values: Any
    scales: Any
    bits: float


def block_quantise(
    x, kind: FloatFormat, block, scale: str = "float32", rounding: str = "nearest", generator=None
) -> Blocks:
    r"""Each block divided by its scale, cast to `kind`, and multiplied by the scale again.

    Equation: \(\hat x = s\,\mathrm{fl}(x / s)\), and for "float32"
    \(s = \max_\text{block}|x| / \text{largest}\): the largest of each block becomes the largest.

    Arguments: `x`, a torch tensor or a numpy array; `kind`; `block`, a number of neighbours in the
    last dimension, a pair (rows, columns) of the last two, or None for all of `x`; `scale`, how s
    is kept: "float32"; "floor" and "ceil", a power of two of 8 bits, rounded down (MX; what is then
    too large saturates) or up from the exact one; "two-level", E4M3 relative to one float32 for the
    whole tensor (NVFP4). `rounding` and `generator` as of `cast`.
    Raises ValueError for blocks that do not divide their dimension, for infinite numbers and NaN,
    which have no scale, and for unknown scales.
    Source: Rouhani et al. 2023; DeepSeek-AI 2024, section 3.3.

    >>> x = np.array([1.0, 2.0, 3.0, 1000.0])
    >>> block_quantise(x, E2M1, block=None).values.tolist()
    [0.0, 0.0, 0.0, 1000.0]
    >>> block_quantise(x, E2M1, block=2).values.tolist()
    [1.0, 2.0, 0.0, 1000.0]
    """
    require(scale in SCALE_BITS, "block_quantise", "scale", scale, f"one of {tuple(SCALE_BITS)}")
    torch = sys.modules.get("torch")
    lib = torch if torch and isinstance(x, torch.Tensor) else np
    x = x.detach() if lib is torch else np.asarray(x)
    cut = x.reshape(_cut("block_quantise", tuple(x.shape), block))
    most = lib.amax(abs(cut), axis=(-3, -1), keepdims=True)
    bad = int((~lib.isfinite(most)).sum())
    require(not bad, "block_quantise", "blocks with an infinite number or NaN", bad, "0")
    scales = _scales(lib, most, kind, scale)
    rounded = cast(cut / scales, kind, rounding, overflow="saturate", generator=generator)
    values = (rounded * scales).reshape(x.shape)
    share = math.prod(scales.shape) / math.prod(x.shape)
    scales = scales.reshape((*scales.shape[:-3], scales.shape[-2]))
    return Blocks(values, scales, kind.bits + SCALE_BITS[scale] * share)


def mx(x, kind: FloatFormat) -> Blocks:
    """Microscaling: 32 neighbours share a power of two, rounded down from the exact scale.

    >>> mx(np.linspace(-1, 1, 64), E2M1).bits
    4.25
    """
    return block_quantise(x, kind, 32, "floor")


def nvfp4(x) -> Blocks:
    """NVFP4: E2M1 in blocks of 16, scales in E4M3, and one float32 for the whole tensor.

    Source: NVIDIA 2025.

    >>> nvfp4(np.linspace(-1, 1, 64)).bits
    4.5
    """
    return block_quantise(x, E2M1, 16, "two-level")


def rms_error(x, values) -> float:
    """The size of the difference over the size of `x`, both root mean squares.

    >>> rms_error(np.array([3.0, 4.0]), np.array([3.0, 4.5]))
    0.1
    """
    return float((((values - x) ** 2).sum() / (x**2).sum()) ** 0.5)


def _cut(owner: str, shape: tuple[int, ...], block) -> tuple[int, ...]:
    """The shape with each of the last two dimensions as (blocks, numbers of a block)."""
    require(bool(shape) and math.prod(shape) > 0, owner, "x.shape", shape, "not empty")
    if block is None:
        return (1, math.prod(shape), 1, 1)
    rows, columns = (1, block) if isinstance(block, int) else block
    require_count(owner, rows=rows, columns=columns)
    height = shape[-2] if len(shape) > 1 else 1
    require_divisor(owner, "block", columns, "the last dimension", shape[-1])
    require_divisor(owner, "block", rows, "the dimension before the last", height)
    return (*shape[:-2], height // rows, rows, shape[-1] // columns, columns)


def _scales(lib, most, kind: FloatFormat, scale: str):
    """The scale of each block from its largest number; 1 for a block of zeros."""
    one = lib.ones_like(most)
    if scale in ("floor", "ceil"):
        power = lib.floor(lib.log2(lib.where(most > 0, most, one))) - kind.most_exponent
        if scale == "ceil":
            power = power + (most > kind.largest * 2.0**power)
        return lib.where(most > 0, 2.0 ** power.clip(-_E8M0, _E8M0), one)
    exact = most / kind.largest
    if scale == "two-level":
        whole = lib.amax(exact) / E4M3.largest
        whole = lib.where(whole > 0, whole, lib.ones_like(whole))
        exact = cast(exact / whole, E4M3) * whole
    return lib.where(exact > 0, exact, one)


def whole_quantise(x, block, bits: int = 8) -> Blocks:
    """Blocks of whole numbers, INT8 by default: the step is the same everywhere.

    Equation: s round(x / s), s = largest of the block / (2^(bits - 1) - 1).

    >>> whole_quantise(np.array([0.3, 1.0, 254.0, 100.0]), block=None).values.tolist()
    [0.0, 0.0, 254.0, 100.0]
    """
    x = np.asarray(x)
    cut = x.reshape(_cut("whole_quantise", tuple(x.shape), block))
    steps = abs(cut).max(axis=(-3, -1), keepdims=True) / (2 ** (bits - 1) - 1)
    require(np.isfinite(steps).all(), "whole_quantise", "x", "infinite or NaN", "finite")
    steps = np.where(steps > 0, steps, 1.0)
    values = (np.round(cut / steps) * steps).reshape(x.shape)
    share = 32 * steps.size / x.size
    return Blocks(values, steps.reshape((*steps.shape[:-3], steps.shape[-2])), bits + share)
