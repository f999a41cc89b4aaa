"""A number to the nearest of a format, exactly: `cast`, `quantise`; and from a code: `decode`.

A number and its neighbours in a format lie on a grid whose step is a power of two. So rounding is:
find the step, divide by it, round to a whole number, multiply. Nothing of that but the rounding
itself rounds, because powers of two only move exponents.
"""

import sys
from typing import Any

from dtlib.efficiency.precision.formats import FloatFormat, format_of
from dtlib.formulas.require import require
from dtlib.later import np

ROUNDINGS = ("nearest", "stochastic", "zero")
OVERFLOWS = ("infinity", "saturate")
_LAYOUT = {  # of what we compute in: whole numbers as long, and the bits of the exponent
    "float32": ("int32", 0x7F800000),
    "float64": ("int64", 0x7FF0000000000000),
}


def quantise(
    x,
    exponent_bits: int,
    mantissa_bits: int,
    rounding: str = "nearest",
    *,
    bias: int | None = None,
    infinities: bool | None = None,
    overflow: str | None = None,
    generator=None,
):
    """`x` in a format of so many bits; see `cast`, and `format_of` for what is left out.

    >>> quantise(0.3, 4, 3), quantise(0.3, 5, 2), quantise(1e-7, 5, 10)
    (0.3125, 0.3125, 1.1920928955078125e-07)
    """
    kind = format_of(exponent_bits, mantissa_bits, bias, infinities)
    return cast(x, kind, rounding, overflow=overflow, generator=generator)


def cast(x, kind: FloatFormat, rounding: str = "nearest", *, overflow=None, generator=None):
    r"""The numbers of `kind` that stand for `x`, which keeps its type; a half becomes a float32.

    Equation: \(\mathrm{fl}(x) = \Delta\,\mathrm{round}(x/\Delta)\), with the grid's step
    \(\Delta = 2^{\max(\lfloor\log_2|x|\rfloor,\,e_\text{min}) - m}\).

    Arguments: `x`, a float, a numpy array or a torch tensor of any shape; `rounding`, "nearest"
    (of two the even one), "stochastic" (up with the share of the step that it is above the lower
    one, so that the mean is x) or "zero" (towards zero); `overflow`, what becomes of numbers that
    round beyond the largest: "infinity" or "saturate" (the largest), by default the first where
    the format has it; rounding towards zero never goes beyond. `generator`, of torch or numpy, for
    the stochastic.
    Raises ValueError for names that are none of these, for NaN in a format without NaN; TypeError
    for what is no float.
    Source: Higham 2002, chapter 2; Gupta et al. 2015 for the stochastic.

    >>> from dtlib.efficiency.precision.formats import BF16, E4M3
    >>> cast(1 + 3 / 256, BF16), cast(464.1, E4M3), cast(-0.001, E4M3)
    (1.015625, 448.0, -0.001953125)
    """
    require(rounding in ROUNDINGS, "cast", "rounding", rounding, f"one of {ROUNDINGS}")
    overflow = overflow or OVERFLOWS[not kind.infinities]
    require(overflow in OVERFLOWS, "cast", "overflow", overflow, f"one of {OVERFLOWS}")
    allowed = f"'saturate': {kind.name} has no infinities"
    require(kind.infinities or overflow == "saturate", "cast", "overflow", overflow, allowed)
    lib, wide, kept = _widened(x, kind)
    if not kind.nan:
        none = bool(lib.isnan(wide).any())
        require(not none, "cast", "x", "NaN", f"numbers: {kind.name} has no code for NaN")
    step = _grid_step(lib, wide, kind)
    rounded = _rounded(lib, wide / step, rounding, generator) * step
    if overflow == "saturate":
        return kept(rounded.clip(-kind.largest, kind.largest))
    if rounding == "zero":
        within = rounded.clip(-kind.largest, kind.largest)
        return kept(lib.where(lib.isinf(wide), wide, within))
    beyond = lib.copysign(lib.full_like(wide, lib.inf), wide)
    return kept(lib.where(abs(rounded) > kind.largest, beyond, rounded))


def _rounded(lib, ratio, rounding: str, generator):
    if rounding == "nearest":
        return lib.round(ratio)  # torch and numpy: of two equally near, the even one
    if rounding == "zero":
        return lib.trunc(ratio)
    low = lib.floor(ratio)
    if lib is np:
        draw = (generator or np.random.default_rng()).random(ratio.shape)
    else:
        draw = lib.rand(ratio.shape, generator=generator, dtype=ratio.dtype, device=ratio.device)
    with np.errstate(invalid="ignore"):  # an infinite number has no share above the lower one
        return lib.where(draw < ratio - low, low + 1, low)


def _grid_step(lib, x, kind: FloatFormat):
    """The distance of neighbours in the format around each number: a power of two.

    A float with the bits of its fraction at zero is the power of two below it.
    """
    integer, exponent_field = _LAYOUT[str(x.dtype).rpartition(".")[2]]
    power = (x.view(getattr(lib, integer)) & exponent_field).view(x.dtype)
    return power.clip(kind.least_normal, 2.0**kind.most_exponent) * 2.0**-kind.mantissa_bits


def _widened(x: Any, kind: FloatFormat):
    """(torch or numpy, x in a type in which every step is exact, the way back to x's type)."""
    torch = sys.modules.get("torch")
    if torch and isinstance(x, torch.Tensor):
        if not x.is_floating_point():
            raise TypeError(f"cast: x must have floats, got a tensor of {x.dtype}")
        given = x.detach() if x.dtype == torch.float64 else x.detach().float()
        work = given if _fits(kind) else given.double()
        return torch, work, lambda result: result.to(given.dtype)
    if isinstance(x, bool | str | bytes | complex) or x is None:
        raise TypeError(f"cast: x must be a float or floats, got {x!r}")
    given = np.asarray(x)
    scalar = given.ndim == 0 and not isinstance(x, np.ndarray)
    if given.dtype.kind != "f" and not (scalar and given.dtype.kind in "iu"):
        raise TypeError(f"cast: x must have floats, got an array of {given.dtype}")
    if scalar:
        return np, given.reshape(1).astype(np.float64), lambda result: float(result[0])
    kept = np.float32 if given.dtype == np.float16 else given.dtype
    work = np.atleast_1d(given).astype(np.float64)
    return np, work, lambda result: result.astype(kept).reshape(given.shape)


def _fits(kind: FloatFormat) -> bool:
    """Whether float32 has every number of the format, and so every step of its grid."""
    return kind.least >= 2.0**-149 and kind.most_exponent <= 127


def decode(codes, kind: FloatFormat):
    """The numbers that codes stand for, as float64: all 2^bits of them for `np.arange(2**bits)`.

    Argument: `codes`, a numpy array of whole numbers from 0 to 2^bits - 1.
    Raises ValueError for others.

    >>> from dtlib.efficiency.precision.formats import E2M1
    >>> decode(np.arange(8), E2M1).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    codes = np.asarray(codes)
    good = codes.dtype.kind in "iu" and bool(((codes >= 0) & (codes < 2**kind.bits)).all())
    require(good, "decode", "codes", codes, f"whole numbers from 0 to {2**kind.bits - 1}")
    codes = codes.astype(np.int64)
    fraction = codes & (2**kind.mantissa_bits - 1)
    top = 2**kind.exponent_bits - 1
    exponent = (codes >> kind.mantissa_bits) & top
    normal = exponent > 0
    digits = (fraction + normal * 2**kind.mantissa_bits).astype(np.float64)
    value = np.ldexp(digits, np.maximum(exponent, 1) - kind.bias - kind.mantissa_bits)
    if kind.infinities:
        special = np.where(fraction > 0, np.nan, np.inf)
        value = np.where(exponent == top, special, value)
    elif kind.nan:
        last = (exponent == top) & (fraction == 2**kind.mantissa_bits - 1)
        value = np.where(last, np.nan, value)
    return np.where(codes >> (kind.bits - 1), -value, value)
