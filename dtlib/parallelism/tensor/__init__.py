"""Tensor parallelism: `cuts`, `layers`, `model`, two losses, `splits`, and its `cost`."""
