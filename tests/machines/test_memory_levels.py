"""The instrument that measures the levels of a machine: its cells form one cycle, and it ends."""

import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.machines import memory_levels


def test_the_cells_form_a_single_cycle_in_no_simple_order():
    size = 1000 * memory_levels.CELL_BYTES
    first = memory_levels.cycle(size)
    seen, cell = [], first
    while not seen or cell is not first:
        seen.append(id(cell))
        cell = cell.next
    assert len(seen) == len(set(seen)) == 1000
    forwards = sum(there > here for here, there in pairwise(seen))
    assert 300 < forwards < 700


def test_a_walk_of_a_whole_cycle_ends_where_it_began():
    first = memory_levels.cycle(100 * memory_levels.CELL_BYTES)
    assert memory_levels.walk(first, 100) is first
    assert memory_levels.walk(first, 99) is not first


def test_a_long_cycle_is_undone_without_recursion():
    memory_levels.undo(memory_levels.cycle(300_000 * memory_levels.CELL_BYTES))


def test_every_size_is_walked_as_often_as_asked():
    sizes = [64 * memory_levels.CELL_BYTES, 128 * memory_levels.CELL_BYTES]
    times = memory_levels.read_times(sizes, 2)
    assert list(times) == sizes
    assert all(len(series) == 2 and min(series) > 0 for series in times.values())


def test_a_size_is_labelled_in_powers_of_two():
    assert [memory_levels.label(n) for n in (3072, 3 * 2**20)] == ["3 KiB", "3 MiB"]
