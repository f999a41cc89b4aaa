"""The quick questions of part 3, Collectives."""
