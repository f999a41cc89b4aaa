"""Every builder, with the check of what it promises; shared by the tests of this room."""

from dtlib import collectives as c


def double_tree_in_three_segments(P):
    return c.double_binary_tree_all_reduce(P, segments=3)


def chain_broadcast_in_three_segments(P):
    return c.chain_broadcast(P, segments=3)


def chain_all_reduce_in_three_segments(P):
    return c.chain_all_reduce(P, segments=3)


def hierarchical_in_pairs(P):
    """In nodes of two ranks; where P is odd, a ring."""
    pairs = P > 0 and P % 2 == 0
    return c.hierarchical_all_reduce(P // 2, 2) if pairs else c.ring_all_reduce(P)


def multi_rail_in_pairs(P):
    """In at least two nodes of two ranks; where that does not come out even, a ring."""
    pairs = P > 2 and P % 2 == 0
    return c.multi_rail_ring_all_reduce(P // 2, 2) if pairs else c.ring_all_reduce(P)


def two_level_in_pairs(P):
    """In nodes of two ranks; where that does not come out even, pairwise."""
    pairs = P > 0 and P % 2 == 0
    return c.two_level_all_to_all(P // 2, 2) if pairs else c.pairwise_all_to_all(P)


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
    c.bruck_all_to_all: c.check_all_to_all,
    two_level_in_pairs: c.check_all_to_all,
    c.flat_scatter: c.check_scatter,
    c.flat_gather: c.check_gather,
    c.tree_scatter: c.check_scatter,
    c.tree_gather: c.check_gather,
    c.chain_broadcast: c.check_broadcast,
    c.chain_reduce: c.check_reduce,
    chain_broadcast_in_three_segments: c.check_broadcast,
    chain_all_reduce_in_three_segments: c.check_all_reduce,
    c.scatter_all_gather_broadcast: c.check_broadcast,
    c.folded_halving_doubling_all_reduce: c.check_all_reduce,
    c.two_way_ring_all_reduce: c.check_all_reduce,
    c.half_ring_all_gather: c.check_all_gather,
    c.half_ring_all_reduce: c.check_all_reduce,
    hierarchical_in_pairs: c.check_all_reduce,
    multi_rail_in_pairs: c.check_all_reduce,
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
