"""Figures that the reader moves: they compute in the page and need no kernel."""

from dtlib.explore.controls import Control, Task, between
from dtlib.explore.explorer import Explorer

__all__ = ["Control", "Explorer", "Task", "between"]
