"""Caches against tensors that hold them, latents in both orders, states against masked products."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dtlib.efficiency import (
    FurtherToken,
    LatentAttention,
    LinearState,
    absorbed_latent_flops,
    absorbing_queries,
    carried_attention,
    decoding_costs,
    decoding_step_time,
    explicit_latent_flops,
    further_params,
    grouped_cache_bytes,
    kv_bytes,
    largest_batch,
    latent_equal_kv_heads,
    linear_attention,
    path_weights,
    turning_batch,
    two_token_loss,
    window_reach_tokens,
)
from dtlib.efficiency.architecture.cost import grouped_attention_intensity
from dtlib.foundations import MLA, MoE, TransformerSpec, published_models
from dtlib.models import GPT, next_token_loss
from dtlib.models.gpt import causal_attention
from dtlib.parallelism.sequence.masks import causal_mask, window_mask
from dtlib.parallelism.tensor.model import key_copies

SIZES = MLA(q_rank=12, kv_rank=10, rope_dim=4, nope_dim=6, value_dim=8)
SPEC = TransformerSpec("latent", 1, 24, 4, 29, mla=SIZES, norm="rms", bias=False)
GROUPED = TransformerSpec("grouped", 3, 32, 8, 29, kv_heads=2, norm="rms", bias=False)


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_kv_bytes_are_those_of_the_keys_and_values_that_attention_makes(kv_heads):
    spec, kept = replace(GROUPED, kv_heads=kv_heads), []
    model = GPT(spec)
    for block in model.blocks:
        block.attention.mix = lambda q, k, v, places: (
            kept.extend((k, v)), causal_attention(q, k, v, places))[1]  # fmt: skip
    model(torch.zeros(1, 7, dtype=torch.long))
    assert kv_bytes(spec, 7, element_bytes=4) == sum(x.nbytes for x in kept)
    assert kv_bytes(spec, 7) == grouped_cache_bytes(3, kv_heads, 4, 7, 2)


def test_kv_bytes_of_a_latent_are_those_of_its_cache():
    attention = LatentAttention(SPEC)
    cache = attention.remember(torch.zeros(1, 7, 24), torch.arange(7))
    assert cache.bytes == kv_bytes(SPEC, 7, element_bytes=4) == 7 * (10 + 4) * 4


def test_a_window_bounds_the_layers_that_have_it():
    for seq, window, full in product((3, 8, 20), (1, 8, 30), (0, 1, 3)):
        layers = [seq if i < full else min(seq, window) for i in range(3)]
        expected = sum(kv_bytes(replace(GROUPED, layers=1), tokens) for tokens in layers)
        assert kv_bytes(GROUPED, seq, window=window, full_layers=full) == expected


def test_tensor_parallelism_divides_key_heads_and_no_latent():
    for tp in (1, 2, 4, 8):
        copies = key_copies(2, tp)
        assert kv_bytes(GROUPED, tp=tp) * tp == kv_bytes(GROUPED) * copies
    assert kv_bytes(SPEC, tp=4) == kv_bytes(SPEC)


def test_published_caches():
    llama, deepseek = published_models["llama-3.1-70b"], published_models["deepseek-v3"]
    assert kv_bytes(deepseek) == 61 * 1152
    plain = grouped_cache_bytes(61, 128, 128, 1, 2)
    assert round(plain / kv_bytes(deepseek)) == 57
    assert kv_bytes(llama, tp=8) < kv_bytes(deepseek) < kv_bytes(llama)
    assert round(grouped_cache_bytes(61, 8, 128, 1, 2) / kv_bytes(deepseek), 1) == 3.6
    assert kv_bytes(deepseek) / 61 / 512 == latent_equal_kv_heads(512, 64, 128)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"seq": 0}, "seq is 0"),
        ({"window": 0}, "window is 0"),
        ({"full_layers": 1}, "full_layers is 1, but must be 0 without a window"),
        ({"window": 4, "full_layers": 4}, "full_layers is 4, but must be at most layers, 3"),
        ({"tp": 3}, "tp is 3"),
        ({"element_bytes": 0}, "element_bytes is 0"),
    ],
)
def test_a_cache_of_nothing_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        kv_bytes(GROUPED, **how)
    with pytest.raises(ValueError, match="tp is 8, but must be a divisor or a multiple"):
        kv_bytes(TransformerSpec("", 1, 48, 24, 9, kv_heads=3, head_dim=2), tp=8)


def test_absorbed_latent_attention_is_the_explicit_one_in_result_and_gradients():
    found = []
    for absorb in (False, True):
        attention, x = LatentAttention(SPEC, dtype=torch.float64), drawn(2, 9, 24)
        x.requires_grad_()
        out = attention(x, absorb=absorb)
        out.square().sum().backward()
        found.append([out, x.grad, *(p.grad for p in attention.parameters())])
    assert len(found[0]) == 9
    for explicit, absorbed in zip(*found, strict=True):
        assert (explicit - absorbed).abs().max() < 1e-12 * explicit.abs().max().clamp(min=1)


def test_sabotage_values_from_the_keys_expansion_are_not_the_result():
    attention, x = LatentAttention(SPEC, dtype=torch.float64), drawn(1, 5, 24)
    whole = attention.expansions
    attention.expansions = lambda: (whole()[0], torch.roll(whole()[1], 1, 0))
    assert (attention(x) - attention(x, absorb=True)).abs().max() > 1e-3


def test_a_token_at_a_time_is_the_whole_text():
    attention, x = LatentAttention(SPEC, dtype=torch.float64), drawn(1, 6, 24)
    whole, cache = attention(x), None
    for i in range(6):
        place = torch.tensor([i])
        cache = attention.remember(x[:, i : i + 1], place).after(cache)
        late = attention(x[:, i : i + 1], place, cache, absorb=True)
        assert (late - whole[:, i : i + 1]).abs().max() < 1e-12


def test_without_the_rotation_queries_and_keys_share_every_score_of_the_explicit_order():
    attention, x = LatentAttention(SPEC, dtype=torch.float64), drawn(1, 6, 24)
    late = torch.arange(6) + 1000
    assert (attention(x) - attention(x, late)).abs().max() < 1e-9


def test_a_latent_attention_has_the_parameters_of_its_spec():
    listed = [w for w in SPEC.weights() if w.part == "attention" or "latent" in w.name]
    held = sum(p.numel() for p in LatentAttention(SPEC).parameters())
    assert held == sum(w.size for w in listed)


@pytest.mark.parametrize(("queries", "tokens"), [(1, 16), (5, 16), (16, 16)])
def test_the_flops_of_both_orders_are_those_that_torch_counts(queries, tokens):
    attention, x = LatentAttention(SPEC), torch.zeros(1, tokens, 24)
    cache = attention.remember(x, torch.arange(tokens))
    asked = attention.ask(x[:, -queries:], torch.arange(tokens - queries, tokens))
    sizes = {"heads": 4, "latent": 10, "nope_dim": 6, "rope_dim": 4, "value_dim": 8}
    for mix, formula in (
        (attention.explicit, explicit_latent_flops),
        (attention.absorbed, absorbed_latent_flops),
    ):
        with FlopCounterMode(display=False) as counter:
            mix(*asked, torch.arange(tokens - queries, tokens), cache)
        assert counter.get_total_flops() == formula(queries, tokens, **sizes)


def test_absorbing_pays_up_to_so_many_queries_and_never_for_a_whole_text():
    sizes = {"heads": 128, "latent": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
    for seq in (100, 4096, 131072):
        border = absorbing_queries(seq, 512, 128, 128)
        assert explicit_latent_flops(border, seq, **sizes) == pytest.approx(
            absorbed_latent_flops(border, seq, **sizes))  # fmt: skip
        assert border < seq
        assert absorbed_latent_flops(seq, seq, **sizes) > explicit_latent_flops(seq, seq, **sizes)
    scores = (2 * 512 + 64) / (128 + 64 + 128)
    assert scores == pytest.approx(3.4)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"mla": None}, "mla is None"), ({"bias": True, "qkv_bias": True}, "bias is True"),
     ({"mla": replace(SIZES, rope_dim=3)}, "rope_dim is 3, but must be even")],
)  # fmt: skip
def test_what_is_no_latent_attention_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        LatentAttention(replace(SPEC, **change))


def with_window(model, window):
    seen = causal_mask if window is None else causal_mask & window_mask(window)

    def mix(q, k, v, places):
        scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~seen(places, places), -torch.inf).softmax(-1)
        return weights @ v.repeat_interleave(q.shape[1] // k.shape[1], 1)

    for block in model.blocks:
        block.attention.mix = mix
    return model


def test_a_window_reaches_layers_times_window_and_no_further():
    model = with_window(GPT(GROUPED, dtype=torch.float64), 4)
    x, places = drawn(1, 20, 32).requires_grad_(), torch.arange(20)
    y = x
    for block in model.blocks:
        y = block(y, places)
    y[0, -1].square().sum().backward()
    reached = [bool(row.abs().max() > 0) for row in x.grad[0]]
    assert reached == [False] * 10 + [True] * window_reach_tokens(3, 4)


def test_path_weights_are_those_of_layers_of_means():
    layers, window, stay = 4, 5, 0.25
    step = torch.zeros(40, 40, dtype=torch.float64)
    for i in range(40):
        step[i, max(0, i - window + 1) : i + 1] = (1 - stay) / min(window, i + 1)
        step[i, i] += stay
    last = torch.linalg.matrix_power(step, layers)[-1].flip(0)
    found = path_weights(layers, window, stay)
    assert torch.tensor(found).sub(last[: len(found)]).abs().max() < 1e-9
    assert path_weights(32, 4096).sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="stay is 2"):
        path_weights(1, 1, 2)


DECAY = torch.tensor([1.0, 0.9, 0.5], dtype=torch.float64)


def test_a_state_token_by_token_is_masked_attention_without_softmax():
    q, k, v = drawn(3, 2, 3, 7, 4)
    state, rows = torch.zeros(2, 3, 4, 4, dtype=torch.float64), []
    for i in range(7):
        state = DECAY[:, None, None] * state + k[:, :, i, :, None] * v[:, :, i, None, :]
        rows.append((q[:, :, i, None] @ state)[:, :, 0])
    assert (linear_attention(q, k, v, DECAY) - torch.stack(rows, 2)).abs().max() < 1e-12
    assert (LinearState.of(k, v, DECAY).added - state).abs().max() < 1e-12


def test_states_are_a_monoid_that_does_not_commute():
    _, k, v = drawn(3, 1, 3, 9, 4)
    a, b, c = (LinearState.of(k[:, :, i : i + 3], v[:, :, i : i + 3], DECAY) for i in (0, 3, 6))
    whole = LinearState.of(k, v, DECAY)
    for grouped in (a.then(b).then(c), a.then(b.then(c))):
        assert (grouped.added - whole.added).abs().max() < 1e-12
    assert (b.then(a).added - a.then(b).added).abs().max() > 1e-3
    none = LinearState(torch.ones_like(a.keep), torch.zeros_like(a.added))
    assert torch.equal(none.then(a).added, a.added) and torch.equal(a.then(none).added, a.added)


def test_a_stretch_with_the_state_before_it_is_a_stretch_of_the_whole():
    q, k, v = drawn(3, 1, 3, 9, 4)
    before = LinearState.of(k[:, :, :5], v[:, :, :5], DECAY).added
    late = carried_attention(*(x[:, :, 5:] for x in (q, k, v)), before, DECAY)
    whole = linear_attention(q, k, v, DECAY)[:, :, 5:]
    assert (late - whole).abs().max() < 1e-12
    without = carried_attention(*(x[:, :, 5:] for x in (q, k, v)), 0 * before, DECAY)
    assert (without - whole).abs().max() > 1e-3


def test_a_factor_that_grows_is_refused():
    q, k, v = drawn(3, 1, 3, 2, 4)
    for decay in (DECAY + 1, DECAY[:2]):
        with pytest.raises(ValueError, match=r"decay_n is .* but must be 3 factors from 0 to 1"):
            linear_attention(q, k, v, decay)


def test_a_decoding_step_turns_where_caches_weigh_as_much_as_weights():
    costs = decoding_costs(published_models["llama-3.1-8b"], 8192)
    turn = turning_batch(*costs[:2])
    fast = {"bandwidth": 3.35e12, "peak": 1e18}
    at_turn = decoding_step_time(costs[0], turn, costs[1], token_flops=costs[2], **fast)
    assert at_turn == pytest.approx(2 * costs[0] / 3.35e12)
    assert largest_batch(80 * 2**30, costs) == int((80 * 2**30 - costs[0]) // costs[1])
    with pytest.raises(ValueError, match="memory is 1"):
        largest_batch(1, costs)
    with pytest.raises(ValueError, match="moe is"):
        decoding_costs(published_models["mixtral-8x7b"], 10)


def test_the_work_of_a_decoded_token_is_the_specs_own():
    llama = published_models["llama-3.1-8b"]
    costs = decoding_costs(llama, 4096)
    assert costs.token_flops == llama.flops_per_token(4096, causal=False, backward=False)
    attention = llama.score_flops(4096, causal=False)
    assert attention / costs.cache_bytes == grouped_attention_intensity(32, 8, 2)
    assert decoding_costs(llama, 4096, window=64) == decoding_costs(llama, 64)
    gpt2 = published_models["gpt2"]
    looked_up = gpt2.positions * gpt2.hidden
    assert decoding_costs(gpt2, 1).weight_bytes == 2 * (gpt2.params() - looked_up)


FURTHER = TransformerSpec("further", 2, 16, 4, 29, positions=12,
                          moe=MoE(experts=4, active=2, ffn=8, dense_layers=1))  # fmt: skip


def test_a_further_token_sees_the_next_one_and_none_beyond():
    model, further = GPT(FURTHER, dtype=torch.float64), FurtherToken(FURTHER, 1, torch.float64)
    text = torch.randint(29, (1, 9), generator=torch.Generator().manual_seed(0))
    states = drawn(1, 9, 16)
    before = further(model, states, text)
    for changed in range(1, 9):
        other = text.clone()
        other[0, changed] = (other[0, changed] + 1) % 29
        moved = (further(model, states, other) - before).abs().amax(-1)[0] > 1e-9
        assert moved.tolist() == [i >= changed - 1 for i in range(8)]
    with pytest.raises(ValueError, match="the number of tokens is 1"):
        further(model, states[:, :1], text[:, :1])


@pytest.mark.parametrize("spec", [FURTHER, GROUPED, replace(GROUPED, norm="layer")])
def test_a_further_token_has_its_parameters_and_no_tables(spec):
    held = sum(p.numel() for p in FurtherToken(spec).parameters())
    assert held == further_params(spec)


def test_both_losses_pull_at_the_tables():
    text = torch.randint(29, (2, 9), generator=torch.Generator().manual_seed(0))
    model, further = GPT(FURTHER, dtype=torch.float64), FurtherToken(FURTHER, 1, torch.float64)

    def gradient(loss):
        return torch.autograd.grad(loss, (model.embedding.weight, model.head.weight))

    both = gradient(two_token_loss(model, further, text, weight=0.5))
    plain = gradient(next_token_loss(model(text[:, :-1]), text[:, 1:]))
    only = gradient(two_token_loss(model, further, text, 1.0))
    for mixed, first, second in zip(both, plain, only, strict=True):
        assert (mixed - (first + second) / 2).abs().max() < 1e-12
        assert (mixed - first).abs().max() > 1e-6
