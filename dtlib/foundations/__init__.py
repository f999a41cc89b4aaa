"""What a machine can do, what a run needs, and the language that both are said in.

Units and formulas, machines and models are the ground that every room stands on; then come
chapters 1 to 6: `walls` and `speedup`, `roofline`, `data` and `cost`.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.formulas.units import (
        GB, KB, MB, TB, GiB, KiB, MiB, TiB, Gbit, ms, us, day, hour, minute, PFLOP, TFLOP, Quantity,
        parse_quantity, format_quantity,
    )
    from dtlib.formulas.symbol import Symbol
    from dtlib.formulas.notation import NOTATION, notation_table
    from dtlib.formulas.formula import FormulaError, formulas, formula, Formula
    from dtlib.formulas.sheet import UnitError, SheetError, Given, line, total, Sheet
    from dtlib.machines.alpha_beta import (
        message_time, half_performance_bytes, effective_bandwidth, bandwidth_efficiency,
        ping_pong_time, chunked_time, pipelined_chain_time, pipelined_chain_best_chunks,
        pipelined_chain_best_time, loggp_time, loggp_burst_time, loggp_alpha, loggp_beta,
    )
    from dtlib.machines.fit import Fit, fit_alpha_beta, ping_pong_fit
    from dtlib.machines.machine import GPU, Cluster, Link, Memory, Node
    from dtlib.machines.datasheets import catalog
    from dtlib.machines.hardware import hardware_table
    from dtlib.machines.traffic import (
        boundary_time, ring_algorithm_bandwidth, tensor_traffic_bytes, pipeline_traffic_bytes,
    )
    from dtlib.machines.axis_order import (
        AxisOrderError, Level, cluster_levels, Axis, AxisOrder, axis_orders, best_axis_order,
        check_inside, nested_read_time,
    )
    from dtlib.models.weights import Weight
    from dtlib.models.activations import Kept, kept_tensors
    from dtlib.models.work import (
        training_flops, training_time, dense_params, adam_state_bytes, layer_activation_bytes,
        attention_flops_fraction, causal_attention_flops_fraction, model_flops_utilisation,
        hardware_flops_utilisation,
    )
    from dtlib.models.spec import MoE, MLA, TransformerSpec
    from dtlib.models.published import published_models
    from dtlib.foundations.walls import (
        least_devices, memory_wall_params, affordable_tokens, time_wall_params,
        gradient_exchange_time, exchanging_training_time, exchanging_affordable_tokens,
        exchange_wall_ranks,
    )
    from dtlib.foundations.speedup import (
        amdahl_speedup, gustafson_speedup, strong_scaling_efficiency, weak_scaling_efficiency,
        fleet_step_time, most_overlap_time, least_fleet_step_time, synchronous_speedup,
        charged_speedup, check_overlap,
    )
    from dtlib.foundations.roofline.times import (
        roofline_time, arithmetic_intensity, ridge_intensity, roofline_rate, headroom, serial_rate,
        overlapped_time, bucketed_time,
    )
    from dtlib.foundations.roofline.intensity import (
        matmul_intensity, data_parallel_bytes, data_parallel_intensity,
        sharded_data_parallel_intensity, data_parallel_tokens, backward_hiding_tokens,
        tensor_parallel_intensity, pipeline_parallel_intensity, context_parallel_intensity,
        expert_parallel_intensity,
    )
    from dtlib.foundations.roofline.one_ratio import (
        sharded_data_parallel_tokens, tensor_parallel_width, pipeline_parallel_extent,
        context_parallel_tokens, causal_context_parallel_tokens, expert_parallel_width,
        parameter_offload_tokens, activation_offload_width, one_ratio_table,
    )
    from dtlib.foundations.roofline.headroom import (
        memory_headroom, link_headroom, border_intensity, port_headroom,
    )
    from dtlib.foundations.roofline.tiles import (
        tile_count, wave_count, wave_efficiency, tile_time, wave_bytes,
    )
    from dtlib.foundations.roofline.gemm import (
        gemm_flops, gemm_bytes, gemm_roofline_time, gemm_derated_time, GemmModel, Tiling, gemm_time,
        gemm_tiling,
    )
    from dtlib.foundations.roofline.sample import gemm_sample, gemm_errors
    from dtlib.foundations.data.rates import (
        token_rate, data_bandwidth, data_intensity, data_ridge_intensity, fetches_in_flight,
        safe_depth, busy_fraction_bound, kingman_wait_time, read_amplification, cache_fill_time,
        cache_lasting_time,
    )
    from dtlib.foundations.data.prefetcher import (
        Prefetch, prefetch, fetch_times, count_trace, area_under,
    )
    from dtlib.foundations.data.memoryless import (
        memoryless_busy_fraction, memoryless_in_order_busy_fraction,
    )
    from dtlib.foundations.data.sampling import (
        EpochError, global_batch, rank_share, check_epoch, ShuffleBuffer, mixed,
    )
    from dtlib.foundations.data.balance import (
        longest_first, pack_costs, expected_straggler,
    )
    from dtlib.foundations.cost.preemption import (
        gang_mtbf, retried_time, failure_multiplier, failure_overhead, young_multiplier,
        optimal_interval,
    )
    from dtlib.foundations.cost.economics import (
        young_interval, gpu_time, training_cost, token_cost, run_time, run_cost, deadline_cost,
        fewest_ranks, most_ranks, ownership_price, break_even_time, training_energy,
    )
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
