"""Measure this machine: `make measure` writes the recordings that the pages print.

Every recording is raw repetitions, one list for each label, in seconds; nothing is averaged away.
Repetitions go round all sizes and algorithms in turn, so that a slow second of the machine hits
them all alike. Each repetition starts at a barrier; a collective lasts as long as its slowest rank,
a ping-pong as long as the rank says that began it.

    ping-pong-2-ranks       half of a round trip between two ranks, labels "8 B" to "64 MiB"
    overhead-2-ranks        what a sender spends on a message that it does not wait for
    all-reduce-2-ranks      gloo's own and our schedules, labels "ring 1 MB"
    ring-vs-tree-4-ranks    the same on four ranks, with the ping-pong of the same minute
    roofline-1-core, break-even-2-ranks     see foundations/roofline.py
    interrupted-run-2-ranks, scaling-1-2-4-ranks    see foundations/interrupted_run.py
    fleet-law-ranks         see foundations/fleet_law.py
    memory-levels           see machines/memory_levels.py
    data-loader             see foundations/data_loader.py
    collectives-4-ranks     see collectives/collective_times.py
    tensor-share-2-ranks    see parallelism/tensor_share.py
    tiny-gpt-step           see foundations/tiny_step.py
    eight-primitives-4-ranks    see collectives/eight_primitives.py
    pipeline-2-ranks        see parallelism/pipeline_times.py
    causal-ring-ranks       see parallelism/causal_ring.py
    expert-skew-4-ranks     see parallelism/expert_skew.py
    bucket-dial-2-ranks     see parallelism/bucket_dial.py
    overlap-exposed-2-ranks     see efficiency/overlap_exposed.py
    reproducible-sums-4-ranks   see efficiency/reproducible_sums.py
    cache-reading-1-core    see efficiency/cache_reading.py
    strategies-against-torch    see parallelism/part_four.py
    memory-peak             see memory/memory_peak.py
    recompute-policies      see memory/recompute_policies.py
    zero-against-fsdp       see memory/zero_against_fsdp.py
    offload-lookahead       see memory/offload_lookahead.py
    plan-on-ranks           see composition/plan_on_ranks.py

Some are no times of this machine but runs, and are written by commands of their own. Three take
hours or minutes of a core and go on where they were stopped: `training-grid`, `training-grid-text`
(scaling_laws/training_grid.py, text_grid.py) and `width-rates` (scaling_laws/width_rates.py). Those
of part 7 take minutes: `compression-race` (efficiency/compression_race.py), `precision-curves` and
`precision-gradients` (efficiency/precision_curves.py).
"""

import time

from benchmarks.collectives.collective_times import measure_collectives
from benchmarks.collectives.eight_primitives import measure_eight_primitives
from benchmarks.collectives.ring_timeline import measure_ring_timeline
from benchmarks.composition.plan_on_ranks import measure_plan_on_ranks
from benchmarks.efficiency.cache_reading import measure_cache_reading
from benchmarks.efficiency.overlap_exposed import measure_exposed_overlap
from benchmarks.efficiency.reproducible_sums import measure_reproducible_sums
from benchmarks.foundations.data_loader import measure_data_loader
from benchmarks.foundations.fleet_law import measure_fleet_law
from benchmarks.foundations.interrupted_run import measure_interrupted, measure_scaling
from benchmarks.foundations.roofline import measure_break_even, measure_one_core
from benchmarks.foundations.tiny_step import measure_tiny_step
from benchmarks.machines.memory_levels import measure_memory_levels
from benchmarks.memory.memory_peak import measure_memory_peak
from benchmarks.memory.offload_lookahead import measure_offload_lookahead
from benchmarks.memory.recompute_policies import measure_recompute_policies
from benchmarks.memory.zero_against_fsdp import measure_zero_against_fsdp
from benchmarks.parallelism.bucket_dial import measure_bucket_dial
from benchmarks.parallelism.causal_ring import measure_causal_ring
from benchmarks.parallelism.expert_skew import measure_expert_skew
from benchmarks.parallelism.part_four import measure_part_four
from benchmarks.parallelism.pipeline_times import measure_pipeline_times
from benchmarks.parallelism.tensor_share import measure_tensor_share
from benchmarks.timing import labelled, ping_pong, size_label, slowest
from dtlib import launch, recordings
from dtlib.collectives import (
    execute,
    halving_doubling_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
)
from dtlib.foundations import KB, MB

PING_PONG_SIZES = [2**exponent for exponent in range(3, 27)]
ALL_REDUCE_SIZES = [1 * KB, 16 * KB, 256 * KB, 1 * MB, 4 * MB, 16 * MB, 64 * MB]
OVERHEAD_SIZES = [1 * KB, 64 * KB, 1 * MB, 16 * MB]
BURST = 200
BUILDERS = {
    "ring": ring_all_reduce,
    "tree": tree_all_reduce,
    "halving-doubling": halving_doubling_all_reduce,
    "recursive doubling": recursive_doubling_all_reduce,
}


def repetitions(n: int) -> int:
    """Many for small messages, whose times scatter, and few for large ones, which take long."""
    return 31 if n <= 1 * MB else 11 if n <= 16 * MB else 7


def overhead(sizes, count, burst):
    """On rank 0: the seconds until `isend` returns, until its message is gone, and of a burst."""
    import torch
    import torch.distributed as dist

    sender = dist.get_rank() == 0
    times = {}
    for _ in range(count + 2):
        for n in sizes:
            buffer = torch.zeros(n, dtype=torch.uint8)
            dist.barrier()
            start = time.perf_counter()
            work = dist.isend(buffer, 1) if sender else dist.irecv(buffer, 0)
            issued = time.perf_counter()
            work.wait()
            times.setdefault(("issue", n), []).append(issued - start)
            times.setdefault(("done", n), []).append(time.perf_counter() - start)
        buffers = [torch.zeros(1 * KB, dtype=torch.uint8) for _ in range(burst)]
        dist.barrier()
        start = time.perf_counter()
        works = [dist.isend(b, 1) if sender else dist.irecv(b, 0) for b in buffers]
        for work in works:
            work.wait()
        times.setdefault(("burst", burst), []).append(time.perf_counter() - start)
    return {key: series[2:] for key, series in times.items()}


def all_reduces(schedules, sizes, count):
    """On each rank: the seconds of every all-reduce, gloo's own and by each schedule, by size."""
    import torch
    import torch.distributed as dist

    def by_gloo(tensor):
        dist.all_reduce(tensor)

    def by(schedule):
        return lambda tensor: execute(schedule, tensor, dist.group.WORLD)

    runs = {"gloo": by_gloo} | {name: by(schedule) for name, schedule in schedules.items()}
    times = {(name, n): [] for n in sizes for name in runs}
    for n in sizes:
        tensor = torch.zeros(n // 4)
        for _ in range(count(n) + 2):
            for name, run in runs.items():
                dist.barrier()
                start = time.perf_counter()
                run(tensor)
                times[name, n].append(time.perf_counter() - start)
    return {key: series[2:] for key, series in times.items()}


def measure_ping_pong() -> None:
    with launch(2) as ranks:
        first, _ = ranks.run(ping_pong, PING_PONG_SIZES, 31)
    times = slowest([first])
    samples = {size_label(n): series for n, series in times.items()}
    recordings.save("ping-pong-2-ranks", samples, unit="s", ranks=2, sizes=PING_PONG_SIZES)


def measure_overhead() -> None:
    with launch(2) as ranks:
        sender, _ = ranks.run(overhead, OVERHEAD_SIZES, 31, BURST)
    times = slowest([sender])
    burst = times.pop(("burst", BURST))
    samples = labelled(times) | {f"{BURST} of 1 KB in flight": burst}
    recordings.save("overhead-2-ranks", samples, unit="s", ranks=2, sizes=OVERHEAD_SIZES)


def measure_all_reduces(P: int, name: str) -> None:
    schedules = {label: builder(P) for label, builder in BUILDERS.items()}
    with launch(2) as pair:
        first, _ = pair.run(ping_pong, ALL_REDUCE_SIZES, 15)
    with launch(P) as ranks:
        times = slowest(ranks.run(all_reduces, schedules, ALL_REDUCE_SIZES, repetitions))
    times |= {("ping-pong", n): series for n, series in slowest([first]).items()}
    recordings.save(name, labelled(times), unit="s", ranks=P, sizes=ALL_REDUCE_SIZES)


def main() -> None:
    for name, measure in (
        ("fleet-law-ranks", measure_fleet_law),
        ("data-loader", measure_data_loader),
        ("pipeline-2-ranks", measure_pipeline_times),
        ("memory-levels", measure_memory_levels),
        ("ping-pong-2-ranks", measure_ping_pong),
        ("overhead-2-ranks", measure_overhead),
        ("all-reduce-2-ranks", lambda: measure_all_reduces(2, "all-reduce-2-ranks")),
        ("ring-vs-tree-4-ranks", lambda: measure_all_reduces(4, "ring-vs-tree-4-ranks")),
        ("collectives-4-ranks", measure_collectives),
        ("roofline-1-core", measure_one_core),
        ("break-even-2-ranks", measure_break_even),
        ("interrupted-run-2-ranks", measure_interrupted),
        ("scaling-1-2-4-ranks", measure_scaling),
        ("tiny-gpt-step", measure_tiny_step),
        ("ring-timeline-4-ranks", measure_ring_timeline),
        ("eight-primitives-4-ranks", measure_eight_primitives),
        ("causal-ring-ranks", measure_causal_ring),
        ("tensor-share-2-ranks", measure_tensor_share),
        ("expert-skew-4-ranks", measure_expert_skew),
        ("bucket-dial-2-ranks", measure_bucket_dial),
        ("overlap-exposed-2-ranks", measure_exposed_overlap),
        ("reproducible-sums-4-ranks", measure_reproducible_sums),
        ("cache-reading-1-core", measure_cache_reading),
        ("strategies-against-torch", measure_part_four),
        ("memory-peak", measure_memory_peak),
        ("recompute-policies", measure_recompute_policies),
        ("zero-against-fsdp", measure_zero_against_fsdp),
        ("plan-on-ranks", measure_plan_on_ranks),
        ("offload-lookahead", measure_offload_lookahead),
    ):
        start = time.perf_counter()
        measure()
        print(f"{name}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
