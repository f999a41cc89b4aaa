"""How long a matrix product takes on a GPU: a roofline, made of tiles.

The product has `rows` x `columns` results, each the sum of `inner` products. Three models, each
one step nearer to what is measured:

    gemm_roofline_time   the longer of arithmetic at the peak and traffic at full bandwidth
    gemm_derated_time    the same at a fraction of both, and a time to start: three constants
    gemm_time            the GPU computes whole tiles, in waves, and the library chooses their shape

The constants of the last, each with its reason, are a `GemmModel`. On 8,880 published times (bf16;
A100 and H100) the mean of |predicted/measured - 1| is

                      constants   A100     H100    other half   A100 from H100   H100 from A100
    gemm_roofline_time    0      41.8 %   37.1 %     39.4 %         41.8 %           37.1 %
    gemm_derated_time     3      13.9 %    9.1 %     11.4 %         16.8 %           16.1 %
    gemm_time             5       7.9 %    5.6 %      6.7 %          8.2 %            6.7 %

'Other half': on the shapes to which the constants were not fitted. 'A100 from H100': on A100 times,
with constants fitted to those of the H100. `benchmarks/foundations/gemm_model.py` prints this
table, and what each part is worth; `gemm_sample` has two dozen of the times.

What it does not know: a GPU that lowers its clock to keep its power (products of several ms on an
H100 take a tenth longer than it says), operands that are still in the cache, and the special kernel
for a single row.
"""

from dataclasses import dataclass
from functools import reduce

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum
from dtlib.formulas.require import require
from dtlib.foundations.roofline.tiles import tile_count, tile_time, wave_bytes, wave_count
from dtlib.foundations.roofline.times import overlapped_time, roofline_time
from dtlib.machines.hardware import GPU

ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


@formula(
    r"W_\text{product}",
    "FLOP",
    "count",
    "a multiply and an add are two operations; no fast algorithm such as Strassen's",
)
def gemm_flops(rows, columns, inner):
    """The arithmetic of a product of (rows, inner) with (inner, columns).

    A multiply and an add for each of rows x columns x inner products.

    >>> gemm_flops(rows=8192, columns=4096, inner=4096) / 1e12
    0.274877906944
    """
    return 2 * rows * columns * inner


@formula(
    r"Q_\text{product}",
    "B",
    "count",
    "each of the three matrices crosses the memory interface once",
)
def gemm_bytes(rows, columns, inner, element_bytes):
    """The least traffic of a product: two matrices are read and one is written.

    The three surfaces of the volume rows x columns x inner.

    >>> gemm_bytes(rows=8192, columns=4096, inner=4096, element_bytes=2) / 1e6
    167.77216
    """
    return element_bytes * (rows * inner + inner * columns + rows * columns)


@formula(
    r"T_\text{product}",
    "s",
    "Williams, Waterman and Patterson 2009",
    "arithmetic and memory traffic overlap perfectly, both at their full rate",
)
def gemm_roofline_time(rows, columns, inner, element_bytes, peak, bandwidth):
    """The least time of a product: no kernel is faster.

    The roofline of its arithmetic and its least traffic.

    >>> gemm_roofline_time(8192, 4096, 4096, element_bytes=2, peak=989e12, bandwidth=3.35e12)
    0.000277...
    """
    return roofline_time(
        gemm_flops(rows, columns, inner),
        gemm_bytes(rows, columns, inner, element_bytes),
        peak,
        bandwidth,
    )


@formula(
    r"T_\text{derated}",
    "s",
    "the roofline with three constants",
    "one kernel; 0.8 of the peak, 0.8 of the bandwidth and 4 µs fit large products best",
)
def gemm_derated_time(
    rows,
    columns,
    inner,
    element_bytes,
    peak,
    bandwidth,
    peak_fraction,
    bandwidth_fraction,
    launch,
):
    """The time of a product that reaches a fixed share of both rates, and takes time to start.

    The roofline at lower roofs, and a constant.

    >>> gemm_derated_time(8192, 4096, 4096, 2, 989e12, 3.35e12, 0.8, 0.8, launch=4e-6)
    0.000351...
    """
    return launch + gemm_roofline_time(
        rows, columns, inner, element_bytes, peak_fraction * peak, bandwidth_fraction * bandwidth
    )


@dataclass(frozen=True)
class GemmModel:
    """What `gemm_time` assumes about every GPU and its library: five constants, fitted once.

    - `bandwidth_fraction`: HBM refreshes its cells, and turns between reading and writing.
    - `launch_cycles`: a kernel is set up, its last result drains. Cycles, as a slow clock makes it
      slower. Two kernels run when the sum is split: the second adds up the parts.
    - `tile_cycles`: a tile's first operands come all the way from memory before the first
      multiply-add, and its results go back after the last; nothing overlaps with that.
    - `edge`: multiply-adds for which a multiprocessor waits to fetch one number of a tile's border.
    - `overlap`: the share of arithmetic and traffic that runs at the same time. 1 is a roofline.

    `tiles` are the shapes that a library offers, `splits` the parts in which it may cut the sum
    so that a small result occupies the whole GPU. It is assumed to choose the fastest.
    """

    bandwidth_fraction: float = 0.86
    launch_cycles: float = 3500
    tile_cycles: float = 1600
    edge: float = 8
    overlap: float = 0.78
    tiles: tuple[tuple[int, int], ...] = (
        (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64),
    )  # fmt: skip
    splits: tuple[int, ...] = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Tiling:
    """One way to compute a product: its tile, in how many parts each sum is cut, and how it fares.

    `computing` and `moving` are the seconds that arithmetic and traffic would take alone.
    """

    tile: tuple[int, int]
    split: int
    tiles: int
    waves: int
    computing: float
    moving: float
    time: float


def gemm_time(rows, columns, inner, gpu: GPU, dtype: str = "bf16", model: GemmModel = GemmModel()):
    """The time of a product of (rows, inner) with (inner, columns) on a GPU, the best tiling taken.

    Equation: start, then the waves of tiles, and the traffic as far as it does not overlap.
    Arguments: three counts, numbers or arrays of them; a `GPU` whose `sms` and `clock` are known;
    a data type; the constants. Returns seconds.
    Raises ValueError for a side below 1, a GPU without those figures, or an unknown data type.
    Source: tiles and waves as in NVIDIA, Matrix Multiplication Background, 2023.

    >>> from dtlib.foundations import catalog
    >>> h100 = catalog["h100-sxm"]
    >>> round(gemm_time(8192, 4096, 4096, h100) * 1e6)
    348
    """
    ways = _tilings(rows, columns, inner, gpu, dtype, model)
    return reduce(minimum, (way.time for way in ways))


def gemm_tiling(
    rows: int,
    columns: int,
    inner: int,
    gpu: GPU,
    dtype: str = "bf16",
    model: GemmModel = GemmModel(),
) -> Tiling:
    """The tiling that `gemm_time` takes for one product. Arguments and errors as there.

    >>> from dtlib.foundations import catalog
    >>> best = gemm_tiling(256, 1024, 8192, catalog["h100-sxm"])
    >>> best.tile, best.split, best.tiles, best.waves
    ((64, 64), 2, 64, 1)
    """
    return min(_tilings(rows, columns, inner, gpu, dtype, model), key=lambda way: way.time)


def _tilings(rows, columns, inner, gpu, dtype, model):
    for name, side in (("rows", rows), ("columns", columns), ("inner", inner)):
        least = side.min() if hasattr(side, "min") else side
        require(least >= 1, "gemm_time", name, side, "at least 1")
    for name in ("sms", "clock"):
        known = getattr(gpu, name) is not None
        require(known, f"GPU {gpu.name!r}", name, None, "known, to count waves and cycles")
    gpu.peak(dtype)
    require(dtype in ELEMENT_BYTES, "gemm_time", "dtype", dtype, f"in {list(ELEMENT_BYTES)}")
    return [
        _tiling(rows, columns, inner, gpu, dtype, model, tile, split)
        for tile in model.tiles
        for split in model.splits
    ]


def _tiling(rows, columns, inner, gpu, dtype, model, tile, split) -> Tiling:
    element_bytes = ELEMENT_BYTES[dtype]
    tiles = tile_count(rows, columns, *tile)
    waves = wave_count(split * tiles, gpu.sms)
    step = tile_time(inner / split, *tile, model.edge, gpu.peak(dtype), gpu.sms)
    traffic = maximum(
        gemm_bytes(rows, columns, inner, element_bytes),
        wave_bytes(rows, columns, inner, *tile, tiles, gpu.sms, element_bytes),
    )
    parts = 8 * split * rows * columns if split > 1 else 0  # written and read again, in fp32
    computing = waves * (step + model.tile_cycles / gpu.clock)
    moving = (traffic + parts) / (model.bandwidth_fraction * gpu.hbm_bandwidth)
    launch = (1 if split == 1 else 2) * model.launch_cycles / gpu.clock
    time = launch + overlapped_time(computing, moving, model.overlap)
    return Tiling(tile, split, tiles, waves, computing, moving, time)
