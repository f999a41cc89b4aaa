"""What a layer keeps is what autograd keeps, and for the classical layer Korthikanti's formula."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from reference_transformer import SPECS, Layer, saved_bytes

from dtlib.foundations import GiB, TransformerSpec, kept_tensors, layer_activation_bytes

BATCH, SEQ = 3, 16
each_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def gpt(layers=1, hidden=64, heads=4):
    return TransformerSpec("gpt", layers, hidden, heads, vocab=100)


def kept_by_torch(spec, flash, recompute="none"):
    """Bytes that autograd keeps of one layer after the other, in bf16."""
    torch.manual_seed(0)
    x = torch.randn(BATCH, SEQ, spec.hidden, dtype=torch.bfloat16, requires_grad=True)
    dense = spec.layers - spec.expert_layers
    layers = [Layer(spec, i >= dense, flash, recompute).bfloat16() for i in range(spec.layers)]
    return sum(saved_bytes(layer, x) for layer in layers)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("flash", [False, True], ids=["scores stored", "flash"])
@each_spec
def test_bytes_are_those_that_autograd_keeps(spec, flash, recompute):
    predicted = spec.activation_bytes(SEQ, BATCH, flash=flash, recompute=recompute)
    assert kept_by_torch(spec, flash, recompute) == predicted


def test_sabotage_a_layer_with_dropout_keeps_more_than_one_without():
    spec = SPECS["grouped"]
    predicted = spec.activation_bytes(SEQ, BATCH, flash=False)
    assert kept_by_torch(replace(spec, dropout=True), flash=False) > predicted


def test_sabotage_a_forgotten_row_is_noticed():
    rows = kept_tensors(gpt(), SEQ, experts=False, flash=False)
    formula = layer_activation_bytes(seq=SEQ, micro_batch=1, hidden=64, heads=4)
    assert sum(SEQ * row.numbers * row.bytes_each for row in rows) == formula
    for row in rows:
        assert formula - SEQ * row.numbers * row.bytes_each < formula


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize(("seq", "batch"), [(16, 1), (128, 2), (2048, 4)])
def test_the_classical_layer_is_korthikantis(seq, batch, tp):
    """Their table 2, and its unit: the bytes of one number of the stream, s b h."""
    h, a = 64, 4
    unit, scores = seq * batch * h, Fraction(5 * a * seq, h)

    def kept(**options):
        options = {"tp": tp, "flash": False} | options
        return Fraction(gpt().activation_bytes(seq, batch, **options), unit)

    assert kept(tp=1) == 34 + scores
    assert kept() == 10 + Fraction(24, tp) + scores / tp
    assert kept(sequence_parallel=True) == (34 + scores) / tp
    assert kept(recompute="selective") == 10 + Fraction(24, tp)
    assert kept(recompute="selective", sequence_parallel=True) == Fraction(34, tp)
    assert kept(recompute="full") == 2
    assert kept(tp=1) * unit == layer_activation_bytes(
        seq=seq, micro_batch=batch, hidden=h, heads=a
    )


def test_flash_keeps_one_number_per_query_in_place_of_the_scores():
    unit, a, h = 2048 * 64, 4, 64
    flash, selective = (
        gpt().activation_bytes(2048, flash=f, recompute=r)
        for f, r in ((True, "none"), (False, "selective"))
    )
    assert selective == 34 * unit
    assert flash - selective == 4 * a * 2048 == unit * Fraction(4 * a, h)


@pytest.mark.parametrize(
    ("spec", "micro_batch", "gib", "selective_gib", "interleaving"),
    [
        (gpt(48, 6144, 64), 4, 59.25, 9.5625, 1),
        # eight stages of three parts each: the first keeps 1 + (8 - 1)/(8 x 3) times its layers
        (gpt(96, 12288, 96), 1, None, 12.3515625, Fraction(31, 24)),
    ],
    ids=["22B", "175B"],
)
def test_activation_memory_of_korthikantis_figure_1(
    spec, micro_batch, gib, selective_gib, interleaving
):
    """The models that they measure on 8 tensor-parallel ranks, in GiB."""
    plain = spec.activation_bytes(2048, micro_batch, tp=8, flash=False)
    selective = spec.activation_bytes(
        2048, micro_batch, tp=8, flash=False, sequence_parallel=True, recompute="selective"
    )
    assert gib is None or plain == gib * GiB
    assert selective * interleaving == selective_gib * GiB


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize("spec", [SPECS["classical"], SPECS["grouped"]], ids=repr)
def test_sequence_parallelism_divides_everything_and_replicates_nothing(spec, flash):
    for recompute in ("none", "selective", "full"):
        whole = spec.activation_bytes(SEQ, flash=flash, recompute=recompute)
        parts = spec.activation_bytes(
            SEQ, tp=2, sequence_parallel=True, flash=flash, recompute=recompute
        )
        assert 2 * parts == whole


def test_more_ranks_than_heads_of_keys_hold_copies_of_them():
    """Four ranks, two key-value heads: each rank holds one whole head of keys and of values."""
    spec = SPECS["grouped"]
    with_two, with_four = (spec.activation_bytes(SEQ, tp=t, sequence_parallel=True) for t in (2, 4))
    one_head = 2 * 2 * spec.layers * SEQ * spec.head_dim
    assert 2 * with_four - with_two == one_head


def test_what_tp_cannot_divide_is_refused():
    spec = SPECS["grouped"]
    with pytest.raises(ValueError, match="tp is 3, but must be a divisor of heads, which is 4"):
        spec.activation_bytes(SEQ, tp=3)
    with pytest.raises(ValueError, match="tp is 4, but must be a divisor of seq, which is 18"):
        spec.activation_bytes(18, tp=4, sequence_parallel=True)
    with pytest.raises(ValueError, match="tp is 4, but must be a divisor of ffn, which is 50"):
        replace(spec, ffn=50).activation_bytes(SEQ, tp=4)
    with pytest.raises(ValueError, match="a divisor or a multiple of kv_heads, which is 2"):
        replace(spec, heads=6, head_dim=8, kv_heads=2).activation_bytes(SEQ, tp=3)
    with pytest.raises(ValueError, match="recompute is 'half'"):
        spec.activation_bytes(SEQ, recompute="half")
