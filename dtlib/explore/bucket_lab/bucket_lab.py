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
        """In ms; the same numbers from the library's formula."""
        from dtlib.efficiency import contended_bucketed_time

        comm = 1e3 * GRADIENT / beta
        times = [contended_bucketed_time(backward, comm, n, start, share) for n in BUCKETS]
        time, last = times[BUCKETS.index(k)], comm / k + start
        return {"time": time, "last": last, "off": time / min(times) - 1,
                "exposed": time - self.over(k, backward, last, share)}  # fmt: skip

    @staticmethod
    def over(k: int, backward: float, cost: float, share: float) -> float:
        """When the backward pass is over, which runs slower beside the network."""
        now, busy = 0.0, 0.0
        for _ in range(k):
            beside = max(0.0, busy - now)
            piece = backward / k
            slowed = piece / (1 - share)
            now += slowed if slowed <= beside else piece + share * beside
            busy = max(now, busy) + cost
        return now
