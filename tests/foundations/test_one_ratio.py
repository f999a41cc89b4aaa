"""Every border counted again, pass by pass: at the border FLOP / F equals bytes / beta, exactly."""

from fractions import Fraction
from itertools import product

import pytest

from dtlib.collectives import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from dtlib.foundations import (
    TransformerSpec,
    activation_offload_width,
    backward_hiding_tokens,
    causal_context_parallel_tokens,
    context_parallel_tokens,
    data_parallel_tokens,
    expert_parallel_width,
    parameter_offload_tokens,
    pipeline_parallel_extent,
    pipeline_parallel_intensity,
    sharded_data_parallel_tokens,
    tensor_parallel_intensity,
    tensor_parallel_width,
)
from dtlib.foundations.roofline.one_ratio import HIDING, MANY, link_ratios, one_ratio_table
from dtlib.machines.datasheets import catalog

RHO = Fraction(1234)
BYTES = Fraction(2)
RANKS = (2, 4, 8)


def sent_by(schedule, n) -> Fraction:
    """The bytes that rank 0 sends in a schedule over a buffer of `n` bytes."""
    return sum(
        (Fraction(n) * send.count / schedule.chunks)
        for round_ in schedule.rounds
        for send in round_
        if send.src == 0
    )


def block_params(hidden, heads, **kinds) -> int:
    """The weights of one block that multiply, from a spec's own list."""
    spec = TransformerSpec("block", 1, hidden, heads, vocab=10, bias=False, **kinds)
    return sum(w.size * w.multiplied for w in spec.weights() if w.part != "head")


def at_rho(formula, **values):
    return formula(element_bytes=BYTES, peak=RHO, beta=Fraction(1), **values)


@pytest.mark.parametrize("P", RANKS)
def test_data_parallelism_hides_from_its_border_on(P):
    params = 24 * P
    sent = sent_by(ring_all_reduce(P), params * BYTES)
    assert at_rho(backward_hiding_tokens, P=Fraction(P)) == pytest.approx(
        float(RHO * sent / (4 * params))
    )
    assert at_rho(data_parallel_tokens, P=Fraction(P)) == pytest.approx(
        float(RHO * sent / (6 * params))
    )


@pytest.mark.parametrize("P", RANKS)
def test_sharded_weights_have_one_border_in_both_passes(P):
    params = 24 * P
    gather = sent_by(ring_all_gather(P), params * BYTES)
    scatter = sent_by(ring_reduce_scatter(P), params * BYTES)
    border = at_rho(sharded_data_parallel_tokens, P=Fraction(P))
    assert border == RHO * gather / (2 * params)
    assert border == RHO * (gather + scatter) / (4 * params)


@pytest.mark.parametrize("t", RANKS)
def test_tensor_parallelism_is_counted_on_a_block_of_the_spec(t):
    hidden, tokens = 16, 5
    flops = Fraction(2 * tokens * block_params(hidden, 8), t)
    sent = 2 * sent_by(ring_all_reduce(t), tokens * hidden * BYTES)
    border = at_rho(tensor_parallel_width, tp=Fraction(t))
    assert border / hidden == RHO * sent / flops  # both sides grow with the tokens, which cancel
    whole_step = hidden * RHO / tensor_parallel_intensity(Fraction(hidden), t, BYTES)
    assert border == Fraction(3, 2) * whole_step  # the forward pass is the stricter one


@pytest.mark.parametrize("layers", [1, 3])
def test_a_pipeline_stage_is_counted_on_blocks_of_the_spec(layers):
    hidden, tokens = 16, 5
    flops = Fraction(2 * tokens * layers * block_params(hidden, 8))
    sent = tokens * hidden * BYTES
    border = at_rho(pipeline_parallel_extent)
    assert border / (hidden * layers) == RHO * sent / flops
    whole_step = pipeline_parallel_intensity(layers, Fraction(hidden), 1, BYTES)
    assert border == Fraction(3, 2) * hidden * layers * RHO / whole_step


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_ring_of_blocks_is_counted_pair_by_pair_with_fewer_key_heads(kv_heads):
    heads, width, block = 4, 3, 6
    forward = backward = 0
    for _query, _key, _head in product(range(block), range(block), range(heads)):
        forward += 2 * 2 * width  # a score, and its share of the value
        backward += 2 * 2 * 2 * width  # the gradients of both factors of both
    sent = 2 * kv_heads * width * block * BYTES  # keys and values
    border = at_rho(context_parallel_tokens, kv_heads=Fraction(kv_heads), heads=heads)
    assert border / block == RHO * sent / forward
    assert border / block == RHO * 2 * sent / backward  # and their gradients, backwards


@pytest.mark.parametrize("P", RANKS)
def test_a_zigzag_layout_leaves_half_of_every_block_and_so_twice_the_border(P):
    """Each rank has stripe r and stripe 2P-1-r; in each step half of the pairs are left."""
    half = 12
    stripes = [[r, 2 * P - 1 - r] for r in range(P)]
    tokens = [[s * half + i for s in pair for i in range(half)] for pair in stripes]
    full = (2 * half) ** 2
    for mine, other in product(range(P), range(P)):
        if mine != other:
            left = sum(key < query for query in tokens[mine] for key in tokens[other])
            assert left == full // 2
    values = {"kv_heads": Fraction(1), "heads": 8}
    assert at_rho(causal_context_parallel_tokens, **values) == 2 * at_rho(
        context_parallel_tokens, **values
    )


@pytest.mark.parametrize("ep", RANKS)
@pytest.mark.parametrize("active", [1, 2])
def test_experts_are_counted_copy_by_copy(ep, active):
    hidden, ffn, experts = 4, 6, 8
    flops = sent = 0
    for rank, token, choice in product(range(ep), range(experts), range(active)):
        expert = (token + choice) % experts
        flops += 2 * 3 * hidden * ffn
        if expert * ep // experts != rank:
            sent += 2 * hidden * BYTES  # there and back
    assert at_rho(expert_parallel_width, ep=Fraction(ep)) / ffn == RHO * sent / flops


def test_offloading_is_counted_per_direction():
    params, tokens, hidden = 24, 5, 16
    assert at_rho(parameter_offload_tokens) == RHO * params * BYTES / (2 * params)
    backward = RHO * params * BYTES / (4 * params)  # weights in, while gradients go out
    assert at_rho(parameter_offload_tokens) > backward
    flops = Fraction(2 * tokens * block_params(hidden, 8))
    border = at_rho(activation_offload_width)
    assert border / hidden == RHO * tokens * hidden * BYTES / flops


def test_the_published_factors_follow_for_two_byte_numbers():
    factors = {name: border.factor() for name, border in HIDING.items()}
    assert factors == pytest.approx(
        {
            "data, behind the backward pass": 1,
            "data, behind the whole step": 2 / 3,
            "sharded data (ZeRO-3)": 1,
            "tensor": 7 / 3,
            "pipeline": 1 / 12,
            "context": 1 / 8,
            "context, causal": 1 / 4,
            "expert": 2 / 3,
            "weights on the host": 1,
            "activations on the host": 1 / 12,
            "the bad case: data, ranks scattered over the nodes": 1,
        }
    )
    assert HIDING["expert"].setting["ep"] == MANY


def test_a_border_scales_with_the_ratio_and_with_nothing_else_of_the_machine():
    for border in HIDING.values():
        values = {"element_bytes": 2, **border.setting}
        values = {k: v for k, v in values.items() if k in border.formula.parameters}
        slow = border.formula(peak=1e14, beta=1e11, **values)
        fast = border.formula(peak=1e15, beta=1e12, **values)
        assert slow == pytest.approx(fast) == pytest.approx(border.least(1000))
    with pytest.raises(ValueError, match="rho is 0, but must be a positive"):
        HIDING["tensor"].least(0)


def test_counting_both_directions_of_a_link_moves_every_border():
    """The twin: 900 GB/s for NVLink, its two directions added up, would halve all lengths."""
    right = link_ratios()["nvlink4"]
    wrong = 989e12 / 900e9
    for border in HIDING.values():
        assert border.least(right) == pytest.approx(2 * border.least(wrong))


def test_the_table_shows_every_strategy_on_the_links_that_it_uses():
    table = {row[0]: row[3:] for row in one_ratio_table().rows}
    assert list(table) == list(HIDING)
    assert table == {
        "data, behind the backward pass": ("2,198", "15,453", "2,472", "8"),
        "data, behind the whole step": ("1,465", "10,302", "1,648", "8"),
        "sharded data (ZeRO-3)": ("2,198", "15,453", "2,472", "8"),
        "tensor": ("5,128", "36,057", "11,538", "4"),
        "pipeline": ("183", "1,288", "1,648", "1"),
        "context": ("275", "1,932", "2,472", "1"),
        "context, causal": ("549", "3,863", "4,945", "1"),
        "expert": ("1,465", "10,302", "13,187", "1"),
        "weights on the host": ("", "15,453", "", ""),
        "activations on the host": ("", "1,288", "", ""),
        "the bad case: data, ranks scattered over the nodes": ("", "", "19,780", "1"),
    }


def test_sabotage_one_port_for_the_rings_of_whole_nodes_is_the_bad_case():
    """The network model of the book: eight ranks side by side have eight ports, not one."""
    data, bad = HIDING["data, behind the backward pass"], list(HIDING.values())[-1]
    node, ratios = catalog["dgx-h100"], link_ratios()
    assert data.least(ratios["dgx-h100"]) * node.nics == bad.least(ratios["ib-ndr400"])
    assert [border.strategy for border in HIDING.values() if border.members == node.gpus] == [
        "data, behind the backward pass",
        "data, behind the whole step",
        "sharded data (ZeRO-3)",
    ]
