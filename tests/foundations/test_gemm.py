"""A product takes whole tiles in whole waves, and its measured time is near that."""

import csv
import heapq
import itertools
import runpy
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dtlib.foundations import GPU, catalog
from dtlib.foundations.roofline.gemm import (
    ELEMENT_BYTES,
    GemmModel,
    gemm_bytes,
    gemm_derated_time,
    gemm_flops,
    gemm_roofline_time,
    gemm_tiling,
    gemm_time,
)
from dtlib.foundations.roofline.sample import GEMM_ERRORS, gemm_errors, gemm_sample
from dtlib.foundations.roofline.tiles import (
    tile_count,
    tile_time,
    wave_bytes,
    wave_count,
    wave_efficiency,
)

CLOCKED = [entry for entry in catalog.values() if isinstance(entry, GPU) and entry.clock]
GPUS = [gpu for gpu in CLOCKED if "bf16" in gpu.flops]
PER_CLOCK = {"a100": 2048, "a800": 2048, "h100": 4096, "h200": 4096, "b200": 8192}
PER_CLOCK |= {"v100": 1024, "t4": 1024, "rtx-4090": 512, "rtx-5090": 512}
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "foundations" / "gemm_model.py"
BOUND = 0.09
each_gpu = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)


def shapes(count: int, seed: int = 0) -> np.ndarray:
    """Sides from 1 to 65536, small ones as often as large ones: rows, columns, inner."""
    return np.exp2(np.random.default_rng(seed).uniform(0, 16, (3, count))).round()


def roofline(rows, columns, inner, gpu, dtype="bf16"):
    element_bytes = ELEMENT_BYTES[dtype]
    return gemm_roofline_time(
        rows, columns, inner, element_bytes, gpu.peak(dtype), gpu.hbm_bandwidth
    )


def one_tile_gpu(sms: int) -> GPU:
    """A GPU with so much bandwidth that only waves count, one FLOP a clock and multiprocessor."""
    return replace(
        catalog["h100-sxm"], sms=sms, clock=1.0, flops={"bf16": float(sms)}, hbm_bandwidth=1e300
    )


ONE_TILE = GemmModel(
    bandwidth_fraction=1, launch_cycles=0, tile_cycles=0, edge=0, tiles=((128, 128),), splits=(1,)
)


@pytest.mark.parametrize("sides", [(1, 1, 1), (2, 3, 4), (5, 1, 4), (5, 3, 1)])
def test_work_and_traffic_are_those_of_the_three_loops(sides):
    rows, columns, inner = sides
    operations, touched = 0, set()
    for i, j, k in itertools.product(range(rows), range(columns), range(inner)):
        operations += 2
        touched |= {("a", i, k), ("b", k, j), ("c", i, j)}
    assert gemm_flops(*sides) == operations
    assert gemm_bytes(*sides, element_bytes=2) == 2 * len(touched)


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 300])
def test_tiles_cover_the_result_and_no_tile_is_empty(rows):
    columns, (a, b) = 200, (128, 64)
    covering = {(i // a, j // b) for i in range(rows) for j in range(columns)}
    assert tile_count(rows, columns, a, b) == len(covering)


@pytest.mark.parametrize("sms", [1, 3, 108])
def test_waves_are_what_a_scheduler_needs_that_gives_each_tile_to_whoever_is_free(sms):
    for tiles in range(1, 4 * sms + 2):
        free = [0] * sms
        for _ in range(tiles):
            heapq.heappush(free, heapq.heappop(free) + 1)
        assert wave_count(tiles, sms) == max(free)
        busy = Fraction(tiles, max(free) * sms)
        assert wave_efficiency(tiles, sms) == float(busy)


@pytest.mark.parametrize("sms", [5, 108, 132])
def test_the_time_jumps_exactly_where_the_tiles_cross_a_multiple_of_the_multiprocessors(sms):
    gpu, tile = one_tile_gpu(sms), 2 * 4096 * 128 * 128
    rows = 128 * np.arange(1, 4 * sms + 2)
    waves = gemm_time(rows, 128, 4096, gpu, model=ONE_TILE) / tile
    assert waves == pytest.approx(np.round(waves), rel=1e-12)
    jumps = np.flatnonzero(np.diff(np.round(waves))) + 1
    assert jumps.tolist() == [sms, 2 * sms, 3 * sms, 4 * sms]
    assert gemm_time(128 * sms + 1, 128, 4096, gpu, model=ONE_TILE) == pytest.approx(2 * tile)


def test_tiles_that_fill_their_waves_at_no_price_for_edges_run_at_the_peak():
    for inner, a, b, sms, peak in itertools.product(
        (64, 999), (64, 256), (64, 128), (5, 132), (7,)
    ):
        work = gemm_flops(a, b, inner) * sms
        assert tile_time(inner, a, b, 0, peak, sms) == pytest.approx(work / peak, rel=1e-12)
        share = (a * b) / (a * b + 8 * (a + b))
        assert work / peak / tile_time(inner, a, b, 8, peak, sms) == pytest.approx(share)


@pytest.mark.parametrize("sms", [12, 36, 100, 108])
def test_no_arrangement_of_a_waves_tiles_reads_less(sms):
    inner, a, b = 640, 128, 256
    least = wave_bytes(0, 0, inner, a, b, sms, sms, 1)
    for down in (d for d in range(1, sms + 1) if sms % d == 0):
        across = sms // down
        read = inner * (down * a + across * b)
        assert read >= least * (1 - 1e-12)
        if down * a == across * b:
            assert read == pytest.approx(least, rel=1e-12)


@each_gpu
def test_a_product_is_never_faster_than_its_roofline(gpu):
    sides = shapes(4000)
    assert np.all(gemm_time(*sides, gpu) > roofline(*sides, gpu))
    for dtype in gpu.flops:
        assert gemm_time(512, 512, 4096, gpu, dtype) > roofline(512, 512, 4096, gpu, dtype)


def test_sabotage_more_than_the_bandwidth_is_faster_than_the_roofline():
    sides, gpu = shapes(4000), catalog["h100-sxm"]
    impossible = replace(GemmModel(), bandwidth_fraction=1.3)
    assert np.any(gemm_time(*sides, gpu, model=impossible) < roofline(*sides, gpu))


@each_gpu
@pytest.mark.parametrize("grown", range(3))
def test_a_larger_product_never_takes_less_time(gpu, grown):
    for start in shapes(4, seed=grown).T:
        sides = list(start)
        sides[grown] = np.arange(1, 3000)
        times = gemm_time(*sides, gpu)
        assert np.all(np.diff(times) >= -1e-12 * times[1:])


def test_sabotage_a_share_of_the_peak_that_grows_with_the_product_can_turn_that_round():
    rows, gpu = np.arange(1, 3000), catalog["h100-sxm"]
    filled = wave_efficiency(tile_count(rows, 128, 128, 128), gpu.sms)
    by_share = roofline(rows, 128, 4096, gpu) / filled
    assert np.any(np.diff(by_share) < -1e-12 * by_share[1:])


@each_gpu
def test_a_product_and_its_transpose_take_the_same_time(gpu):
    rows, columns, inner = shapes(500)
    assert gemm_time(rows, columns, inner, gpu) == pytest.approx(
        gemm_time(columns, rows, inner, gpu), rel=1e-12
    )


def test_a_machine_that_is_twice_as_fast_in_everything_takes_half_the_time():
    slow, sides = catalog["a100-sxm"], shapes(500)
    fast = replace(
        slow,
        flops={"bf16": 2 * slow.peak()},
        hbm_bandwidth=2 * slow.hbm_bandwidth,
        clock=2 * slow.clock,
    )
    assert gemm_time(*sides, fast) * 2 == pytest.approx(gemm_time(*sides, slow), rel=1e-12)


@each_gpu
def test_the_tiling_that_is_named_is_the_fastest_and_explains_the_time(gpu):
    model = GemmModel()
    for rows, columns, inner in shapes(40, seed=1).T:
        best = gemm_tiling(rows, columns, inner, gpu)
        assert best.time == gemm_time(rows, columns, inner, gpu)
        alone = [
            gemm_time(rows, columns, inner, gpu, model=replace(model, tiles=(tile,), splits=(s,)))
            for tile, s in itertools.product(model.tiles, model.splits)
        ]
        assert best.time == min(alone)
        assert best.waves == -(-best.tiles * best.split // gpu.sms)
        launch = (1 if best.split == 1 else 2) * model.launch_cycles / gpu.clock
        hidden = model.overlap * min(best.computing, best.moving)
        assert best.time == pytest.approx(launch + best.computing + best.moving - hidden)


def test_an_array_of_products_takes_the_times_of_each():
    gpu, sides = catalog["h100-sxm"], shapes(30, seed=2)
    each = [gemm_time(*map(int, shape), gpu) for shape in sides.T]
    assert gemm_time(*sides, gpu) == pytest.approx(each, rel=1e-12)


@pytest.mark.parametrize("gpu", CLOCKED, ids=lambda gpu: gpu.name)
def test_multiprocessors_and_clock_explain_the_peak_of_sixteen_bits(gpu):
    flops_per_clock = gpu.peak("fp16") / (gpu.sms * gpu.clock)
    expected = PER_CLOCK[gpu.name.removesuffix("-sxm")]
    assert flops_per_clock == pytest.approx(expected, rel=5e-3)


def mean_error(predict, gpu: str | None = None) -> float:
    return float(np.mean([abs(predict(t) / t.seconds - 1) for t in gemm_sample(gpu)]))


def by(model: GemmModel):
    return lambda t: gemm_time(t.rows, t.columns, t.inner, t.gpu, model=model)


def test_the_sample_is_predicted_within_nine_percent_and_as_well_as_all_rows_are():
    def derated(t):
        return gemm_derated_time(
            t.rows, t.columns, t.inner, 2, t.gpu.peak(), t.gpu.hbm_bandwidth, 0.8, 0.8, 4e-6
        )

    sampled = {
        "pure roofline": mean_error(lambda t: roofline(t.rows, t.columns, t.inner, t.gpu)),
        "three constants": mean_error(derated),
        "tiles and waves": mean_error(by(GemmModel())),
    }
    assert sampled["tiles and waves"] < BOUND < sampled["three constants"]
    for name, error in sampled.items():
        a100, h100 = GEMM_ERRORS[name][1:3]
        every = (3876 * a100 + 5004 * h100) / (3876 + 5004)
        assert error == pytest.approx(every, abs=0.01)


@pytest.mark.parametrize(
    "without",
    [
        {"launch_cycles": 0},
        {"tile_cycles": 0},
        {"edge": 0},
        {"overlap": 1},
        {"bandwidth_fraction": 1},
        {"tiles": ((128, 128),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_sabotage_without_any_one_of_its_constants_the_model_misses_the_bound(without):
    assert mean_error(by(replace(GemmModel(), **without))) > BOUND


def test_the_recorded_errors_are_within_the_bound_on_rows_that_chose_no_constant():
    _, *errors = GEMM_ERRORS["tiles and waves"]
    assert max(errors) < BOUND
    table = gemm_errors()
    assert len(table.rows) == 3 and all(len(row) == len(table.columns) for row in table.rows)


def test_the_benchmark_measures_the_error_and_names_what_it_leaves_out(
    tmp_path, capsys, monkeypatch
):
    with (tmp_path / "aic_gemm_bf16.csv").open("w", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["system", "gemm_dtype", "m", "n", "k", "latency_ms"])
        for t in gemm_sample():
            name = t.gpu.name.replace("-", "_")
            table.writerow([name, "bfloat16", t.rows, t.columns, t.inner, t.seconds * 1000])
            table.writerow([name, "fp8", t.rows, t.columns, t.inner, 1])
        table.writerow(["abacus", "bfloat16", 1, 1, 1, 1])
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), "--data", str(tmp_path)])
    runpy.run_path(str(BENCHMARK), run_name="__main__")
    printed = capsys.readouterr().out
    assert "left out: abacus, 1 rows" in printed and "24 products" in printed
    line = next(line for line in printed.splitlines() if line.startswith("tiles and waves"))
    shown = [f"{mean_error(by(GemmModel()), gpu):.1%}" for gpu in ("a100-sxm", "h100-sxm", None)]
    assert line.split()[3:7] == ["5", *shown]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: gemm_time(0, 1, 1, g), "gemm_time: rows is 0, but must be at least 1"),
        (lambda g: gemm_time(1, 1, np.array([4, 0]), g), r"inner is array\(\[4, 0\]\)"),
        (lambda g: gemm_time(1, 1, 1, g, "int4"), "dtype is 'int4', but must be in"),
        (lambda g: gemm_time(1, 1, 1, replace(g, sms=None)), "sms is None, but must be known"),
        (lambda g: gemm_tiling(1, 1, 1, replace(g, clock=None)), "clock is None"),
        (lambda g: gemm_sample("abacus"), "gpu is 'abacus', but the sample holds a100-sxm and"),
    ],
)
def test_what_cannot_be_timed_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(catalog["h100-sxm"])
