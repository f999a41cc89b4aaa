"""What a rank must hold, and how it comes to hold less.

`account`, the memory of a rank term by term, `live`, when each byte is there, and `meter` and
`peak`, which count them; `zero`, `recompute` and `offload`, three ways to hold less.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.memory.account.formulas import (
        weight_shards, gradient_shards, optimizer_shards, model_state_bytes, rank_params,
        gathered_bytes, pipeline_activation_bytes, logit_bytes, weight_bytes, fused_layer_bytes,
        segmented_activation_bytes, best_segment_layers, segment_repeated_flops,
    )
    from dtlib.memory.account.state import (
        StateRecipe, recipes, held_weight_bytes, held_gradient_bytes, held_optimizer_bytes,
        StageParams, stage_params, ParameterGroup, parameter_groups, matrix_groups,
    )
    from dtlib.memory.account.layers import (
        TokenBytes, token_bytes, repeated_token_bytes, activation_bytes, kept_layer_bytes,
        gated_layer_bytes, tensor_layer_bytes, sequence_layer_bytes, stage_kept_bytes,
        segment_work_bytes, score_crossover_seq,
    )
    from dtlib.memory.account.allocator import (
        AllocatorModel, launch_queue, output_bytes, gathered_stream_bytes, ring_block_bytes,
        ahead_buffer_bytes, reserve_bytes,
    )
    from dtlib.memory.account.programs import (
        Program, programs, streams_bytes, backward_work_bytes,
    )
    from dtlib.layout import even_stages
    from dtlib.memory.account.rank import MemoryAccount, rank_memory, pipeline_memory
    from dtlib.memory.account.many import rank_memories
    from dtlib.memory.account.gpt import GPTTensor, gpt_kept_tensors
    from dtlib.memory.live import LiveSetError, Life, LiveSet, check_fits, training_lives, gpt_lives
    from dtlib.memory.meter import Meter, saved_tensor_bytes, saved_by_operation
    from dtlib.memory.peak import PeakMeter
    from dtlib.memory.zero.square import (
        whole_update, parts_update, square_gap, check_elementwise, NormalisedSGD,
    )
    from dtlib.memory.zero.clipping import clip_gradients, copies_held
    from dtlib.memory.zero.optimizer import ShardedOptimizer
    from dtlib.memory.zero.scaler import ShardedGradScaler
    from dtlib.memory.zero.full import FullySharded
    from dtlib.memory.zero.steps import ZeroStep
    from dtlib.memory.zero.cost import (
        sharded_sent_bytes, weight_gathers, gradient_scatters, zero_sent_bytes,
        sharded_exchange_time, zero_exchange_time, newton_schulz_flops, owner_sent_bytes,
    )
    from dtlib.memory.zero.hybrid import full_port_bytes, hybrid_port_bytes
    from dtlib.memory.zero.muon import (
        newton_schulz, gathered_update, owned_update, exchanged_update,
    )
    from dtlib.memory.recompute.schedule import (
        RecomputeError, RecomputeAction, RecomputeSchedule, check_recompute, keep_all, uniform,
        revolve, revolve_reach, revolve_advances, fewest_advances,
    )
    from dtlib.memory.recompute.simulation import LayerCost, Chain, simulate_recompute
    from dtlib.memory.recompute.planner import PricedSchedule, best_schedule, pareto_front
    from dtlib.memory.recompute.cost import (
        segment_peak_bytes, best_segment_length, stage_segment_bytes, one_slot_advances,
        selective_work_fraction, full_work_fraction, score_bytes_fraction,
    )
    from dtlib.memory.recompute.drawing import draw_recompute
    from dtlib.memory.recompute.run import recompute_chain
    from dtlib.memory.recompute.policy import checkpoint_policy, checkpoint
    from dtlib.memory.recompute.model import Recomputed, SelectiveBlock
    from dtlib.memory.recompute.measure import measure_chain
    from dtlib.memory.recompute.tensor import RecomputedTensorBlock
    from dtlib.memory.offload.store import StoreError, Transfer, Store
    from dtlib.memory.offload.host import HostStore, ThrottledStore, LateStore
    from dtlib.memory.offload.disk import DiskStore
    from dtlib.memory.offload.stream import streamed, measure_offload
    from dtlib.memory.offload.pipeline import OffloadRun, simulate_offload
    from dtlib.memory.offload.cost import (
        streamed_layer_time, hiding_lookahead, offloaded_step_time, cpu_adam_time,
        gradient_offload_time, parameter_offload_time, disk_step_bytes, disk_step_time,
        parameter_intensity, optimizer_intensity, activation_intensity, hiding_bandwidth,
        packed_transfer_time, codec_breakeven_rate,
    )
    from dtlib.memory.offload.optimizer import OffloadedOptimizer
    from dtlib.memory.offload.parameters import OffloadedParameters
    from dtlib.memory.offload.activations import OffloadedActivations
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
