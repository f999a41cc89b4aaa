"""Ways to split a training step over ranks.

What needs torch is imported when it is first asked for: formulas and estimates do without.
"""

from importlib import import_module

from dtlib.parallelism.cost import (
    activation_message_bytes,
    exposed_time,
    last_backward_time,
    micro_batch_count,
    pipeline_bubble_time,
    pipeline_send_time,
    replica_bandwidth,
    replica_count,
    sharded_exchange_time,
    tensor_parallel_time,
    zero_exchange_time,
)
from dtlib.parallelism.data_cost import (
    best_bucket_count,
    bucketed_time,
    data_parallel_fastest_ranks,
    data_parallel_step_time,
    evenly_divided_time,
    sparse_crossover_ranks,
    summation_error_bound,
)
from dtlib.parallelism.expert_cost import (
    busiest_expert_time,
    expert_capacity,
    padded_routed_bytes,
    padding_fraction,
    routed_bytes,
)
from dtlib.parallelism.expert_load import (
    balanced_by_bias,
    even_router_overflow,
    expected_nodes,
    expert_loads,
    fill_experts,
    loads_under_bias,
)
from dtlib.parallelism.groups import axis_groups, groups_of
from dtlib.parallelism.layouts import (
    causal_work,
    critical_path,
)
from dtlib.parallelism.overlap import overlapped_steps, share_sizes, simulate_step
from dtlib.parallelism.sequence_cost import (
    all_gather_attention_time,
    attention_score_bytes,
    contiguous_causal_steps,
    lean_ring_backward_bytes,
    ring_attention_bytes,
    ring_attention_time,
    ring_buffer_bytes,
    ring_hiding_tokens,
    ring_hop_bytes,
    ring_over_ulysses_ratio,
    ring_step_flops,
    ulysses_attention_bytes,
    ulysses_attention_time,
    zigzag_causal_steps,
)
from dtlib.parallelism.tensor_cost import (
    gathered_logits_bytes,
    head_imbalance_share,
    tensor_forward_headroom,
    tensor_parallel_layer_bytes,
    tensor_parallel_least_hidden,
    tensor_step_headroom,
    vocab_loss_bytes,
)

_NEEDS_TORCH: dict[str, tuple[str, ...]] = {
    "context": (
        "ATTENTIONS",
        "ContextParallel",
        "context_parallel",
    ),
    "lean": ("lean_ring_attention",),
    "sequence": (
        "all_gather_attention",
        "heads_to_sequence",
        "ring_attention",
        "sequence_to_heads",
        "ulysses_attention",
    ),
    "softmax_state": (
        "SoftmaxState",
        "softmax_monoid",
    ),
    "adjoint": (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "copy_to_ranks",
        "gather_slices",
        "own_slice",
        "reduce_scatter",
        "shift",
        "sum_over_ranks",
    ),
    "counting": ("counted",),
    "data": ("DataParallel", "average_each", "average_flat", "token_mean_loss"),
    "expert": (
        "MoELayer",
        "Plan",
        "capacity_plan",
        "combine",
        "dispatch",
        "dropless_plan",
        "expert_parallel",
        "sum_gradients",
    ),
    "random_streams": ("RandomStreams",),
    "routing": (
        "BiasBalancer",
        "Router",
        "Routing",
        "balance_loss",
        "expert_choice",
        "route",
        "z_loss",
    ),
    "splits": ("run_split", "split_steps"),
    "tensor": ("ColumnParallelLinear", "RowParallelLinear", "VocabParallelEmbedding"),
    "tensor_model": ("TensorParallelBlock", "merge_states", "shard_state", "tensor_parallel"),
    "transposes": ("ADJOINTS", "adjoint_gap", "certify"),
    "vocab_loss": ("vocab_parallel_cross_entropy",),
}

__all__ = [
    "activation_message_bytes",
    "all_gather_attention_time",
    "attention_score_bytes",
    "axis_groups",
    "balanced_by_bias",
    "best_bucket_count",
    "bucketed_time",
    "busiest_expert_time",
    "causal_work",
    "contiguous_causal_steps",
    "critical_path",
    "data_parallel_fastest_ranks",
    "data_parallel_step_time",
    "even_router_overflow",
    "evenly_divided_time",
    "expected_nodes",
    "expert_capacity",
    "expert_loads",
    "exposed_time",
    "fill_experts",
    "gathered_logits_bytes",
    "groups_of",
    "head_imbalance_share",
    "last_backward_time",
    "lean_ring_backward_bytes",
    "loads_under_bias",
    "micro_batch_count",
    "overlapped_steps",
    "padded_routed_bytes",
    "padding_fraction",
    "pipeline_bubble_time",
    "pipeline_send_time",
    "replica_bandwidth",
    "replica_count",
    "ring_attention_bytes",
    "ring_attention_time",
    "ring_buffer_bytes",
    "ring_hiding_tokens",
    "ring_hop_bytes",
    "ring_over_ulysses_ratio",
    "ring_step_flops",
    "routed_bytes",
    "sharded_exchange_time",
    "share_sizes",
    "simulate_step",
    "sparse_crossover_ranks",
    "summation_error_bound",
    "tensor_forward_headroom",
    "tensor_parallel_layer_bytes",
    "tensor_parallel_least_hidden",
    "tensor_parallel_time",
    "tensor_step_headroom",
    "ulysses_attention_bytes",
    "ulysses_attention_time",
    "vocab_loss_bytes",
    "zero_exchange_time",
    "zigzag_causal_steps",
]


def __getattr__(name: str):
    for module, names in _NEEDS_TORCH.items():
        if name in names:
            return getattr(import_module(f"dtlib.parallelism.{module}"), name)
    raise AttributeError(f"module 'dtlib.parallelism' has no attribute {name!r}")
