"""When every message of a ring all-reduce is under way, on four ranks of this machine."""

import functools
import operator
import time

from dtlib import launch, recordings
from dtlib.collectives import Clocked, execute, ring_all_reduce
from dtlib.collectives.transport import PointToPoint
from dtlib.foundations import MB

NAME = "ring-timeline-4-ranks"
SIZE = 16 * MB
REPETITIONS = 11


def clocked_rings(size, repetitions):
    """On each rank: the spans of its messages, one list for each all-reduce."""
    import torch
    import torch.distributed as dist

    P, runs = dist.get_world_size(), []
    for _ in range(repetitions + 1):
        tensor = torch.ones(size // 4)
        wire = Clocked(PointToPoint(dist.group.WORLD), clock=time.perf_counter)
        dist.barrier()
        execute(ring_all_reduce(P), tensor, transport=wire)
        if not (tensor == P).all():
            raise ArithmeticError(f"rank {dist.get_rank()} has a wrong sum")
        runs.append(wire.spans)
    return runs[1:]


def measure_ring_timeline() -> None:
    """Keep the repetition of median length, from the first message that is posted."""
    with launch(4) as ranks:
        by_rank = ranks.run(clocked_rings, SIZE, REPETITIONS)
    runs = [functools.reduce(operator.iadd, spans, []) for spans in zip(*by_rank, strict=True)]
    begins = [min(span.start for span in run) for run in runs]
    lengths = [max(s.stop for s in run) - start for run, start in zip(runs, begins, strict=True)]
    middle = sorted(range(len(runs)), key=lengths.__getitem__)[len(runs) // 2]
    spans = [
        [s.rank, s.lane, s.name, s.start - begins[middle], s.stop - begins[middle], s.kind]
        for s in runs[middle]
    ]
    recordings.save(NAME, {"all-reduce": lengths}, unit="s", ranks=4, bytes=SIZE, spans=spans)
