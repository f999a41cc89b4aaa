"""Look-ahead on real threads: what it hides, and what it cannot.

    offload-lookahead    seconds of one layer, labels "latency, look-ahead 2", "disk, look-ahead 0"

The arithmetic of every layer is a sleep of known length, because only the transfers are in
question. Three links are made, and one is the machine's own:

- latency: a short transfer that is seen late. Look-ahead hides it.
- bandwidth: a transfer longer than the arithmetic, without latency. Look-ahead cannot hide it.
- jitter: long and short transfers at random, on average shorter than the arithmetic.
- disk: files whose bytes the system was told to forget before each run; "disk alone" is one fetch
  of the same layers without arithmetic. Where the system keeps them all the same, it is memory.

`cases` holds the seconds of each part, from which the law predicts; `jittered` the transfer of each
layer where it is random.
"""

import os
import random
import tempfile
from contextlib import ExitStack

from dtlib import recordings
from dtlib.memory import DiskStore, ThrottledStore, measure_offload

LOOKAHEADS = (0, 1, 2, 4)
RATE = 50e6  # bytes/s of a made link
CASES = {
    "latency": {"computing": 4e-3, "transfer": 1e-3, "alpha": 15e-3},
    "bandwidth": {"computing": 4e-3, "transfer": 6e-3, "alpha": 0.0},
    "jitter": {"computing": 5e-3, "transfer": 4.5e-3, "alpha": 0.0},
}
LAYERS, WARM, REPETITIONS = 32, 6, 4
JITTERED = [1e-3, 8e-3] * (LAYERS // 2)
random.Random(0).shuffle(JITTERED)
DISK_LAYERS, DISK_BYTES, DISK_COMPUTING = 24, 4_000_000, 4e-3


def layer_time(timeline, warm: int) -> float:
    """Seconds of a layer, once the first ones have filled the pipeline."""
    stops = sorted(span.stop for span in timeline.of(0) if span.lane == "compute")
    return (stops[-1] - stops[warm - 1]) / (len(stops) - warm)


def forget(folder) -> None:
    """Have the files written, and ask the system to keep no copy in memory."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def made_link(case: str) -> tuple[ThrottledStore, list[int]]:
    """A store behind the link of this case, and the bytes of its layers."""
    _, transfer, alpha = CASES[case].values()
    seconds = JITTERED if case == "jitter" else [transfer] * LAYERS
    return ThrottledStore(RATE, alpha=alpha, record=True), [round(RATE * s) for s in seconds]


def from_disk(store, computing: float, lookahead: int) -> float:
    timeline = measure_offload(
        store, DISK_LAYERS, DISK_BYTES, computing, lookahead, lambda: forget(store.folder)
    )
    return layer_time(timeline, WARM)


def measure_offload_lookahead() -> None:
    samples = {}

    def took(label: str, lookahead: int, seconds: float) -> None:
        samples.setdefault(f"{label}, look-ahead {lookahead}", []).append(seconds)

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        disk = stack.enter_context(DiskStore(folder, record=True))
        links = {case: made_link(case) for case in CASES}
        for store, _ in links.values():
            stack.enter_context(store)
        for _ in range(REPETITIONS):
            for k in LOOKAHEADS:
                for case, (store, sizes) in links.items():
                    timeline = measure_offload(store, LAYERS, sizes, CASES[case]["computing"], k)
                    took(case, k, layer_time(timeline, WARM))
                took("disk", k, from_disk(disk, DISK_COMPUTING, k))
            samples.setdefault("disk alone", []).append(from_disk(disk, 0.0, 0))
    about = {
        "lookaheads": LOOKAHEADS,
        "layers": LAYERS,
        "warm": WARM,
        "cases": CASES,
        "jittered": JITTERED,
        "disk_bytes": DISK_BYTES,
        "disk_computing": DISK_COMPUTING,
    }
    recordings.save("offload-lookahead", samples, unit="s", **about)


if __name__ == "__main__":
    measure_offload_lookahead()
