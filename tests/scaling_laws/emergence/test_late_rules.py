"""Two jumps that no ruler makes: small runs, with the twins that lack what it takes."""

from itertools import pairwise

import pytest
import torch

from dtlib.scaling_laws import Addition, Repeats, learn_addition, learn_to_copy, wave_share


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def solved(moments, which, right=0.95):
    return next((m.step for m in moments if getattr(m, which) >= right), None)


def test_the_rule_comes_long_after_the_examples():
    moments = learn_addition(Addition(steps=2500), every=50)
    known, ruled = solved(moments, "train_right"), solved(moments, "test_right")
    assert ruled and ruled > 5 * known
    between = [m for m in moments if known + 100 <= m.step <= ruled - 100]
    assert all(m.train_loss < 0.3 for m in between)  # the examples have nothing more to teach
    assert between[0].test_loss > 3.5 > moments[-1].test_loss  # above chance, ln 31, and then below


@pytest.mark.parametrize("task", [Addition(weight_decay=0, steps=2500),
                                  Addition(fraction=0.4, steps=2500)])  # fmt: skip
def test_sabotage_without_decay_or_with_few_examples_it_does_not_come(task):
    moments = learn_addition(task, every=250)
    assert moments[-1].train_right > 0.99 and solved(moments, "test_right", 0.5) is None


def test_the_same_task_is_the_same_run():
    task = Addition(modulus=11, steps=40)
    assert learn_addition(task) == learn_addition(task)
    assert learn_addition(task) != learn_addition(Addition(modulus=11, steps=40, seed=1))


def test_random_rows_have_no_waves():
    rows = torch.randn(31, 64, generator=torch.Generator().manual_seed(0))
    assert wave_share(rows) < 0.5


def losses(layers):
    looks = learn_to_copy(Repeats(layers=layers, letters=16, length=32, steps=400), every=20)
    return looks, [look.repeated_loss for look in looks]


def test_two_layers_bend_and_the_two_heads_form_with_the_bend():
    looks, fall = losses(2)
    assert fall[-1] < 0.4 * fall[0]
    drops = [a - b for a, b in pairwise(fall)]
    slow = drops[1:6]  # after the first steps, in which it learns how often letters come
    assert max(drops) > 4 * sum(slow) / len(slow)
    assert looks[-1].to_previous > 4 * looks[0].to_previous
    assert looks[-1].to_match > 4 * looks[0].to_match
    assert looks[-1].new_loss > 2.5  # what is new cannot be known: ln 16 is 2.8


def test_sabotage_one_layer_never_copies():
    looks, fall = losses(1)
    assert fall[-1] > 0.7 * fall[0] and looks[-1].to_match < 0.15


def test_windows_repeat_with_their_period():
    task = Repeats()
    windows, periods = task.windows(50, torch.Generator().manual_seed(1))
    for row, period in zip(windows, periods[:, 0], strict=True):
        assert 16 <= period <= 32 and torch.equal(row[period:], row[: len(row) - period])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Addition(fraction=1.0), "fraction is 1.0, but must be between 0 and 1"),
        (lambda: Addition(weight_decay=-1), "weight_decay is -1"),
        (lambda: Repeats(heads=3), "heads is 3, but must be a divisor of width"),
        (lambda: Repeats(layers=0), "layers is 0"),
    ],
)
def test_bad_input_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
