"""Groups of four ranks: all, some that do not begin at rank 0 or have gaps, and one rank alone."""

GROUPS = ([0, 1, 2, 3], [1, 2, 3], [2, 3], [0, 2], [3])
