"""What a rank must hold: the account of its memory."""

from dtlib.memory.account import (
    best_segment_layers,
    fused_layer_bytes,
    gathered_bytes,
    gradient_shards,
    logit_bytes,
    model_state_bytes,
    optimizer_shards,
    pipeline_activation_bytes,
    rank_params,
    segment_repeated_flops,
    segmented_activation_bytes,
    weight_bytes,
    weight_shards,
)

__all__ = [
    "best_segment_layers",
    "fused_layer_bytes",
    "gathered_bytes",
    "gradient_shards",
    "logit_bytes",
    "model_state_bytes",
    "optimizer_shards",
    "pipeline_activation_bytes",
    "rank_params",
    "segment_repeated_flops",
    "segmented_activation_bytes",
    "weight_bytes",
    "weight_shards",
]
