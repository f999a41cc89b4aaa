"""The exercises of part 6, Composition."""
