"""Quick questions of part 7, Efficiency."""
