"""Tensor parallelism: `cuts`, `layers`, `model`, `vocab_loss`, `splits`, and its `cost`."""
