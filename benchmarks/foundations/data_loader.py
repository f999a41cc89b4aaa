"""PyTorch's own loader against the simulated one: workers that sleep, a step that sleeps.

Every batch sleeps as long as `fetch_times` says, so that simulation and measurement have the very
same fetches. What is recorded is the share of the time, from the first step to the end of the last,
in which the main process was in a step.
"""

import time
import warnings
from typing import NamedTuple

from dtlib import recordings
from dtlib.foundations.data.prefetcher import fetch_times

FETCH, STEP, BATCHES, REPETITIONS = 0.040, 0.010, 100, 3


class Loader(NamedTuple):
    """One setting of the loader."""

    workers: int
    depth: int
    cv: float
    in_order: bool = True

    @property
    def label(self) -> str:
        order = "" if self.in_order else ", as ready"
        return f"{self.workers} workers, {self.depth} ahead, spread {self.cv:g}{order}"


LOADERS = [
    Loader(4, 4, 0),
    Loader(4, 4, 1),
    Loader(4, 4, 1, in_order=False),
    Loader(4, 8, 1),
    Loader(8, 32, 1),
    Loader(8, 32, 2),
]


class Sleeping:
    """A data set whose i-th item takes as long as its i-th fetch."""

    def __init__(self, fetches):
        self.fetches = fetches

    def __len__(self) -> int:
        return len(self.fetches)

    def __getitem__(self, i: int) -> int:
        time.sleep(self.fetches[i])
        return i


def busy_share(loader: Loader) -> float:
    """Run the loader once; the share of the time that its steps took."""
    from torch.utils.data import DataLoader

    fetches = fetch_times(FETCH, loader.cv, BATCHES).tolist()
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # they only sleep
    batches = DataLoader(
        Sleeping(fetches),
        batch_size=None,
        num_workers=loader.workers,
        prefetch_factor=loader.depth // loader.workers,
        in_order=loader.in_order,
    )
    first, steps = None, 0.0
    for _ in batches:
        start = time.perf_counter()
        first = start if first is None else first
        time.sleep(STEP)
        steps += time.perf_counter() - start
    return steps / (time.perf_counter() - first)


def measure_data_loader() -> None:
    """Write the recording data-loader: the busy share of every setting, repeated in turn."""
    shares = {loader.label: [] for loader in LOADERS}
    for _ in range(REPETITIONS):
        for loader in LOADERS:
            shares[loader.label].append(round(busy_share(loader), 4))
    recordings.save(
        "data-loader", shares, unit="", fetch=FETCH, step=STEP, batches=BATCHES,
        loaders=[list(loader) for loader in LOADERS],
    )  # fmt: skip


if __name__ == "__main__":
    measure_data_loader()
