"""The roofline model: work takes as long as its slower resource."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum


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


@formula(
    symbol=r"\text{headroom}",
    unit="",
    source="Williams, Waterman and Patterson 2009, read as a ratio",
    conditions="intensity and bandwidth of the same resource",
)
def headroom(intensity, peak, bandwidth):
    """How many times longer the arithmetic of some work takes than its bytes on one resource.

    Equation: the intensity over the ridge. Above 1 the resource keeps up; below 1 it is waited for.
    Unlike intensities, headrooms of different resources may stand on one axis.
    Arguments: `intensity` FLOP per byte, `peak` FLOP/s, `bandwidth` bytes/s. Returns a ratio.
    Raises ZeroDivisionError for a bandwidth of 0. Source: Williams, Waterman and Patterson 2009.

    >>> headroom(intensity=100, peak=1e15, bandwidth=4e12)
    0.4
    """
    return intensity / ridge_intensity(peak, bandwidth)


@formula(
    symbol=r"F_\text{serial}",
    unit="FLOP/s",
    source="the sum of the two times instead of the longer one",
    conditions="nothing overlaps; arithmetic and traffic each at their full rate",
)
def serial_rate(intensity, peak, bandwidth):
    """The arithmetic rate of work whose bytes move before or after the arithmetic, never beside it.

    Equation: the two times of one FLOP add up, so the rates combine as resistors in parallel do.
    Arguments: `intensity` FLOP per byte, `peak` FLOP/s, `bandwidth` bytes/s. Returns FLOP/s.
    Raises ZeroDivisionError for an intensity, a peak or a bandwidth of 0.
    Source: the roofline with a sum where it has a maximum.

    >>> serial_rate(intensity=2, peak=8.0, bandwidth=4.0)
    4.0
    """
    return 1 / (1 / peak + 1 / (intensity * bandwidth))


@formula(
    symbol=r"T_\omega",
    unit="s",
    source="the two extremes of the roofline, and what lies between",
    conditions="overlap 1 hides as much as there is to hide behind, overlap 0 hides nothing",
)
def overlapped_time(computing, comm, overlap_share):
    """The time of work that computes and moves, when a share of what could overlap does.

    Equation: the sum of both, less the overlap, of which there can be no more than the shorter.
    Arguments: `computing` and `comm` seconds, `overlap_share` from 0 (sum) to 1 (maximum).
    Returns seconds. Raises nothing. Source: the two extremes of the roofline.

    >>> [overlapped_time(computing=3, comm=2, overlap_share=w) for w in (0, 0.5, 1)]
    [5, 4.0, 3]
    """
    return computing + comm - overlap_share * minimum(computing, comm)


@formula(
    symbol=r"T_\text{buckets}",
    unit="s",
    source="two machines in a row with equal jobs (Johnson 1954)",
    conditions="k equal buckets, ready at equal distances, reduced one after the other by a "
    "network that takes nothing from the arithmetic",
)
def bucketed_time(backward, comm, k, start_time):
    """Backward pass and all-reduce, when each of `k` buckets travels as soon as it is ready.

    Equation: either the network keeps up, and one bucket is left when the backward pass ends; or
    it is never idle from the first bucket on. The longer of the two.
    Arguments: `backward` seconds; `comm` seconds of one all-reduce of everything, without its
    start; `k` buckets; `start_time` seconds that starting each all-reduce costs.
    Returns seconds from the beginning of the backward pass to the last sum.
    Raises ZeroDivisionError for no bucket.
    Source: the makespan of two machines in a row with equal jobs (Johnson 1954).

    >>> bucketed_time(backward=80, comm=100, k=1, start_time=0)
    180.0
    >>> bucketed_time(backward=80, comm=100, k=100, start_time=0)
    100.8
    """
    return maximum(backward + comm / k + start_time, backward / k + comm + k * start_time)
