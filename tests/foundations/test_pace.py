"""The pace of one GPU: products that lose no work, and rates that no GPU exceeds."""

import pytest

from dtlib.foundations import catalog, published_models
from dtlib.foundations.cost.published_runs import sharded_runs, weak_scaling_runs
from dtlib.foundations.roofline.pace import _products, products_time

MODELS = ["gpt-3", "llama-2-70b", "llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"]
H100 = catalog["h100-sxm"]


def multiplied(name: str, tp: int) -> int:
    products = _products(published_models[name], tp).items()
    return sum(inner * columns * copies for (inner, columns), copies in products)


@pytest.mark.parametrize("name", MODELS)
def test_the_products_are_all_the_parameters_that_multiply(name):
    assert multiplied(name, 1) == published_models[name].matmul_params()


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("name", ["gpt-3", "llama-2-70b", "llama-3.1-8b"])
def test_ranks_that_share_a_layer_share_its_work_evenly(name, tp):
    """Exactly, but for a vocabulary that the ranks do not divide and that is padded."""
    assert multiplied(name, tp) * tp == pytest.approx(multiplied(name, 1), rel=1e-4)


@pytest.mark.parametrize("tokens", [1024, 8192, 65536])
def test_no_product_is_faster_than_the_peak_and_small_ones_are_far_from_it(tokens):
    spec = published_models["llama-3.1-8b"]
    forward, backward = products_time(spec, tokens, H100)
    least = 2 * tokens * spec.matmul_params() / H100.peak()
    assert least < forward < backward
    assert 1.7 < backward / forward < 2.3


def test_more_tokens_at_a_time_and_fewer_ranks_bring_products_nearer_to_the_peak():
    spec = published_models["llama-3.1-8b"]

    def share(tokens, tp):
        work = 6 * tokens * spec.matmul_params() / tp
        return work / H100.peak() / sum(products_time(spec, tokens, H100, tp=tp))

    assert share(512, 1) < share(2048, 1) < share(8192, 1) < 0.85
    assert share(8192, 1) > share(8192, 2) > share(8192, 8)


@pytest.mark.parametrize("run", [*weak_scaling_runs, *sharded_runs], ids=lambda run: run.name)
def test_the_published_count_of_operations_is_that_of_the_spec(run):
    """Narayanan et al. 2021, equation (3), against the exact count of a full mask."""
    per_token = run.spec.flops_per_token(2048, causal=False, recompute="full")
    assert per_token * run.batch * 2048 == pytest.approx(run.flops, rel=1e-9)


@pytest.mark.parametrize(("name", "petaflops"), [("1008 B", 502), ("529.6 B", 410.2)])
def test_the_published_rates_are_those_of_the_published_clusters(name, petaflops):
    (run,) = [run for run in weak_scaling_runs if run.name == name]
    assert run.ranks * run.rate / 1e15 == pytest.approx(petaflops, rel=0.005)
