"""Tiles and waves: why a GPU computes more than it was asked to, and idles at the end.

The result of a matrix product is cut into tiles. Each multiprocessor computes one tile at a time;
all of them together one wave. A tile that sticks out over the border costs as much as a whole one,
and a wave with one tile in it lasts as long as a full one.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, minimum, sqrt


@formula(
    r"N_\text{tile}",
    "",
    "NVIDIA, Matrix Multiplication Background, 2023",
    "a tile at the border costs as much as any other",
)
def tile_count(rows, columns, tile_rows, tile_columns):
    """The tiles that cover a result: one multiprocessor computes one tile.

    Whole tiles down, times whole tiles across.

    >>> tile_count(rows=256, columns=256, tile_rows=128, tile_columns=128)
    4
    >>> tile_count(rows=257, columns=256, tile_rows=128, tile_columns=128)
    6
    """
    return ceil(rows / tile_rows) * ceil(columns / tile_columns)


@formula(
    r"N_\text{wave}",
    "",
    "NVIDIA, Matrix Multiplication Background, 2023",
    "tiles of equal length, one at a time on each multiprocessor",
)
def wave_count(tiles, sms):
    """The turns that a GPU needs to compute so many tiles, each multiprocessor one tile a turn.

    Tiles over multiprocessors, rounded up.

    >>> wave_count(tiles=132, sms=132), wave_count(tiles=133, sms=132)
    (1, 2)
    """
    return ceil(tiles / sms)


@formula(
    r"\eta_\text{wave}",
    "",
    "NVIDIA, Matrix Multiplication Background, 2023",
    "tiles of equal length, one at a time on each multiprocessor",
)
def wave_efficiency(tiles, sms):
    """The share of all turns of all multiprocessors in which one has a tile to compute.

    Tiles over the places that the waves offer.

    >>> wave_efficiency(tiles=132, sms=132), round(wave_efficiency(tiles=133, sms=132), 3)
    (1.0, 0.504)
    """
    return tiles / (wave_count(tiles, sms) * sms)


@formula(
    r"T_\text{tile}",
    "s",
    "multiply-adds and the fetching of operands, counted for one tile",
    "every multiprocessor has an equal share of the peak rate",
)
def tile_time(inner, tile_rows, tile_columns, edge, peak, sms):
    """The time in which one multiprocessor computes one tile.

    Each of the `inner` steps fetches one number for each row and column of the tile, at the price
    of `edge` multiply-adds, and multiplies all of them with one another. So a large tile is near
    its share of the peak, and a small one is not.

    >>> round(tile_time(inner=4096, tile_rows=128, tile_columns=256, edge=8, peak=989e12, sms=132)
    ...       * 1e6, 1)
    39.2
    """
    return 2 * inner * (tile_rows * tile_columns + edge * (tile_rows + tile_columns)) * sms / peak


@formula(
    r"Q_\text{waves}",
    "B",
    "surface of a wave's tiles, laid side by side in a square",
    "tiles of one wave read together, and nothing stays in the cache until the next",
)
def wave_bytes(rows, columns, inner, tile_rows, tile_columns, tiles, sms, element_bytes):
    """The traffic of a product whose every wave reads its operands anew.

    The tiles of a wave form at best a square, which needs as many rows of the one matrix and
    columns of the other as its side is long; the result is written once.

    >>> wave_bytes(8192, 8192, 65536, 128, 256, tiles=2048, sms=132, element_bytes=2) / 1e9
    8.857...
    """
    return element_bytes * (
        2 * inner * wave_count(tiles, sms) * sqrt(minimum(tiles, sms) * tile_rows * tile_columns)
        + rows * columns
    )
