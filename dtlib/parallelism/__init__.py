"""Ways to split a training step over ranks.

`operators`, communication that a gradient can pass; `data`, `tensor`, `pipeline`, `sequence` and
`expert`, one room for each strategy, with what it costs in its own `cost`.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.parallelism.operators.groups import group_within
    from dtlib.parallelism.operators.adjoint import (
        copy_to_ranks, sum_over_ranks, all_reduce, all_gather, reduce_scatter, all_to_all, shift,
        own_slice, gather_slices,
    )
    from dtlib.parallelism.operators.transposes import ADJOINTS, adjoint_gap, certify
    from dtlib.parallelism.operators.counting import counted
    from dtlib.parallelism.operators.random_streams import RandomStreams
    from dtlib.parallelism.operators.keeper import KeepsGroups, KeepsHooks
    from dtlib.parallelism.data.replica import (
        average_each, average_flat, token_mean_loss, DataParallel,
    )
    from dtlib.parallelism.data.overlap import overlapped_steps, simulate_step, share_sizes
    from dtlib.parallelism.data.cost import (
        evenly_divided_time, data_parallel_step_time, data_parallel_fastest_ranks,
        best_bucket_count, sparse_crossover_ranks, summation_error_bound, replica_count,
        micro_batch_count, replica_bandwidth, last_backward_time, exposed_time,
    )
    from dtlib.parallelism.tensor.cuts import Cut, Undivided
    from dtlib.parallelism.tensor.layers import (
        enter, leave, sum_gradient, OnOwnTokens, ColumnParallelLinear, RowParallelLinear,
        VocabParallelEmbedding, copies_group_of,
    )
    from dtlib.parallelism.tensor.model import (
        TensorParallelBlock, tensor_parallel, shard_state, merge_states,
    )
    from dtlib.parallelism.tensor.vocab_loss import vocab_parallel_cross_entropy
    from dtlib.parallelism.tensor.chunked_loss import chunked_cross_entropy
    from dtlib.parallelism.tensor.splits import split_steps, run_split
    from dtlib.parallelism.tensor.cost import (
        activation_message_bytes, tensor_parallel_layer_bytes, tensor_forward_headroom,
        tensor_parallel_time, head_imbalance_fraction, vocab_loss_bytes, gathered_logits_bytes,
        loss_pieces_bytes,
    )
    from dtlib.parallelism.sequence.softmax_state import SoftmaxState, softmax_monoid
    from dtlib.parallelism.sequence.masks import (
        Mask, causal_mask, window_mask, document_mask, document_numbers,
    )
    from dtlib.parallelism.sequence.layouts import causal_work, critical_path
    from dtlib.parallelism.sequence.attention import (
        ring_attention, all_gather_attention, ulysses_attention, sequence_to_heads,
        heads_to_sequence,
    )
    from dtlib.parallelism.sequence.lean import lean_ring_attention
    from dtlib.parallelism.sequence.model import ATTENTIONS, ContextParallel, context_parallel
    from dtlib.parallelism.sequence.cost import (
        attention_score_bytes, ring_hop_bytes, ring_attention_bytes, lean_ring_backward_bytes,
        ulysses_attention_bytes, ring_over_ulysses_ratio, ring_step_flops, ring_buffer_bytes,
        ring_attention_time, all_gather_attention_time, ulysses_attention_time,
        contiguous_causal_steps, zigzag_causal_steps,
    )
    from dtlib.parallelism.expert.routing import (
        Routing, route, Router, expert_choice, balance_loss, z_loss, BiasBalancer,
    )
    from dtlib.parallelism.expert.layer import (
        Routes, dropless_routes, capacity_routes, dispatch, combine, MoELayer, expert_parallel,
        sum_gradients,
    )
    from dtlib.parallelism.expert.load import (
        expert_loads, fill_experts, even_router_overflow, expected_nodes, loads_under_bias,
        balanced_by_bias,
    )
    from dtlib.parallelism.expert.cost import (
        routed_bytes, padded_routed_bytes, expert_capacity, padding_fraction, busiest_expert_time,
    )
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
