"""Which parameters a rank holds, by kind, and what a split may be: each number once by hand."""

import pytest

from dtlib.foundations import published_models
from dtlib.memory.account.gpt import gpt_kept_tensors
from dtlib.memory.account.state import StageParams, parameter_groups, stage_params

LLAMA = published_models["llama-3.1-8b"]
MIXTRAL = published_models["mixtral-8x7b"]
DEEPSEEK = published_models["deepseek-v3"]


def test_of_a_dense_model_a_stage_holds_its_layers_and_the_tables_of_its_end():
    """Llama 3.1 8B: hidden 4096, keys 1024, feed-forward 14336, vocabulary 128256."""
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    table = 128256 * 4096
    assert stage_params(LLAMA) == StageParams(32 * layer, 2 * table + 4096, 0)
    assert stage_params(LLAMA, 0, 8, last=False) == StageParams(8 * layer, table, 0)
    assert stage_params(LLAMA, 8, 16, first=False, last=False) == StageParams(16 * layer, 0, 0)
    assert stage_params(LLAMA, 24, first=False) == StageParams(8 * layer, table + 4096, 0)


def test_tensor_parallelism_cuts_keys_up_to_their_heads_and_no_norm():
    layer = 2 * 4096**2 // 16 + 2 * 4096 * 1024 // 8 + 3 * 4096 * 14336 // 16 + 2 * 4096
    tables = 2 * 128256 * 4096 // 16 + 4096
    assert stage_params(LLAMA, tp=16) == StageParams(32 * layer, tables, 0)


def test_experts_are_counted_apart_and_divided_by_their_ranks():
    """Mixtral 8x7B: eight experts of three matrices in each of 32 layers."""
    expert, attention = 3 * 4096 * 14336, 2 * 4096**2 + 2 * 4096 * 1024
    layer = attention + 4096 * 8 + 2 * 4096
    tables = 2 * 32000 * 4096 + 4096
    assert stage_params(MIXTRAL) == StageParams(32 * layer, tables, 32 * 8 * expert)
    assert stage_params(MIXTRAL, ep=4) == StageParams(32 * layer, tables, 32 * 2 * expert)
    whole = stage_params(MIXTRAL)
    assert (whole.shared, whole.total) == (32 * layer + tables, MIXTRAL.params())


def test_latents_are_whole_on_every_rank_and_a_latent_model_has_no_heads_of_keys():
    cuts = {group.cut for group in parameter_groups(DEEPSEEK)}
    assert cuts == {"whole", "tp"}
    latents = 7168 * (1536 + 512 + 64) + 1536 + 512 + 2 * 7168
    heads = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    first = stage_params(DEEPSEEK, 0, 1, first=False, last=False, tp=8)
    assert first == StageParams(latents + (heads + 3 * 7168 * 18432) // 8, 0, 0)


def test_a_latent_model_is_no_model_of_the_book():
    with pytest.raises(
        ValueError, match=r"mla is MLA.*, but must be None: GPT has no latent atten"
    ):
        gpt_kept_tensors(DEEPSEEK, seq=32)


def test_sabotage_tables_that_are_counted_as_layers_are_seen(monkeypatch):
    monkeypatch.setattr("dtlib.memory.account.state.ParameterGroup.kind", "layers")
    counted = stage_params(LLAMA)
    assert counted.total == LLAMA.params() and counted.tables == 0
