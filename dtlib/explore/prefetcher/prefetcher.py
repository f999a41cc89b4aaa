"""Prefetcher: a loader that the reader sizes, with its stalls, its queue and its busy share."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider, toggle
from dtlib.explore.kit.widget import Widget
from dtlib.explore.mathml import mathml
from dtlib.formulas.notation import NOTATION
from dtlib.foundations.data.prefetcher import Prefetch, fetch_times, prefetch

SPREADS = (0, 0.25, 0.5, 1, 1.5, 2)
WORKERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32)
DEPTHS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Prefetcher(Widget):
    """A simulated prefetcher: spread, workers, depth, and whether batches are taken in order.

    Arguments: `fetch`, the mean time to make a batch, and `step`, seconds; `batches` of the run;
    `spread`, `workers`, `depth` and `in_order` at the start, of those in `SPREADS`, `WORKERS` and
    `DEPTHS`; `window`, the seconds of the run that are shown; `task`, a `Task` over ``spread``,
    ``workers``, ``depth``, ``in_order`` and ``busy``, the share for which the GPU computes.
    The fetches are those of `fetch_times`: the script runs the loader on them as `prefetch` does.
    Raises ValueError for a start that is not among the choices, and for a task that is met at the
    start or not met by its solution.
    """

    def __init__(
        self,
        fetch: float,
        step: float,
        *,
        title: str,
        spread: float = 1,
        workers: int = 4,
        depth: int = 4,
        in_order: bool = True,
        batches: int = 1000,
        window: float = 40.0,
        task: Task | None = None,
    ):
        self._fetch, self._step, self._draws = fetch, step, draws(batches)
        super().__init__(
            title=title,
            controls=[
                slider("spread", "spread of the fetches", SPREADS, spread) | _symbol("service_cv"),
                slider("workers", "workers", WORKERS, workers) | _symbol("workers"),
                slider("depth", "batches ahead", DEPTHS, depth) | _symbol("depth"),
                toggle("in_order", "the GPU takes batches in order", in_order),
                slider("part", "the run is shown from", range(0, 101, 5), 0, unit="%", size=0.01),
            ],
            task=task,
            fetch=float(fetch),
            step=float(step),
            window=float(window),
            draws=[list(self._draws[value]) for value in SPREADS],
        )

    def run(self, *, spread: float, workers: int, depth: int, in_order: bool) -> Prefetch:
        """The run that the widget shows in this state."""
        fetches = [self._fetch * draw for draw in self._draws[spread]]
        return prefetch(fetches, self._step, workers, depth, in_order=bool(in_order))

    def names(self, *, part: int, **state) -> dict[str, float]:
        return {"busy": self.run(**state).busy_fraction}


def draws(batches: int) -> dict[float, tuple[float, ...]]:
    """Fetch times of mean 1, for every spread, to four digits."""
    return {
        spread: tuple(float(f"{time:.4g}") for time in fetch_times(1.0, spread, batches))
        for spread in SPREADS
    }


def _symbol(name: str) -> dict[str, str]:
    return {"symbol": mathml(NOTATION[name].latex)}
