"""Gradients before the window of a format, which the reader builds: `format_window`."""
