"""OffloadLab: layers that come over a link, and what one buffer more is worth."""

import random
from functools import cache
from itertools import product

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget

COMPUTING = 50  # ms, of every layer
BUFFERS = (1, 2, 3, 4, 5, 6, 7, 8)
RATIOS = (0.2, 0.4, 0.8, 1, 1.2, 1.6, 2, 3)
JITTERS = (0, 0.5, 1)
LATENCIES = (0, 50, 100, 200)  # ms
WINDOW, SHOWN = 800, 24  # what is drawn: ms, and the most layers that begin in them
_LAYERS, _WARM = 240, 24
_CHOICES = {"buffers": BUFFERS, "ratio": RATIOS, "jitter": JITTERS, "latency": LATENCIES}


class OffloadLab(Widget):
    """Transfers and arithmetic on a timeline, and the time of a layer for 1 to 8 buffers.

    Every layer computes for 50 ms. With k + 1 buffers, k layers are on their way.
    Arguments: `title`; `buffers`; `ratio`, mean transfer over arithmetic; `jitter`, the share by
    which half of the transfers, in random order, are longer and the others shorter; `latency` in
    ms; at the start, of those in `BUFFERS`, `RATIOS`, `JITTERS` and `LATENCIES`; `task`, a `Task`
    over these four, ``time``, milliseconds of a layer in the long run, and ``gain``, how many times
    as long it would take with one buffer fewer.
    All times are those of `simulate_offload`. Raises ValueError for a start that is not among the
    choices, and for a task that is met at the start or not met by its solution.
    """

    def __init__(self, *, title: str, buffers: int = 3, ratio: float = 1.6, jitter: float = 0,
                 latency: int = 0, task: Task | None = None):  # fmt: skip
        super().__init__(
            title=title,
            controls=[
                slider("buffers", "buffers", BUFFERS, buffers),
                slider("ratio", "transfer over arithmetic", RATIOS, ratio, unit="×"),
                slider("jitter", "jitter of the transfers", JITTERS, jitter, unit="%"),
                slider("latency", "latency", LATENCIES, latency, unit="s", size=1e-3),
            ],
            task=task,
            computing=COMPUTING,
            window=WINDOW,
            fetches=[[transfers(r, j)[:SHOWN] for j in JITTERS] for r in RATIOS],
            runs=_runs(),
        )

    def time(self, **state) -> float:
        """Milliseconds of a layer in the long run, in this state."""
        return _table()[tuple(state[name] for name in _CHOICES)][0]

    def names(self, **state) -> dict:
        now = self.time(**state)
        fewer = self.time(**state | {"buffers": max(1, state["buffers"] - 1)})
        return {"time": now, "gain": fewer / now}


def transfers(ratio: float, jitter: float, layers: int = _LAYERS) -> list[int]:
    """Milliseconds of each layer's transfer: half of them longer, half shorter, in random order."""
    mean = round(ratio * COMPUTING)
    signs = [1, -1] * ((layers + 1) // 2)
    random.Random(0).shuffle(signs)
    return [mean + round(sign * jitter * mean) for sign in signs[:layers]]


def run_of(layers: int, *, buffers: int, ratio: float, jitter: float, latency: int, unit=1):
    """The `OffloadRun` of so many layers; times in ms, or for `unit` 1e-3 in seconds."""
    from dtlib.memory import simulate_offload

    fetch = [time * unit for time in transfers(ratio, jitter)[:layers]]
    return simulate_offload(
        layers, COMPUTING * unit, fetch, alpha=latency * unit, lookahead=buffers - 1
    )


@cache
def _table() -> dict[tuple, tuple]:
    """For every state: ms of a layer in the long run; and when the first fetches and layers began.

    With equal transfers the time is exact, over whole turns of the buffers.
    """
    table = {}
    for state in product(*_CHOICES.values()):
        values = dict(zip(_CHOICES, state, strict=True))
        run = run_of(_LAYERS, **values)
        last = _LAYERS - _WARM
        if not values["jitter"]:
            last -= last % values["buffers"]
        time = float(run.layer_time(last))
        seen = sum(began < WINDOW for began in run.began)
        table[state] = (time, run.began[:seen], run.start[:seen])
    return table


@cache
def _runs() -> list:
    """The table as nested lists: the time, then began and start of each layer as two lists."""

    def nested(values: tuple, names: list) -> list:
        if not names:
            time, began, start = _table()[values]
            return [round(time, 3), _steps(began), _steps(start)]
        return [nested((*values, value), names[1:]) for value in _CHOICES[names[0]]]

    return nested((), list(_CHOICES))


def _steps(times) -> list[int]:
    """Each time less the one before: short numbers."""
    return [now - before for now, before in zip(times, (0, *times[:-1]), strict=True)]
