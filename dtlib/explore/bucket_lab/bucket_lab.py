"""BucketLab: a backward pass and its all-reduces, from the first bucket to the last one."""

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.widget import Widget

BUCKETS = (1, 2, 3, 4, 6, 8, 10, 14, 18, 22, 28, 36, 50, 70, 100, 140, 200, 340, 500)
BACKWARDS = (20, 50, 100, 200)  # ms
STARTS = (0.01, 0.05, 0.1, 0.2, 0.5)  # ms
RATES = (5, 12.5, 20, 25, 50, 100, 200)  # GB/s
SHARES = (0, 0.05, 0.1, 0.15, 0.2, 0.3)
GRADIENT = 1  # GB


class BucketLab(Widget):
    """Arithmetic and network on a timeline, and the time for 1 to 500 equal buckets.

    One GB of gradients. Arguments: `title`; `k`, buckets; `backward` and `start`, ms of the
    backward pass and of one more start; `beta`, GB/s at which an all-reduce of all goes by;
    `share`, of the processors, which a collective holds; at the start, of those in `BUCKETS`,
    `BACKWARDS`, `STARTS`, `RATES` and `SHARES`; `task`, a `Task` over these five, ``time`` and
    ``exposed``, ms until all is over and after the backward pass, ``last``, ms of the last
    bucket, and ``off``, the share by which the time exceeds that of the best number of buckets
    here.
    Times are those of `contended_bucketed_time`. Raises ValueError for a start that is not among
    the choices, and for a task that is met at the start or not met by its solution.
    """

    def __init__(self, *, title: str, k: int = 140, backward: float = 50, start: float = 0.1,
                 beta: float = 12.5, share: float = 0.15, task: Task | None = None):  # fmt: skip
        super().__init__(
            title=title,
            controls=[
                slider("k", "buckets", BUCKETS, k),
                slider("beta", "all-reduce at", RATES, beta, unit="B/s", size=1e9),
                slider("start", "start of one more", STARTS, start, unit="s", size=1e-3),
                slider("share", "processors held", SHARES, share, unit="%"),
                slider("backward", "backward pass", BACKWARDS, backward, unit="s", size=1e-3),
            ],
            task=task,
            gradient=GRADIENT,
        )

    def names(self, *, k, backward, start, beta, share) -> dict:
        """In ms; the same numbers from the library's formula and its simulated queues."""
        from dtlib.efficiency import bucketed_backward, contended_bucketed_time, simulate_queues

        comm = 1e3 * GRADIENT / beta
        times = [contended_bucketed_time(backward, comm, n, start, share) for n in BUCKETS]
        time = times[BUCKETS.index(k)]
        spans = simulate_queues(bucketed_backward(k, backward, comm, start, share)).spans
        over = max(span.stop for span in spans if span.lane == "compute")
        return {"time": time, "last": comm / k + start, "off": time / min(times) - 1,
                "exposed": time - over}  # fmt: skip
