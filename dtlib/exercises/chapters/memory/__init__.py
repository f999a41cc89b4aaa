"""The exercises of part 5, Memory."""
