"""Model state: the published figures, and the laws of dividing it."""

from fractions import Fraction

import pytest

from dtlib.foundations import TransformerSpec, adam_state_bytes, layer_activation_bytes
from dtlib.memory import (
    best_segment_layers,
    fused_layer_bytes,
    gathered_bytes,
    model_state_bytes,
    segment_repeated_flops,
    segmented_activation_bytes,
)

WIDE = {"seq": 2048, "micro_batch": 1, "hidden": 12288}


@pytest.mark.parametrize(
    ("stage", "published_gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)], ids=str
)
def test_model_state_is_that_of_the_zero_paper(stage, published_gb):
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 replicas."""
    assert model_state_bytes(7.5e9, stage, 64) / 1e9 == pytest.approx(published_gb, abs=0.05)


@pytest.mark.parametrize("stage", range(4))
def test_one_replica_has_nothing_to_divide(stage):
    assert model_state_bytes(10**9, stage, 1) == adam_state_bytes(10**9) == 16 * 10**9


@pytest.mark.parametrize("dp", [2, 3, 64, 1024])
def test_every_stage_divides_more_and_stage_three_divides_all(dp):
    bytes_of = [model_state_bytes(Fraction(10**9), stage, Fraction(dp)) for stage in range(4)]
    assert bytes_of == sorted(bytes_of, reverse=True) and len(set(bytes_of)) == 4
    assert dp * bytes_of[3] == bytes_of[0]


@pytest.mark.parametrize(("stage", "floor"), [(0, 16), (1, 4), (2, 2), (3, 0)])
def test_what_a_stage_leaves_whole_is_its_floor(stage, floor):
    per_parameter = model_state_bytes(1, stage, 10**12)
    assert per_parameter == pytest.approx(floor, abs=1e-10)


def test_sabotage_forgetting_the_optimizer_is_off_by_four():
    weights_and_gradients = 4 * 10**9
    assert model_state_bytes(10**9, 0, 1) / weights_and_gradients == 4


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_fused_layer_keeps_what_the_exact_list_keeps_without_the_scores(tp):
    """Exactly, but for the mask of a dropout and the one number that fused attention keeps."""
    spec = TransformerSpec("wide", layers=3, hidden=4096, heads=32, vocab=100, dropout=True)
    exact = spec.activation_bytes(2048, 2, tp) / 3
    assert fused_layer_bytes(2048, 2, 4096, tp) == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize(("layers", "heads"), [(80, 96), (80, 0.001), (24, 8), (1000, 1)])
def test_no_length_of_segments_keeps_less_than_the_best(layers, heads):
    layer = layer_activation_bytes(heads=heads, **WIDE)

    def kept(segment):
        return segmented_activation_bytes(layers, segment, layer, **WIDE)

    best = best_segment_layers(layers, 2048, 12288, heads)
    assert all(kept(best) <= kept(k) for k in range(1, layers + 1))
    assert kept(best) < kept(0.99 * best) and kept(best) < kept(1.01 * best)


def test_the_square_root_is_best_only_where_a_layer_keeps_as_much_as_its_input():
    kept = {k: segmented_activation_bytes(81, k, 2 * 2048 * 12288, **WIDE) for k in range(1, 82)}
    assert min(kept, key=kept.get) == 9
    assert best_segment_layers(81, 2048, 12288, heads=0) == pytest.approx((2 * 81 / 34) ** 0.5)


def test_one_segment_of_all_layers_repeats_nothing_and_single_layers_almost_a_third():
    assert segment_repeated_flops(9e17, 48, 48) == 0
    assert segment_repeated_flops(Fraction(9), 1, Fraction(48)) == 3 - Fraction(3, 48)


def test_only_stage_three_gathers_and_weights_as_wide_as_they_are():
    assert [gathered_bytes(30e9, 60, stage, 2) for stage in range(4)] == [0, 0, 0, 2e9]
    assert gathered_bytes(30e9, 60, 3, 4) == 4e9
