"""Collective communication: schedules as data, and what can be done with one.

`schedule`, made of `rounds` of sends, and `primitives`, what each collective promises; `builders`,
the algorithms; `check`, `algebra` and `monoid`; `topology`, `nodes` and `cost`; `on_ranks` and
`transport`, which run a schedule; `drawing`; `nccl`.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.collectives.schedule import Round, Run, Send, Schedule
    from dtlib.collectives.primitives import (
        Holding, at_rank, everywhere, at_root, at_owners, in_rows, in_columns, Primitive,
        PRIMITIVES,
    )
    from dtlib.collectives.builders.algorithms import (
        ring_reduce_scatter, ring_all_gather, ring_all_reduce, tree_reduce, tree_broadcast,
        tree_all_reduce, flat_reduce, flat_all_reduce, recursive_doubling_all_reduce,
        halving_doubling_reduce_scatter, halving_doubling_all_gather, halving_doubling_all_reduce,
        pairwise_all_to_all,
    )
    from dtlib.collectives.builders.rooted import (
        flat_scatter, flat_gather, tree_gather, tree_scatter, chain_broadcast, chain_reduce,
        chain_all_reduce, scatter_all_gather_broadcast,
    )
    from dtlib.collectives.builders.grouped import (
        folded_halving_doubling_all_reduce, two_way_ring_all_reduce, half_ring_all_gather,
        half_ring_all_reduce, multi_rail_ring_all_reduce, hierarchical_all_reduce,
    )
    from dtlib.collectives.builders.all_to_all import (
        bruck_all_to_all, two_level_all_to_all, packed, packed_messages, Packed,
    )
    from dtlib.collectives.builders.double_binary_tree import (
        double_binary_tree_reduce, double_binary_tree_all_reduce,
    )
    from dtlib.collectives.builders.parameter_server import (
        parameter_server_all_reduce, dedicated_parameter_server, all_reduce_of_workers,
        dedicated_parameter_server_received_bytes, dedicated_parameter_server_time,
        parameter_server_all_reduce_time, parameter_server_over_ring_ratio,
    )
    from dtlib.collectives.check import (
        Problem, ScheduleError, states, check_primitive, check_all_reduce, check_reduce_scatter,
        check_all_gather, check_broadcast, check_reduce, check_scatter, check_gather,
        check_all_to_all,
    )
    from dtlib.collectives.algebra import (
        as_matrix, applied, schedule_matrix, adjoint_schedule, inner_products,
    )
    from dtlib.collectives.monoid import (
        Monoid, SUM, MAXIMUM, LARGEST, matrix_product, laws, emulate_with, right_chunks,
    )
    from dtlib.collectives.topology import Switch, SharedHost
    from dtlib.collectives.nodes import Port, Wire, Nodes, round_robin
    from dtlib.collectives.transport import Counting, Clocked
    from dtlib.collectives.on_ranks import execute, emulate
    from dtlib.collectives.cost.simulated import schedule_time, round_times
    from dtlib.collectives.cost.ring_and_tree import (
        ring_reduce_scatter_time, ring_all_gather_time, ring_all_reduce_time, tree_broadcast_time,
        tree_all_reduce_time, flat_all_reduce_time,
        recursive_doubling_all_reduce_time, halving_doubling_all_reduce_time,
        double_binary_tree_all_reduce_time, double_binary_tree_best_segments,
        pairwise_all_to_all_time, ring_tree_crossover_bytes, ring_half_performance_bytes,
    )
    from dtlib.collectives.cost.rooted_and_grouped import (
        flat_scatter_time, tree_scatter_time, chain_broadcast_time, chain_best_segments,
        chain_all_reduce_time, scatter_all_gather_broadcast_time,
        folded_halving_doubling_all_reduce_time, two_way_ring_all_reduce_time,
        two_link_ring_all_reduce_time, half_ring_all_reduce_time, bruck_all_to_all_time,
    )
    from dtlib.collectives.cost.volume import (
        ring_all_reduce_sent_bytes, tree_all_reduce_sent_bytes, ring_all_reduce_rounds,
        tree_all_reduce_rounds, ring_all_reduce_messages, tree_all_reduce_messages,
    )
    from dtlib.collectives.cost.bounds import (
        fewest_messages, all_reduce_lower_bound_messages, all_reduce_lower_bound_bytes,
        all_reduce_lower_bound_time,
    )
    from dtlib.collectives.cost.bandwidth import (
        algorithm_bandwidth, all_reduce_bus_factor, all_gather_bus_factor, bus_factor,
        bus_bandwidth, busiest_port_fraction, lower_bound_time,
    )
    from dtlib.collectives.cost.levels import (
        hierarchical_all_reduce_time, multi_rail_ring_all_reduce_time,
        two_level_all_to_all_time, dealt_all_gather_time,
    )
    from dtlib.collectives.drawing import draw, timeline
    from dtlib.collectives.nccl.model import (
        streamed_time, streamed_all_reduce_time, streamed_all_gather_time, streamed_all_to_all_time,
        switch_all_reduce_time, CollectiveModel, nccl_models, collective_model,
    )
    from dtlib.collectives.nccl.network import (
        members_bandwidth, network_all_gather_time, tree_ports_time, network_all_reduce_time,
        network_all_to_all_time, streamed_send_time, NetworkModel, network_models, network_model,
        collective_time, send_time,
    )
    from dtlib.collectives.nccl.fit import (
        CollectiveTime, nccl_tests_samples, CollectiveFit, fit_collectives,
    )
    from dtlib.collectives.nccl.sample import nccl_sample, switch_sample, nccl_errors
    from dtlib.collectives.nccl.network_sample import network_sample, network_errors
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
