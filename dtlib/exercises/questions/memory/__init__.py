"""The quick questions of part 5, Memory."""
