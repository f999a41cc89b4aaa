"""Counts of published models, to the digits that their authors or hosts print."""

import pytest
import torch
from reference_transformer import Layer, Norm, count

from dtlib.foundations import dense_params, published_models
from dtlib.foundations.cost.published_runs import (
    JEAN_ZAY,
    SELENE,
    PublishedRun,
    bloom_run,
    sharded_runs,
    weak_scaling_runs,
)

RUNS = (*weak_scaling_runs, *sharded_runs, bloom_run)

# safetensors.total of the Hugging Face model pages, and transformers' own count for gpt2
EXACT = {
    "gpt2": 124_439_808,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
}
# what the papers and announcements print: total, and per token where it is given
PRINTED = {
    "gpt-3": ("175", None),  # the table prints 175.0; its own dimensions give 174.6
    "llama-2-70b": ("69.0", None),
    "llama-3.1-8b": ("8.03", None),
    "llama-3.1-70b": ("70.6", None),
    "llama-3.1-405b": ("405.9", None),
    "mistral-7b": ("7.24", None),
    "mixtral-8x7b": ("46.7", "12.9"),
    "mixtral-8x22b": ("141", "39"),
    "deepseek-v3": ("671", None),
}


def in_billions(params, like):
    return f"{params / 1e9:.{len(like.partition('.')[2])}f}"


def torch_params(spec) -> int:
    """Both tables and one torch layer of each kind, as often as the model has it."""
    with torch.device("meta"):
        dense = count(Layer(spec, experts=False)) if spec.layers > spec.expert_layers else 0
        experts = count(Layer(spec, experts=True)) if spec.moe else 0
        norm = count(Norm(spec))
    tables = (spec.vocab * (1 if spec.tied else 2) + spec.positions) * spec.hidden
    layers = (spec.layers - spec.expert_layers) * dense + spec.expert_layers * experts
    return tables + layers + norm


@pytest.mark.parametrize(("name", "params"), EXACT.items(), ids=EXACT)
def test_parameters_are_exactly_those_of_the_published_weights(name, params):
    assert published_models[name].params() == params


def test_llama_2_70b_differs_from_its_files_by_the_rotary_angles_that_they_store():
    """Its files hold 64 angles for each of 80 layers: numbers, but not parameters."""
    assert 68_976_653_312 - published_models["llama-2-70b"].params() == 80 * 64


@pytest.mark.parametrize(("name", "printed"), PRINTED.items(), ids=PRINTED)
def test_parameters_round_to_what_is_printed(name, printed):
    total, active = printed
    spec = published_models[name]
    assert in_billions(spec.params(), total) == total
    if active:
        assert in_billions(spec.active_params(), active) == active


def test_deepseek_counts_the_parameters_of_a_token_without_the_input_table():
    """README_WEIGHTS.md: 671B in total, 36.6B active, 0.9B of them in the output head."""
    spec = published_models["deepseek-v3"]
    parts = spec.parameter_parts()
    assert in_billions(spec.active_params() - parts["embedding"], "36.6") == "36.6"
    assert in_billions(parts["head"], "0.9") == "0.9"


def test_mixtral_8x22b_per_token_as_its_users_counted_it_with_transformers():
    assert published_models["mixtral-8x22b"].active_params() == 39_152_031_744


@pytest.mark.parametrize("name", published_models)
def test_parameters_are_those_of_torch_layers(name):
    spec = published_models[name]
    assert torch_params(spec) == spec.params()


@pytest.mark.parametrize("name", published_models)
def test_every_model_has_its_name_a_source_and_a_year(name):
    spec = published_models[name]
    assert spec.name == name and spec.source and 2017 <= int(spec.date) <= 2030
    assert spec.context


def test_the_dense_formula_is_175_billion_for_gpt_3():
    spec = published_models["gpt-3"]
    formula = dense_params(layers=spec.layers, hidden=spec.hidden, vocab=spec.vocab)
    assert in_billions(formula, "175") == in_billions(spec.params(), "175") == "175"


def test_an_unknown_model_is_refused_with_the_known_names():
    with pytest.raises(KeyError, match="no model 'gpt-5' among the published ones; known: gpt2"):
        published_models["gpt-5"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.name} on {run.ranks}")
def test_a_published_run_has_the_nodes_of_its_ranks_and_divides_them(run):
    layout = run.layout
    assert run.cluster.nodes * run.node.gpus == run.ranks == run.cluster.ranks
    assert run.cluster.node is run.node
    assert layout.micro_batches(run.batch) * layout.dp * layout.micro_batch == run.batch
    assert run.spec.layers % (layout.pp * layout.interleave) == 0
    assert run.source and run.spec.context == 2048


def paper_seconds(layers, hidden, vocab, batch, ranks, teraflops) -> float:
    """Narayanan et al. 2021, equation (3), over the rate of all ranks."""
    work = 96 * batch * 2048 * layers * hidden**2
    work *= 1 + 2048 / (6 * hidden) + vocab / (16 * layers * hidden)
    return work / (ranks * teraflops * 1e12)


def test_a_published_step_is_the_work_of_its_equation_at_the_published_rate():
    first, *_, largest = weak_scaling_runs
    sharded, other = sharded_runs[2], sharded_runs[-1]
    assert first.seconds == pytest.approx(paper_seconds(24, 2304, 51200, 512, 32, 137))
    assert largest.seconds == pytest.approx(paper_seconds(128, 25600, 51200, 3072, 3072, 163))
    assert sharded.seconds == pytest.approx(paper_seconds(96, 12288, 51200, 1536, 1536, 44))
    assert other.seconds == pytest.approx(paper_seconds(105, 20480, 51200, 2240, 2240, 48))
    assert bloom_run.seconds == pytest.approx(paper_seconds(70, 14336, 250880, 2048, 384, 149.1))


def test_the_baseline_of_a_published_run_is_its_share_of_the_peak_and_its_bubble():
    """145.6 B on 1536 GPUs: 24 replicas of 8 stages, 48 micro-batches, two stages of a rank."""
    run = weak_scaling_runs[6]
    busy = run.flops / (1536 * 312e12 * 0.5)
    assert run.baseline(0.5) == pytest.approx(busy * (1 + 7 / (2 * 48)))
    sharded = sharded_runs[0]
    assert sharded.baseline(0.5) == pytest.approx(sharded.flops / (384 * 312e12 * 0.5))


def test_the_clusters_of_the_published_runs_have_their_published_ports():
    assert (SELENE.nics * SELENE.nic.beta, SELENE.gpus) == (8 * 25e9, 8)
    assert (JEAN_ZAY.nics * JEAN_ZAY.nic.beta, JEAN_ZAY.gpus) == (4 * 12.5e9, 8)


def test_sabotage_a_run_on_other_nodes_than_its_ranks_fill_is_seen(monkeypatch):
    run = weak_scaling_runs[0]
    monkeypatch.setattr(PublishedRun, "cluster", None)
    with pytest.raises(AttributeError):
        test_a_published_run_has_the_nodes_of_its_ranks_and_divides_them(run)
