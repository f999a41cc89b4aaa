"""What a router decides, what its gradients are, and what each way of balancing it can do."""

from itertools import combinations

import numpy as np
import pytest
import torch

from dtlib.parallelism import (
    BiasBalancer,
    Router,
    Routing,
    balance_loss,
    balanced_by_bias,
    even_router_overflow,
    expected_nodes,
    expert_choice,
    expert_loads,
    fill_experts,
    padding_fraction,
    route,
    z_loss,
)
from dtlib.parallelism.expert.routing import choice_order

F64 = torch.float64


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
def test_one_renormalised_gate_gives_the_router_no_gradient_and_a_raw_gate_does(gate):
    for renormalise, zero in ((True, True), (False, False), (None, False)):
        logits = random(5, 4).requires_grad_()
        chosen = route(logits, 1, gate=gate, renormalise=renormalise)
        (chosen.gate_tk * random(5, 1, seed=1)).sum().backward()
        assert (logits.grad.abs().max() < 1e-15) == zero


def test_the_gradient_of_a_gate_is_what_its_expert_adds_against_the_mean_of_the_chosen():
    scores, experts, cotangent = (
        random(4).sigmoid().requires_grad_(),
        random(4, 6, seed=1),
        random(6),
    )
    chosen = scores.topk(2).indices
    y = (scores[chosen] / scores[chosen].sum()) @ experts[chosen]
    (y @ cotangent).backward()
    by_hand = (experts - y.detach()) @ cotangent / scores[chosen].sum().detach()
    torch.testing.assert_close(scores.grad[chosen], by_hand[chosen])
    assert torch.count_nonzero(scores.grad) == 2


def routing_of(gate_te, k=1):
    gate_te = torch.as_tensor(gate_te, dtype=F64)
    return Routing(gate_te.topk(k).indices, gate_te.topk(k).values, gate_te.log())


def test_the_balance_loss_is_one_at_uniform_for_every_k_and_below_one_elsewhere():
    for k in (1, 2, 3):
        shifts = torch.stack([torch.full((6,), 1 / 6, dtype=F64)] * 6)
        even = Routing(
            torch.stack([(torch.arange(k) + t) % 6 for t in range(6)]), None, shifts.log()
        )
        assert float(balance_loss(even)) == pytest.approx(1)
    below = routing_of([[0.51, 0.49]] * 6 + [[0.01, 0.99]] * 4)
    assert float(balance_loss(below)) == pytest.approx(2 * (0.6 * 0.31 + 0.4 * 0.69))
    assert float(balance_loss(below)) < 0.93


def test_the_gradient_of_the_balance_loss_is_the_formula():
    logits = random(7, 4).requires_grad_()
    routing = route(logits, 2)
    balance_loss(routing).backward()
    g = logits.detach().softmax(-1)
    f = routing.counts().to(F64) / 14
    by_hand = 4 / 7 * g * (f - (g @ f)[:, None])
    torch.testing.assert_close(logits.grad, by_hand)


def test_a_collapsed_router_is_stationary_for_the_balance_loss():
    logits = torch.tensor([[30.0, 0.0, 0.0, 0.0]] * 8, dtype=F64, requires_grad=True)
    loss = balance_loss(route(logits, 1))
    loss.backward()
    assert loss.item() == pytest.approx(4)
    assert logits.grad.abs().max() < 1e-11


def test_a_bias_moves_the_choice_and_neither_gate_nor_gradient():
    logits = random(6, 4).requires_grad_()
    biased = route(logits, 2, bias_e=torch.tensor([9.0, 9.0, 0, 0], dtype=F64))
    assert set(biased.expert_tk.flatten().tolist()) == {0, 1}
    score = logits.detach().softmax(-1)[:, :2]
    wanted = score / score.sum(-1, keepdim=True)
    torch.testing.assert_close(biased.gate_tk.sort().values, wanted.sort().values)


def test_a_bias_that_enters_the_gate_would_move_the_output():
    logits, bias = random(6, 4), torch.tensor([9.0, 8.0, 0, 0], dtype=F64)
    wrong = route(logits + bias, 2).gate_tk
    assert not torch.allclose(wrong, route(logits, 2, bias_e=bias).gate_tk)


def test_the_z_loss_pulls_all_logits_down_together():
    logits = random(5, 8).requires_grad_()
    z_loss(logits).backward()
    log_sum = logits.detach().logsumexp(-1, keepdim=True)
    torch.testing.assert_close(logits.grad, 2 / 5 * log_sum * logits.detach().softmax(-1))


def test_first_choices_stand_before_second_ones():
    expert_tk = route(random(40, 6), 2).expert_tk
    place = choice_order(expert_tk, 6)
    for e in range(6):
        ranks = {j: place[:, j][expert_tk[:, j] == e].tolist() for j in (0, 1)}
        assert ranks[0] + ranks[1] == list(range(len(ranks[0]) + len(ranks[1])))


def test_expert_choice_fills_every_expert_and_a_later_token_changes_an_earlier_one():
    scores = random(12, 4).softmax(-1)
    token_ec, _ = expert_choice(scores, 3)
    assert token_ec.shape == (4, 3)
    crowded = expert_choice((random(12, 4) + 3 * random(12, 1, seed=1)).sigmoid(), 3)[0]
    assert len(set(crowded.flatten().tolist())) < 12  # somebody is not chosen
    later = scores.clone()
    later[-1] = 1.0
    changed, _ = expert_choice(later, 3)
    before = [set(row.tolist()) - {11} for row in token_ec]
    after = [set(row.tolist()) - {11} for row in changed]
    assert any(a != b for a, b in zip(before, after, strict=True))
    assert torch.equal(route(later[:-1].log(), 2).expert_tk, route(scores.log(), 2).expert_tk[:-1])


def test_padding_is_an_identity_of_drops_and_capacity():
    for skew in (0, 0.5, 1):
        load = expert_loads(4096, 16, 2, skew)
        for c in (1, 1.25, 2):
            found = fill_experts(load, c)
            assert found.wasted == pytest.approx(padding_fraction(found.dropped, c))
    assert fill_experts(expert_loads(4096, 16, 1, 1), 1.25).dropped > 0.4


def test_an_even_router_drops_what_a_simulation_drops():
    _, share = even_router_overflow(64, 8, 2, 20)
    drops = [fill_experts(expert_loads(64, 8, 2, seed=s), 1.25).dropped for s in range(400)]
    assert np.mean(drops) == pytest.approx(share, rel=0.1)
    assert even_router_overflow(64, 8, 2, 64) == (0, 0)


def test_expected_nodes_is_the_mean_over_all_choices():
    seen = [len({e // 3 for e in chosen}) for chosen in combinations(range(12), 4)]
    assert expected_nodes(12, 4, 4) == pytest.approx(np.mean(seen), rel=1e-12)
    assert expected_nodes(8, 8, 4) == 4 and expected_nodes(8, 1, 4) == 1


def test_a_bias_step_too_large_never_balances():
    small, large = (balanced_by_bias(g, steps=60) for g in (1e-2, 1e-1))
    assert small.min() < 1.15 < 1.5 < large.min()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: route(random(2, 4), 5), "k is 5, but must be at most the number of experts, 4"),
        (lambda: route(random(2, 4), 0), "k is 0, but must be a whole number"),
        (lambda: route(random(2, 4), 1, gate="relu"), "gate is 'relu'"),
        (lambda: Router(4, 2, 3), "k is 3"),
        (lambda: expert_choice(random(3, 2), 4), "capacity is 4, but must be at most"),
        (lambda: BiasBalancer(4, gamma=0), "gamma is 0, but must be positive"),
        (lambda: fill_experts([1, 2], 0), "capacity_factor is 0"),
    ],
)
def test_a_wrong_argument_is_named_with_its_rule(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()
