"""Formats of few bits: a sign, a field of the exponent, a field of the fraction.

The noun is `FloatFormat`; the others of this module are the formats that are in use. What a number
becomes in one of them is `cast`, in `rounding`.
"""

from dataclasses import dataclass, field

from dtlib.formulas.require import require, require_count


@dataclass(frozen=True)
class FloatFormat:
    r"""Numbers (-1)^s 2^(e - bias) (1 + f): how many bits e and f have, and which codes are none.

    A field e of zeros holds the *subnormal* numbers 2^(1 - bias) f, evenly spaced down to zero. Of
    the highest e, IEEE formats make infinities and NaN (`infinities`); without infinities only the
    last code of each sign is NaN; and without `nan` all codes are numbers.

    Arguments: `name`; `exponent_bits`, 2 to 8; `mantissa_bits` of f, 1 to 23; `bias`, by default
    2^(exponent_bits - 1) - 1; `infinities`; `nan`, which a format with infinities needs.
    Attributes: `largest`, `least_normal`, `least`: the finite numbers at the borders; `roundoff`,
    the largest relative error between `least_normal` and `largest`; `bits`.
    Raises ValueError for bits that make no format.
    Source: IEEE 754-2019; Micikevicius et al. 2022; Rouhani et al. 2023 for those below 8 bits.

    >>> E4M3.largest, E4M3.least_normal, E4M3.least, E4M3.roundoff
    (448.0, 0.015625, 0.001953125, 0.0625)
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int | None = None
    infinities: bool = True
    nan: bool = True
    bits: int = field(init=False)

    def __post_init__(self):
        owner = f"FloatFormat {self.name!r}"
        require_count(owner, exponent_bits=self.exponent_bits, mantissa_bits=self.mantissa_bits)
        allowed = "2 to 8: one bit would leave no normal number, and float64 must hold them all"
        require(2 <= self.exponent_bits <= 8, owner, "exponent_bits", self.exponent_bits, allowed)
        require(self.mantissa_bits <= 23, owner, "mantissa_bits", self.mantissa_bits, "1 to 23")
        if self.bias is None:
            object.__setattr__(self, "bias", 2 ** (self.exponent_bits - 1) - 1)
        whole = isinstance(self.bias, int) and abs(self.bias) <= 512
        require(whole, owner, "bias", self.bias, "a whole number from -512 to 512")
        allowed = "True where there are infinities: inf - inf needs a code"
        require(self.nan or not self.infinities, owner, "nan", self.nan, allowed)
        object.__setattr__(self, "bits", 1 + self.exponent_bits + self.mantissa_bits)

    @property
    def most_exponent(self) -> int:
        """The exponent of the largest number."""
        return 2**self.exponent_bits - 1 - self.infinities - self.bias

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number, and of all that are below it."""
        return 1 - self.bias

    @property
    def largest(self) -> float:
        """The largest finite number."""
        missing = 2 if self.nan and not self.infinities else 1
        return 2.0**self.most_exponent * (2 - missing * 2.0**-self.mantissa_bits)

    @property
    def least_normal(self) -> float:
        """The smallest number that has all its digits."""
        return 2.0**self.least_exponent

    @property
    def least(self) -> float:
        """The smallest number above zero."""
        return 2.0 ** (self.least_exponent - self.mantissa_bits)

    @property
    def roundoff(self) -> float:
        """u, half of the distance from 1 to the next number."""
        return 2.0 ** -(self.mantissa_bits + 1)


FP32 = FloatFormat("fp32", 8, 23)
TF32 = FloatFormat("tf32", 8, 10)
BF16 = FloatFormat("bf16", 8, 7)
FP16 = FloatFormat("fp16", 5, 10)
E5M2 = FloatFormat("E5M2", 5, 2)
E4M3 = FloatFormat("E4M3", 4, 3, infinities=False)
E3M2 = FloatFormat("E3M2", 3, 2, infinities=False, nan=False)
E2M3 = FloatFormat("E2M3", 2, 3, infinities=False, nan=False)
E2M1 = FloatFormat("E2M1", 2, 1, infinities=False, nan=False)
FORMATS = (FP32, TF32, BF16, FP16, E5M2, E4M3, E3M2, E2M3, E2M1)


def format_of(
    exponent_bits: int,
    mantissa_bits: int,
    bias: int | None = None,
    infinities: bool | None = None,
) -> FloatFormat:
    """The format of so many bits: the one in use where nothing else is said, otherwise IEEE's.

    >>> format_of(4, 3).largest, format_of(4, 3, infinities=True).largest
    (448.0, 240.0)
    """
    if bias is None and infinities is None:
        for one in FORMATS:
            if (one.exponent_bits, one.mantissa_bits) == (exponent_bits, mantissa_bits):
                return one
    name = f"E{exponent_bits}M{mantissa_bits}"
    return FloatFormat(name, exponent_bits, mantissa_bits, bias, infinities is not False)
