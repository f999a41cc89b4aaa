"""The roofline model: work takes as long as its slower resource."""

from dtlib.foundations.formula import formula
from dtlib.foundations.poly import maximum, minimum


@formula(
    symbol=r"T_\text{roof}",
    unit="s",
    source="Williams, Waterman and Patterson 2009",
    conditions="arithmetic and memory traffic overlap perfectly, both at their full rate",
)
def roofline_time(flops, bytes, peak, bandwidth):
    """The least time for work of `flops` that moves `bytes`.

    Equation: the longer of the time to compute and the time to move.
    Arguments: `flops` FLOP, `bytes` bytes, `peak` FLOP/s, `bandwidth` bytes/s.
    Returns seconds. Raises ZeroDivisionError for a rate of 0.
    Source: Williams, Waterman and Patterson 2009.

    >>> roofline_time(flops=2e12, bytes=1e9, peak=1e15, bandwidth=1e12)
    0.002
    """
    return maximum(flops / peak, bytes / bandwidth)


@formula(
    symbol=r"I",
    unit="FLOP/B",
    source="Williams, Waterman and Patterson 2009",
    conditions="the bytes are those that really cross the memory interface",
)
def arithmetic_intensity(flops, bytes):
    """Work per byte moved: what decides whether a kernel computes or waits for memory.

    Equation: work over traffic. Arguments: `flops` FLOP, `bytes` bytes. Returns FLOP per byte.
    Raises ZeroDivisionError for no bytes. Source: Williams, Waterman and Patterson 2009.

    >>> arithmetic_intensity(flops=2e12, bytes=1e9)
    2000.0
    """
    return flops / bytes


@formula(
    symbol=r"I_\text{ridge}",
    unit="FLOP/B",
    source="Williams, Waterman and Patterson 2009",
    conditions="peak and bandwidth of the same device",
)
def ridge_intensity(peak, bandwidth):
    """The intensity at which computing and moving take the same time.

    Equation: the two rates divided. Below it work is bound by memory, above it by arithmetic.
    Arguments: `peak` FLOP/s, `bandwidth` bytes/s. Returns FLOP per byte.
    Raises ZeroDivisionError for a bandwidth of 0. Source: Williams, Waterman and Patterson 2009.

    >>> ridge_intensity(peak=1e15, bandwidth=4e12)
    250.0
    """
    return peak / bandwidth


@formula(
    symbol=r"F_\text{roof}",
    unit="FLOP/s",
    source="Williams, Waterman and Patterson 2009",
    conditions="arithmetic and memory traffic overlap perfectly, both at their full rate",
)
def roofline_rate(intensity, peak, bandwidth):
    """The highest arithmetic rate that work of this intensity can reach.

    Equation: the lower of the two roofs. Arguments: `intensity` FLOP per byte, `peak` FLOP/s,
    `bandwidth` bytes/s. Returns FLOP/s. Raises nothing.
    Source: Williams, Waterman and Patterson 2009.

    >>> roofline_rate(intensity=100, peak=1e15, bandwidth=4e12)
    400000000000000.0
    """
    return minimum(peak, intensity * bandwidth)
