"""Ways to split a training step over ranks."""

from dtlib.parallelism.data import (
    data_parallel_fastest_ranks,
    data_parallel_step_time,
    evenly_divided_time,
)

__all__ = ["data_parallel_fastest_ranks", "data_parallel_step_time", "evenly_divided_time"]
