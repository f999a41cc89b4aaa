"""Random models, divided into units at random, end in FullySharded as they do in one process."""

import pytest
from full_trial import judge, trials

from dtlib.runtime import launch

TOLERANCE = {False: 1e-12, True: 1e-6}  # in fp64, and in fp32 under autocast


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


def test_random_models_train_as_in_one_process(four, examples):
    """Gradients, weights and the optimizer's state; odd sizes, frozen, tied, idle and skipped."""
    many = examples(trials, 30)
    for answers in four.run(judge, many):
        for trial, gaps in zip(many, answers, strict=True):
            assert gaps is None or max(gaps) <= TOLERANCE[trial["autocast"]], (trial, gaps)


def without(name, replacement, many):
    """The same judgement with a part of FullySharded put out of action."""
    from dtlib.memory.zero.units import GatheredFlat

    kept = getattr(GatheredFlat, name)
    setattr(GatheredFlat, name, replacement)
    try:
        return judge(many)
    finally:
        setattr(GatheredFlat, name, kept)


def forget(*arguments):
    """In place of a method."""


@pytest.mark.parametrize("part", ["join", "join_nothing"])
def test_sabotage_what_is_left_out_is_found(four, examples, part):
    many = [trial for trial in examples(trials, 30) if trial["idle"] or part == "join"]
    found = [gaps for answers in four.run(without, part, forget, many[:8]) for gaps in answers]
    assert any(gaps and max(gaps) > 1e-3 for gaps in found)
