"""The exercises of part 4, Parallelism."""
