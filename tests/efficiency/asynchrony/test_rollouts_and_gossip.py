"""A queue between generators and a trainer, and averages among neighbours."""

import random

import numpy as np
import pytest

from dtlib.efficiency import (
    Admission,
    check_doubly_stochastic,
    exponential_mixing,
    importance,
    queue_generator_idle_fraction,
    queue_trainer_idle_fraction,
    ring_mixing,
    simulate_rollouts,
    spectral_gap,
    turns_idle_fraction,
)
from dtlib.runtime import RanksError, launch


def lengths(seed=0):
    draw = random.Random(seed)
    return lambda: draw.lognormvariate(0.0, 1.0)


@pytest.mark.parametrize("cap", [0, 1, 2, 8])
def test_no_sample_is_older_than_the_cap_and_each_is_used_once(cap):
    rule = Admission(batch=8, cap=cap)
    shares = simulate_rollouts(rule, 8, lengths(), training=2.0, updates=200)
    assert max(shares.staleness) == cap
    assert sorted(n for n, _ in rule.used) == list(range(8 * 200))
    free = simulate_rollouts(Admission(batch=8), 8, lengths(), training=2.0, updates=200)
    assert max(free.staleness) > 2  # what nothing caps


def test_a_cap_of_zero_takes_turns():
    shares = simulate_rollouts(Admission(4, cap=0), 4, lambda: 3.0, training=1.0, updates=50)
    assert shares.seconds == pytest.approx(200)
    assert shares.trainer == pytest.approx(turns_idle_fraction(3.0, 1.0))
    assert shares.generators == pytest.approx(turns_idle_fraction(1.0, 3.0))
    assert set(shares.staleness) == {0}


@pytest.mark.parametrize("training", [0.5, 1.0, 4.0])
def test_a_queue_keeps_the_slower_side_busy(training):
    made, draw = [], lengths()

    def counted():
        made.append(draw())
        return made[-1]

    shares = simulate_rollouts(Admission(8, cap=64), 8, counted, training, updates=2000)
    generating = sum(made) / len(made)
    assert shares.trainer == pytest.approx(
        queue_trainer_idle_fraction(generating, training), abs=0.02
    )
    due = queue_generator_idle_fraction(generating, training)
    assert shares.generators == pytest.approx(due, abs=0.02)


def test_a_cap_of_one_wins_back_most_of_what_turns_lose_and_the_tail_keeps_the_rest():
    seconds = {}
    for cap in (0, 1, 2, 8, None):
        rule = Admission(batch=16, cap=cap)
        seconds[cap] = simulate_rollouts(rule, 16, lengths(), 1.5, updates=400).seconds
    assert seconds[0] > seconds[1] > seconds[2] > seconds[8]
    assert seconds[0] - seconds[1] > 0.5 * (seconds[0] - seconds[8])


def test_where_both_sides_need_the_same_time_a_queue_is_worth_most():
    def worth(generating, training):
        return (generating + training) / max(generating, training)

    assert worth(60, 60) == 2 == max(worth(60, training) for training in range(1, 300))
    for generating, training in ((60, 60), (90, 30), (30, 90)):
        busy = 1 - turns_idle_fraction(generating, training)
        in_queue = 1 - queue_trainer_idle_fraction(generating, training)
        assert in_queue / busy == pytest.approx(worth(generating, training))


def test_without_a_queue_all_generators_are_outstanding_at_each_update():
    rule = Admission(batch=1)
    shares = simulate_rollouts(rule, 6, lengths(), training=1e-9, updates=4000)
    assert abs(shares.mean_staleness - 6) < 0.05


def test_staleness_is_what_is_outstanding_over_the_batch():
    rule = Admission(batch=4, cap=5)
    shares = simulate_rollouts(rule, 12, lengths(), training=1.0, updates=500)
    used = dict(rule.used)
    # each update makes every sample older that has begun and is not used up
    outstanding = sum(
        1 for v in range(500) for n, born in enumerate(rule.born) if born <= v < used.get(n, 500)
    )
    ages = sum(500 - born for n, born in enumerate(rule.born) if n not in used)
    assert sum(shares.staleness) + ages == outstanding
    assert shares.mean_staleness > 1


def test_importance_repairs_the_mean_and_a_truncation_does_not():
    draw = np.random.default_rng(0)
    logits, old_logits, reward = draw.normal(size=(3, 6))
    new, old = (np.exp(x) / np.exp(x).sum() for x in (logits, old_logits))
    score = np.eye(6) - new  # d log pi(a) / d logits, one row for each action
    due = new @ (reward[:, None] * score)

    def seen(weights):
        return (old * np.asarray(weights)) @ (reward[:, None] * score)

    assert np.abs(seen(importance(new, old)) - due).max() < 1e-15
    assert np.abs(seen(np.ones(6)) - due).max() > 0.01
    assert np.abs(seen(importance(new, old, most=1.0)) - due).max() > 0.01
    with pytest.raises(ValueError, match="old"):
        importance((0.5, 0.5), (1.0, 0.0))


@pytest.mark.parametrize("P", [1, 2, 3, 8, 16])
def test_a_ring_of_neighbours_agrees_as_fast_as_its_gap_says(P):
    mixing = ring_mixing(P)
    check_doubly_stochastic(mixing)
    x = np.random.default_rng(P).normal(size=P)
    mean, gap = x.mean(), spectral_gap(mixing)
    for _ in range(40):
        apart = np.linalg.norm(x - mean)
        x = mixing @ x
        assert np.linalg.norm(x - mean) <= (1 - gap) * apart + 1e-14
        assert abs(x.mean() - mean) < 1e-14
    if P > 4:
        assert gap == pytest.approx(2 / 3 * (1 - np.cos(2 * np.pi / P)))


def test_the_exponential_graph_has_the_mean_after_log_p_rounds():
    product = np.eye(16)
    for step in range(4):
        check_doubly_stochastic(exponential_mixing(16, step))
        product = exponential_mixing(16, step) @ product
    assert np.abs(product - 1 / 16).max() < 1e-15
    with pytest.raises(ValueError, match="power of two"):
        exponential_mixing(6, 0)


def test_a_matrix_that_is_stochastic_in_its_rows_alone_loses_the_mean():
    rows = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    with pytest.raises(ValueError, match=r"column 0 adds up to 1\.5"):
        check_doubly_stochastic(rows)
    x = np.array([0.0, 0.0, 3.0])
    for _ in range(60):
        x = rows @ x
    assert abs(x).max() < 1e-9  # everybody agrees, and not on the mean
    with pytest.raises(ValueError, match="least weight"):
        check_doubly_stochastic(np.array([[2.0, -1.0], [-1.0, 2.0]]))


@pytest.fixture(scope="module")
def ranks():
    with launch(4, timeout=120) as ranks:
        yield ranks


def gossiped(rounds):
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import exponential_mixing, gossip, ring_mixing

    ring = exponential = torch.arange(5.0, dtype=torch.float64) + 10 * dist.get_rank() ** 2
    for step in range(rounds):
        ring = gossip(ring, ring_mixing(4), dist.group.WORLD)
        exponential = gossip(exponential, exponential_mixing(4, step), dist.group.WORLD)
    return ring, exponential


def test_gossip_on_ranks_is_the_matrix(ranks):
    import torch

    found = ranks.run(gossiped, 2)
    start = torch.stack(
        [torch.arange(5.0, dtype=torch.float64) + 10 * rank**2 for rank in range(4)]
    )
    ring = torch.from_numpy(np.linalg.matrix_power(ring_mixing(4), 2)) @ start
    for rank in range(4):
        assert float((found[rank][0] - ring[rank]).abs().max()) < 1e-13
        assert float((found[rank][1] - start.mean(0)).abs().max()) < 1e-13
    assert float((found[0][0] - start.mean(0)).abs().max()) > 1


def post_trained(cap, updates=12):
    import time

    import torch
    import torch.distributed as dist

    from dtlib.efficiency import Admission, post_train

    def generate(weights, n):
        time.sleep(0.002 if n % 5 else 0.01)
        return torch.tensor([float(n), float(weights[0])], dtype=torch.float64)

    def train(weights, samples, ages):
        # a sample carries what its generator read: the version, which weight 0 counts
        assert (samples[:, 1] == weights[0] - ages).all()
        return weights + 1

    start = torch.zeros(3, dtype=torch.float64)
    return post_train(
        Admission(4, cap), generate, train, start, torch.zeros(2, dtype=torch.float64),
        dist.group.WORLD, updates=updates,
    )  # fmt: skip


@pytest.mark.parametrize("cap", [0, 2])
def test_generators_and_a_trainer_on_ranks(ranks, cap):
    (weights, shares), updates, *made = ranks.run(post_trained, cap)
    assert weights.tolist() == [12.0] * 3
    assert max(shares.staleness) <= cap
    assert len(shares.staleness) == 48
    assert updates == 12
    assert 48 <= sum(made) <= 48 + 4 * (cap + 2)
    assert 0 <= shares.trainer < 1
    assert 0 <= shares.generators < 1


def alone():
    import torch.distributed as dist

    from dtlib.efficiency import gossip, ring_mixing

    return gossip(None, ring_mixing(5), dist.group.WORLD)


def test_bad_input_is_named(ranks):
    with pytest.raises(RanksError, match=r"mixing\.shape"):
        ranks.run(alone)
    with pytest.raises(ValueError, match="batch"):
        Admission(0)
    with pytest.raises(ValueError, match="cap"):
        Admission(2, cap=-1)
