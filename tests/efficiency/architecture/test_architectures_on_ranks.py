"""On ranks: what grouped heads, windows, latents, states and few nodes send; all is equal."""

import pytest

from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def ranks():
    with launch(4, timeout=120) as ranks:
        yield ranks


def drawn(*shape, seed=0):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def ring_bytes(kv_heads):
    """What a rank sends for ring attention and Ulysses, 8 heads, 32 tokens of 4 numbers."""
    import torch.distributed as dist

    from dtlib.parallelism import counted
    from dtlib.parallelism.sequence.attention import ring_attention, ulysses_attention
    from dtlib.parallelism.sequence.layouts import contiguous

    group = dist.group.WORLD
    q, k, v = (drawn(1, heads, 8, 4).float() for heads in (8, kv_heads, kv_heads))
    found = []
    for attend in (ring_attention, ulysses_attention):
        with counted(group) as log:
            attend(q, k, v, contiguous(32, 4), group)
        found.append(log.total_bytes)
    return found


def test_grouped_heads_shorten_a_ring_by_their_number_and_ulysses_by_less(ranks):
    from dtlib.parallelism.sequence.cost import ring_attention_bytes, ulysses_attention_bytes

    sent = {kv: ranks.run(ring_bytes, kv)[0] for kv in (8, 2, 1)}
    for kv, found in sent.items():
        given = 1, 32, 32, 8, kv, 4, 4
        assert found == [ring_attention_bytes(*given), ulysses_attention_bytes(*given)]
    assert sent[8][0] == 4 * sent[2][0] == 8 * sent[1][0]
    assert sent[8][1] < 4 * sent[2][1] and sent[2][1] == sent[1][1]


def tensor_parallel_bytes(kv_heads):
    """What a rank sends in a step of a tensor-parallel model, by operation."""
    import torch
    import torch.distributed as dist

    from dtlib.foundations import TransformerSpec
    from dtlib.models import GPT
    from dtlib.parallelism import counted, tensor_parallel

    spec = TransformerSpec("", 2, 32, 8, 32, kv_heads=kv_heads, positions=8, ffn=32)
    model = tensor_parallel(GPT(spec), dist.group.WORLD)
    with counted() as log:
        model(torch.zeros(1, 8, dtype=torch.long)).sum().backward()
    return log.bytes


def test_grouped_heads_save_nothing_under_tensor_parallelism(ranks):
    plain, grouped, shared = (ranks.run(tensor_parallel_bytes, kv)[0] for kv in (8, 4, 2))
    assert plain == grouped and set(plain) == {"all_reduce"}
    # With fewer key heads than ranks, ranks that share one add up its gradient: more, not less.
    assert shared["all_reduce"] > plain["all_reduce"]


def halo(window, keep=None):
    """Windowed attention on ranks against one process, in result and gradients, and its bytes."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import halo_attention
    from dtlib.efficiency.architecture import windows
    from dtlib.parallelism import counted
    from dtlib.parallelism.sequence.attention import block_state
    from dtlib.parallelism.sequence.masks import causal_mask, window_mask

    group = dist.group.WORLD
    rank = group.rank()
    if keep is not None:
        windows.shift = lambda lent, group: tuple(torch.zeros_like(x) for x in lent)
    given = [drawn(2, heads, 24, 4, seed=heads + i) for i, heads in enumerate((4, 2, 2))]
    whole = [x.clone().requires_grad_() for x in given]
    places = (torch.arange(24),) * 2
    expected = block_state(*whole, places, 1, causal_mask & window_mask(window)).result()
    expected.square().sum().backward()
    cut = slice(6 * rank, 6 * rank + 6)
    own = [x[:, :, cut].clone().requires_grad_() for x in given]
    with counted(group) as log:
        out = halo_attention(*own, window, group)
    forward = log.total_bytes
    if keep is None:
        out.square().sum().backward()
    errors = [float((out - expected[:, :, cut]).abs().max())]
    if keep is None:
        errors += [
            float((a.grad - b.grad[:, :, cut]).abs().max()) for a, b in zip(own, whole, strict=True)
        ]
    return max(errors), forward


@pytest.mark.parametrize("window", [1, 2, 5, 7])
def test_a_window_asks_one_neighbour_and_is_the_attention_of_one_process(ranks, window):
    from dtlib.efficiency import halo_bytes

    for error, sent in ranks.run(halo, window):
        assert error < 1e-12
        assert sent == halo_bytes(2, 2, 4, window, 8)


def test_sabotage_a_halo_that_never_came_is_noticed(ranks):
    assert max(error for error, _ in ranks.run(halo, 5, 0)) > 1e-3


def test_a_window_beyond_the_neighbour_is_refused(ranks):
    with pytest.raises(RanksError, match="window is 8, but must be at most 7"):
        ranks.run(halo, 8)


def scanned(how="right"):
    """Linear attention over shared-out text against one process, with gradients, and its bytes."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import linear_attention, shared_linear_attention
    from dtlib.efficiency.architecture import states
    from dtlib.parallelism import counted

    group = dist.group.WORLD
    rank, P = group.rank(), group.size()
    if how == "any order":
        then = states.LinearState.then
        states.LinearState.then = lambda self, later: then(later, self)
    given, decay = list(drawn(3, 1, 2, 5 * P, 4)), torch.tensor([0.9, 0.5]).double()
    whole = [x.clone().requires_grad_() for x in given]
    expected = linear_attention(*whole, decay)
    expected.square().sum().backward()
    cut = slice(5 * rank, 5 * rank + 5)
    own = [x[:, :, cut].clone().requires_grad_() for x in given]
    with counted(group) as log:
        out = shared_linear_attention(*own, group, decay)
    sent = log.total_bytes
    out.square().sum().backward()
    if how == "any order":
        states.LinearState.then = then
    errors = [(out - expected[:, :, cut])]
    errors += [a.grad - b.grad[:, :, cut] for a, b in zip(own, whole, strict=True)]
    return max(float(e.abs().max()) for e in errors), sent


def test_a_scan_carries_states_over_ranks_and_sends_no_token(ranks):
    for error, sent in ranks.run(scanned):
        assert error < 1e-12
        assert sent == 3 * (2 * 4 * 4 + 2) * 8  # two rounds and a hand-over: states and factors


def test_a_scan_of_two_and_of_three_ranks():
    for P in (2, 3):
        with launch(P, timeout=120) as few:
            assert max(error for error, _ in few.run(scanned)) < 1e-12


def test_sabotage_states_in_another_order_are_no_scan(ranks):
    assert max(error for error, _ in ranks.run(scanned, "any order")) > 1e-3


def gathered_latents():
    """Explicit attention of gathered latents against one process, and the bytes of both gathers."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import LatentAttention, LatentCache
    from dtlib.foundations import MLA, TransformerSpec
    from dtlib.parallelism import all_gather, counted

    group = dist.group.WORLD
    rank = group.rank()
    sizes = MLA(q_rank=12, kv_rank=10, rope_dim=4, nope_dim=6, value_dim=8)
    spec = TransformerSpec("", 1, 24, 4, 29, mla=sizes, norm="rms", bias=False)
    attention, x = LatentAttention(spec, dtype=torch.float64), drawn(1, 12, 24)
    x.requires_grad_()
    whole = attention(x)
    whole.square().sum().backward()
    own = x.detach()[:, 3 * rank : 3 * rank + 3].requires_grad_()
    places = torch.arange(3) + 3 * rank
    with counted(group) as log:
        kept = attention.remember(own, places)
        latent, key = (all_gather(part, group, dim=1) for part in kept[:2])
    out = attention(own, places, LatentCache(latent, key, torch.arange(12)))
    sent = log.total_bytes
    out.square().sum().backward()
    error = (out - whole[:, 3 * rank : 3 * rank + 3]).abs().max()
    error = max(error, (own.grad - x.grad[:, 3 * rank : 3 * rank + 3]).abs().max())
    return float(error), sent


def test_ranks_that_share_a_text_gather_latents_and_no_keys(ranks):
    for error, sent in ranks.run(gathered_latents):
        assert error < 1e-12
        assert sent == 3 * 3 * (10 + 4) * 8  # 3 other ranks, 3 tokens


def few_nodes(limit, lose=False):
    """`once_per_node` against `MoELayer` with the same choice, with gradients; rows that left."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.efficiency import node_limited_route, once_per_node, reached_nodes
    from dtlib.foundations import MoE, TransformerSpec
    from dtlib.models.gpt import MixtureOfExperts, draw_weights
    from dtlib.parallelism import MoELayer, counted

    group = dist.group.WORLD
    rank, P = group.rank(), group.size()
    spec = TransformerSpec("", 1, 6, 2, 9, moe=MoE(experts=16, active=4, ffn=5))
    mixture = MixtureOfExperts(spec, torch.float64)
    draw_weights(mixture, 3)
    layer, x = MoELayer(mixture, group, gate="sigmoid"), drawn(10, 6, seed=rank)
    layer.choose = lambda logits, bias_e=None: node_limited_route(logits, 4, P, limit)
    found = []
    for once in (False, True):
        own = x.clone().requires_grad_()
        layer.zero_grad()
        with counted(group) as log:
            if once:
                routing = node_limited_route(layer.router(own), 4, P, limit)

                def run(rows_ch, gate_ce):
                    gates = (gate_ce * (0 if lose else 1)).unbind(1)
                    experts = layer.experts.values()
                    return sum(g[:, None] * e(rows_ch) for g, e in zip(gates, experts, strict=True))

                out = once_per_node(own, routing, run, group)
                reached = reached_nodes(routing.expert_tk, 16, P)
            else:
                out = layer(own)
        sent = log.bytes["all_to_all"]
        out.square().sum().backward()
        parameters = [p.grad for p in nn.ModuleList([layer]).parameters()]
        found.append((out.detach(), own.grad, *(g for g in parameters if g is not None), sent))
    *plain, plain_bytes = found[0]
    *once, once_bytes = found[1]
    error = max(float((a - b).abs().max()) for a, b in zip(plain, once, strict=True))
    left = int(reached.sum() - reached[:, rank].sum())
    return error, plain_bytes, once_bytes, left, int(reached.sum(1).max())


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_token_travels_once_to_each_of_few_nodes(ranks, limit):
    for error, plain, once, _, most in ranks.run(few_nodes, limit):
        assert error < 1e-12
        assert most <= limit
        if limit < 4:
            assert once < plain


def test_sabotage_gates_that_stay_at_home_are_noticed(ranks):
    assert max(error for error, *_ in ranks.run(few_nodes, 2, True)) > 1e-3


def test_few_nodes_in_expectation_and_in_a_simulation():
    import torch

    from dtlib.efficiency import node_limited_route, reached_nodes
    from dtlib.parallelism import expected_nodes
    from dtlib.parallelism.expert.routing import route

    logits = torch.randn(20000, 64, generator=torch.Generator().manual_seed(0))
    free = reached_nodes(route(logits, 6, gate="sigmoid").expert_tk, 64, 8).sum(1).double()
    assert abs(free.mean() - expected_nodes(experts=64, k=6, nodes=8)) < 4 * free.std() / 20000**0.5
    limited = node_limited_route(logits, 6, 8, 3)
    assert reached_nodes(limited.expert_tk, 64, 8).sum(1).max() <= 3
    assert torch.allclose(limited.gate_tk.sum(1), torch.ones(20000))
    assert torch.equal(
        node_limited_route(logits, 6, 1, 1).expert_tk, route(logits, 6, gate="sigmoid").expert_tk
    )


def test_limits_that_do_not_fit_are_refused():
    import torch

    from dtlib.efficiency import node_limited_route

    logits = torch.zeros(2, 8)
    for how, message in (
        ((4, 3, 1), "nodes is 3"), ((4, 4, 5), "most_nodes is 5"), ((4, 4, 3), "most_nodes is 3"),
        ((4, 4, 1), "k is 4, but must be at most 2"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            node_limited_route(logits, *how)


def test_the_border_of_a_pipeline_does_not_know_the_window():
    import torch

    from dtlib.foundations import TransformerSpec
    from dtlib.models import GPT
    from dtlib.parallelism.sequence.attention import block_state
    from dtlib.parallelism.sequence.masks import causal_mask, window_mask

    spec, sizes = TransformerSpec("", 2, 16, 4, 9, positions=12), []
    for window in (2, 12):
        model = GPT(spec)
        for block in model.blocks:
            block.attention.mix = lambda q, k, v, places, w=window: block_state(
                q, k, v, (places, places), mask=causal_mask & window_mask(w)).result()  # fmt: skip
        x = model.embed(torch.zeros(1, 12, dtype=torch.long), torch.arange(12))
        sizes.append(model.blocks[0](x, torch.arange(12)).nbytes)
    assert sizes == [12 * 16 * 4] * 2
