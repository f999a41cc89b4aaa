"""The exercises of part 1, Foundations."""
