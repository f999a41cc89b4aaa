"""What lives at one time: the peak by brute force, two steps in closed form, and torch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.memory.memory_peak import SPEC, measured_steps
from dtlib.foundations import TransformerSpec
from dtlib.memory import Life, LiveSet, LiveSetError, check_fits, gpt_lives, recipes, training_lives

NAMES = [str(moment) for moment in range(12)]
KINDS = st.sampled_from(["weights", "activations", "gradients"])


@st.composite
def some_lives(draw):
    found = []
    for number in range(draw(st.integers(1, 12))):
        born = draw(st.integers(0, 11))
        dies = draw(st.integers(born + 1, 12))
        found.append(Life(str(number), draw(KINDS), draw(st.integers(0, 9)), born, dies))
    return found


@given(some_lives())
def test_the_peak_is_the_largest_sum_of_any_moment(lives):
    brute = max(
        sum(life.bytes for life in lives if life.born <= t and not life.dies <= t)
        for t in range(12)
    )
    live = LiveSet(lives, NAMES)
    assert live.peak_bytes == brute == sum(life.bytes for life in live.at(live.fullest))
    assert sum(live.by_kind(live.fullest).values()) == brute


@given(some_lives())
def test_the_peak_of_a_sum_is_at_most_the_sum_of_the_peaks(lives):
    live = LiveSet(lives, NAMES)
    kinds = {life.kind for life in lives}
    assert live.peak_bytes <= sum(max(live.curve(kind)) for kind in kinds)
    assert live.curve() == [sum(row) for row in zip(*map(live.curve, kinds), strict=True)]


@given(some_lives())
def test_what_fits_is_what_the_peak_fits(lives):
    live = LiveSet(lives, NAMES)
    check_fits(live, live.peak_bytes)
    if live.peak_bytes:
        with pytest.raises(LiveSetError, match=r"alive, .* there"):
            check_fits(live, live.peak_bytes - 0.5)


TALL = TransformerSpec("tall", layers=64, hidden=64, heads=4, vocab=1, ffn=4096)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1, 2, 7])
def test_the_peaks_of_two_steps_of_equal_layers(ratio):
    """w weights in 32 bits, a activations: max(w + max(a, w), 4w), then 3w + max(a, w)."""
    w = 4 * TALL.params()
    a = ratio * w
    live = training_lives(TALL, a / TALL.layers, 0, recipe="32-bit")
    first, second = live.peak_of("step 1"), live.peak_of("step 2")
    one_layer = (1 + ratio) * w / TALL.layers
    assert first == pytest.approx(max(w + max(a, w), 4 * w), abs=one_layer)
    assert second == pytest.approx(3 * w + max(a, w), abs=one_layer)


def test_moments_that_are_there_from_the_start_make_both_steps_alike():
    live = training_lives(TALL, 1e6, 1e6, lazy_moments=False)
    curve = live.curve()
    half = len(curve) // 2
    assert curve[:half] == curve[half:]


def test_gradients_that_stay_are_there_during_the_second_forward_pass():
    w, a = 4 * TALL.params(), 6e8
    live = training_lives(TALL, a / TALL.layers, 0, recipe="32-bit", keep_gradients=True)
    assert live.peak_bytes == pytest.approx(4 * w + a, rel=0.01)
    again = training_lives(TALL, a / TALL.layers, 0, recipe="32-bit", micro_batches=2, steps=1)
    assert again.peak_bytes == pytest.approx(2 * w + a, rel=0.01)  # moments come at its end


def test_at_the_update_everything_of_the_recipe_is_alive_and_nothing_of_the_input():
    for recipe in recipes.values():
        live = training_lives(TALL, 1e6, 1e6, recipe=recipe, steps=1)
        assert live.curve()[-1] == pytest.approx(recipe.total * TALL.params())


@pytest.mark.parametrize(
    "life", [("a", "weights", 1, 2, 2), ("a", "weights", 1, 0, 13), ("a", "weights", -1, 0, 1)]
)
def test_a_life_that_cannot_be_is_refused(life):
    with pytest.raises(LiveSetError, match="born before it dies"):
        LiveSet([Life(*life)], NAMES)


def test_a_step_that_does_not_fit_says_when_and_what():
    live = training_lives(TALL, 1e7, 0, recipe="32-bit")
    first = max(live.curve()[: len(live.moments) // 2])
    with pytest.raises(LiveSetError, match=r"step 2 forward .* alive, .* there"):
        check_fits(live, first)


@pytest.mark.parametrize("argument", ["steps", "micro_batches"])
def test_counts_below_one_are_refused(argument):
    with pytest.raises(ValueError, match=argument):
        training_lives(TALL, 1, 1, **{argument: 0})


@pytest.fixture(scope="module")
def measured():
    return measured_steps(SPEC, seq=128, micro_batch=4)


def test_the_lives_of_two_steps_are_what_torch_allocates(measured):
    predicted = gpt_lives(SPEC, seq=128, micro_batch=4)
    for step in ("step 1", "step 2"):
        assert predicted.peak_of(step) == pytest.approx(measured[step], rel=0.06)
    assert measured["step 2"] / measured["step 1"] > 1.2


def test_sabotage_lives_without_lazy_moments_miss_the_first_step(measured):
    eager = gpt_lives(SPEC, seq=128, micro_batch=4, lazy_moments=False)
    assert eager.peak_of("step 1") > 1.2 * measured["step 1"]
