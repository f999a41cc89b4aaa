"""The exercises of part 3, Collectives."""
