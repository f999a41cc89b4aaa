"""The quick questions of part 4, Parallelism."""
