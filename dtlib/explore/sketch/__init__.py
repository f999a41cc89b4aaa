"""A curve that the reader draws before the formula does: `sketch`."""
