"""What a rank must hold: the account of its memory."""

from dtlib.memory.account import (
    gradient_shards,
    model_state_bytes,
    optimizer_shards,
    weight_shards,
)

__all__ = ["gradient_shards", "model_state_bytes", "optimizer_shards", "weight_shards"]
