"""Every builder, with the check of what it promises; shared by the tests of this room."""

from dtlib import collectives as c


def double_tree_in_three_segments(P):
    return c.double_binary_tree_all_reduce(P, segments=3)


ANY_P = {
    c.ring_reduce_scatter: c.check_reduce_scatter,
    c.ring_all_gather: c.check_all_gather,
    c.ring_all_reduce: c.check_all_reduce,
    c.tree_reduce: c.check_reduce,
    c.tree_broadcast: c.check_broadcast,
    c.tree_all_reduce: c.check_all_reduce,
    c.flat_reduce: c.check_reduce,
    c.flat_all_reduce: c.check_all_reduce,
    c.double_binary_tree_all_reduce: c.check_all_reduce,
    double_tree_in_three_segments: c.check_all_reduce,
    c.pairwise_all_to_all: c.check_all_to_all,
}
POWER_OF_TWO = {
    c.recursive_doubling_all_reduce: c.check_all_reduce,
    c.halving_doubling_reduce_scatter: c.check_reduce_scatter,
    c.halving_doubling_all_gather: c.check_all_gather,
    c.halving_doubling_all_reduce: c.check_all_reduce,
}
CHECKS = ANY_P | POWER_OF_TWO
ALL_REDUCES = [build for build, check in CHECKS.items() if check is c.check_all_reduce]


def name(build) -> str:
    return build.__name__


def sizes(build, most: int) -> list[int]:
    """The numbers of ranks up to ``most`` that a builder takes."""
    takes_all = build in ANY_P
    return [P for P in range(1, most + 1) if takes_all or P & (P - 1) == 0]
