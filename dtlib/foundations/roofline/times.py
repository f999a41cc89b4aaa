"""The roofline model: work takes as long as its slower resource."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum


@formula(
    r"T_\text{roof}",
    "s",
    "Williams, Waterman and Patterson 2009",
    "arithmetic and memory traffic overlap perfectly, both at their full rate",
)
def roofline_time(flops, bytes, peak, bandwidth):
    """The least time for work of `flops` that moves `bytes`.

    The longer of the time to compute and the time to move.

    >>> roofline_time(flops=2e12, bytes=1e9, peak=1e15, bandwidth=1e12)
    0.002
    """
    return maximum(flops / peak, bytes / bandwidth)


@formula(
    r"I",
    "FLOP/B",
    "Williams, Waterman and Patterson 2009",
    "the bytes are those that really cross the memory interface",
)
def arithmetic_intensity(flops, bytes):
    """Work per byte moved: what decides whether a kernel computes or waits for memory.

    Work over traffic.

    >>> arithmetic_intensity(flops=2e12, bytes=1e9)
    2000.0
    """
    return flops / bytes


@formula(
    r"I_\text{ridge}",
    "FLOP/B",
    "Williams, Waterman and Patterson 2009",
    "peak and bandwidth of the same device",
)
def ridge_intensity(peak, bandwidth):
    """The intensity at which computing and moving take the same time.

    The two rates divided. Below it work is bound by memory, above it by arithmetic.

    >>> ridge_intensity(peak=1e15, bandwidth=4e12)
    250.0
    """
    return peak / bandwidth


@formula(
    r"F_\text{roof}",
    "FLOP/s",
    "Williams, Waterman and Patterson 2009",
    "arithmetic and memory traffic overlap perfectly, both at their full rate",
)
def roofline_rate(intensity, peak, bandwidth):
    """The highest arithmetic rate that work of this intensity can reach.

    The lower of the two roofs.

    >>> roofline_rate(intensity=100, peak=1e15, bandwidth=4e12)
    400000000000000.0
    """
    return minimum(peak, intensity * bandwidth)


@formula(
    r"\text{headroom}",
    "",
    "Williams, Waterman and Patterson 2009, read as a ratio",
    "intensity and bandwidth of the same resource",
)
def headroom(intensity, peak, bandwidth):
    """How many times longer the arithmetic of some work takes than its bytes on one resource.

    The intensity over the ridge. Above 1 the resource keeps up; below 1 it is waited for. Unlike
    intensities, headrooms of different resources may stand on one axis.

    >>> headroom(intensity=100, peak=1e15, bandwidth=4e12)
    0.4
    """
    return intensity / ridge_intensity(peak, bandwidth)


@formula(
    r"F_\text{serial}",
    "FLOP/s",
    "the sum of the two times instead of the longer one",
    "nothing overlaps; arithmetic and traffic each at their full rate",
)
def serial_rate(intensity, peak, bandwidth):
    """The arithmetic rate of work whose bytes move before or after the arithmetic, never beside it.

    The two times of one FLOP add up, so the rates combine as resistors in parallel do.

    >>> serial_rate(intensity=2, peak=8.0, bandwidth=4.0)
    4.0
    """
    return 1 / (1 / peak + 1 / (intensity * bandwidth))


@formula(
    r"T_\omega",
    "s",
    "the two extremes of the roofline, and what lies between",
    "overlap 1 hides as much as there is to hide behind, overlap 0 hides nothing",
)
def overlapped_time(computing, comm, overlap_fraction):
    """The time of work that computes and moves, when a share of what could overlap does.

    The sum of both, less the overlap, of which there can be no more than the shorter.

    >>> [overlapped_time(computing=3, comm=2, overlap_fraction=w) for w in (0, 0.5, 1)]
    [5, 4.0, 3]
    """
    return computing + comm - overlap_fraction * minimum(computing, comm)


@formula(
    r"T_\text{buckets}",
    "s",
    "two machines in a row with equal jobs (Johnson 1954)",
    (
        "k equal buckets, ready at equal distances, reduced one after the other by a "
        "network that takes nothing from the arithmetic"
    ),
)
def bucketed_time(backward, comm, k, start_time):
    """Backward pass and all-reduce, when each of `k` buckets travels as soon as it is ready.

    Either the network keeps up, and one bucket is left when the backward pass ends; or it is never
    idle from the first bucket on. The longer of the two. `comm` is an all-reduce of everything,
    without its start; the time runs from the beginning of the backward pass to the last sum.

    >>> bucketed_time(backward=80, comm=100, k=1, start_time=0)
    180.0
    >>> bucketed_time(backward=80, comm=100, k=100, start_time=0)
    100.8
    """
    return maximum(backward + comm / k + start_time, backward / k + comm + k * start_time)
