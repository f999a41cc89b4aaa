"""The closed form of a pipeline with uneven ends and messages, against the simulator.

Every path is as long as some way through the pipeline, so the form is never longer than the step.
How much shorter it is at most is measured on layouts that are drawn at random, with odd sizes: few
micro-batches, many, as many as ranks; ends that are lighter or heavier; a backward pass of twice a
forward pass, a fifth more or less; a message of up to a tenth of a pass.
"""

import random
from fractions import Fraction
from functools import cache
from itertools import product
from statistics import mean

import numpy as np
import pytest

from dtlib.parallelism.pipeline import (
    interleaved,
    one_f_one_b,
    pipeline_step_time,
    pipeline_time,
    simulate,
    uneven,
)

LAYOUTS = 1_000
LOADS, MESSAGES = (0.7, 1.5), (0, 0.1)


@cache
def schedule(p, m, v):
    return one_f_one_b(p, m) if v == 1 else interleaved(p, m, v)


def layouts(count, loads, messages, seed=0):
    """Arguments of `pipeline_time`: the time of a forward pass is 1."""
    rng = random.Random(seed)
    for _ in range(count):
        v = rng.choice((1, 1, 2, 3, 4))
        p = rng.randint(1 if v == 1 else 2, 16)
        m = rng.randint(1, rng.choice((20, 100))) if v == 1 else p * rng.randint(1, 48 // p)
        backward = 2 * rng.uniform(0.8, 1.2)
        yield (
            p,
            m,
            v,
            1,
            backward,
            rng.uniform(*loads),
            rng.uniform(*loads),
            rng.uniform(*messages),
        )


def simulated(p, m, v, forward, backward, first_load, last_load, hop_time):
    """The simulator's step: each stage with its own times."""
    loads = [1] * (p * v)
    loads[0], loads[-1] = first_load, last_load
    if p * v == 1:
        loads = [first_load + last_load - 1]
    f, b = ([load * time for load in loads] for time in (forward, backward))
    return simulate(schedule(p, m, v), f, b, [0] * (p * v), hop_time).makespan


@pytest.fixture(scope="module")
def drawn():
    """Layouts and what the simulator says of each."""
    given = list(layouts(LAYOUTS, LOADS, MESSAGES))
    return given, [simulated(*one) for one in given]


def ratios(drawn):
    given, right = drawn
    return pipeline_time(*np.array(given).T) / right


def test_on_a_thousand_layouts_the_form_is_the_step_within_a_percent(drawn):
    found = ratios(drawn)
    assert found.max() < 1 + 1e-12
    assert found.min() > 1 - 0.0075
    assert mean(1 - found) < 1e-4
    assert np.mean(found > 1 - 1e-12) > 0.9


def test_with_ends_of_half_or_twice_the_work_it_is_within_three_percent():
    wide = list(layouts(300, (0.5, 2.2), (0, 0.2), seed=7))
    found = ratios((wide, [simulated(*one) for one in wide]))
    assert 1 - 0.03 < found.min() <= found.max() < 1 + 1e-12


def test_with_equal_stages_the_form_is_the_step_exactly():
    for p, v, hop in product((1, 2, 3, 4, 6), (1, 2, 3), (0, Fraction(1, 20))):
        for m in (1, 2, p - 1, p, p + 1, 2 * p, 3 * p + 1, 5 * p) if v == 1 else (p, 2 * p, 5 * p):
            if m and (v == 1 or p > 1):
                given = (p, Fraction(m), v, Fraction(1), Fraction(2), 1, 1, hop)
                assert pipeline_time(*given) == simulated(p, m, *given[2:])
                if not hop:
                    assert pipeline_time(*given) == pipeline_step_time(p, m, Fraction(v), v, v, v)


@pytest.mark.parametrize(
    "path",
    [
        "middle_stages_delay_time",
        "first_stage_delay_time",
        "pipeline_zigzag_time",
        "first_rank_wrap_time",
        "first_rank_return_time",
        "first_rank_ring_time",
    ],
)
def test_sabotage_without_one_of_its_paths_it_is_more_than_a_percent_off(drawn, monkeypatch, path):
    monkeypatch.setattr(uneven, path, lambda *given: 0 * given[0] - 1e9)
    assert ratios(drawn).min() < 1 - 0.01


def test_sabotage_the_form_of_textbooks_is_several_percent_off(drawn):
    """(m - 1) times the slowest rank, and all ranks, filling divided by v; messages on one path."""
    given, right = drawn
    off = []
    for (p, m, v, f, b, first, last, hop), step in zip(given, right, strict=True):
        ends = [first + last - 1] if p == 1 else [v - 1 + first, v - 1 + last]
        ranks = ends + [v] * (p - 2)
        slow = max(ranks)
        form = (m * slow + (sum(ranks) - slow) / v) * (f + b) + 2 * (p * v - 1) * hop
        off.append(abs(form / step - 1))
    assert mean(off) > 0.01 and max(off) > 0.05
