"""Measured points, and a curve that the reader bends until it meets them: `hand_fit`."""
