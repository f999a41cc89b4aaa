"""Stores in the host's memory: a plain one, one behind a slow link, and the slowest one allowed.

The nouns are those of `dtlib.memory.offload.store`.
"""

import time
from concurrent.futures import Future

import torch

from dtlib.memory.offload.store import Store, copy_across


class HostStore(Store):
    """Keeps tensors in the host's memory, pinned where they come from a GPU.

    Arguments, attributes and errors: as `Store`.
    """

    def __init__(self, **options):
        self._held: dict[str, torch.Tensor] = {}
        super().__init__(**options)

    def _write(self, key: str, tensor: torch.Tensor, ready) -> None:
        held = self._held.get(key)
        if held is None or (held.shape, held.dtype) != (tensor.shape, tensor.dtype):
            held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        copy_across(tensor, held, ready)
        self._held[key] = held

    def _read(self, key: str, target: torch.Tensor, ready) -> None:
        copy_across(self._held[key], target, ready)

    def _forget(self, key: str) -> None:
        self._held.pop(key, None)

    def _forget_all(self) -> None:
        self._held.clear()


class ThrottledStore(HostStore):
    """The host's memory behind a link of `beta` bytes/s per lane and a latency of `alpha` seconds.

    Equation: a transfer of n bytes occupies its lane for n / beta and is seen `alpha` later; the
    next one may start in the meantime. So latency is shared, and bandwidth is not.
    Arguments: `beta`, `alpha`; the others as `Store`. Raises ValueError for a bandwidth that is not
    positive and a negative latency.
    """

    def __init__(self, beta: float, alpha: float = 0.0, **options):
        numbers = isinstance(beta, int | float) and isinstance(alpha, int | float)
        if not numbers or not beta > 0 or not alpha >= 0:
            raise ValueError(
                f"beta = {beta}, alpha = {alpha}; needs a positive number of bytes/s "
                "and no negative number of seconds"
            )
        self.beta, self.alpha = beta, alpha
        super().__init__(**options)

    def _pace(self, start: float, size: int) -> float:
        free = start + size / self.beta
        time.sleep(max(0.0, free - time.perf_counter()))
        return free + self.alpha if size else free


class LateStore(HostStore):
    """Moves nothing before someone waits for it: the slowest store that is allowed.

    Code that reads what it fetched, or writes over what it sent, without waiting may be right by
    luck where copies are quick. Here it is wrong every time.

    >>> with LateStore() as store:
    ...     sent = torch.ones(2)
    ...     store.put("x", sent)
    ...     fetched = torch.zeros(2)
    ...     transfer = store.get("x", into=fetched)
    ...     early = fetched.clone()
    ...     early, transfer.wait()
    <...Transfer object at ...>
    (tensor([0., 0.]), tensor([1., 1.]))
    """

    def _open_lanes(self, duplex: bool) -> None:
        self._lanes = {}

    def _submit(self, direction: str, key: str, size: int, job, after) -> Future:
        earlier = [transfer.future for transfer in after]
        earlier += [self._last[key]] if key in self._last else []
        self._last[key] = future = _Late(job, earlier)
        future.then = lambda: self._done(key, future)
        return future

    @staticmethod
    def _settle(futures) -> None:
        for future in futures:
            future.settle()


class _Late:
    """A future that does its work when it is asked for the result."""

    def __init__(self, job, earlier):
        self._job, self._earlier, self._error = job, earlier, None
        self.then = lambda: None

    def result(self) -> float:
        self.settle()
        if self._error is not None:
            raise self._error
        return 0.0

    def settle(self) -> None:
        for future in self._earlier:
            future.settle()
        job, self._job, self._earlier = self._job, None, []
        if job is not None:
            try:
                job()
            except Exception as error:
                self._error = error
            self.then()
