"""What chapters 17 and 18 print, in absolute numbers: each is counted here in another way.

A ratio hides a factor that both of its sides have; sizes here are odd, and none is another's.
"""

from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
import torch

from dtlib.foundations import context_parallel_tokens
from dtlib.mesh import Mesh
from dtlib.parallelism import (
    BiasBalancer,
    Router,
    balanced_by_bias,
    busiest_expert_time,
    causal_mask,
    causal_work,
    critical_path,
    document_mask,
    even_router_overflow,
    expected_nodes,
    expert_capacity,
    expert_choice,
    expert_loads,
    fill_experts,
    loads_under_bias,
    padded_routed_bytes,
    padding_fraction,
    routed_bytes,
    z_loss,
)
from dtlib.parallelism.expert import load as expert_load
from dtlib.parallelism.expert.load import popularity
from dtlib.parallelism.sequence import cost as sequence_cost
from dtlib.parallelism.sequence import layouts

SIZES = {
    "micro_batch": 3, "seq": 40, "hidden": 42, "heads": 14, "kv_heads": Fraction(7),
    "cp": Fraction(5), "element_bytes": 2,
}  # fmt: skip
KEY_BYTES = 3 * 8 * 7 * 3 * 2  # keys of one rank: 3 sequences, 8 tokens, 7 heads, 3 wide, 2 bytes
QUERY_BYTES = 2 * KEY_BYTES


def test_every_volume_of_attention_is_counted_tensor_by_tensor():
    assert sequence_cost.ring_hop_bytes(**SIZES) == 2 * KEY_BYTES == 2016
    assert sequence_cost.ring_attention_bytes(**SIZES) == 4 * 2 * KEY_BYTES == 8064
    assert sequence_cost.lean_ring_backward_bytes(**SIZES) == (4 * 2 + 5 * 2) * KEY_BYTES == 18144
    exchanged = Fraction(4, 5) * (2 * QUERY_BYTES + 2 * KEY_BYTES)
    assert sequence_cost.ulysses_attention_bytes(**SIZES) == exchanged
    assert sequence_cost.ring_buffer_bytes(**SIZES) == 2 * QUERY_BYTES + 4 * KEY_BYTES == 8064
    copied = SIZES | {
        "heads": 10,
        "kv_heads": Fraction(2),
        "hidden": 30,
    }  # 2 key heads are copied to 5 ranks
    q, k = 3 * 8 * 30 * 2, 3 * 8 * 5 * 3 * 2
    assert sequence_cost.ulysses_attention_bytes(**copied) == Fraction(4, 5) * 2 * (q + k)
    assert sequence_cost.attention_score_bytes(seq=9, heads=5, element_bytes=4) == 81 * 5 * 4
    ratio = sequence_cost.ring_over_ulysses_ratio(heads=14, kv_heads=7, cp=5)
    assert Fraction(ratio) == pytest.approx(8064 / exchanged)


def test_every_time_of_attention_is_the_sum_of_its_steps():
    flops = sum(2 * 3 + 2 * 3 for _ in range(3) for _ in product(range(8), range(8))) * 14
    assert sequence_cost.ring_step_flops(micro_batch=3, seq=40, hidden=42, cp=5) == flops
    one = {key: SIZES[key] for key in ("seq", "hidden", "heads", "kv_heads", "element_bytes")}
    step, hop = flops / 3 / 1000.0, 0.25 + 2016 / 3 / 500
    given = one | {"cp": 5, "peak": 1000.0, "alpha": 0.25, "beta": 500.0}
    assert sequence_cost.ring_attention_time(**given) == pytest.approx(step + 4 * max(step, hop))
    slow = given | {"beta": 5.0}
    hop_slow = 0.25 + 2016 / 3 / 5
    assert hop < step < hop_slow
    assert sequence_cost.ring_attention_time(**slow) == pytest.approx(step + 4 * hop_slow)
    assert sequence_cost.all_gather_attention_time(**given) == pytest.approx(5 * step + 4 * hop)
    sent = float(sequence_cost.ulysses_attention_bytes(micro_batch=1, cp=5, **one))
    expected = 5 * step + 4 * 4 * 0.25 + sent / 500
    assert sequence_cost.ulysses_attention_time(**given) == pytest.approx(expected)


def test_a_hop_is_as_long_as_its_step_at_the_hiding_length():
    tokens = context_parallel_tokens(heads=14, kv_heads=7, element_bytes=2, peak=1e3, beta=4)
    assert tokens == 1000 / 4 / 2
    given = SIZES | {"seq": 5 * tokens, "cp": 5}
    flops = sequence_cost.ring_step_flops(micro_batch=3, seq=5 * tokens, hidden=42, cp=5)
    assert flops / 1e3 == pytest.approx(float(sequence_cost.ring_hop_bytes(**given)) / 4)


def test_steps_of_a_causal_ring_are_those_that_the_chapter_prints():
    ends = {
        name: critical_path(causal_work(getattr(layouts, name), 8, tokens=1024))
        for name in ("contiguous", "zigzag", "striped")
    }
    assert ends["contiguous"] == Fraction(15, 2) and ends["zigzag"] == 4
    assert ends["striped"] == 4 + 7 * Fraction(1, 2048)  # the first step is half
    assert sequence_cost.contiguous_causal_steps(8) == 7.5
    assert sequence_cost.zigzag_causal_steps(8) == 4


def test_packed_documents_leave_the_pairs_that_the_chapter_counts():
    """One document of 8,192 tokens and 32 of 256, at a sixteenth of the length."""
    lengths = [512] + 32 * [16]
    numbers = np.repeat(np.arange(33), lengths)
    whole = torch.arange(1024)
    sees = (causal_mask & document_mask(torch.tensor(numbers)))(whole, whole).sum(1).numpy()
    assert sees.sum() == 512 * 513 // 2 + 32 * 16 * 17 // 2
    fullest = {}
    for name in ("contiguous", "zigzag", "striped"):
        work = sees[getattr(layouts, name)(1024, 8)].sum(axis=1)
        fullest[name] = round(float(work.max() / work.mean()), 2)
    by_hand = (512 * 513 // 2 - 384 * 385 // 2) / (int(sees.sum()) / 8)
    assert fullest["contiguous"] == round(by_hand, 2) > fullest["zigzag"] > fullest["striped"]


def test_every_volume_of_experts_is_counted_copy_by_copy():
    """Six tokens on each of three ranks, two copies of each, one for every rank in turn."""
    away = sum(copy % 3 != 0 for copy in range(6 * 2))
    assert routed_bytes(6, 2, hidden=5, ep=3, element_bytes=2) == 2 * away * 5 * 2 == 160
    assert padded_routed_bytes(6, 2, 5, 3, 2, capacity_factor=1.5) == 240
    assert expert_capacity(tokens_per_rank=7, chosen=3, experts=4, capacity_factor=1.5) == 8
    assert expert_capacity(tokens_per_rank=8, chosen=2, experts=4, capacity_factor=1) == 4
    assert padding_fraction(dropped=0.25, capacity_factor=1.5) == 0.5
    flops = 3 * 2 * 5 * 11 * 7 * 2  # three matrices, 5 by 11, of 7 tokens with two copies each
    assert busiest_expert_time(7, 2, 5, 11, peak=100, busiest=1.5) == 1.5 * flops / 100


def test_loads_and_places_are_those_of_a_count_by_hand():
    filled = fill_experts([5, 3, 1], capacity_factor=1)
    assert (filled.capacity, filled.dropped, filled.wasted) == (
        3,
        round(2 / 9, 12),
        round(2 / 9, 12),
    )
    assert filled.busiest == 5 / 3
    assert fill_experts([5, 3, 1], capacity_factor=1.1).capacity == 4
    law = NormalDist()
    assert popularity(3).tolist() == [law.inv_cdf(5 / 6), law.inv_cdf(0.5), law.inv_cdf(1 / 6)]
    noise = np.random.default_rng(3).normal(size=(50, 4))
    for k, skew in ((1, 0), (2, 1.5)):
        chosen = np.argsort(-(skew * popularity(4) + noise), axis=1)[:, :k]
        counted = [int((chosen == e).sum()) for e in range(4)]
        assert expert_loads(50, 4, k, skew, seed=3).tolist() == counted
    printed = [2532, 1604, 1095, 799, 602, 447, 336, 207, 185, 149, 91, 67, 45, 22, 9, 2]
    assert expert_loads(tokens=4096, experts=16, k=2, skew=1).tolist() == printed


def test_an_even_router_overflows_as_often_as_in_all_its_choices():
    """Four tokens choose one of three experts, each of 3^4 ways alike; expert 0 has one place."""
    loads = [choice.count(0) for choice in product(range(3), repeat=4)]
    over = [max(load - 1, 0) for load in loads]
    chance, share = even_router_overflow(tokens=4, experts=3, k=1, capacity=1)
    assert chance == pytest.approx(np.mean([x > 0 for x in over]), rel=1e-12)
    assert share == pytest.approx(np.mean(over) / np.mean(loads), rel=1e-12)


def test_visited_nodes_are_those_that_the_chapter_prints():
    printed = [round(expected_nodes(256, 8, nodes), 2) for nodes in (2, 4, 8, 16, 32)]
    assert printed == [1.99, 3.61, 5.29, 6.52, 7.27]


def test_biases_move_step_by_step_as_in_a_loop():
    found = loads_under_bias(0.3, steps=4, tokens=60, experts=5, k=2, skew=0.5, seed=7)
    rng, bias = np.random.default_rng(7), np.zeros(5)
    for step in range(4):
        logits = 0.5 * popularity(5) + rng.normal(size=(60, 5))
        chosen = np.argsort(-(1 / (1 + np.exp(-logits)) + bias), axis=1)[:, :2]
        load = np.array([(chosen == e).sum() for e in range(5)])
        assert found[step].tolist() == load.tolist()
        bias = bias + np.where(load < 24, 0.3, np.where(load > 24, -0.3, 0))
    ratios = balanced_by_bias(0.3, steps=4, tokens=60, experts=5, k=2, skew=0.5, seed=7)
    assert ratios.tolist() == (found.max(axis=1) / 24).tolist()
    assert len(loads_under_bias(0.3)) == 301 and not loads_under_bias(0.3).flags.writeable


def test_a_balance_by_bias_arrives_when_the_chapter_says():
    runs = {gamma: balanced_by_bias(gamma) for gamma in (1e-4, 1e-3, 1e-2, 1e-1)}
    first = {
        gamma: next((t for t, x in enumerate(run) if x < 1.15), None) for gamma, run in runs.items()
    }
    assert first == {1e-4: None, 1e-3: 255, 1e-2: 31, 1e-1: None}
    last = [round(float(run[-50:].mean()), 2) for run in runs.values()]
    assert last == [4.49, 1.12, 1.16, 2.25]


def test_a_balancer_and_a_router_take_each_option():
    balancer = BiasBalancer(3, gamma=0.25, dtype=torch.float64)
    for _ in range(2):
        balancer.update(torch.tensor([4, 1, 1]))
    assert balancer.bias_e.tolist() == [-0.5, 0.5, 0.5] and balancer.bias_e.dtype == torch.float64
    router = Router(4, 6, 2, dtype=torch.float64, gate="sigmoid", renormalise=False)
    x = torch.ones(1, 4, dtype=torch.float64)
    score = (x @ router.weight.T).sigmoid()
    assert torch.equal(router(x).gate_tk, score.topk(2).values)
    assert router(x, torch.tensor([0, 0, 0, 0, 9.0, 9.0])).expert_tk.sort().values.tolist() == [
        [4, 5]
    ]
    assert Router(4, 6, 2).weight.dtype == torch.float32


def test_a_router_that_shares_a_layer_has_its_bias_and_its_hooks():
    layer = torch.nn.Linear(3, 4)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.0, 0.0, 50.0, 90.0]))
    state = torch.random.get_rng_state()
    router = Router.sharing(layer, 2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert router(torch.ones(5, 3)).counts().tolist() == [0, 0, 5, 5]
    layer.register_forward_hook(lambda module, args, out: -out)
    assert router(torch.ones(5, 3)).counts().tolist() == [5, 5, 0, 0]
    assert torch.equal(router.weight, layer.weight)


def test_the_z_loss_is_a_mean_over_tokens():
    logits = torch.tensor([[0.0, 0.0], [3.0, -torch.inf]], dtype=torch.float64)
    assert float(z_loss(logits)) == pytest.approx((np.log(2) ** 2 + 9) / 2)


def test_the_groups_of_rank_77_are_those_that_the_chapter_prints():
    groups = Mesh.of(dp=16, pp=8, tp=8).groups_of(77)
    assert groups["dp"] == [13 + 64 * i for i in range(16)]
    assert groups["pp"] == [69 + 8 * i for i in range(8)]
    assert groups["tp"] == list(range(72, 80))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: expert_loads(0, 4, 1), "tokens is 0, but must be a whole number of at least 1"),
        (lambda: expert_loads(5, 2, 3), "k is 3, but must be at most the number of experts, 2"),
        (lambda: even_router_overflow(4, 3, 1, 0), "capacity is 0, but must be a whole number"),
        (lambda: expected_nodes(4, 5, 2), "k is 5, but must be at most the number of experts, 4"),
        (lambda: expected_nodes(4, 2, 0), "nodes is 0, but must be a whole number"),
        (lambda: Router(0, 2, 1), "hidden is 0, but must be a whole number"),
        (lambda: BiasBalancer(0), "experts is 0, but must be a whole number"),
        (lambda: expert_choice(torch.ones(3, 2), 0), "capacity is 0, but must be a whole number"),
    ],
)
def test_a_count_that_cannot_be_is_named_with_its_rule(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


def test_sabotage_a_step_of_twice_the_work_is_noticed(monkeypatch):
    work = sequence_cost.ring_step_flops
    monkeypatch.setattr(
        sequence_cost, "ring_step_flops", lambda *args, **given: 2 * work(*args, **given)
    )
    with pytest.raises(AssertionError):
        test_every_time_of_attention_is_the_sum_of_its_steps()
    with pytest.raises(AssertionError):
        test_a_hop_is_as_long_as_its_step_at_the_hiding_length()


def test_sabotage_experts_of_another_popularity_are_noticed(monkeypatch):
    law = expert_load.popularity
    monkeypatch.setattr(expert_load, "popularity", lambda experts: law(experts)[::-1])
    with pytest.raises(AssertionError):
        test_loads_and_places_are_those_of_a_count_by_hand()
