"""What is said of a run before it is trained, so that nobody need believe in the order.

The noun is `SealedPrediction`: a run, the loss that a fit expects of it, the interval, and a digest
of what was fitted. A held-out run takes its seed from the digest of its prediction: its weights and
its text are not known before every digit of the prediction is. Whoever trains it again
from that seed finds the recorded loss, and so knows which of the two was there first.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from dtlib import recordings
from dtlib.errors import DtlibError
from dtlib.formulas.require import require
from dtlib.models.work import training_flops
from dtlib.scaling_laws.grid.cells import FAMILIES, HELD_OUT, MI, Cell, family
from dtlib.scaling_laws.grid.recorded import NAME, TrainedRun
from dtlib.scaling_laws.loss_surface.parametric import fit_parametric
from dtlib.scaling_laws.loss_surface.runs import Runs

BEYOND = 3.5  # a held-out run has at least so many times the compute of all that were fitted


class OrderError(DtlibError, ValueError):
    """A held-out run that its prediction does not precede."""


@dataclass(frozen=True)
class SealedPrediction:
    """L - E of a run, said before: `excess`, in nats per letter.

    `law` is the 95 % interval of the fitted law there, and `run` that of a single run, which
    scatters around it. `width` and `tokens` are the run's; `surface` has the fitted constants;
    `fitted` is the digest of the runs that were known, all of a `family` with these `seeds`, and
    `largest` their largest 6 N D; `made` is when, in UTC.
    Raises ValueError for a run with less than 3.5 times the largest fitted compute.
    """

    width: int
    tokens: int
    excess: float
    law: tuple[float, float]
    run: tuple[float, float]
    surface: dict[str, float]
    family: str
    seeds: tuple[int, ...]
    fitted: str
    largest: float
    made: str

    def __post_init__(self):
        times = training_flops(12 * self.width**2, self.tokens) / self.largest
        allowed = f"at least {BEYOND} times the compute of the largest run that was fitted"
        require(times >= BEYOND, "SealedPrediction", "6ND / largest", round(times, 2), allowed)

    @property
    def digest(self) -> str:
        """SHA-256 of all that it says, in hexadecimal digits."""
        return digest_of(asdict(self))

    def seed(self, number: int = 1) -> int:
        """The seed of its first, second ... run: 32 bits that follow from every digit it says."""
        return int(digest_of([self.digest, number])[:8], 16)

    def cell(self, number: int = 1) -> Cell:
        """Its run, to be trained now."""
        return Cell("held-out", self.width, self.tokens, self.seed(number), prediction=self.digest)


def digest_of(data) -> str:
    """SHA-256 of data as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def runs_digest(runs: Iterable[TrainedRun]) -> str:
    """The digest of what runs measured: width, tokens, seed and L - E of each, in any order."""
    return digest_of(sorted([run.width, run.D, run.seed, run.excess] for run in runs))


def fitted_runs(runs: Sequence[TrainedRun], name: str, seeds: Sequence[int]) -> list[TrainedRun]:
    """The runs of a family with these seeds that are fitted, one for each cell, by width and D.

    Raises ValueError that names the cells which are not there yet.
    """
    cells = {cell.name for s in seeds for cell in family(FAMILIES[name], s) if cell.kind == "fit"}
    found = {_cell(run).name: run for run in runs if run.kind == "fit"}
    missing = sorted(cells - found.keys())
    require(not missing, f"the family {name!r}", "cells not trained yet", missing, "none")
    return sorted((found[cell] for cell in cells), key=lambda run: (run.width, run.D, run.seed))


def seal_predictions(
    runs: Sequence[TrainedRun], name: str, seeds: Sequence[int], *, made: str, draws: int = 1000
) -> tuple[SealedPrediction, ...]:
    """What `fit_parametric` of a family, E being known, says of the family's held-out runs.

    Arguments: `runs`, what is recorded; `name` of the family and its `seeds`; `made`, when; `draws`
    of the bootstrap. Raises ValueError that names the cells which are not there yet.
    """
    known = fitted_runs(runs, name, seeds)
    E = known[0].E
    fit = fit_parametric(Runs.of(known), E=E, draws=draws)
    surface = {key: float(getattr(fit.surface, key)) for key in ("A", "alpha", "B", "beta")}
    found = []
    for width, mi in HELD_OUT[name].items():
        loss, law, run = fit.predict(Cell("fit", width, mi * MI, 0).params, mi * MI)
        excess, *ends = (round(x - E, 6) for x in (loss, *law, *run))
        found.append(
            SealedPrediction(
                width, mi * MI, excess, tuple(ends[:2]), tuple(ends[2:]), surface, name,
                tuple(seeds), runs_digest(known), max(run.C for run in known), made,
            )
        )  # fmt: skip
    return tuple(found)


@cache
def recorded_predictions(name: str = NAME) -> tuple[SealedPrediction, ...]:
    """What was said of the recorded held-out runs, in the order in which it was said."""
    return tuple(map(prediction_of, recordings.load(name).about["predictions"]))


def prediction_of(data: dict) -> SealedPrediction:
    """A prediction that was written as JSON."""
    pairs = {key: tuple(data[key]) for key in ("law", "run", "seeds")}
    return SealedPrediction(**(data | pairs))


def check_order(predictions: Iterable[SealedPrediction], runs: Sequence[TrainedRun]) -> None:
    """Raise OrderError unless each held-out run follows from a prediction that was there before.

    A run's prediction must be known and say what its digest says; the run must have one of the
    first nine seeds that follow from it; and what was fitted must be recorded as it was then.
    """
    known = {prediction.digest: prediction for prediction in predictions}
    for run in runs:
        if run.kind != "held-out":
            continue
        where = f"width {run.width}, {run.D / MI:g} Mi tokens, seed {run.seed}"
        said = known.get(run.prediction)
        if said is None or (said.width, said.tokens) != (run.width, run.D):
            raise OrderError(f"{where}: no prediction of this run has the digest that it names")
        if run.seed not in {said.seed(number) for number in range(1, 10)}:
            raise OrderError(f"{where}: the seed does not follow from its prediction")
        if said.fitted != runs_digest(fitted_runs(runs, said.family, said.seeds)):
            raise OrderError(f"{where}: the runs that were fitted are not those of this recording")


def _cell(run: TrainedRun) -> Cell:
    return Cell(run.kind, run.width, run.D, run.seed, run.rate, run.rule, run.prediction)
