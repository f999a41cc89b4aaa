"""What a rank must hold: the account of its memory, and a meter of it.

What needs torch is imported when one of its names is first asked for.
"""

from dtlib.lazy import on_demand
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

_NEEDS_TORCH = {
    "meter": ("Meter", "saved_by_operation", "saved_tensor_bytes"),
}

__getattr__ = on_demand(__name__, _NEEDS_TORCH)

__all__ = [
    "Meter",
    "best_segment_layers",
    "fused_layer_bytes",
    "gathered_bytes",
    "gradient_shards",
    "logit_bytes",
    "model_state_bytes",
    "optimizer_shards",
    "pipeline_activation_bytes",
    "rank_params",
    "saved_by_operation",
    "saved_tensor_bytes",
    "segment_repeated_flops",
    "segmented_activation_bytes",
    "weight_bytes",
    "weight_shards",
]
