"""The rows of a schedule as text: ranks from top to bottom, steps from left to right."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from dtlib.parallelism.pipeline.play import play

if TYPE_CHECKING:
    from dtlib.parallelism.pipeline.schedule import PipelineSchedule


def grid(
    schedule: "PipelineSchedule",
    faults: Collection[tuple[int, int]] = (),
    widest: int | None = None,
) -> str:
    """The rows as text, a column for each step in time, every entry one step long.

    ``faults`` are (rank, entry of the row) to be marked; where the grid would be wider than
    ``widest`` letters (None: any width will do), the columns around the first of them are shown.
    A rank that waits for ever shows what it never does from the step on at which everything
    stands still.

    >>> from dtlib.parallelism.pipeline import gpipe
    >>> print(grid(gpipe(2, 2)))
    rank 0 | 0F0   0F1               0BW0  0BW1
    rank 1 |       1F0   1F1   1BW0  1BW1
    """
    begins = _columns(schedule)
    ends = max((row[-1] + 1 for row in begins if row), default=0)
    cells = [[""] * ends for _ in begins]
    for rank, row in enumerate(begins):
        for at, column in enumerate(row):
            mark = "!" if (rank, at) in faults else ""
            cells[rank][column] = mark + str(schedule.rows[rank][at])
    width = max((len(cell) for row in cells for cell in row), default=0) + 2
    first, last, before, after = _window(
        ends, widest // width if widest else ends, [begins[r][at] for r, at in faults]
    )
    return "\n".join(
        (
            f"rank {rank} | {before}" + "".join(cell.ljust(width) for cell in row[first:last])
        ).rstrip()
        + after
        for rank, row in enumerate(cells)
    )


def _columns(schedule: "PipelineSchedule") -> list[list[int]]:
    """For every entry of every row the step at which it begins, or would be listed."""
    played = play(schedule)
    still = max((stops[-1] for stops in played.stops if stops), default=0)
    begins = [list(starts) for starts in played.starts]
    for rank, at, _, _ in played.stuck:
        begins[rank] += range(still, still + len(schedule.rows[rank]) - at)
    return begins


def _window(columns: int, most: int, faults: list[int]) -> tuple[int, int, str, str]:
    """Which columns to show, and what stands for those left out before and after."""
    if columns <= most:
        return 0, columns, "", ""
    first = max(0, min(min(faults, default=0) - most // 2, columns - most))
    last = first + most
    return first, last, "... " * (first > 0), " ..." * (last < columns)
