"""Parameters and FLOPs of a spec are those of a torch model of the same dimensions, to the unit."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_transformer import SPECS, TINY, Model, count
from torch.utils.flop_counter import FlopCounterMode

from dtlib.foundations import (
    MLA,
    MoE,
    TransformerSpec,
    attention_flops_fraction,
    causal_attention_flops_fraction,
    dense_params,
    hardware_flops_utilisation,
    model_flops_utilisation,
)

each_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)

# Narayanan et al. 2021, table 1: (parameters in billions as printed, heads, hidden, layers)
SC21 = [
    ("1.7", 24, 2304, 24),
    ("3.6", 32, 3072, 30),
    ("7.5", 32, 4096, 36),
    ("18.4", 48, 6144, 40),
    ("39.1", 64, 8192, 48),
    ("76.1", 80, 10240, 60),
    ("145.6", 96, 12288, 80),
    ("310.1", 128, 16384, 96),
    ("529.6", 128, 20480, 105),
    ("1008.0", 160, 25600, 128),
]


def sc21_spec(heads, hidden, layers):
    return TransformerSpec("sc21", layers, hidden, heads, 51200, tied=True, positions=2048)


def counted_flops(spec, batch, seq, backward):
    """What torch's counter sees of a forward pass, and of both passes."""
    torch.manual_seed(0)
    model, ids = Model(spec), torch.randint(0, spec.vocab, (batch, seq))
    with FlopCounterMode(display=False) as counter:
        logits = model(ids)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


@each_spec
def test_parameters_are_those_of_a_torch_model(spec):
    with torch.device("meta"):
        assert count(Model(spec)) == spec.params()


@given(
    layers=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 4]),
    width=st.integers(1, 5),
    groups=st.sampled_from([1, 2, 4]),
    ffn=st.integers(1, 40),
    tied=st.booleans(),
    gated=st.booleans(),
    bias=st.booleans(),
    qkv_bias=st.sampled_from([None, False, True]),
    norm=st.sampled_from(["layer", "rms"]),
    positions=st.sampled_from([0, 7]),
    shared=st.integers(0, 2),
    dense=st.sampled_from([None, 0, 1]),
)
@settings(max_examples=40, deadline=None)
def test_parameters_of_any_model_are_those_of_a_torch_model(
    layers, heads, width, groups, ffn, tied, gated, bias, qkv_bias, norm, positions, shared, dense
):
    spec = TransformerSpec(
        "any", layers, heads * width, heads, 11,
        ffn=ffn, kv_heads=max(1, heads // groups), tied=tied, gated=gated, bias=bias,
        qkv_bias=qkv_bias, norm=norm, positions=positions,
        moe=None if dense is None else MoE(3, 2, ffn + 1, shared=shared, dense_layers=dense),
    )  # fmt: skip
    with torch.device("meta"):
        model = Model(spec)
    parts = spec.parameter_parts()
    norms = sum(count(m) for m in model.modules() if type(m).__name__ == "Norm")
    attention = sum(count(m) for m in model.modules() if type(m).__name__ == "Attention")
    assert (spec.params(), parts["norms"], parts["attention"]) == (count(model), norms, attention)
    assert sum(parts.values()) == spec.params() >= spec.active_params()


def test_sabotage_a_model_with_one_more_bias_has_other_parameters():
    spec = SPECS["classical"]
    with torch.device("meta"):
        model = Model(spec)
        model.head = torch.nn.Linear(spec.hidden, spec.vocab, bias=True)
    assert count(model) != spec.params()


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "with backward"])
@each_spec
def test_flops_are_those_that_torch_counts(spec, backward):
    tokens = 3 * 16
    predicted = tokens * spec.flops_per_token(seq=16, causal=False, backward=backward)
    assert counted_flops(spec, 3, 16, backward) == predicted


def test_sabotage_a_wider_torch_model_has_more_flops():
    spec = SPECS["grouped"]
    predicted = 16 * spec.flops_per_token(seq=16, causal=False)
    assert counted_flops(replace(spec, ffn=spec.ffn + 1), 1, 16, True) > predicted


def test_matmul_parameters_are_the_matrices_that_a_token_meets():
    spec = SPECS["experts"]
    with torch.device("meta"):
        model = Model(spec)
    linear = {n: m.weight.numel() for n, m in model.named_modules() if hasattr(m, "in_features")}
    idle = {n for n in linear if ".experts." in n and int(n.split("experts.")[1][0]) >= 2}
    assert spec.matmul_params() == sum(size for n, size in linear.items() if n not in idle)
    assert spec.active_params() == count(model) - sum(linear[n] for n in idle)


@pytest.mark.parametrize("seq", [1, 2, 7, 64])
def test_the_causal_convention_drops_half_of_the_diagonal(seq):
    """Allowed pairs by enumeration: s(s + 1)/2; the convention counts s^2/2, s/2 pairs less."""
    spec = TransformerSpec("one pair", layers=3, hidden=8, heads=2, vocab=5)
    per_pair = 2 * 3 * 2 * (4 + 4)  # a multiplication and an addition for each number of q and v
    pairs = [(query, key) for query in range(seq) for key in range(seq) if key <= query]
    assert seq * spec.score_flops(seq, causal=False) == per_pair * seq**2
    assert seq * spec.score_flops(seq, causal=True) == per_pair * (len(pairs) - Fraction(seq, 2))


@pytest.mark.parametrize(("printed", "heads", "hidden", "layers"), SC21)
def test_parameters_of_the_sc21_models_as_printed(printed, heads, hidden, layers):
    params = sc21_spec(heads, hidden, layers).params()
    assert f"{params / 1e9:.1f}" == printed
    # their equation 2 leaves out the last norm: a weight and a bias for each number of the stream
    equation = layers * (12 * hidden**2 + 13 * hidden) + (51200 + 2048) * hidden
    assert params == equation + 2 * hidden


@pytest.mark.parametrize(("printed", "heads", "hidden", "layers"), SC21)
def test_the_flops_of_sc21_are_the_case_without_mask_and_with_full_recomputation(
    printed, heads, hidden, layers
):
    """F = 96 B s l h^2 (1 + s/6h + V/16lh), in units of 24 B s l h^2, a forward pass of the layers:
    four of them, and of the head's 2 B s h V three, for it is not recomputed.
    """
    batch, seq, vocab = 512, 2048, 51200
    correction = 1 + Fraction(seq, 6 * hidden) + Fraction(vocab, 16 * layers * hidden)
    equation = 96 * batch * seq * layers * hidden**2 * correction
    spec = sc21_spec(heads, hidden, layers)
    per_token = spec.flops_per_token(seq, causal=False, recompute="full")
    assert batch * seq * per_token == equation


@each_spec
def test_recomputation_repeats_the_scores_or_the_layers(spec):
    none, selective, full = (
        spec.flops_per_token(16, recompute=r) for r in ("none", "selective", "full")
    )
    forward = spec.flops_per_token(16, backward=False)
    head = 2 * spec.hidden * spec.vocab
    assert none == 3 * forward
    assert selective - none == spec.score_flops(16)
    assert full - none == forward - head


def test_the_share_of_the_scores_is_s_over_6h_without_a_mask_and_half_with_one():
    spec = TransformerSpec("classical", layers=5, hidden=64, heads=4, vocab=100)
    weights = 2 * (spec.matmul_params() - spec.hidden * spec.vocab)
    for seq in (16, 384, 1000):
        full, causal = spec.score_flops(seq, causal=False), spec.score_flops(seq)
        assert Fraction(full, weights) == Fraction(seq, 6 * 64)
        assert attention_flops_fraction(hidden=64, seq=seq) == full / weights
        assert causal_attention_flops_fraction(hidden=64, seq=seq) == causal / weights


def test_the_dense_formula_leaves_out_biases_norms_and_positions_only():
    bare = TransformerSpec("bare", 7, 64, 4, 1000, bias=False)
    vectors = bare.parameter_parts()["norms"]
    assert dense_params(layers=7, hidden=64, vocab=1000) == bare.params() - vectors
    assert bare.matmul_params() == dense_params(layers=7, hidden=64, vocab=1000) - 64 * 1000


def test_hfu_counts_what_is_repeated_and_mfu_does_not():
    """With SC21's recomputation, four passes are done where three are asked for."""
    spec, rate = sc21_spec(96, 12288, 80), {"time": 1, "P": 8, "peak": 312e12}
    asked = spec.flops_per_token(2048)
    done = spec.flops_per_token(2048, recompute="full")
    mfu = model_flops_utilisation(flops=asked, **rate)
    hfu = hardware_flops_utilisation(flops=asked, repeated_flops=done - asked, **rate)
    assert hfu / mfu == pytest.approx(done / asked)
    assert 1.32 < done / asked < 4 / 3
    assert hardware_flops_utilisation(flops=asked, repeated_flops=0, **rate) == mfu


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers is 0, but must be a whole number of at least 1"),
        ({"hidden": 3.5}, "hidden is 3.5"),
        ({"heads": 5}, "heads is 5, but must be a divisor of hidden, which is 32"),
        ({"kv_heads": 3}, "kv_heads is 3, but must be a divisor of heads, which is 4"),
        ({"positions": -1}, "positions is -1, but must be a whole number of at least 0"),
        ({"norm": "batch"}, "norm is 'batch', but must be 'layer' or 'rms'"),
        ({"moe": MoE(4, 2, 8, dense_layers=3)}, "moe.dense_layers is 3, but must be at most"),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=f"TransformerSpec 'bad': {message}"):
        TransformerSpec("bad", **TINY | change)


def test_other_arguments_that_cannot_be_are_refused():
    spec = SPECS["classical"]
    with pytest.raises(ValueError, match="MoE: active is 3, but must be at most experts, 2"):
        MoE(2, 3, 8)
    with pytest.raises(ValueError, match="MLA: rope_dim is 0"):
        MLA(8, 8, 0, 8, 8)
    with pytest.raises(ValueError, match="recompute is 'some', but must be one of"):
        spec.flops_per_token(16, recompute="some")
    with pytest.raises(ValueError, match="must be 'none' without a backward pass"):
        spec.flops_per_token(16, backward=False, recompute="full")


def test_defaults_are_those_of_the_classical_gpt():
    spec = TransformerSpec("gpt", **TINY, positions=16)
    assert (spec.ffn, spec.kv_heads, spec.head_dim, spec.context) == (128, 4, 8, 16)
    assert (spec.qkv_bias, spec.dropout, spec.expert_layers) == (True, True, 0)
    assert "2 layers, 32 wide, 4 heads" in repr(spec) and "active" in repr(SPECS["experts"])
