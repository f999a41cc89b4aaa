"""The recorded grid is whole, belongs to this code, and its held-out runs came after their bets."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from dtlib import recordings
from dtlib.scaling_laws.grid import (
    QuantileText,
    Trunk,
    ZipfWords,
    check_order,
    grid_spec,
    recorded_curves,
    recorded_predictions,
    recorded_runs,
)
from dtlib.scaling_laws.grid.cells import EARLY, RATES, REDUCED, family
from dtlib.scaling_laws.grid.predictions import OrderError, fitted_runs

RUNS = recorded_runs(None)


def whole(run) -> bool:
    """Whether a run's numbers agree with one another."""
    return (
        run.loss == run.E + run.excess
        and abs(sum(run.by_letter) / 4 - run.excess) < 1e-6
        and abs(run.cooling[-1][2] - run.excess) < 1e-6
        and run.cooling[-1][0] == run.D
        and (run.N, run.N_all) == (12 * run.width**2, grid_spec(run.width).params())
        and (run.kind == "early") == (run.D < EARLY and run.kind in ("early", "fit"))
    )


def test_every_run_is_whole():
    assert [run for run in RUNS if not whole(run)] == []


def test_a_run_that_is_not_would_be_seen():
    run = RUNS[0]
    for wrong in ({"loss": run.excess}, {"N": run.N_all}, {"by_letter": (run.excess,)}):
        assert not whole(replace(run, **wrong))


def test_E_is_the_languages_and_no_excess_is_negative():
    assert {run.E for run in RUNS} == {ZipfWords().E}
    assert min(min(run.by_letter) for run in RUNS) > 0


def test_the_reduced_family_is_there_with_its_first_seed():
    cells = {(c.width, c.tokens) for c in family(REDUCED, 1) if c.kind == "fit"}
    found = {(run.width, run.D) for run in fitted_runs(RUNS, "reduced", (1,))}
    assert found == cells


def test_a_family_stays_as_it_is_while_others_grow():
    small = recorded_runs("fit", seed=1, family="tiny")
    assert {(run.width, run.D // 2**20) for run in small} == {
        (width, mi) for width in (16, 24, 32, 48, 64) for mi in (1, 2, 4)
    }
    assert set(small) < set(recorded_runs("fit", seed=1, family="reduced"))
    with pytest.raises(ValueError, match="family is 'huge', but must be 'tiny' or 'reduced'"):
        recorded_runs(family="huge")


def test_every_held_out_run_came_after_its_prediction():
    check_order(recorded_predictions(), RUNS)
    assert {(p.width, p.tokens) for p in recorded_predictions()} >= {
        (run.width, run.D) for run in recorded_runs("held-out")
    }


def test_a_recording_in_which_one_digit_was_mended_is_seen():
    first, *others = recorded_predictions()
    mended = replace(first, excess=first.excess + 1e-6)
    run = replace(RUNS[0], kind="held-out", prediction=first.digest)
    run = replace(run, width=first.width, D=first.tokens, seed=first.seed())
    check_order([first, *others], [*RUNS, run])
    with pytest.raises(OrderError):
        check_order([mended, *others], [*RUNS, run])


def test_the_smallest_recorded_run_is_trained_again():
    torch.set_num_threads(1)
    first = RUNS[0]
    trunk = Trunk(QuantileText(ZipfWords()), first.width, first.seed, first.rate)
    again = trunk.branch(first.D // 1024).excess()
    assert again.nats == pytest.approx(first.excess, rel=0.05)  # on another processor as well
    longer = next(run for run in RUNS if run.width == first.width and run.D == 2 * first.D)
    assert again.nats != pytest.approx(longer.excess, rel=0.05)


def test_curves_are_those_of_the_trunks_and_reach_where_the_longest_branch_began():
    for curve in recorded_curves():
        longest = max(
            run.D for run in RUNS
            if (run.width, run.seed) == (curve.width, curve.seed) and run.kind in ("early", "fit")
        )  # fmt: skip
        assert 0.8 * longest >= curve.tokens[-1] > 0.8 * longest / 2**0.25 - 1024
        assert curve.excess[0] > 4 * curve.excess[-1] / 3


def test_a_decay_lies_below_its_trunk():
    for run in RUNS:
        assert run.excess < run.cooling[0][2]


def test_the_recorded_runs_are_read_without_torch_and_numpy():
    """As a page does, in which there may be neither."""
    read = "from dtlib.scaling_laws.grid import recorded_runs; assert recorded_runs()[0].loss > 1"
    absent = "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; "
    subprocess.run([sys.executable, "-c", absent + read], check=True)


def test_the_recording_is_small_and_names_no_host():
    path = recordings.directory() / "training-grid.json"
    assert path.stat().st_size < 200_000
    assert set(recordings.load("training-grid").machine) == {"processor", "cores", "system"}


def test_the_rates_that_chapter_10_reads_are_those_of_the_list():
    found = recordings.load("width-rates")
    assert set(found.samples) == {f"{one.rule} {one.width} {one.rate:g}" for one in RATES}
    assert {one.tokens for one in RATES} == {found.about["tokens"]}
