"""A held-out run follows from its prediction, and every way to turn that round is seen."""

from dataclasses import replace

import pytest

from dtlib.scaling_laws.grid.cells import FAMILIES, MI, Cell, family
from dtlib.scaling_laws.grid.predictions import (
    OrderError,
    SealedPrediction,
    check_order,
    fitted_runs,
    prediction_of,
    runs_digest,
    seal_predictions,
)
from dtlib.scaling_laws.grid.recorded import TrainedRun


def law(N: float, D: float) -> float:
    return 40 / N**0.6 + 300 / D**0.55


def trained(cell: Cell, excess: float | None = None) -> TrainedRun:
    """A cell as if it had been trained; its L - E from the law, or given."""
    found = law(cell.params, cell.tokens) if excess is None else excess
    return TrainedRun(
        cell.kind, cell.width, cell.seed, cell.params, 0, cell.tokens, cell.rate, cell.rule,
        1 + found, 1.0, found, (), (), 0.0, (), cell.prediction, 0.0, "",
    )  # fmt: skip


@pytest.fixture
def runs() -> list[TrainedRun]:
    return [
        trained(cell, law(cell.params, cell.tokens) * (1 + 0.01 * (number % 5)))
        for number, cell in enumerate(family(FAMILIES["tiny"], 1) + family(FAMILIES["tiny"], 2))
    ]


@pytest.fixture
def said(runs) -> SealedPrediction:
    (found,) = seal_predictions(runs, "tiny", (1,), made="2026-11-28 12:00", draws=50)
    return found


@pytest.fixture
def recorded(runs, said) -> list[TrainedRun]:
    return [*runs, trained(said.cell(1)), trained(said.cell(2))]


def test_a_run_after_its_prediction_is_in_order(recorded, said):
    check_order([said], recorded)
    assert said.run[0] < said.law[0] < said.excess < said.law[1] < said.run[1]
    assert said.excess == pytest.approx(1.02 * law(12 * 64**2, 16 * MI), rel=0.02)
    assert (said.width, said.tokens) == (64, 16 * MI)
    assert said.cell(1).seed != said.cell(2).seed


def test_a_prediction_changed_afterwards_is_seen(recorded, said):
    for name, value in (
        ("excess", said.excess + 1e-6),
        ("law", (0.0, 1.0)),
        ("made", "2026-11-29"),
    ):
        with pytest.raises(OrderError, match="no prediction of this run has the digest"):
            check_order([replace(said, **{name: value})], recorded)


def test_a_prediction_whose_run_names_the_new_digest_has_another_seed(recorded, said):
    later = replace(said, excess=said.excess + 1e-6)
    *others, run, _ = recorded
    with pytest.raises(OrderError, match="the seed does not follow from its prediction"):
        check_order([later], [*others, replace(run, prediction=later.digest)])


def test_a_run_with_a_seed_of_its_own_choice_is_seen(recorded, said):
    *others, run = recorded
    with pytest.raises(OrderError, match=r"width 64, 16 Mi tokens, seed 3: the seed does not"):
        check_order([said], [*others, replace(run, seed=3)])


def test_a_fitted_run_that_was_trained_again_is_seen(recorded, said):
    first = recorded.index(fitted_runs(recorded, "tiny", [1])[0])
    recorded[first] = replace(recorded[first], excess=recorded[first].excess + 1e-7)
    with pytest.raises(OrderError, match="the runs that were fitted are not those"):
        check_order([said], recorded)


def test_more_seeds_and_wider_models_later_change_nothing(recorded, said):
    more = [trained(cell) for cell in family(FAMILIES["reduced"], 3)]
    check_order([said], recorded + more)


def test_a_run_that_nobody_predicted_is_seen(recorded, said):
    with pytest.raises(OrderError, match="no prediction"):
        check_order([], recorded)


def test_a_prediction_is_the_same_after_a_file(said):
    import json
    from dataclasses import asdict

    assert prediction_of(json.loads(json.dumps(asdict(said)))) == said
    assert prediction_of(json.loads(json.dumps(asdict(said)))).digest == said.digest


def test_a_family_that_is_not_trained_yet_names_its_missing_cells(runs):
    with pytest.raises(ValueError, match=r"not trained yet is \['fit-w64-s1-4Mi'\]"):
        gone = [run for run in runs if (run.width, run.D) != (64, 4 * MI)]
        fitted_runs(gone, "tiny", (1,))


def test_a_prediction_of_a_run_that_is_hardly_larger_is_refused(said):
    with pytest.raises(ValueError, match=r"6ND / largest is 2.0, but must be at least 3.5"):
        replace(said, tokens=8 * MI)


def test_early_runs_are_not_fitted_and_the_order_of_runs_does_not_matter(runs):
    known = fitted_runs(runs, "tiny", (1, 2))
    assert {run.kind for run in known} == {"fit"} and len(known) == 30
    assert runs_digest(known) == runs_digest(known[::-1])
    assert runs_digest(known) != runs_digest(known[1:])
