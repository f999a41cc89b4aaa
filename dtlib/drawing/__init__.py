"""Drawings as data, and the schedules that the book draws: the same in a page and without one.

The scripts, in the order in which they are joined: `quantities`, as a sentence prints them;
`scales`; `marks`, what a drawing is made of; `plot`; `gantt`, rows of bars in time. `svg` runs them
in Python. The widgets of `dtlib.explore` are drawn by the same scripts.
"""
