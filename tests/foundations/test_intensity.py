"""Every intensity against a count of the work that is done and of the bytes that are sent."""

from fractions import Fraction
from itertools import product

import pytest
import sympy as sp

from dtlib.collectives import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from dtlib.foundations import (
    NOTATION,
    backward_hiding_tokens,
    catalog,
    context_parallel_intensity,
    data_parallel_bytes,
    data_parallel_intensity,
    data_parallel_tokens,
    expert_parallel_intensity,
    headroom,
    matmul_intensity,
    pipeline_parallel_intensity,
    sharded_data_parallel_intensity,
    tensor_parallel_intensity,
)

RANKS = (2, 3, 4, 8)


def sent_by(schedule, rank, n) -> Fraction:
    """The bytes that a rank sends in a schedule over a buffer of `n` bytes."""
    chunks = sum(send.count for r in schedule.rounds for send in r if send.src == rank)
    return Fraction(n) * chunks / schedule.chunks


def layer_matrices(hidden):
    """The products of one layer, (inputs, outputs): QKV, projection, up, down."""
    return [(hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)]


def layer_flops(tokens, hidden) -> int:
    """Forward once and backward twice; a multiplication and an addition each time."""
    return sum(3 * 2 * tokens * a * b for a, b in layer_matrices(hidden))


def test_a_matmul_is_counted_product_by_product():
    m, k, n = 3, 4, 5
    flops = sum(2 for _ in product(range(m), range(k), range(n)))
    numbers = len({("x", a, b) for a in range(m) for b in range(k)})
    numbers += len({("w", b, c) for b in range(k) for c in range(n)})
    numbers += len({("y", a, c) for a in range(m) for c in range(n)})
    assert matmul_intensity(m, k, n, element_bytes=2) == pytest.approx(flops / (2 * numbers))


def test_a_matmul_of_few_tokens_has_the_intensity_of_its_tokens():
    tokens, hidden, ffn, w = (
        NOTATION[x].sympy() for x in ("tokens_per_rank", "hidden", "ffn", "element_bytes")
    )
    intensity = matmul_intensity(tokens, hidden, ffn, w)
    wide = sp.limit(sp.limit(intensity, hidden, sp.oo), ffn, sp.oo)
    assert sp.simplify(wide - 2 * tokens / w) == 0
    assert sp.simplify(intensity.subs({tokens: hidden, ffn: hidden}) - 2 * hidden / (3 * w)) == 0


@pytest.mark.parametrize("P", RANKS)
def test_data_parallelism_sends_the_bytes_of_a_counted_ring(P):
    params, width = 24, 2
    for rank in range(P):
        sent = sent_by(ring_all_reduce(P), rank, params * width)
        assert data_parallel_bytes(params, Fraction(P), width) == sent


@pytest.mark.parametrize("P", RANKS)
def test_the_size_of_the_model_cancels_and_the_tokens_stay(P):
    for params, tokens in product((24, 2400), (1, 7)):
        flops = 6 * params * tokens
        sent = data_parallel_bytes(params, Fraction(P), 2)
        assert data_parallel_intensity(Fraction(tokens), P, Fraction(2)) == flops / sent
    params = NOTATION["params"].sympy()
    ratio = 6 * params * 7 / data_parallel_bytes(params, P, 2)
    assert sp.simplify(sp.diff(ratio, params)) == 0
    assert sp.diff(6 * params * 7 / (params + 1), params) != 0  # the test can tell


@pytest.mark.parametrize("P", RANKS)
def test_sharding_sends_two_gathers_and_a_scatter(P):
    n = 24 * 2
    sent = 2 * sent_by(ring_all_gather(P), 0, n) + sent_by(ring_reduce_scatter(P), 0, n)
    assert sharded_data_parallel_intensity(Fraction(7), P, Fraction(2)) == 6 * 24 * 7 / sent
    assert sent == Fraction(3, 2) * sent_by(ring_all_reduce(P), 0, n)


@pytest.mark.parametrize("peak, beta", [(989e12, 50e9), (312e12, 25e9)])
def test_at_the_number_of_tokens_computing_and_sending_take_the_same_time(peak, beta):
    for P, params in product(RANKS, (1e9, 7e10)):
        sending = data_parallel_bytes(params, P, 2) / beta
        tokens = data_parallel_tokens(P, 2, peak, beta)
        assert 6 * params * tokens / peak == pytest.approx(sending)
        tokens = backward_hiding_tokens(P, 2, peak, beta)
        assert 4 * params * tokens / peak == pytest.approx(sending)


@pytest.mark.parametrize("t", RANKS)
def test_tensor_parallelism_sends_four_all_reduces_a_layer(t):
    hidden, width = 16, 2
    for tokens in (1, 5):
        flops = Fraction(layer_flops(tokens, hidden), t)
        sent = 4 * sent_by(ring_all_reduce(t), 0, tokens * hidden * width)
        assert tensor_parallel_intensity(Fraction(hidden), t, width) == flops / sent
        pair = sent_by(ring_reduce_scatter(t), 0, 1) + sent_by(ring_all_gather(t), 0, 1)
        assert pair == sent_by(ring_all_reduce(t), 0, 1)  # sequence parallelism sends as much


def test_tensor_parallelism_of_a_wide_model_fits_a_node_and_not_eight():
    node = catalog["dgx-h100"]
    peak = node.gpu.peak("bf16")
    inside = headroom(tensor_parallel_intensity(8192, 8, 2), peak, node.link.beta)
    across = headroom(tensor_parallel_intensity(8192, 64, 2), peak, node.network_bandwidth)
    assert inside > 2 and across < 1 / 4
    assert headroom(tensor_parallel_intensity(8192, 8, 2), peak, node.nic.beta) < 1


@pytest.mark.parametrize("stages, layers", [(2, 4), (4, 8), (3, 12)])
def test_an_inner_stage_sends_activations_on_and_gradients_back(stages, layers):
    hidden, width = 16, 2
    for micro_batches, tokens in product((1, 5), (1, 3)):
        flops = sent = 0
        for _ in range(micro_batches):
            flops += layers // stages * layer_flops(tokens, hidden)
            sent += tokens * hidden * width  # to the next stage, forward
            sent += tokens * hidden * width  # to the stage before, backward
        assert pipeline_parallel_intensity(layers, hidden, stages, width) == flops / sent


@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_of_blocks_is_counted_pair_by_pair(ranks):
    seq, hidden, width = 24, 4, 2
    block = seq // ranks
    forward = backward = sent_forward = sent_backward = 0
    for step in range(ranks):
        for _query, _key in product(range(block), range(block)):
            forward += 2 * 2 * hidden  # the score, and its share of the value
            backward += 2 * 2 * 2 * hidden  # the gradients of both factors of both
        if step < ranks - 1:
            sent_forward += 2 * block * hidden * width  # keys and values
            sent_backward += 4 * block * hidden * width  # and their gradients
    intensity = context_parallel_intensity(Fraction(seq), ranks, width)
    assert intensity == Fraction(forward, sent_forward) == Fraction(backward, sent_backward)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("active", [1, 2])
def test_experts_are_counted_token_by_token(ranks, active):
    hidden, ffn, width, experts = 4, 6, 2, 8
    flops = sent = 0
    for rank, token, choice in product(range(ranks), range(experts), range(active)):
        expert = (token + choice) % experts  # every expert gets as many as every other
        flops += 3 * 2 * 3 * hidden * ffn  # three matrices; forward once, backward twice
        if expert * ranks // experts != rank:
            sent += 4 * hidden * width  # there and back, forward and backward
    counted = Fraction(flops, sent)
    assert expert_parallel_intensity(Fraction(ffn), ranks, width) == counted
    assert expert_parallel_intensity(Fraction(2 * ffn), ranks, width) != counted


def border_chunks(schedule, node_of) -> int:
    """The most chunks that leave any node in a whole schedule."""
    leaving = {}
    for r in schedule.rounds:
        for send in r:
            if node_of[send.src] != node_of[send.dst]:
                leaving[node_of[send.src]] = leaving.get(node_of[send.src], 0) + send.count
    return max(leaving.values())


def test_a_ring_of_neighbours_leaves_its_node_once_and_a_scattered_one_with_every_rank():
    ring = ring_all_reduce(32)
    together = border_chunks(ring, [rank // 8 for rank in range(32)])
    apart = border_chunks(ring, [rank % 4 for rank in range(32)])
    assert together == 2 * 31  # what one rank sends
    assert apart == 8 * together
