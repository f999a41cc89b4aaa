"""Model state: the published figures, and the laws of dividing it."""

from fractions import Fraction

import pytest

from dtlib.foundations import adam_state_bytes
from dtlib.memory import model_state_bytes


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
