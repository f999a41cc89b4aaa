"""Recomputation: what is not kept for the backward pass is computed again.

`schedule`, `simulation` and `planner`; `cost`; `drawing`; `run`, for real; `policy`, `model`,
`measure` and `tensor`.
"""
