"""Prefetcher: a loader that the reader sizes, with its stalls, its queue and its busy share."""

import html
from collections.abc import Sequence

from dtlib.explore.controls import Task
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.mathml import mathml, plain
from dtlib.explore.widget import Widget, script
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.units import format_quantity
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

    _esm = script("quantities.js", "page.js", "prefetch_run.js", "prefetch.js")
    _css = script("widget.css", "prefetch.css")

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
        start = {"spread": spread, "workers": workers, "depth": depth, "in_order": in_order}
        choices = {"spread": SPREADS, "workers": WORKERS, "depth": DEPTHS}
        for name, values in choices.items():
            if start[name] not in values:
                allowed = ", ".join(map(str, values))
                raise ValueError(f"{name}: {start[name]!r}, but must be one of {allowed}")
        self._fetch, self._step, self._draws = fetch, step, draws(batches)
        spec = {
            "title": title,
            "fetch": float(fetch),
            "step": float(step),
            "window": float(window),
            "start": start,
            "spreads": list(SPREADS),
            "draws": [list(self._draws[value]) for value in SPREADS],
            "controls": [
                _control("spread", "service_cv", "spread of the fetches", SPREADS, spread),
                _control("workers", "workers", "workers", WORKERS, workers),
                _control("depth", "depth", "batches ahead", DEPTHS, depth),
            ],
            "task": self._task(task, start),
        }
        super().__init__(spec=spec)

    def run(self, *, spread: float, workers: int, depth: int, in_order: bool) -> Prefetch:
        """The run that the widget shows in this state."""
        fetches = [self._fetch * draw for draw in self._draws[spread]]
        return prefetch(fetches, self._step, workers, depth, in_order=in_order)

    def _task(self, task: Task | None, start: dict) -> dict | None:
        if task is None:
            return None

        def names(**values) -> dict:
            state = start | values
            return state | {"busy": self.run(**state).busy_fraction}

        return task.checked(names)

    def _figure(self) -> str:
        from dtlib.style import inline_svg

        start = self.spec["start"]
        run = self.run(**start)
        share = format_quantity(run.busy_fraction, "%", 3)
        drawing = inline_svg(
            run.timeline(until=self.spec["window"]).draw(),
            alt=f"{start['workers']} workers and a GPU that computes {share} of the time.",
        )
        state = f"{start['workers']} workers, {start['depth']} ahead, spread {start['spread']}"
        caption = f"{as_sentence(self.spec['title'])} {state}: {share} busy."
        return f"{drawing}\n<figcaption>{html.escape(caption)}</figcaption>"


def draws(batches: int) -> dict[float, tuple[float, ...]]:
    """Fetch times of mean 1, for every spread, to four digits."""
    return {
        spread: tuple(float(f"{time:.4g}") for time in fetch_times(1.0, spread, batches))
        for spread in SPREADS
    }


def _control(name: str, symbol: str, label: str, values: Sequence, start) -> dict:
    latex = NOTATION[symbol].latex
    return {
        "name": name,
        "label": label,
        "symbol": mathml(latex),
        "plain": plain(latex),
        "unit": "",
        "values": list(values),
        "index": values.index(start),
    }
