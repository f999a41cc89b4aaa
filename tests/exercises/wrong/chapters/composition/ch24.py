"""Wrong answers of chapter 24 that no slip derives: (exercise, answer, what it must be told)."""

import math

from dtlib.exercises.judges.clusters import fastest, legal_layouts
from dtlib.exercises.judges.hybrids import norm_of_pieces, synced

GROUPS, WARM_UP, TERMS = "ex-groups-of-a-rank", "ex-warm-up-of-a-rank", "ex-sum-of-terms"
BEST, NORM, TABLE = "ex-best-of-a-cluster", "ex-every-number-once", "ex-table-on-two-stages"
FACTORS = "ex-divide-by-m"


def groups(rank, sizes):
    found, stride = {}, math.prod(sizes.values())
    for axis, size in sizes.items():
        stride //= size
        first = rank - rank // stride % size * stride
        found[axis] = [*range(first, first + size * stride, stride)]
    return found


def backwards(rank, sizes):
    return {axis: ranks[::-1] for axis, ranks in groups(rank, sizes).items()}


def without_itself(rank, sizes):
    return {axis: [*range(rank + 1, rank + 1 + n)] for axis, n in sizes.items()}


def asks_twice(pieces, sizes, add):
    add(0.0)
    return norm_of_pieces(pieces, sizes, add)


def own_alone(pieces, sizes, add):
    add(0.0)
    return norm_of_pieces(pieces, sizes, float)


def only_the_first_replica_adds(gradients, comm, dp, pp):
    if comm.rank % pp == 0 and pp > 1:
        comm.all_reduce(gradients["layer"])
    return gradients


def over_all_ranks(gradients, comm, dp, pp):
    return {name: comm.all_reduce(gradient) for name, gradient in gradients.items()}


def layer_over_both(gradients, comm, dp, pp):
    found = synced(gradients, comm, dp, pp)
    return found | {"layer": comm.all_reduce(gradients["layer"])}


def one_group_of_all_ends(gradients, comm, dp, pp):
    """The replicas of both stages are one group: right as well, and one message fewer."""
    ends = [r for r in range(dp * pp) if r % pp in (0, pp - 1)]
    inner = [[*range(s, dp * pp, pp)] for s in range(1, pp - 1)]
    stages = [[*range(s, dp * pp, pp)] for s in range(pp)]
    found = {"layer": comm.split(stages).all_reduce(gradients["layer"])}
    of_table = comm.split([ends, *inner])
    return found | ({"table": of_table.all_reduce(gradients["table"])} if "table" in gradients
                    else {})  # fmt: skip


def slowest(gpus, node, layers, batch, time, fits):
    fitting = [one for one in legal_layouts(gpus, node, layers, batch) if fits(*one)]
    return max(fitting, key=lambda one: time(*one))


# fmt: off
WRONG = [
    (TERMS, "(m + p - 1) (compute + tensor) + 2 m message + gradients", "wrong already when|hide"),
    (TERMS, "m (compute + tensor) + 2 (m + p - 2) message + max(0, gradients - 2/3 compute)",
     "wrong already when"),
    (TERMS, lambda compute, tensor, message, gradients, p, m: compute, "wrong already when"),
    (GROUPS, backwards, "not in the order of the axis"),
    (GROUPS, without_itself, "a rank is in its own group"),
    (GROUPS, lambda rank, sizes: groups(rank, sizes)["tp"], "return a dict"),
    (GROUPS, lambda rank, sizes: {axis: [rank] for axis in sizes}, "must have 2 items"),
    (GROUPS, lambda rank, sizes: groups(0, sizes), "a rank is in its own group"),
    (WARM_UP, lambda rank, dp, pp, tp: pp - 1 - rank % pp, "wait for each other|more than|slower"),
    (WARM_UP, lambda rank, dp, pp, tp: (pp - 1 - rank // tp % pp) // 2, "slower than GPipe"),
    (WARM_UP, lambda rank, dp, pp, tp: 0.5, "must be a whole number"),
    (WARM_UP, lambda rank, pp: pp - 1 - rank, "must take my_warm_up"),
    (BEST, slowest, "another one that fits is faster"),
    (BEST, lambda *given: fastest(*given)[::-1], "tp must divide|does not fit|faster"),
    (BEST, lambda gpus, node, layers, batch, time, fits: (1, 1, 1), "are 1 GPUs, not 8"),
    (BEST, lambda gpus, node, layers, batch, time, fits: (-1, -1, gpus), "GPUs, not"),
    (BEST, lambda gpus, node, layers, batch, time, fits: time(8, 1, 1), "must have 3 items"),
    (NORM, asks_twice, "call add once; rank 0 called it 2 times"),
    (NORM, own_alone, "one rank's pieces"),
    (NORM, lambda pieces, sizes, add: norm_of_pieces(pieces, sizes, add) ** 2, "the norm on"),
    (NORM, lambda pieces, sizes, add: 1.0, "call add once; rank 0 called it 0 times"),
    (TABLE, over_all_ranks, "not the sum|one use too many|its other use|in all-reduce"),
    (TABLE, layer_over_both, "layer: not the sum"),
    (TABLE, only_the_first_replica_adds, "waits in all-reduce"),
    (TABLE, lambda gradients, comm, dp, pp: {"layer": gradients["layer"]}, "return a dict"),
    (TABLE, lambda gradients, comm, dp, pp: gradients, "not the sum|its other use"),
    (FACTORS, lambda counts: [list(row) for row in counts], "counts too much"),
    (FACTORS, lambda counts: [[0.0 for n in row] for row in counts], "counts too little"),
    (FACTORS, lambda counts: counts[0], "must have 2 items"),
]
RIGHT = [
    (GROUPS, groups),
    (TABLE, one_group_of_all_ends),
    (TERMS, "(m + p - 1) (compute + tensor) + 2 (m + p - 2) message "
            "+ max(0, gradients - 2/3 compute)"),
]
