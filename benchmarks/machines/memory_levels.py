"""How far away a byte is on this machine: one read at a random place, from cache to disk.

A walk over cells of which each names the next one. The next address is known only when the cell has
been read, so no read can begin before the last one has ended: a step takes the latency of wherever
the cells lie. The cells are Python objects and the steps are those of the interpreter, which take
some nanoseconds of their own, the same for every size.
"""

import gc
import mmap
import os
import random
import tempfile
import time
from itertools import repeat
from pathlib import Path

from dtlib import recordings
from dtlib.foundations import KiB, MiB

CELL_BYTES = 48  # what CPython takes from the system for a `Cell`, its own header included
SIZES = [CELL_BYTES * 2**exponent for exponent in range(6, 23)]  # 3 KiB to 192 MiB
DISK_SIZES = [4 * KiB, 64 * KiB, 1 * MiB, 4 * MiB, 16 * MiB]
FILE_BYTES = 256 * MiB
STEPS = 100_000


class Cell:
    """A place that names the next one."""

    __slots__ = ("next",)


def cycle(size: int) -> Cell:
    """One of the cells that fill `size` bytes and form a single cycle in random order."""
    cells = [Cell() for _ in range(size // CELL_BYTES)]
    order = random.Random(0).sample(range(len(cells)), len(cells))
    for here, there in zip(order, [*order[1:], order[0]], strict=True):
        cells[here].next = cells[there]
    return cells[0]


def walk(cell: Cell, steps: int) -> Cell:
    """Take that many steps and return the cell on which they end."""
    for _ in repeat(None, steps):
        cell = cell.next
    return cell


def read_times(sizes, count: int) -> dict[int, list[float]]:
    """For every size, the seconds of one step, in each of `count` walks."""
    times = {}
    gc.disable()
    for size in sizes:
        cell = walk(cycle(size), STEPS)
        for _ in range(count):
            start = time.perf_counter()
            cell = walk(cell, STEPS)
            times.setdefault(size, []).append((time.perf_counter() - start) / STEPS)
        undo(cell)
    gc.enable()
    return times


def undo(cell: Cell) -> None:
    """Open the cycle and let its cells go one by one; recursion would go too deep."""
    following, cell.next = cell.next, None
    while following is not None:
        following.next, following = None, following.next


def disk_times(sizes, count: int) -> dict[int, list[float]]:
    """For every size, the seconds to read so many bytes at a random place of a file, uncached.

    Empty where the system cannot read past its own cache.
    """
    if not hasattr(os, "O_DIRECT"):
        return {}
    draw, times = random.Random(0), {}
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for _ in range(FILE_BYTES // MiB):
            file.write(os.urandom(MiB))
        file.flush()
        os.fsync(file.fileno())
        try:
            source = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            return {}
        for size in sizes:
            with mmap.mmap(-1, size) as buffer:
                for _ in range(count):
                    place = draw.randrange(0, FILE_BYTES - size, 4 * KiB)
                    start = time.perf_counter()
                    os.preadv(source, [buffer], place)
                    times.setdefault(size, []).append(time.perf_counter() - start)
        os.close(source)
    return times


def caches() -> dict[str, int]:
    """Bytes of each cache for data that the first processor sees, nearest first."""
    found = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = (cache / "type").read_text().strip()
        if kind in ("Data", "Unified"):
            level = (cache / "level").read_text().strip()
            found[f"L{level}"] = int((cache / "size").read_text().strip().removesuffix("K")) * KiB
    return found


def label(size: int) -> str:
    """3072 is "3 KiB"."""
    return f"{size // MiB} MiB" if size % MiB == 0 else f"{size // KiB} KiB"


def measure_memory_levels() -> None:
    walks = {f"step in {label(n)}": times for n, times in read_times(SIZES, 15).items()}
    reads = {f"disk {label(n)}": times for n, times in disk_times(DISK_SIZES, 31).items()}
    rounded = {
        name: [float(f"{seconds:.4g}") for seconds in times]
        for name, times in (walks | reads).items()
    }
    recordings.save(
        "memory-levels", rounded, unit="s", sizes=SIZES, disk_sizes=DISK_SIZES, caches=caches()
    )
