"""Batch size and gradient noise: how many samples a step should have, and what says so.

`estimate`, the noise scale from norms of gradients; `tradeoff`, steps against samples, time and
price; `rates`, what a sign wants; `quadratic`, a loss on which all of it is exact; `on_ranks`, the
noise scale of a data-parallel run; `consumed`, schedules of what was consumed; `runs`, models that
learn at any batch size; `recorded`, those of the chapter.
"""
