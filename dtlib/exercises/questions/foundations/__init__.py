"""The quick questions of part 1, Foundations."""
