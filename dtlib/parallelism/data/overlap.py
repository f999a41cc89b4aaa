"""When the all-reduce of a step runs: buckets, the recurrence that times them, and its events.

The nouns:

- **Bucket**: gradients that travel in one all-reduce. Bucket 0 is the first to be ready.
- **Ready time**: when a rank has the last gradient of a bucket.
- **Network**: reduces one bucket at a time, in order, each as soon as every rank is ready.

Times are numbers of any kind; with fractions every result is exact.
"""

import heapq
from collections.abc import Sequence
from itertools import pairwise

from dtlib.formulas.require import require_count
from dtlib.timeline import Span, Timeline


def overlapped_steps(ready: Sequence, costs: Sequence) -> list:
    """When the all-reduce of each bucket is over.

    Equation: e_i = max(r_i, e_{i-1}) + c_i: a bucket waits for its gradients and for the network.
    Arguments: `ready`, for each bucket when the slowest rank has its last gradient; `costs`, for
    each bucket the time of its all-reduce. Returns the end of each.
    Raises ValueError for lists of two lengths. Source: Li et al. 2020 describe the mechanism.

    >>> overlapped_steps(ready=[1, 2, 3, 4], costs=[2, 2, 2, 2])
    [3, 5, 7, 9]
    """
    if len(ready) != len(costs):
        raise ValueError(f"costs must have {len(ready)} numbers, one for each bucket; {len(costs)}")
    ends: list = []
    for r, c in zip(ready, costs, strict=True):
        ends.append((max(r, ends[-1]) if ends else r) + c)
    return ends


def simulate_step(forward: Sequence, backward: Sequence, costs: Sequence) -> Timeline:
    """One step of data parallelism as a queue of events: gradients get ready, all-reduces end.

    Arguments: `forward` and `backward`, seconds of each rank; `costs`, seconds of each bucket's
    all-reduce. Buckets are equal parts of the backward pass. Returns a Timeline with the lanes
    "compute" and "network" of every rank.
    Raises ValueError for ranks that differ in number, or no bucket.

    >>> step = simulate_step(forward=[5, 5], backward=[8, 8], costs=[2, 2, 2, 2])
    >>> step.makespan, step.exposed_communication(0)
    (15.0, 2.0)
    """
    if len(forward) != len(backward) or not costs:
        raise ValueError("forward and backward: one number for each rank; costs: at least one")
    P, k = len(forward), len(costs)
    spans = [Span(r, "compute", "F", 0, forward[r], "forward") for r in range(P)]
    events = []  # (time, bucket, rank): rank has all gradients of this bucket
    for r in range(P):
        edges = [forward[r] + backward[r] * i / k for i in range(k + 1)]
        spans += [
            Span(r, "compute", f"B{i}", a, b, "backward")
            for i, (a, b) in enumerate(pairwise(edges))
        ]
        events += [(edges[i + 1], i, r) for i in range(k)]
    heapq.heapify(events)
    missing, following, free = [P] * k, 0, 0
    while events:
        now, bucket, _ = heapq.heappop(events)
        missing[bucket] -= 1
        while following < k and not missing[following]:
            begin = max(now, free)
            free = begin + costs[following]
            spans += [
                Span(r, "network", str(following), begin, free, "communication") for r in range(P)
            ]
            following += 1
    return Timeline(spans)


def share_sizes(batch: int, speeds: Sequence[float]) -> list[int]:
    """Whole shares of a batch in proportion to the ranks' speeds, by largest remainder.

    None is further than one sample from its exact share; another division may be done earlier.
    Arguments: `batch` samples; `speeds`, samples per second of each rank. Returns one whole number
    for each rank, which add up to `batch`. Raises ValueError for a speed that is not positive, or
    a batch that is no whole number.

    >>> share_sizes(10, [1, 1, 1]), share_sizes(256, [1.0, 0.5])
    ([4, 3, 3], [171, 85])
    """
    require_count("share_sizes", 0, batch=batch)
    if not len(speeds) or min(speeds) <= 0:
        raise ValueError(f"speeds: positive, one for each rank; got {list(speeds)}")
    exact = [batch * s / sum(speeds) for s in speeds]
    sizes = [int(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda r: sizes[r] - exact[r])
    for r in by_remainder[: batch - sum(sizes)]:
        sizes[r] += 1
    return sizes
