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
from dtlib.parallelism.data import (
    data_parallel_fastest_ranks,
    data_parallel_step_time,
    evenly_divided_time,
)

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
    "transposes": ("ADJOINTS", "adjoint_gap", "certify"),
}

__all__ = [
    "activation_message_bytes",
    "data_parallel_fastest_ranks",
    "data_parallel_step_time",
    "evenly_divided_time",
    "exposed_time",
    "last_backward_time",
    "micro_batch_count",
    "pipeline_bubble_time",
    "pipeline_send_time",
    "replica_bandwidth",
    "replica_count",
    "sharded_exchange_time",
    "tensor_parallel_time",
    "zero_exchange_time",
]


def __getattr__(name: str):
    for module, names in _NEEDS_TORCH.items():
        if name in names:
            return getattr(import_module(f"dtlib.parallelism.{module}"), name)
    raise AttributeError(f"module 'dtlib.parallelism' has no attribute {name!r}")
