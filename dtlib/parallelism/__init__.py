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
from dtlib.parallelism.overlap import overlapped_steps, share_sizes, simulate_step

_NEEDS_TORCH: dict[str, tuple[str, ...]] = {
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
    "transposes": ("ADJOINTS", "adjoint_gap", "certify"),
}

__all__ = [
    "activation_message_bytes",
    "best_bucket_count",
    "bucketed_time",
    "data_parallel_fastest_ranks",
    "data_parallel_step_time",
    "evenly_divided_time",
    "exposed_time",
    "last_backward_time",
    "micro_batch_count",
    "overlapped_steps",
    "pipeline_bubble_time",
    "pipeline_send_time",
    "replica_bandwidth",
    "replica_count",
    "sharded_exchange_time",
    "share_sizes",
    "simulate_step",
    "sparse_crossover_ranks",
    "summation_error_bound",
    "tensor_parallel_time",
    "zero_exchange_time",
]


def __getattr__(name: str):
    for module, names in _NEEDS_TORCH.items():
        if name in names:
            return getattr(import_module(f"dtlib.parallelism.{module}"), name)
    raise AttributeError(f"module 'dtlib.parallelism' has no attribute {name!r}")
