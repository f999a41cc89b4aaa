"""Softmax-weighted sums are a commutative monoid: exactly where exp is exact, else to rounding."""

import itertools
import random
from functools import reduce

import numpy as np
import pytest
import torch

from dtlib.collectives import ring_all_reduce, tree_all_reduce
from dtlib.collectives.monoid import emulate_with, laws, right_chunks
from dtlib.parallelism.sequence.softmax_state import SoftmaxState, softmax_monoid


def powers_of_two(seed):
    """A state whose every number is exact: whole scores, whole values, weights 2^score."""
    drawn = torch.Generator().manual_seed(seed)
    scores = torch.randint(-5, 6, (3, 4), generator=drawn).double()
    values = torch.randint(-9, 10, (4, 2), generator=drawn).double()
    return SoftmaxState.of(scores, values, torch.exp2)


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


EXACT = [powers_of_two(seed) for seed in range(4)]
EXACT.append(SoftmaxState.identity(EXACT[0].o))


def test_merging_is_associative_and_commutative_bit_for_bit_where_exp_is_exact():
    for a, b, c in itertools.product(EXACT, repeat=3):
        left = a.merge(b, torch.exp2).merge(c, torch.exp2)
        assert same(left, a.merge(b.merge(c, torch.exp2), torch.exp2))
    for a, b in itertools.product(EXACT, repeat=2):
        assert same(a.merge(b, torch.exp2), b.merge(a, torch.exp2))


def test_the_state_of_no_keys_is_the_identity():
    nothing = EXACT[-1]
    for state in EXACT:
        assert same(nothing.merge(state), state)
        assert same(state.merge(nothing), state)


def test_the_laws_of_chapter_11_hold():
    buffers = [
        torch.cat([state.m[:, None], state.s[:, None], state.o], 1).numpy() for state in EXACT
    ]
    kept = laws(softmax_monoid(2, torch.exp2), buffers)
    assert kept == dict.fromkeys(("associative", "identity", "commutative", "elementwise"), True)


def test_in_floats_some_brackets_differ_in_the_last_bits():
    drawn = torch.Generator().manual_seed(17)
    differs = 0
    for _ in range(50):
        a, b, c = (
            SoftmaxState.of(*(torch.randn(shape, generator=drawn) for shape in ((8, 16), (16, 4))))
            for _ in range(3)
        )
        left, right = a.merge(b).merge(c).result(), a.merge(b.merge(c)).result()
        differs += not torch.equal(left, right)
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)
    assert differs > 25


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_any_order_and_any_tree_give_softmax(scale):
    shuffle, drawn = random.Random(17), torch.Generator().manual_seed(17)
    scores = scale * torch.randn(5, 24, generator=drawn, dtype=torch.float64)
    values = torch.randn(24, 3, generator=drawn, dtype=torch.float64)
    expected = scores.softmax(-1) @ values
    for _ in range(20):
        order = shuffle.sample(range(24), 24)
        edges = sorted({0, 24, *shuffle.sample(range(1, 24), 5)})
        cuts = [order[a:b] for a, b in itertools.pairwise(edges)]
        states = [SoftmaxState.of(scores[:, cut], values[cut]) for cut in cuts]
        while len(states) > 1:
            i = shuffle.randrange(len(states) - 1)
            states[i : i + 2] = [states[i].merge(states[i + 1])]
        torch.testing.assert_close(states[0].result(), expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(states[0].log_sum(), scores.logsumexp(-1), rtol=1e-12, atol=0)


def test_rows_without_keys_give_zero_and_gradients_without_nan():
    scores = torch.full((2, 3), -torch.inf).double()
    scores[1] = torch.tensor([0.5, -torch.inf, 1.0])
    scores.requires_grad_()
    values = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    state = SoftmaxState.of(scores, values)
    for merged in (state, state.merge(state), SoftmaxState.identity(state.o).merge(state)):
        assert torch.equal(merged.result()[0], torch.zeros(2).double())
        assert merged.log_sum()[0] == -torch.inf
        grads = torch.autograd.grad(merged.result().sum(), (scores, values), retain_graph=True)
        assert all(g.isfinite().all() for g in grads)
        assert grads[0][0].abs().max() == 0


def test_the_largest_score_is_a_unit_so_no_gradient_goes_through_it():
    scores = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    values = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    parts = [SoftmaxState.of(scores[:, k], values[k]) for k in (slice(0, 2), slice(2, 6))]
    merged = reduce(SoftmaxState.merge, parts)
    for ours, theirs in (
        (merged.result(), scores.softmax(-1) @ values),
        (merged.log_sum(), scores.logsumexp(-1)),
    ):
        weights = torch.randn_like(ours)
        for x in (scores, values):
            a, b = (
                torch.autograd.grad((y * weights).sum(), x, retain_graph=True, allow_unused=True)[0]
                for y in (ours, theirs)
            )
            if b is not None:
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_an_all_reduce_in_this_monoid_is_attention():
    """One query, keys spread over ranks: any schedule that adds in order, or not, will do."""
    rng = np.random.default_rng(17)
    scores, values = rng.normal(size=(4, 8)), rng.normal(size=(4, 8, 2))
    monoid = softmax_monoid(2)
    buffers = []
    for rank in range(4):
        state = SoftmaxState.of(torch.tensor(scores[rank]), torch.tensor(values[rank]))
        row = [state.m.item(), state.s.item(), *state.o.tolist()]
        buffers.append(np.tile(row, (4, 1)))
    weights = torch.tensor(scores.reshape(-1)).softmax(0)
    expected = (weights @ torch.tensor(values.reshape(-1, 2))).numpy()
    for schedule in (ring_all_reduce(4), tree_all_reduce(4)):
        for held in emulate_with(monoid, schedule, buffers):
            np.testing.assert_allclose(held[0, 2:] / held[0, 1], expected, rtol=1e-12)
    assert len(right_chunks(monoid, ring_all_reduce(4), buffers)) == 4


def test_sabotage_without_the_maximum_exp_overflows():
    scores, values = torch.tensor([[100.0, 101.0]]), torch.eye(2)
    weights = scores.exp()
    assert (weights @ values / weights.sum(-1, keepdim=True)).isnan().any()
    assert SoftmaxState.of(scores, values).result().isfinite().all()


def test_sabotage_a_unit_of_minus_infinity_gives_nan():
    nothing = torch.tensor(-torch.inf)
    assert (nothing - torch.maximum(nothing, nothing)).exp().isnan()
