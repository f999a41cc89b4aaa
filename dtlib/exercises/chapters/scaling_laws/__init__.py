"""The exercises of part 2, Scaling laws."""
