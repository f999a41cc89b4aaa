"""The exercises of part 7, Efficiency."""
