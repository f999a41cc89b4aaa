"""The laws of the lab 'Your own scaling law', held to references of their own."""

import copy
import math
from fractions import Fraction
from itertools import permutations
from random import Random

import pytest

from dtlib.exercises import NotYet
from dtlib.exercises.labs.your_own_scaling_law import saying, sharing
from dtlib.exercises.labs.your_own_scaling_law.laws import (
    BUDGETS,
    COSTS,
    least_busy,
    row_law,
    synthetic_runs,
)
from dtlib.exercises.labs.your_own_scaling_law.learner import Learner
from dtlib.exercises.labs.your_own_scaling_law.real import ModelLearner, tokens
from dtlib.scaling_laws import Runs, fit_parametric
from dtlib.scaling_laws.grid import Trunk, rate_factor, recorded_runs

MI = 2**20


def counted(budgets) -> int:
    """The tokens of a trunk, counted one by one: each is trained once, or by one branch."""
    trained = {("trunk", token) for token in range(max(budgets) * 4 // 5)}
    for budget in budgets:
        trained |= {(budget, token) for token in range(budget * 4 // 5, budget)}
    return len(trained)


@pytest.mark.parametrize("budgets", BUDGETS, ids=str)
def test_a_trunk_has_as_many_tokens_as_can_be_counted(budgets):
    assert sharing.trunk_tokens(budgets) == counted(budgets)


def test_the_dearest_first_keeps_grahams_bound_and_reaches_it():
    draw = Random(1)
    for _ in range(60):
        costs, P = tuple(draw.randint(1, 9) for _ in range(draw.randint(1, 6))), draw.randint(1, 3)
        busiest = max(sum(costs[job] for job in jobs) for jobs in sharing.share(costs, P))
        assert busiest <= least_busy(costs, P) * (Fraction(4, 3) - Fraction(1, 3 * P))
    worst = (3, 3, 2, 2, 2)
    busiest = max(sum(worst[job] for job in jobs) for jobs in sharing.share(worst, 2))
    assert Fraction(busiest, least_busy(worst, 2)) == Fraction(7, 6)


def test_the_least_that_the_busiest_has_is_found_by_every_order_as_well():
    for costs, P in COSTS[:3]:
        greedy = (
            max(sum(costs[j] for j in jobs) for jobs in sharing.share(costs, P, lambda _, o=o: o))
            for o in permutations(range(len(costs)))
        )
        assert least_busy(tuple(costs), P) == min(greedy)


def test_the_learner_is_exact_and_a_deep_copy_has_a_past_of_its_own():
    one = Learner()
    for step in range(7):
        one.learn(rate_factor(step, 40))
    twin = copy.deepcopy(one)
    before = one.loss()
    twin.learn(1)
    assert one.loss() == before != twin.loss()
    assert len(one.tally) == 8  # all copies count together
    assert all(isinstance(weight, Fraction) for weight in one.weights)


def test_a_shallow_copy_damages_the_trunk():
    with pytest.raises(NotYet, match="has an earlier branch changed the trunk"):
        row_law(lambda *args: sharing.row(*args, copied=copy.copy))


def test_the_labs_models_branch_as_the_books_trunk_does():
    found = sharing.row(ModelLearner(16, seed=3), [80, 40], rate_factor)
    evaluation = ModelLearner(16, seed=3).trunk.evaluation
    for steps in (40, 80):
        alone = Trunk(evaluation, 16, seed=3, rate=0.02).train(steps, steps=steps)
        assert found[steps] == alone.excess().nats
    assert tokens(40) == 40 * 1024


def test_excess_is_cross_entropy_less_entropy():
    truth, model = [[0.5, 0.3, 0.2], [0.1, 0.9, 0.0]], [[0.2, 0.2, 0.6], [0.3, 0.6, 0.1]]
    log_q = [[math.log(q) for q in row] for row in model]
    loss = -sum(
        p * q for law, row in zip(truth, log_q, strict=True) for p, q in zip(law, row, strict=True)
    )
    entropy = sum(saying.entropy_rate(law, 1) for law in truth)
    assert saying.excess(truth, log_q) == pytest.approx((loss - entropy) / 2, rel=1e-14)


def test_a_run_of_the_law_lies_in_the_interval_that_is_said():
    said = saying.forecast(list(synthetic_runs()), 1.2, 2e5, 3.2e7)
    due = 30 / 2e5**0.63 + 220 / 3.2e7**0.57
    assert said[1] < due < said[2]


def test_a_law_through_runs_of_the_warm_up_says_too_little():
    """As the lab's first grid does: a quarter to one Mi tokens, and a run of four times as much."""
    known = [run for run in recorded_runs(None, seed=1) if run.D <= MI and run.rule == "mup"]
    known = [run for run in known if run.kind in ("early", "fit") and run.width <= 64]
    (large,) = (r for r in recorded_runs("fit", seed=1) if (r.width, r.D) == (64, 4 * MI))
    short = fit_parametric(Runs.of(known), E=large.E).predict(large.N, large.D)
    later = [r for r in recorded_runs("fit", seed=1) if r.width <= 64 and r.C <= large.C / 3.5]
    longer = fit_parametric(Runs.of(later), E=large.E).predict(large.N, large.D)
    assert short.loss - large.E < 0.95 * large.excess
    assert abs(longer.loss - large.loss) < abs(short.loss - large.loss)
