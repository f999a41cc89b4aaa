"""The pace of one GPU: products that lose no work, and rates that no GPU exceeds."""

from collections import defaultdict

import pytest

from dtlib.foundations import catalog, published_models
from dtlib.foundations.cost.published_runs import sharded_runs, weak_scaling_runs
from dtlib.foundations.roofline import pace
from dtlib.foundations.roofline.gemm import gemm_time
from dtlib.foundations.roofline.pace import product_times, weight_products

MODELS = ["gpt-3", "llama-2-70b", "llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"]
H100 = catalog["h100-sxm"]


def multiplied(name: str, tp: int, tokens: int = 4096) -> float:
    products = weight_products(published_models[name], tp, 1, tokens)
    return sum(a * b * c * count for a, b, c, count, _ in products) / tokens


def one_by_one(spec, tokens: int, tp: int) -> tuple[float, float]:
    """The plain version, without experts: the matrices of a rank, then each product by itself."""
    matrices, fused = defaultdict(int), defaultdict(int)
    for weight in filter(lambda weight: weight.multiplied, spec.weights()):
        inner, columns = weight.shape
        if weight.name.endswith(("output", "down")):
            matrices[-(-inner // tp), columns] += weight.multiplied
        else:
            fused[weight.part, inner, weight.multiplied] += -(-columns // tp)
    for (_, inner, copies), columns in fused.items():
        matrices[inner, columns] += copies
    forward = sum(c * gemm_time(tokens, n, k, H100) for (k, n), c in matrices.items())
    backward = sum(
        c * (gemm_time(tokens, k, n, H100) + gemm_time(k, n, tokens, H100))
        for (k, n), c in matrices.items()
    )
    return forward, backward


def times(name: str, tokens: int, tp: int = 1) -> tuple[float, float]:
    """Forward and backward, with the head."""
    found = product_times(published_models[name], [(tp, 1, tokens)], H100)[:, 0]
    return found[0] + found[2], found[1] + found[3]


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("name", ["gpt-3", "llama-3.1-8b"])
def test_products_at_once_are_the_products_one_by_one(name, tp):
    expected = one_by_one(published_models[name], 4096, tp)
    assert times(name, 4096, tp) == pytest.approx(expected, rel=1e-9)


def test_sabotage_a_product_that_is_counted_once_more_is_noticed(monkeypatch):
    def more(*args):
        yield from weight_products(*args)
        yield 4096, 128, 128, 1, 0

    expected = one_by_one(published_models["gpt-3"], 4096, 1)
    monkeypatch.setattr(pace, "weight_products", more)
    assert times("gpt-3", 4096) != pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_products_are_all_the_parameters_that_multiply(name):
    """Experts are rounded up: with that many tokens each has a whole number of them."""
    spec = published_models[name]
    tokens = 4096 * (spec.moe.experts if spec.moe else 1)
    assert multiplied(name, 1, tokens) == spec.matmul_params()


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("name", ["gpt-3", "llama-2-70b", "llama-3.1-8b"])
def test_ranks_that_share_a_layer_share_its_work_evenly(name, tp):
    """Exactly, but for a vocabulary that the ranks do not divide and that is padded."""
    assert multiplied(name, tp) * tp == pytest.approx(multiplied(name, 1), rel=1e-4)


@pytest.mark.parametrize("tokens", [1024, 8192, 65536])
def test_no_product_is_faster_than_the_peak_and_small_ones_are_far_from_it(tokens):
    spec = published_models["llama-3.1-8b"]
    forward, backward = times(spec.name, tokens)
    least = 2 * tokens * spec.matmul_params() / H100.peak()
    assert least < forward < backward
    assert 1.7 < backward / forward < 2.3


def test_more_tokens_at_a_time_and_fewer_ranks_bring_products_nearer_to_the_peak():
    spec = published_models["llama-3.1-8b"]

    def share(tokens, tp):
        work = 6 * tokens * spec.matmul_params() / tp
        return work / H100.peak() / sum(times(spec.name, tokens, tp))

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
