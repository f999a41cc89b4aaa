"""Efficiency: sending less, waiting less, rounding more, and what each shortcut keeps exact.

`compression`, gradients in fewer bytes; `asynchrony`, ranks that wait less; `precision`, numbers of
few bits; `overlap`, what hides behind what; `architecture`, models that keep and send less.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.efficiency.compression.programs import (
        Exchange,
        Gather,
        Mean,
        WireMeter,
        Who,
        across,
        alone,
        together,
    )
    from dtlib.efficiency.compression.compressor import (
        Compressor,
        Dense,
        Gathered,
        Sent,
        contraction,
        linearity_defect,
        moments,
    )
    from dtlib.efficiency.compression.sparse import RandK, TopK
    from dtlib.efficiency.compression.levels import QSGD, Levels, SignSGD, level_variance
    from dtlib.efficiency.compression.low_rank import PowerSGD
    from dtlib.efficiency.compression.feedback import ErrorFeedback, TwoWay
    from dtlib.efficiency.compression.on_ranks import (
        CompressedDataParallel,
        CompressionHook,
        compression_hook,
        mean_of,
    )
    from dtlib.efficiency.compression.one_bit_adam import OneBitAdam
    from dtlib.efficiency.compression.sharded import (
        quantised_all_gather,
        quantised_reduce_scatter,
        ring_of_rounded_sums,
    )
    from dtlib.efficiency.compression.cost import (
        compressed_step_time,
        gathered_over_dense_ratio,
        levels_variance_bound,
        low_rank_fraction,
        paying_bandwidth,
        residual_bound,
        sparse_border_ranks,
        sparse_message_fraction,
    )
    from dtlib.efficiency.asynchrony.rules import (
        Asynchronous,
        Reply,
        Rule,
        StaleSynchronous,
        Synchronous,
    )
    from dtlib.efficiency.asynchrony.history import Arrival, History, descend, simulate_server
    from dtlib.efficiency.asynchrony.stability import stability_border, stale_descent
    from dtlib.efficiency.asynchrony.server import parameter_server
    from dtlib.efficiency.asynchrony.two_level import (
        DiLoCo,
        LocalSGD,
        Outer,
        SlowMo,
        TwoLevel,
        meet,
    )
    from dtlib.efficiency.asynchrony.scaffold import SCAFFOLD
    from dtlib.efficiency.asynchrony.fixed_point import local_fixed_point
    from dtlib.efficiency.asynchrony.gossip import (
        check_doubly_stochastic,
        exponential_mixing,
        gossip,
        ring_mixing,
        spectral_gap,
    )
    from dtlib.efficiency.asynchrony.rollouts import (
        Admission,
        Shares,
        importance,
        simulate_rollouts,
    )
    from dtlib.efficiency.asynchrony.post_training import post_train
    from dtlib.efficiency.asynchrony.cost import (
        local_step_time,
        queue_generator_idle_fraction,
        queue_trainer_idle_fraction,
        streamed_step_time,
        turns_idle_fraction,
    )
    from dtlib.efficiency.precision.formats import (
        BF16,
        E2M1,
        E2M3,
        E3M2,
        E4M3,
        E5M2,
        FP16,
        FP32,
        TF32,
        FloatFormat,
        format_of,
    )
    from dtlib.efficiency.precision.rounding import cast, decode, quantise
    from dtlib.efficiency.precision.blocks import (
        Blocks,
        block_quantise,
        mx,
        nvfp4,
        rms_error,
        whole_quantise,
    )
    from dtlib.efficiency.precision.windows import share_above, share_below, share_subnormal
    from dtlib.efficiency.precision.scaler import LossScaler
    from dtlib.efficiency.precision.sums import (
        ACCUMULATOR,
        kahan_sum,
        pairwise_sum,
        promoted_sum,
        running_sum,
    )
    from dtlib.efficiency.precision.kept import KeptWeights, walk
    from dtlib.efficiency.precision.products import Recipe, RoundedLinear, round_products
    from dtlib.efficiency.precision.spikes import first_step_rates, most_step_rates, step_rates
    from dtlib.efficiency.precision.cost import (
        cast_time,
        eight_bit_product_time,
        eight_bit_side,
        sixteen_bit_product_time,
    )
    from dtlib.efficiency.precision.fixed_order import ordered_sum, reproducible_sum
    from dtlib.efficiency.overlap.cost import (
        collective_matmul_time,
        contended_bucket_count,
        contended_bucketed_time,
        hidden_fraction,
        overlap_efficiency_fraction,
        overlapped_bucket_count,
        overlapped_step_floor_time,
    )
    from dtlib.efficiency.overlap.buckets import best_cut, cut_by_size, cut_ends
    from dtlib.efficiency.overlap.queues import (
        Kernel,
        communicating,
        computing,
        simulate_queues,
    )
    from dtlib.efficiency.overlap.programs import (
        bucketed_backward,
        sharded_forward,
        tensor_parallel_backward,
    )
    from dtlib.efficiency.overlap.readiness import compiled_order, ready_order, seen_order
    from dtlib.efficiency.overlap.matmul import gathered_matmul, matmul_scattered
    from dtlib.efficiency.overlap.one_sided import Window, execute_by_puts
    from dtlib.efficiency.architecture.cost import (
        absorbed_latent_flops,
        absorbing_queries,
        decoding_step_time,
        explicit_latent_flops,
        grouped_attention_intensity,
        grouped_cache_bytes,
        halo_bytes,
        latent_attention_intensity,
        latent_cache_bytes,
        latent_equal_kv_heads,
        linear_state_bytes,
        node_limited_bytes,
        state_equal_tokens,
        turning_batch,
        window_reach_tokens,
        windowed_cache_bytes,
    )
    from dtlib.efficiency.architecture.cache import kv_bytes
    from dtlib.efficiency.architecture.decoding import (
        DecodingCosts,
        decoding_costs,
        largest_batch,
    )
    from dtlib.efficiency.architecture.latent import LatentAttention, LatentCache
    from dtlib.efficiency.architecture.windows import halo_attention, path_weights
    from dtlib.efficiency.architecture.states import (
        LinearState,
        carried_attention,
        linear_attention,
        shared_linear_attention,
        state_before,
    )
    from dtlib.efficiency.architecture.nodes import (
        node_limited_route,
        once_per_node,
        reached_nodes,
    )
    from dtlib.efficiency.architecture.further import (
        FurtherToken,
        further_params,
        last_states,
        two_token_loss,
    )

__getattr__, __dir__, __all__ = face(__name__)
