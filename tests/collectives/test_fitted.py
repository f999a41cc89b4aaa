"""NCCL's measured times are near a sum of terms, each with a reason, and a fit finds them."""

import csv
import itertools
import runpy
import sys
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dtlib.collectives.cost.bounds import all_reduce_lower_bound_time
from dtlib.collectives.cost.ring_and_tree import (
    pairwise_all_to_all_time,
    ring_all_gather_time,
    ring_all_reduce_time,
)
from dtlib.collectives.nccl.fit import (
    RING,
    CollectiveTime,
    _design,
    _unknowns,
    fit_collectives,
    nccl_tests_samples,
    residuals,
)
from dtlib.collectives.nccl.model import (
    OPERATIONS,
    CollectiveModel,
    nccl_models,
    streamed_time,
    switch_all_reduce_time,
)
from dtlib.collectives.nccl.sample import (
    NCCL_ERRORS,
    NCCL_HELD_OUT,
    nccl_errors,
    nccl_sample,
    switch_sample,
)

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "collectives" / "nccl_model.py"
BOUND = 0.07
MODELS = list(nccl_models.values())
SIZES = 2.0 ** np.arange(0, 36)
PLAIN = CollectiveModel("plain", 0.0, 1e-6, 0.0, 2e11, np.inf)
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
each_operation = pytest.mark.parametrize("operation", OPERATIONS)


def two_stations(pieces: int, size: Fraction, handover: Fraction) -> Fraction:
    """The second station takes a piece when the first has passed it on and it has none in hand."""
    each = size / pieces
    first = second = Fraction(0)
    for _ in range(pieces):
        first += handover + each
        second = max(first, second) + each
    return second


@pytest.mark.parametrize("best", [1, 2, 5, 12])
def test_the_best_number_of_pieces_takes_the_streamed_time(best):
    handover = Fraction(1, 7)
    size = handover * best**2
    times = [two_stations(k, size, handover) for k in range(1, 3 * best + 3)]
    assert min(times) == times[best - 1]
    assert streamed_time(float(size), 1, float(handover)) == pytest.approx(float(min(times)))


def test_no_number_of_pieces_is_faster_than_the_streamed_time():
    for size, handover in itertools.product((Fraction(1, 9), Fraction(3), Fraction(50)), (1, 3)):
        streamed = streamed_time(float(size), 1, handover)
        for pieces in range(1, 30):
            assert two_stations(pieces, size, Fraction(handover)) >= streamed * (1 - 1e-12)


@pytest.mark.parametrize("P", [2, 3, 5, 8, 64])
def test_without_what_was_added_the_times_are_those_of_the_ring(P):
    for operation, formula in (
        ("all_reduce", ring_all_reduce_time),
        ("all_gather", ring_all_gather_time),
        ("reduce_scatter", ring_all_gather_time),
    ):
        assert PLAIN.time(operation, 1e8, P) == formula(1e8, P, PLAIN.alpha, PLAIN.beta)
    at_once = pairwise_all_to_all_time(1e8, P, 0, PLAIN.beta)
    assert PLAIN.time("all_to_all", 1e8, P) == at_once


@each_model
@pytest.mark.parametrize("P", [2, 3, 4, 8, 16, 72])
def test_a_ring_is_never_faster_than_the_lower_bound(model, P):
    bound = all_reduce_lower_bound_time(SIZES, P, model.alpha, model.beta)
    assert np.all(model.time("all_reduce", SIZES, P, "ring") > bound)


def test_sabotage_more_than_its_bandwidth_would_be_faster_than_the_lower_bound():
    model = nccl_models["a100-sxm"]
    bound = all_reduce_lower_bound_time(SIZES, 8, model.alpha, model.beta)
    wrong = replace(model, beta=1.1 * model.beta)
    assert np.any(wrong.time("all_reduce", SIZES, 8, "ring") < bound)


def through_the_ports(P: int) -> tuple[list[Fraction], list[Fraction]]:
    """What each rank's port sends and receives when the switch adds up each rank's share."""
    sent, received = [Fraction(0)] * P, [Fraction(0)] * P
    for owner, rank in itertools.product(range(P), repeat=2):
        sent[rank] += Fraction(1, P)  # its part of the owner's sum
        received[rank] += Fraction(1, P)  # the finished sum, copied by the switch
        if rank == owner:
            received[owner] += Fraction(1, P)
            sent[owner] += Fraction(1, P)
    return sent, received


@pytest.mark.parametrize("P", [2, 3, 4, 8, 72])
def test_a_switch_that_adds_carries_what_its_formula_says(P):
    for bytes in through_the_ports(P):
        assert set(bytes) == {Fraction(P + 1, P)}
    time = switch_all_reduce_time(Fraction(1), Fraction(P), 0, 0, Fraction(1))
    assert time == Fraction(P + 1, P)


def test_only_a_switch_that_adds_beats_the_bound_and_only_for_more_than_three_ranks():
    for P in range(2, 73):
        bound = all_reduce_lower_bound_time(1.0, P, 0, 1)
        assert (switch_all_reduce_time(1.0, P, 0, 0, 1) < bound * (1 - 1e-12)) == (P > 3)


@each_model
@each_operation
@pytest.mark.parametrize("P", [2, 4, 8])
def test_a_larger_message_never_takes_less_time(model, operation, P):
    assert np.all(np.diff(model.time(operation, SIZES, P)) > 0)


@each_model
@each_operation
def test_more_ranks_never_take_less_time_in_a_ring(model, operation):
    path = "ring" if operation == "all_reduce" else None
    P = np.arange(2, 73)
    for n in SIZES:
        assert np.all(np.diff(model.time(operation, n, P, path)) >= 0)


def test_sabotage_a_slow_own_share_would_make_more_ranks_faster():
    wrong = replace(nccl_models["h100-sxm"], own_beta=1e11)
    assert np.any(np.diff(wrong.time("all_gather", 2.0**33, np.arange(2, 9))) < 0)


def test_a_large_all_reduce_by_the_switch_gets_faster_as_ranks_join_and_so_it_was_measured():
    by_switch = [sample for sample in switch_sample() if sample.path == "switch"]
    model = nccl_models["h100-sxm"]
    for times in (
        [sample.seconds for sample in by_switch],
        [model.time("all_reduce", sample.n, sample.P) for sample in by_switch],
    ):
        assert np.all(np.diff(times) < 0)
    by_ring = [sample.seconds for sample in switch_sample() if sample.path == "ring"]
    assert np.all(np.diff(by_ring) > 0)


def test_an_all_reduce_takes_the_faster_path():
    model = nccl_models["h100-sxm"]
    for P in (4, 8):
        paths = [model.time("all_reduce", SIZES, P, path) for path in ("ring", "switch")]
        assert np.array_equal(model.time("all_reduce", SIZES, P), np.minimum(*paths))
        assert np.any(paths[0] < paths[1]) and np.any(paths[1] < paths[0])
    assert np.array_equal(
        nccl_models["a100-sxm"].time("all_reduce", SIZES, 8),
        nccl_models["a100-sxm"].time("all_reduce", SIZES, 8, "ring"),
    )


def sampled_error(**change) -> float:
    errors = [
        residuals(replace(nccl_models[name], **change), samples)
        for name, samples in nccl_sample().items()
    ]
    return float(np.mean(np.abs(errors)))


def test_the_sample_is_predicted_within_the_bound_and_about_as_well_as_all_times_are():
    assert sampled_error() < BOUND
    assert sampled_error() == pytest.approx(NCCL_ERRORS["streamed"][1], abs=0.015)


@pytest.mark.parametrize(
    "without",
    [{"launch": 0}, {"alpha": 0}, {"handover": 0}, {"own_beta": np.inf}, {"exchange": 0}],
    ids=lambda change: next(iter(change)),
)
def test_sabotage_without_any_one_of_its_constants_the_model_misses_the_bound(without):
    assert sampled_error(**without) > BOUND
    starts = replace(CollectiveModel("start", 1e-5, 1e-6, 5e-6, 2e11, 8e11, 3e-6), **without)
    free = tuple(name for name in (*RING, "exchange") if name not in without)
    refitted = [
        fit_collectives(samples, start=starts, free=free).residuals
        for samples in nccl_sample().values()
    ]
    assert np.mean(np.abs(refitted)) > BOUND


def test_one_generation_predicts_large_messages_of_the_next_memory_size_with_nothing_fitted():
    assert np.abs(residuals(nccl_models["h100-sxm"], switch_sample())).max() < 0.04
    model = replace(nccl_models["h100-sxm"], switch_setup=None, switch_beta=None)
    chosen = [s._replace(path=None) for s in switch_sample() if s.path == "switch"]
    assert residuals(model, chosen).min() > 0.1


def test_the_recorded_errors_are_within_a_tenth_also_on_what_chose_no_constant():
    assert max(NCCL_ERRORS["streamed"][1:]) < 0.1
    assert max(error for errors in NCCL_HELD_OUT.values() for error in errors[:2]) < 0.1
    assert min(NCCL_ERRORS["the two for each operation and group size"][1:4]) > 0.1
    table = nccl_errors()
    assert len(table.rows) == 3 and all(len(row) == len(table.columns) for row in table.rows)


GRID = [
    (operation, n, P)
    for operation in OPERATIONS
    for n in 2.0 ** np.arange(9, 31)
    for P in (2, 4, 8)
]
SWITCHED = (*RING, "exchange", "switch_setup", "switch_beta")


def timed(model: CollectiveModel, noise: float = 0.0, seed: int = 0) -> list[CollectiveTime]:
    factors = np.exp(np.random.default_rng(seed).normal(0, noise, len(GRID)))
    return [CollectiveTime(*at, model.time(*at) * f) for at, f in zip(GRID, factors, strict=True)]


def constants(model: CollectiveModel) -> dict:
    return {name: value for name, value in asdict(model).items() if name != "name" and value}


def test_exact_times_give_back_their_constants():
    a100, h100 = nccl_models["a100-sxm"], nccl_models["h100-sxm"]
    assert constants(fit_collectives(timed(a100)).model) == pytest.approx(constants(a100), rel=1e-6)
    guess = replace(a100, beta=4e11, handover=3e-6, switch_setup=5e-5, switch_beta=2.5e11)
    fit = fit_collectives(timed(h100), start=guess, free=SWITCHED)
    assert constants(fit.model) == pytest.approx(constants(h100), rel=1e-6)
    assert fit.mean_error < 1e-9 and fit.held_out_error("n") < 1e-6


def test_noisy_times_give_intervals_that_mostly_hold_the_constants():
    model, held = nccl_models["a100-sxm"], []
    for seed in range(6):
        fit = fit_collectives(timed(model, noise=0.05, seed=seed), draws=100)
        assert 0.02 < fit.mean_error < 0.06
        held += [low <= getattr(model, name) <= high for name, (low, high) in fit.intervals.items()]
    assert np.mean(held) > 0.8


def test_wild_samples_do_not_bend_the_fit():
    model = nccl_models["a100-sxm"]
    samples = [
        s._replace(seconds=3 * s.seconds) if place % 10 == 0 else s
        for place, s in enumerate(timed(model))
    ]
    assert constants(fit_collectives(samples).model) == pytest.approx(constants(model), rel=0.01)


@each_model
def test_a_time_is_the_sum_of_its_unknowns(model):
    samples = [CollectiveTime(*at, 1.0) for at in GRID]
    columns, unknowns = _design(model, samples), _unknowns(model)
    total = sum(columns[name] * unknowns[name] for name in columns)
    assert total == pytest.approx([model.time(*at) for at in GRID], rel=1e-9)


def test_a_held_out_size_or_group_is_not_fitted():
    model = nccl_models["a100-sxm"]
    wrong = [s if s.P != 4 else s._replace(seconds=1.2 * s.seconds) for s in timed(model)]
    fit = fit_collectives(wrong)
    assert fit.held_out_error("P") > fit.mean_error
    one = [s for s in timed(model) if s.P == 8]
    only = fit_collectives(one, start=model, free=("launch",))
    assert only.model.launch == pytest.approx(model.launch)
    assert only.held_out_error("n") == pytest.approx(0, abs=1e-9)


LOG = """
# nccl-tests: the header, and two sizes
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
     1048576        262144     float     sum      -1    38.85   26.99   47.23      0    38.10
     2097152        524288     float     sum      -1    53.70   39.05   68.34      0    53.61
# Avg bus bandwidth    : 57.8
"""


def test_a_log_of_nccl_tests_is_read():
    samples = nccl_tests_samples(LOG, "all_reduce", 8)
    assert [(s.n, s.P) for s in samples] == [(2**20, 8), (2**21, 8)]
    assert [s.seconds for s in samples] == pytest.approx([38.85e-6, 53.70e-6])


def test_the_benchmark_prints_the_errors_and_names_what_it_leaves_out(
    tmp_path, capsys, monkeypatch
):
    with (tmp_path / "aic_nccl.csv").open("w", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["system", "op_name", "num_gpus", "bytes", "latency_ms"])
        for name in ("a100-sxm", "h100-sxm"):
            for s in timed(nccl_models[name]):
                operation = s.operation.replace("all_to_all", "alltoall")
                table.writerow([name.replace("-", "_"), operation, s.P, int(s.n), s.seconds * 1e3])
        table.writerow(["abacus", "all_reduce", 2, 1, 1])
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), "--data", str(tmp_path)])
    runpy.run_path(str(BENCHMARK), run_name="__main__")
    printed = capsys.readouterr().out
    assert "left out: abacus, 1 rows" in printed and "528 collectives" in printed
    line = next(line for line in printed.splitlines() if line.startswith("streamed"))
    assert line.split()[1:] == ["14", "0.0%", "0.0%", "0.0%"]


ONE_GROUP = [CollectiveTime("all_gather", n, 8, 1e-5 + n / 1e11) for n in (1e3, 1e5, 1e7, 1e9)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.time("gossip", 1, 2), "operation is 'gossip', but must be in"),
        (lambda m: m.time("all_reduce", -1, 2), "n is -1, but must be at least 0"),
        (lambda m: m.time("all_reduce", 1, np.array([2, 1])), r"P is array\(\[2, 1\]\)"),
        (lambda m: m.time("all_reduce", 1, 2, "tree"), "path is 'tree', but must be in"),
        (lambda m: m.time("all_gather", 1, 2, "switch"), "path is 'switch', but must be 'ring'"),
        (lambda m: fit_collectives(ONE_GROUP), "do not determine launch, alpha"),
        (lambda m: fit_collectives([]), "samples is empty"),
        (lambda m: fit_collectives(ONE_GROUP, free=("speed",)), "free is .'speed',., but must"),
        (lambda m: fit_collectives(ONE_GROUP, free=("beta",)), "both handover and beta or neither"),
        (lambda m: fit_collectives(ONE_GROUP, free=("switch_beta",)), "start must guess"),
        (lambda m: fit_collectives([("gossip", 1, 2, 1)]), "sample 0 is of 'gossip', but must be"),
        (
            lambda m: fit_collectives([ONE_GROUP[0]._replace(seconds=0)]),
            "sample 0 has seconds = 0, but must be positive",
        ),
        (lambda m: nccl_tests_samples("# nothing", "all_reduce", 2), "log: no line has a size"),
        (lambda m: nccl_sample("abacus"), "machine is 'abacus', but the sample holds a100-sxm and"),
    ],
)
def test_what_cannot_be_timed_or_fitted_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(nccl_models["h100-sxm"])
