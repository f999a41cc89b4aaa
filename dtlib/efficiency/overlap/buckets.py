"""The buckets that end first, of all ways to cut a row of gradients.

The nouns are those of `dtlib.parallelism.data.overlap`. A **cut** is a list of sizes: how many
gradients each bucket has, in the order in which they become ready.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from dtlib.parallelism.data.overlap import overlapped_steps


def cut_ends(cut: Sequence[int], ready: Sequence, sizes: Sequence, alpha, beta) -> list:
    """When each bucket of a cut has been reduced.

    Arguments: `cut`, gradients of each bucket; `ready`, when each gradient is there, not falling;
    `sizes`, bytes of each; a bucket of n bytes takes `alpha` + n / `beta`. Returns one time a
    bucket. Raises ValueError for a cut that does not cover the gradients.

    >>> cut_ends([2, 2], ready=[1, 2, 3, 4], sizes=[2, 2, 2, 2], alpha=0, beta=1)
    [6.0, 10.0]
    """
    _check(ready, sizes)
    ends = list(accumulate(cut))
    if not cut or min(cut) < 1 or ends[-1] != len(ready):
        raise ValueError(f"cut must be positive and add up to {len(ready)} gradients; got {cut}")
    costs = [alpha + sum(sizes[a:b]) / beta for a, b in pairwise([0, *ends])]
    return overlapped_steps([ready[end - 1] for end in ends], costs)


def best_cut(ready: Sequence, sizes: Sequence, alpha, beta) -> list[int]:
    """The cut whose last bucket ends first.

    Equation: e_j = min over i < j of max(r_j, e_i) + alpha + (bytes i+1 .. j) / beta, the earliest
    time at which the first j gradients can be reduced. An earlier e_i never makes a later bucket
    later, so the best cut of j gradients ends with the best cut of i.
    Arguments as in `cut_ends`. Returns gradients of each bucket; of two cuts that end together, the
    one whose last bucket is larger. Source: Bellman 1957.

    >>> best_cut(ready=[1, 2, 3, 4], sizes=[2, 2, 2, 2], alpha=0, beta=1)
    [1, 1, 2]
    >>> best_cut(ready=[1, 2, 3, 4], sizes=[2, 2, 2, 2], alpha=9, beta=1)
    [4]
    """
    _check(ready, sizes)
    until = list(accumulate(sizes, initial=0))
    ends, starts = [0], [0]
    for j, there in enumerate(ready, start=1):
        costs = [alpha + (until[j] - until[i]) / beta for i in range(j)]
        found = [max(there, ends[i]) + cost for i, cost in enumerate(costs)]
        ends.append(min(found))
        starts.append(found.index(ends[-1]))
    cut, j = [], len(ready)
    while j:
        cut.append(j - starts[j])
        j = starts[j]
    return cut[::-1]


def cut_by_size(sizes: Sequence, bucket: float, first: float) -> list[int]:
    """The cut of torch's DistributedDataParallel: a bucket is full once it has so many bytes.

    Arguments: `sizes`, bytes of the gradients as they get ready; `bucket` bytes, and `first`, those
    of the first one. Returns gradients of each bucket. Source: Li et al. 2020.

    >>> cut_by_size([2, 2, 2, 2, 2, 2], bucket=5, first=1)
    [1, 3, 2]
    """
    cut, held = [], None
    for size in sizes:
        if held is None:
            cut.append(0)
            held = 0
        cut[-1] += 1
        held += size
        if held >= (bucket if len(cut) > 1 else first):
            held = None
    return cut


def _check(ready: Sequence, sizes: Sequence) -> None:
    if len(ready) != len(sizes) or not ready:
        raise ValueError(
            f"ready and sizes: one for each gradient, at least one; got {len(ready)}, {len(sizes)}"
        )
    late = [i for i, (a, b) in enumerate(pairwise(ready)) if b < a]
    if late:
        raise ValueError(f"ready must not fall; gradient {late[0] + 1} is ready before {late[0]}")
