"""What a GPT is: its size, its attention, its positions, and that it says what it refuses."""

import subprocess
import sys

import pytest
import torch
from small_models import SIZE, SPECS, each_spec, small_model, some_tokens
from torch.nn import functional as F

from dtlib.foundations import TransformerSpec, published_models
from dtlib.models import GPT, Block, next_token_loss
from dtlib.models.gpt import MixtureOfExperts, causal_attention, rotary
from dtlib.models.spec import MoE
from dtlib.runtime import launch

BUILDABLE = [name for name, spec in published_models.items() if spec.mla is None]


def size(model):
    return sum(weight.numel() for weight in model.parameters())


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# ---- size


@pytest.mark.parametrize("spec", **each_spec)
def test_a_model_has_exactly_the_parameters_of_its_spec(spec):
    assert size(GPT(spec)) == spec.params()


@pytest.mark.parametrize("name", BUILDABLE)
def test_published_models_are_built_to_the_last_parameter(name):
    spec = published_models[name]
    with torch.device("meta"):
        assert size(GPT(spec)) == spec.params()


def test_the_count_sees_a_bias_that_is_forgotten():
    spec = SPECS[0]
    model = GPT(spec)
    model.blocks[1].feed_forward.down.bias = None
    assert size(model) == spec.params() - spec.hidden


# ---- weights


def test_every_rank_draws_the_same_bits():
    def weights(spec):
        torch.manual_seed(torch.distributed.get_rank())  # a rank's own state plays no part
        from dtlib.models import GPT

        return [weight.detach() for weight in GPT(spec, seed=3).parameters()]

    with launch(2) as ranks:
        zero, one = ranks.run(weights, SPECS[2])
    assert all(torch.equal(a, b) for a, b in zip(zero, one, strict=True))
    other = GPT(SPECS[2], seed=4).parameters()
    assert not any(torch.equal(a, b) for a, b in zip(zero, other, strict=True))


def test_building_a_model_draws_nothing_from_torch():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    GPT(SPECS[0])
    assert torch.rand(1) == expected


def test_a_model_in_32_bits_is_the_one_in_64_bits_rounded():
    double = small_model(SPECS[0]).state_dict()
    for name, weight in GPT(SPECS[0]).state_dict().items():
        assert torch.equal(weight, double[name].float())


# ---- attention


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_attention_is_the_native_one(kv_heads):
    q, k, v = (random(2, n, 7, 6, seed=n) for n in (4, kv_heads, kv_heads))
    native = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(causal_attention(q, k, v, torch.arange(7)), native)


def test_attention_without_its_scale_is_not_the_native_one():
    q, k, v = (random(2, 4, 7, 6, seed=s) for s in range(3))
    native = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert (causal_attention(q * 6**0.5, k, v, torch.arange(7)) - native).abs().max() > 0.1


def test_heads_share_keys_in_runs_of_neighbours():
    q, k, v = random(1, 4, 5, 6), random(1, 2, 5, 6, seed=1), random(1, 2, 5, 6, seed=2)
    places = torch.arange(5)
    shared = causal_attention(q, k, v, places)
    for head in range(4):
        own = slice(head, head + 1), slice(head // 2, head // 2 + 1)
        alone = causal_attention(q[:, own[0]], k[:, own[1]], v[:, own[1]], places)
        torch.testing.assert_close(shared[:, own[0]], alone)


@pytest.mark.parametrize("spec", **each_spec)
def test_a_later_token_changes_no_earlier_logit(spec):
    model, tokens = small_model(spec), some_tokens()
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % spec.vocab
    gap = (model(tokens) - model(changed)).abs().amax(dim=(0, 2))
    assert gap[:5].max() < 1e-13  # an expert's rounding depends on how many rows it gets
    assert gap[5:].min() > 1e-6  # and every token from there on does change


# ---- positions


def test_a_turn_is_a_product_of_complex_numbers():
    x, positions = random(2, 3, 5, 8), torch.tensor([0, 1, 4, 9, 100])
    pairs = torch.complex(x[..., :4], x[..., 4:])
    speeds = torch.tensor([10_000 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)
    turned = pairs * torch.polar(torch.ones(5, 4).double(), positions[:, None] * speeds)
    torch.testing.assert_close(rotary(x, positions), torch.cat([turned.real, turned.imag], -1))


def test_scores_of_turned_pairs_depend_on_differences_of_positions_only():
    q, k, positions = random(1, 1, 5, 8), random(1, 1, 5, 8, seed=1), torch.arange(5)

    def scores(moved_q, moved_k):
        turned = rotary(q, positions + moved_q) @ rotary(k, positions + moved_k).mT
        return turned

    torch.testing.assert_close(scores(0, 0), scores(1000, 1000), rtol=1e-10, atol=1e-10)
    assert (scores(0, 0) - scores(0, 1)).abs().max() > 0.1


def test_a_model_with_rotary_positions_may_begin_anywhere_a_learned_table_may_not():
    tokens, later = some_tokens(), torch.arange(8) + 4
    rotates, learns = small_model(SPECS[2]), small_model(SPECS[0])
    torch.testing.assert_close(rotates(tokens, later), rotates(tokens))
    assert (learns(tokens, later) - learns(tokens)).abs().max() > 0.1


@pytest.mark.parametrize("spec", **each_spec)
def test_tokens_may_stand_in_any_order_if_their_positions_say_so(spec):
    model, tokens = small_model(spec), some_tokens()
    order = torch.tensor([0, 7, 1, 6, 2, 5, 3, 4])
    torch.testing.assert_close(model(tokens[:, order], order), model(tokens)[:, order])
    assert (model(tokens[:, order]) - model(tokens)[:, order]).abs().max() > 0.1


# ---- experts


def test_a_mixture_of_equal_experts_is_one_expert():
    spec = TransformerSpec("equal", **SIZE, moe=MoE(4, 2, 12))
    mixture = Block(spec, dtype=torch.float64).feed_forward
    for expert in mixture.experts:
        expert.load_state_dict(mixture.experts[0].state_dict())
    x = random(2, 5, 16)
    torch.testing.assert_close(mixture(x), mixture.experts[0](x))


@pytest.mark.parametrize("active", [1, 2, 4])
def test_a_mixture_is_the_weighted_sum_over_all_experts_with_the_others_at_zero(active):
    spec = TransformerSpec("mixture", **SIZE, moe=MoE(4, active, 12))
    mixture = MixtureOfExperts(spec, torch.float64)
    x = random(2, 5, 16)
    probability = mixture.router(x).softmax(-1)
    least = probability.sort(descending=True).values[..., active - 1 : active]
    weight = torch.where(probability >= least, probability, 0)
    if active > 1:
        weight = weight / weight.sum(-1, keepdim=True)
    every = torch.stack([expert(x) for expert in mixture.experts], dim=-1)
    torch.testing.assert_close(mixture(x), (every * weight[..., None, :]).sum(-1))


def test_an_expert_that_no_token_chose_has_a_gradient_of_zero():
    spec = TransformerSpec("idle", **SIZE, moe=MoE(3, 1, 12))
    mixture = MixtureOfExperts(spec, torch.float64)
    mixture(random(1, 1, 16)).sum().backward()
    largest = [float(e.up.weight.grad.abs().max()) for e in mixture.experts]
    assert sorted(size > 0 for size in largest) == [False, False, True]


# ---- loss


def test_the_loss_is_minus_the_mean_log_probability_of_what_followed():
    logits, targets = random(2, 3, 5), torch.tensor([[1, -100, 4], [0, 2, -100]])
    terms = [
        -logits.log_softmax(-1)[b, s, t] for b, s, t in ((0, 0, 1), (0, 2, 4), (1, 0, 0), (1, 1, 2))
    ]
    torch.testing.assert_close(next_token_loss(logits, targets), sum(terms) / 4)
    torch.testing.assert_close(next_token_loss(logits, targets, "sum"), sum(terms))


# ---- refusals


def build(**changes):
    return GPT(TransformerSpec("m", **SIZE | changes))


@pytest.mark.parametrize(
    "attempt, message",
    [
        (lambda: GPT(published_models["deepseek-v3"]), "GPT 'deepseek-v3': mla is"),
        (lambda: build(head_dim=5), "GPT 'm': head_dim is 5, but must be even"),
        (lambda: build(heads=3), "heads is 3, but must be a divisor of hidden, which is 16"),
        (lambda: build(kv_heads=3), "kv_heads is 3, but must be a divisor of heads"),
        (lambda: build()(some_tokens()[0]), r"the shape of tokens is \(8,\), but must be"),
        (
            lambda: build()(some_tokens(), torch.arange(7)),
            r"the shape of positions is \(7,\), but must be \(8,\): one position for each token",
        ),
        (
            lambda: build()(some_tokens() + 5),
            "GPT: tokens are from 6 to 30, but must be from 0 to 28: the table has 29 rows",
        ),
        (
            lambda: build(positions=4)(some_tokens()),
            "GPT: positions are from 0 to 7, but must be from 0 to 3: the table has 4 rows",
        ),
        (lambda: next_token_loss(torch.zeros(1, 2, 3), torch.zeros(2)), "the shape of targets_bs"),
        (
            lambda: next_token_loss(torch.zeros(1, 1, 3), torch.zeros(1, 1), "none"),
            "reduction is 'none', but must be 'mean' or 'sum'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()


def test_the_library_imports_no_torch_for_a_model_that_nobody_asked_for():
    code = "import sys, dtlib; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
