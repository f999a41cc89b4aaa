"""The quick questions of part 6, Composition."""
