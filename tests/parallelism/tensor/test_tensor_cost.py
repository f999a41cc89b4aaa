"""The costs of tensor parallelism, against counts of their own and against the notes of a shard."""

from fractions import Fraction

import pytest

from dtlib.foundations import TransformerSpec, catalog, link_headroom, tensor_parallel_width
from dtlib.parallelism import (
    gathered_logits_bytes,
    head_imbalance_fraction,
    tensor_forward_headroom,
    tensor_parallel_layer_bytes,
    vocab_loss_bytes,
)

F, NVLINK, PORT = 989e12, 450e9, 50e9


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("hidden", [1024, 8192])
def test_headroom_is_the_spec_s_arithmetic_over_the_counted_bytes(tp, hidden):
    """A classical layer by TransformerSpec, without scores, and the bytes of two all-reduces."""
    spec = TransformerSpec("layer", 1, hidden, 8, 1, bias=False)
    matrices = sum(w.size for w in spec.weights() if w.part in ("attention", "feed-forward"))
    tokens = 3 * 128
    forward = 2 * matrices * tokens / tp / F
    sending = tensor_parallel_layer_bytes(3, 128, hidden, tp, 2) / NVLINK
    assert tensor_forward_headroom(hidden, tp, 2, F, NVLINK) == pytest.approx(forward / sending)
    assert link_headroom(hidden, tp, 2, F, NVLINK) == pytest.approx(1.5 * forward / sending)


@pytest.mark.parametrize(("beta", "border"), [(NVLINK, 5128), (PORT, 46153)])
def test_golden_borders_of_eight_ranks(beta, border):
    width = tensor_parallel_width(8, 2, F, beta)
    assert int(width) == border
    assert tensor_forward_headroom(width, 8, 2, F, beta) == pytest.approx(1)
    assert tensor_forward_headroom(8192, 8, 2, F, beta) == pytest.approx(8192 / width)


def test_golden_headrooms_of_the_page():
    assert round(tensor_forward_headroom(8192, 8, 2, F, NVLINK), 2) == 1.60
    assert round(tensor_forward_headroom(8192, 8, 2, F, PORT), 2) == 0.18
    assert round(tensor_forward_headroom(4096, 8, 2, 989e12, 450e9), 1) == 0.8
    R = [tensor_forward_headroom(4096, tp, 2, F, NVLINK) for tp in (2, 4, 8)]
    assert [r / R[-1] for r in R] == pytest.approx([7, Fraction(7, 3), 1])


def test_sabotage_the_sum_of_both_directions_doubles_the_headroom():
    link = catalog["nvlink4"].beta
    assert link == NVLINK
    both = tensor_forward_headroom(8192, 8, 2, F, 2 * link)
    assert both == pytest.approx(2 * tensor_forward_headroom(8192, 8, 2, F, link))


def test_golden_bytes_of_a_layer():
    each = tensor_parallel_layer_bytes(micro_batch=4, seq=2048, hidden=4096, tp=8, element_bytes=2)
    assert each == 224 * 2**20
    assert 80 * each == pytest.approx(18.8e9, rel=1e-3)


@pytest.mark.parametrize("heads", [8, 32, 40])
@pytest.mark.parametrize("tp", [1, 2, 3, 6, 8])
def test_imbalance_is_the_busiest_rank_of_the_fairest_deal(heads, tp):
    deal = [heads // tp + (rank < heads % tp) for rank in range(tp)]
    assert head_imbalance_fraction(heads, tp) == pytest.approx(max(deal) * tp / heads - 1)


def test_the_loss_sends_three_numbers_a_token_where_logits_are_the_vocabulary():
    few, many = vocab_loss_bytes(4, 2048, 8, 4), gathered_logits_bytes(4, 2048, 50304, 8, 4)
    assert many / few == pytest.approx(50304 / 6)
