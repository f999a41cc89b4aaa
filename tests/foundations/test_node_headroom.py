"""What crosses the border of a node, counted message by message for whole layouts of a cluster."""

from fractions import Fraction

import pytest

from dtlib.collectives import ring_all_reduce
from dtlib.foundations import link_headroom, memory_headroom, port_headroom

NODE, NODES, WIDTH, HIDDEN = 8, 4, 2, 16
RANKS = NODE * NODES


def leaving_node_zero(group, n) -> Fraction:
    """The bytes that ring all-reduces of `n` bytes in this group send out of node 0."""
    ring, total = ring_all_reduce(len(group)), Fraction(0)
    for r in ring.rounds:
        for send in r:
            if group[send.src] < NODE <= group[send.dst]:
                total += Fraction(n) * send.count / ring.chunks
    return total


def rotated(group, n) -> Fraction:
    """The same for rings that start everywhere in turn; their sum does not depend on the start."""
    starts = [leaving_node_zero([*group[k:], *group[:k]], n) for k in range(len(group))]
    return sum(starts) / len(starts)


@pytest.mark.parametrize("tp", [2, 4, 8, 16])
def test_the_ports_carry_what_leaves_a_node(tp):
    tokens, params = 3, 7 * RANKS
    replicas = RANKS // tp
    flops = 6 * params * tokens  # of one rank: a t-th of the weights, t times the tokens
    same_part = [range(first, RANKS, tp) for first in range(tp)]
    gradients = sum(rotated(list(g), Fraction(WIDTH * params, tp)) for g in same_part)
    gradients /= Fraction(replicas - 1, replicas)  # many replicas instead of these few
    layers = Fraction(params, 12 * HIDDEN**2)
    sharing = [range(first, first + tp) for first in range(0, RANKS, tp)]
    activations = 4 * layers * WIDTH * HIDDEN * tokens * tp
    between = sum(rotated(list(g), activations) for g in sharing)
    counted = flops / (gradients + between)
    machine = {"ranks_per_node": NODE, "element_bytes": Fraction(WIDTH), "peak": Fraction(1)}
    assert port_headroom(tokens, HIDDEN, Fraction(tp), nics=1, port_beta=1, **machine) == counted
    apart = sum(rotated(scattered(g), Fraction(WIDTH * params, tp)) for g in same_part)
    assert apart == gradients * Fraction(replicas - 1, replicas) * max(1, NODE // tp)


def scattered(group) -> list[int]:
    """The ranks of a group with neighbours in different nodes, where there are several nodes."""
    return sorted(group, key=lambda rank: (rank % NODE, rank // NODE))


def test_the_headroom_of_a_link_is_a_ratio_of_times():
    hidden, tp, tokens = 4096, 4, 100
    sending = 4 * 2 * (tp - 1) / tp * 2 * tokens * hidden / 450e9
    computing = 72 * tokens * hidden**2 / tp / 989e12
    assert link_headroom(hidden, tp, 2, 989e12, 450e9) == pytest.approx(computing / sending)


def test_memory_moves_34_bytes_for_each_weight_of_a_rank():
    params, tokens, tp = 1e9, 1000, 8
    read_and_written = (2 + 2 + 2) + (2 + 12) + (12 + 2)
    moving = read_and_written * params / tp / 3.35e12
    computing = 6 * params / tp * tokens * tp / 989e12
    assert memory_headroom(tokens, tp, 989e12, 3.35e12) == pytest.approx(computing / moving)
