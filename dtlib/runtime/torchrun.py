"""Under torchrun the ranks are there already: this process is one of them."""

import atexit
import contextlib
import itertools
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dtlib.runtime.backend import choose_backend, device, take_device, torch_backend
from dtlib.runtime.fingerprint import checked_collectives
from dtlib.runtime.frames import is_notebook
from dtlib.runtime.ranks import Ranks
from dtlib.runtime.session import fresh_names, run_cell
from dtlib.runtime.stations import FOUR

_ALONE = "unset RANK WORLD_SIZE for ranks of your own"


def is_torchrun() -> bool:
    """Has a launcher such as torchrun told this process its rank?

    A notebook is no rank, though a pod gives RANK and WORLD_SIZE to whatever it runs.
    """
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and not is_notebook()


class TorchrunRanks(Ranks):
    """The world that this process is part of; it runs its own share and returns its own result."""

    def __init__(self, n: int | None, timeout: float, debug: bool, backend: str | None) -> None:
        self.n = int(os.environ["WORLD_SIZE"])
        if n not in (None, self.n):
            raise ValueError(_another_world(n, self.n))
        self.debug = debug
        _join_the_world(timeout, backend)
        self._names = fresh_names(device())
        self._cell_numbers = itertools.count(1)

    def run(
        self, function: Callable, /, *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> Any:
        with self._checked():
            return function(*args, **kwargs)

    def cell(self, source: str, timeout: float | None = None) -> Any:
        with self._checked():
            return run_cell(f"<ranks cell {next(self._cell_numbers)}>", source, self._names)

    def push(self, **values: Any) -> None:
        self._names.update(values)

    def close(self) -> None:
        self._names.clear()

    def _checked(self) -> contextlib.AbstractContextManager:
        return checked_collectives() if self.debug else contextlib.nullcontext()


def _another_world(n: int, world_size: int) -> str:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return (
            f"n is {n}, but torchrun has started {world_size} ranks: "
            f"start it with --nproc-per-node={n}, or leave out n"
        )
    return (
        f"n is {n}, but WORLD_SIZE in the environment is {world_size}: leave out n to join that "
        f"world, or {_ALONE}"
    )


def _join_the_world(timeout: float, backend: str | None) -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        return
    missing = [name for name in FOUR if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"RANK and WORLD_SIZE are set, but {' and '.join(missing)} not: start the script with "
            f"torchrun, or {_ALONE}"
        )
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    backend = choose_backend(ranks_here, backend)
    take_device(backend, int(os.environ.get("LOCAL_RANK", os.environ["RANK"])))
    dist.init_process_group(torch_backend(backend), timeout=timedelta(seconds=timeout))
    atexit.register(_leave_the_world)


def _leave_the_world() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
