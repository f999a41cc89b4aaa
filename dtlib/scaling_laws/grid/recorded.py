"""The recorded grid as tables: what chapters 7 to 10 read, without torch.

The nouns: `TrainedRun`, a model that was trained to the end of its decay, and `Curve`, what a trunk
went through at the full rate.

    runs = recorded_runs()                      # the cells that are fitted, all seeds
    [run.loss for run in recorded_runs("held-out")]
    recorded_curves(seed=1)[0].excess
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from dtlib import recordings
from dtlib.formulas.require import require
from dtlib.models.work import training_flops
from dtlib.scaling_laws.grid.cells import FAMILIES, KINDS, MI

NAME = "training-grid"


@dataclass(frozen=True)
class TrainedRun:
    """One trained model. Losses in nats per letter (on the text: per byte), D in tokens.

    `kind` is "fit", "early" (under 1 Mi tokens, a transient), "held-out" or "rate"; `N` counts the
    layer's matrices, 12 width^2, and `N_all` every parameter. `excess` is L - E, measured as a
    divergence, and `E` the language's entropy; both are None for a text whose entropy nobody knows.
    `by_letter` is the excess of each letter of a word, `right` how often the most probable letter
    is the true one, `words_right` how often all letters of a word are. `cooling` has points
    (tokens, mean training loss since the last point, excess) of the decay. `prediction` names what
    was said before; `seconds` is what the run took on its core, alone or not.
    """

    kind: str
    width: int
    seed: int
    N: int
    N_all: int
    D: int
    rate: float
    rule: str
    loss: float
    E: float | None
    excess: float | None
    by_letter: tuple[float, ...]
    right: tuple[float, ...]
    words_right: float | None
    cooling: tuple[tuple[int, float | None, float], ...]
    prediction: str
    seconds: float
    date: str

    @property
    def C(self) -> float:
        """6 N D, in FLOP."""
        return training_flops(self.N, self.D)


@dataclass(frozen=True)
class Curve:
    """A trunk at its full rate: `tokens` seen, the mean loss `trained` since the last point, L - E.

    It is not what runs of so many tokens reach: those have decayed, and lie lower.
    """

    width: int
    N: int
    seed: int
    tokens: tuple[int, ...]
    trained: tuple[float | None, ...]
    excess: tuple[float, ...]


def recorded_runs(
    kind: str | None = "fit", seed: int | None = None, name: str = NAME, family: str | None = None
) -> tuple[TrainedRun, ...]:
    """The recorded runs of a kind, of all kinds for None; by width, tokens, rate and seed.

    Arguments: `seed`, only this one; `name`, which recording; `family`, only runs whose width and
    tokens belong to it: "reduced" stays the same while wider and longer runs are recorded.
    Raises ValueError for another kind or family.

    >>> runs = recorded_runs("fit", seed=1, family="reduced")
    >>> len(runs), runs[0].N, runs[0].D, runs[0].loss == runs[0].E + runs[0].excess
    (32, 3072, 1048576, True)
    """
    allowed = " or ".join(map(repr, KINDS)) + ", or None for all"
    require(kind in (*KINDS, None), "recorded_runs", "kind", kind, allowed)
    allowed = " or ".join(map(repr, FAMILIES)) + ", or None for all"
    require(family in (*FAMILIES, None), "recorded_runs", "family", family, allowed)
    largest = FAMILIES[family] if family else {}
    return tuple(
        run
        for run in _runs(name)
        if kind in (run.kind, None)
        and seed in (run.seed, None)
        and (family is None or largest.get(run.width, 0) * MI >= run.D)
    )


def recorded_curves(seed: int | None = None, name: str = NAME) -> tuple[Curve, ...]:
    """The trunks of the fitted runs, each to its longest budget; by width and seed.

    >>> curve = recorded_curves(seed=1)[0]
    >>> curve.width, curve.tokens[:3]
    (16, (65536, 77824, 93184))
    """
    return tuple(curve for curve in _curves(name) if seed in (curve.seed, None))


def run_of(result: dict, E: float | None) -> TrainedRun:
    """A finished cell as `training` writes it; its "excess" is above 0 where no E is known."""
    return TrainedRun(
        **{key: result[key] for key in ("kind", "width", "seed", "rate", "rule", "prediction")},
        N=result["params"],
        N_all=result["all_params"],
        D=result["tokens"],
        loss=(E or 0.0) + result["excess"],
        E=E,
        excess=None if E is None else result["excess"],
        by_letter=tuple(result["by_letter"]),
        right=tuple(result["right"]),
        words_right=result["words"],
        cooling=tuple(map(tuple, result["cooling"])),
        seconds=result["seconds"],
        date=result["date"],
    )


def curves_of(results: Sequence[dict]) -> tuple[Curve, ...]:
    """The trunks of finished cells: of those that branch off one, the longest has the curve."""
    longest: dict[tuple[int, int], dict] = {}
    for result in sorted(results, key=lambda result: result["tokens"]):
        if result["kind"] in ("early", "fit") and "curve" in result:
            longest[result["width"], result["seed"]] = result
    return tuple(
        Curve(width, found["params"], seed, *map(tuple, zip(*found["curve"], strict=True)))
        for (width, seed), found in sorted(longest.items())
    )


@cache
def _results(name: str) -> tuple[tuple[dict, ...], float | None]:
    about = recordings.load(name).about
    return tuple(about["runs"].values()), about["E"]


@cache
def _runs(name: str) -> tuple[TrainedRun, ...]:
    results, E = _results(name)
    runs = (run_of(result, E) for result in results)
    return tuple(sorted(runs, key=lambda run: (run.width, run.D, run.rule, run.rate, run.seed)))


@cache
def _curves(name: str) -> tuple[Curve, ...]:
    return curves_of(_results(name)[0])
