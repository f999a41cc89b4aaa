"""The layers' part of the account: published figures, the exact list, and what policies strike."""

from fractions import Fraction

import pytest

from dtlib.foundations import (
    GiB,
    MoE,
    TransformerSpec,
    kept_tensors,
    layer_activation_bytes,
    published_models,
)
from dtlib.memory import (
    activation_bytes,
    gated_layer_bytes,
    kept_layer_bytes,
    repeated_token_bytes,
    score_crossover_seq,
    segment_work_bytes,
    sequence_layer_bytes,
    stage_kept_bytes,
    tensor_layer_bytes,
    token_bytes,
)

LLAMA = {"norm": "rms", "bias": False, "gated": True}
SPECS = {
    "classical": TransformerSpec("classical", 3, 64, 4, 100),
    "grouped": TransformerSpec("grouped", 2, 64, 8, 100, kv_heads=2, **LLAMA),
    "experts": TransformerSpec(
        "experts", 4, 64, 4, 100, moe=MoE(8, 2, 32, shared=1, dense_layers=1), **LLAMA
    ),
    "deepseek": published_models["deepseek-v3"],
}
each_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
POLICIES = ("none", "selective", "full")


def gpt(layers, hidden, heads):
    return TransformerSpec("gpt", layers, hidden, heads, vocab=51200)


@pytest.mark.parametrize("recompute", POLICIES)
@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize(("tp", "sp"), [(1, False), (2, False), (2, True), (4, True)])
@each_spec
def test_without_context_parallelism_it_is_the_exact_list(spec, tp, sp, flash, recompute):
    options = {"tp": tp, "sequence_parallel": sp, "recompute": recompute, "flash": flash}
    assert activation_bytes(spec, 64, 3, **options) == spec.activation_bytes(64, 3, **options)


@pytest.mark.parametrize("flash", [False, True])
@each_spec
def test_the_formula_of_a_layer_is_the_sum_of_the_list(spec, flash):
    for experts in {False, bool(spec.expert_layers)}:
        rows = kept_tensors(spec, 32, experts=experts, flash=flash)
        found = token_bytes(spec, experts=experts, flash=flash)
        formula = kept_layer_bytes(
            32, 2, 1, found.stream, 1, found.split, found.pair, 1, found.keys, spec.kv_heads
        )
        assert formula == sum(2 * 32 * row.numbers * row.bytes_each for row in rows)


@pytest.mark.parametrize("cp", [1, 2, 4])
@each_spec
def test_context_parallelism_divides_everything(spec, cp):
    """Also the scores: a rank has its own queries, and meets the keys of all."""
    for flash in (False, True):
        whole = activation_bytes(spec, 64, flash=flash)
        assert cp * activation_bytes(spec, 64, cp=cp, flash=flash) == whole


@pytest.mark.parametrize(("tp", "kv_heads"), [(1, 8), (2, 8), (8, 8), (4, 32)])
def test_the_layer_of_llama_in_closed_form(tp, kv_heads):
    spec = TransformerSpec("llama", 1, 4096, 32, 100, ffn=14336, kv_heads=kv_heads, **LLAMA)
    closed = gated_layer_bytes(2048, 2, 4096, 32, kv_heads, 14336, tp, 2)
    assert closed == activation_bytes(spec, 2048, 2, tp=tp, cp=2, sequence_parallel=True)


def test_a_llama_of_seven_billion_keeps_10_gb_where_the_textbooks_disagree():
    """2,048 tokens: 10.1 GB with FlashAttention, and 30.6 for the classical layer: never 14.5."""
    spec = TransformerSpec("llama-7b", 32, 4096, 32, 32000, ffn=11008, **LLAMA)
    assert activation_bytes(spec, 2048) / 1e9 == pytest.approx(10.07, abs=0.01)
    classical = 32 * layer_activation_bytes(2048, 1, 4096, 32)
    assert classical / 1e9 == pytest.approx(30.6, abs=0.05)


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "b", "p", "v", "gib", "selective_gib", "state_gib"),
    [
        (48, 6144, 64, 4, 1, 1, 59.25, 9.5625, 45.5625),
        (96, 12288, 96, 1, 8, 3, 66.84375, 12.3515625, 45.5625),
        (105, 20480, 128, 1, 35, 3, 114.0234375, 23.076171875, 31.640625),
        (128, 25600, 160, 1, 64, 1, 131.25, 26.5625, 32.958984375),
    ],
    ids=["22B", "175B", "530B", "1T"],
)
def test_memory_of_korthikantis_figure_1_exactly(
    layers, hidden, heads, b, p, v, gib, selective_gib, state_gib
):
    """GiB on the first of p stages, 8 tensor-parallel ranks, 18 bytes per parameter."""
    more = 1 + Fraction(p - 1, p * v) if v > 1 else 1
    spec = gpt(layers, hidden, heads)
    plain = activation_bytes(spec, 2048, b, tp=8, flash=False)
    selective = activation_bytes(
        spec, 2048, b, tp=8, flash=False, sequence_parallel=True, recompute="selective"
    )
    assert plain * more == gib * GiB
    assert selective * more == selective_gib * GiB
    assert Fraction(18 * 12 * layers * hidden**2, 8 * p) == state_gib * GiB


@pytest.mark.parametrize(
    ("hidden", "heads", "percent"),
    [
        (6144, 64, (66.84, 49.42, 16.18, 7.64)),
        (12288, 96, (62.04, 56.53, 18.49, 8.71)),
        (20480, 128, (58.31, 62.04, 20.27, 9.42)),
        (25600, 160, (58.31, 62.04, 20.27, 9.42)),
    ],
    ids=["22B", "175B", "530B", "1T"],
)
def test_shares_of_korthikantis_figure_7(hidden, heads, percent):
    """Per cent of tensor parallelism alone, read from the figure to a seventh of a point."""
    spec, both = gpt(1, hidden, heads), {"sequence_parallel": True, "tp": 8, "flash": False}
    exact = 2048, 1, Fraction(hidden), heads, 8
    whole = activation_bytes(spec, 2048, tp=8, flash=False)
    assert whole == tensor_layer_bytes(*exact)
    assert activation_bytes(spec, 2048, **both) == sequence_layer_bytes(*exact)
    found = (
        activation_bytes(spec, 2048, **both),
        activation_bytes(spec, 2048, tp=8, flash=False, recompute="selective"),
        activation_bytes(spec, 2048, **both, recompute="selective"),
        activation_bytes(spec, 2048, tp=8, flash=False, recompute="full"),
    )
    assert [100 * x / whole for x in found] == pytest.approx(percent, abs=0.15)


@pytest.mark.parametrize("width", [64, 128])
def test_the_scores_weigh_as_much_as_the_rest_at_the_crossover(width):
    """870 tokens for heads of 128, and however wide the model: not 1,408, and not 4,352."""
    for heads in (8, 32, 96):
        hidden = heads * width
        s = score_crossover_seq(hidden, heads)
        assert s == score_crossover_seq(width, 1) == pytest.approx(6.8 * width)
        layer = layer_activation_bytes(s, 1, hidden, heads)
        assert layer == pytest.approx(2 * 34 * s * hidden)


def test_the_share_of_the_scores_grows_with_the_length_and_is_82_percent_at_4096():
    share = [
        1 - 34 * s * 4096 / layer_activation_bytes(s, 1, 4096, 32) for s in (1024, 2048, 4096, 8192)
    ]
    assert share == sorted(share) and share[2] == pytest.approx(0.82, abs=0.005)


def test_activations_grow_slower_than_parameters_when_the_shape_is_kept():
    """Depth and width twice as large: parameters 8 times, activations 4 times, a power of 2/3."""
    small, large = gpt(12, 1024, 8), gpt(24, 2048, 16)
    weights = [12 * s.layers * s.hidden**2 for s in (small, large)]
    kept = [activation_bytes(s, 2048) for s in (small, large)]
    assert weights[1] == 8 * weights[0] and kept[1] == 4 * kept[0]


@each_spec
def test_a_policy_and_what_it_repeats_are_the_whole_layer(spec):
    whole = token_bytes(spec, flash=False)
    for policy in (*POLICIES, ["keys", "values"]):
        kept = token_bytes(spec, flash=False, recompute=policy)
        again = repeated_token_bytes(spec, flash=False, recompute=policy)
        assert [a + b for a, b in zip(vars(kept).values(), vars(again).values(), strict=True)] == [
            *vars(whole).values()
        ]
    assert not any(vars(repeated_token_bytes(spec, recompute="none")).values())


def test_a_policy_by_names_strikes_these_rows_and_no_others():
    spec = SPECS["grouped"]
    names = ["gate after its activation function", "input of the second matrix"]
    struck = activation_bytes(spec, 64) - activation_bytes(spec, 64, recompute=names)
    assert struck == 2 * 64 * spec.layers * spec.ffn * 2
    core = [row.name for row in kept_tensors(spec, 64, experts=False, flash=False) if row.core]
    by_name, selective = (
        activation_bytes(spec, 64, flash=False, recompute=r) for r in (core, "selective")
    )
    assert by_name == selective


@pytest.mark.parametrize("segment", [1, 2, 3, 5, 12])
def test_a_segment_keeps_its_first_input_and_repeats_the_rest(segment):
    """By brute force: inputs that are kept, and all that one segment makes but its first input."""
    spec = gpt(12, 64, 4)
    whole, first = (activation_bytes(gpt(1, 64, 4), 32, recompute=r) for r in ("none", "full"))
    kept = activation_bytes(spec, 32, recompute="full", segment=segment)
    assert kept == sum(first for layer in range(12) if layer % segment == 0)
    assert kept == stage_kept_bytes(first, 12, segment, 1)
    assert segment_work_bytes(whole - first, first, segment) == segment * whole - first


def test_what_cannot_be_is_refused_by_name():
    spec = SPECS["grouped"]
    with pytest.raises(ValueError, match="recompute is 'half', but must be 'none', 'selective'"):
        activation_bytes(spec, 64, recompute="half")
    with pytest.raises(ValueError, match="a name in recompute is 'scores', but must be one of"):
        activation_bytes(spec, 64, recompute=["scores"])
    with pytest.raises(ValueError, match="a name in recompute is 'input of the norm'"):
        activation_bytes(spec, 64, recompute=["input of the norm"])
    with pytest.raises(ValueError, match="cp is 3, but must be a divisor of seq, which is 64"):
        activation_bytes(spec, 64, cp=3)
    with pytest.raises(ValueError, match="segment is 2, but must be 1 unless recompute is 'full'"):
        activation_bytes(spec, 64, segment=2)
    with pytest.raises(ValueError, match="tp is 16, but must be a divisor of heads"):
        activation_bytes(spec, 64, tp=16)
