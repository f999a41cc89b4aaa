"""What a rank must hold: the account of its memory."""

from dtlib.memory.account import (
    gathered_bytes,
    gradient_shards,
    logit_bytes,
    model_state_bytes,
    optimizer_shards,
    pipeline_activation_bytes,
    rank_params,
    weight_bytes,
    weight_shards,
)

__all__ = [
    "gathered_bytes",
    "gradient_shards",
    "logit_bytes",
    "model_state_bytes",
    "optimizer_shards",
    "pipeline_activation_bytes",
    "rank_params",
    "weight_bytes",
    "weight_shards",
]
