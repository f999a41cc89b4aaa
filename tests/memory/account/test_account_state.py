"""Recipes against the published bytes per parameter; a stage's parameters against real models."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from dtlib.foundations import MoE, TransformerSpec, published_models
from dtlib.memory import (
    StateRecipe,
    held_gradient_bytes,
    held_optimizer_bytes,
    held_weight_bytes,
    model_state_bytes,
    recipes,
    stage_params,
)
from dtlib.models import GPT
from dtlib.parallelism.tensor.model import shard_state

LLAMA = {"norm": "rms", "bias": False, "gated": True}
SPECS = {
    "classical": TransformerSpec("classical", 4, 32, 4, 64, positions=16),
    "tied": TransformerSpec("tied", 4, 32, 4, 64, tied=True, qkv_bias=False),
    "grouped": TransformerSpec("grouped", 4, 32, 8, 64, kv_heads=2, **LLAMA),
}
EXPERTS = TransformerSpec(
    "experts", 5, 32, 4, 64, moe=MoE(8, 2, 16, shared=1, dense_layers=2), **LLAMA
)
each_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@pytest.mark.parametrize(
    ("name", "whole", "divided"),
    [
        # Megatron-LM, distributed optimizer: 4 + 16/d, 6 + 12/d, 8 + 8/d
        ("16-bit sums", 20, 16),
        ("32-bit sums", 18, 12),
        ("32-bit", 16, 8),
        ("mixed", 16, 12),
        ("momentum", 12, 8),
        ("sgd", 8, 4),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_recipes_have_the_published_bytes_per_parameter(name, whole, divided, d):
    recipe = recipes[name]
    assert recipe.total == whole
    assert recipe.per_parameter(1, d) == whole - divided + divided / d


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("dp", [1, 2, 64])
def test_the_mixed_recipe_is_the_formula_of_model_state(zero, dp):
    per_parameter = recipes["mixed"].per_parameter(zero, dp)
    assert 7.5e9 * per_parameter == pytest.approx(model_state_bytes(7.5e9, zero, dp), rel=1e-15)


@pytest.mark.parametrize("zero", range(4))
def test_the_three_held_formulas_add_up_to_model_state(zero):
    feeds = {"params": Fraction(10**9), "zero": zero, "dp": Fraction(8)}
    parts = (
        held_weight_bytes(element_bytes=2, **feeds)
        + held_gradient_bytes(element_bytes=2, **feeds)
        + held_optimizer_bytes(element_bytes=12, **feeds)
    )
    assert parts == model_state_bytes(Fraction(10**9), zero, Fraction(8))


def test_thirteen_billion_on_eight_replicas():
    """208 GB undivided; 71.5, 48.75 and 26 by stage: the second is not 48.25."""
    gb = [13 * recipes["mixed"].per_parameter(zero, 8) for zero in range(4)]
    assert gb == [208, 71.5, 48.75, 26]


@pytest.mark.parametrize(("name", "least"), [("mixed", 14), ("momentum", 11), ("sgd", 7)])
def test_seventy_billion_need_as_many_80_gb_gpus_as_the_total_says(name, least):
    """Dividing does not make the total smaller: not even stage 3 fits on two GPUs."""
    recipe = recipes[name]
    fits = [P for P in range(1, 40) if 70e9 * recipe.per_parameter(3, P) <= 80e9]
    assert fits[0] == least
    assert all(70e9 * recipe.per_parameter(0, P) > 80e9 for P in range(1, 40))


@pytest.mark.parametrize(("zero", "percent"), [(0, 12.5), (1, 36), (2, 53), (3, 12.5)])
def test_the_share_of_the_weights_in_the_state_has_a_basis(zero, percent):
    """On 8 replicas: 2 bytes of 16, 5.5, 3.75; not 15, 20, 40, 60 per cent."""
    recipe = recipes["mixed"]
    weights = recipe.weights / (8 if zero == 3 else 1)
    share = 100 * weights / recipe.per_parameter(zero, 8)
    assert share == pytest.approx(percent, abs=0.5)


def test_sabotage_a_forgotten_master_copy_is_a_quarter():
    without = replace(recipes["mixed"], master=0)
    assert recipes["mixed"].total / without.total == pytest.approx(16 / 12)


@each_spec
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_rank_holds_as_many_parameters_as_its_shard_of_the_real_model(spec, tp):
    with torch.device("meta"):
        state = GPT(spec).state_dict()
    for rank in range(tp):
        shard = shard_state(state, spec, rank, tp)
        held = {n: t for n, t in shard.items() if not (spec.tied and n == "head.weight")}
        assert stage_params(spec, tp=tp).total == sum(t.numel() for t in held.values())


@pytest.mark.parametrize("spec", [*SPECS.values(), EXPERTS], ids=lambda spec: spec.name)
@pytest.mark.parametrize("stages", [[2, 2], [1, 3], [4], [0, 4], [1, 1, 1, 1]], ids=str)
def test_the_stages_of_a_pipeline_hold_the_model_once(spec, stages):
    """And a table that serves both ends a second time, where the ends are two."""
    stages = [*stages[:-1], stages[-1] + spec.layers - 4]
    held, first = 0, 0
    for place, layers in enumerate(stages):
        ends = {"first": place == 0, "last": place == len(stages) - 1}
        held += stage_params(spec, first, layers, **ends).total
        first += layers
    twice = spec.vocab * spec.hidden * (spec.tied and len(stages) > 1)
    assert held == spec.params() + twice


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_ranks_that_share_the_experts_hold_all_of_them_once(ep):
    whole, part = stage_params(EXPERTS), stage_params(EXPERTS, ep=ep)
    assert ep * part.experts == whole.experts == 3 * 8 * 3 * 32 * 16
    assert part.shared == whole.shared and whole.total == EXPERTS.params()


@pytest.mark.parametrize("name", list(published_models))
def test_a_published_model_is_counted_whole(name):
    spec = published_models[name]
    assert stage_params(spec).total == spec.params()


@pytest.mark.parametrize("tp", [2, 4])
def test_what_no_rank_divides_is_on_every_rank(tp):
    """tp ranks hold more than the model: norms, places, and biases that are added after the sum."""
    spec = SPECS["classical"]
    more = tp * stage_params(spec, tp=tp).total - spec.params()
    norms, sums = (2 * spec.layers + 1) * 2 * spec.hidden, 2 * spec.layers * spec.hidden
    assert more == (tp - 1) * (norms + sums + 16 * spec.hidden)


def test_what_cannot_be_is_refused_by_name():
    spec = SPECS["classical"]
    with pytest.raises(ValueError, match="layers is 3, but must be at most 2, what is left of 4"):
        stage_params(spec, 2, 3)
    with pytest.raises(ValueError, match="tp is 3, but must be a divisor of heads, which is 4"):
        stage_params(spec, tp=3)
    with pytest.raises(ValueError, match="ep is 3, but must be a divisor of experts, which is 8"):
        stage_params(EXPERTS, ep=3)
    with pytest.raises(ValueError, match="zero is 4, but must be a stage: 0, 1, 2 or 3"):
        recipes["mixed"].per_parameter(4, 8)
    with pytest.raises(ValueError, match="moments is -1, but must be a number of bytes"):
        StateRecipe("wrong", moments=-1)
    with pytest.raises(KeyError, match="no recipe 'fp8'; known: mixed"):
        recipes["fp8"]
