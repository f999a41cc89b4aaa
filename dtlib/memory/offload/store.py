"""Where tensors wait that the device has no room for: a store, and a link with two directions.

The nouns:

- **Store**: keeps tensors by name, in the host's memory or in files. The device sees them only by
  asking. On a machine without a GPU, device and host are the same chips; then the store is what
  separates them, and it counts every byte that crosses.
- **Transfer**: one tensor on its way. It runs in the background until someone waits for it.
- **Lane**: transfers of one lane run one after the other, in the order in which they were asked
  for. There is one for each direction, or one for both.

Two rules make a background copy safe. What is being fetched must not be read, and what is being
sent must not be changed, before its transfer was waited for. `LateStore` finds who breaks them.

Stores of the host's memory are in `dtlib.memory.offload.host`, that of a disk in
`dtlib.memory.offload.disk`.
"""

import ctypes
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for

import torch

from dtlib.errors import DtlibError
from dtlib.timeline import Span, Timeline

_SPOILED = (
    "{!r} was changed while it was on its way: wait for a transfer before its tensor is changed"
)


class StoreError(DtlibError, RuntimeError):
    """A store that lacks a name or room, or could not move a tensor."""


class Transfer:
    """One tensor on its way. `wait` returns when it has arrived, with the tensor if it was fetched.

    `wait` raises StoreError where the transfer failed.
    """

    def __init__(self, future: Future, bytes: int, tensor: torch.Tensor | None = None):
        self.future, self.bytes, self._tensor = future, bytes, tensor

    def wait(self) -> torch.Tensor | None:
        """Stop until the tensor is where it should be."""
        visible = self.future.result()
        time.sleep(max(0.0, visible - time.perf_counter()))
        return self._tensor


class Store:
    """Keeps tensors by name, off the device. `HostStore` and `DiskStore` say where.

    Arguments: `capacity`, bytes that it can hold; `duplex`, whether its two directions are two
    lanes; `record`, whether every transfer becomes a span of `timeline()`.
    `sent` and `received` count the bytes that went in and came out, `held` those that are there and
    `peak_bytes` the most that ever were. Use it in a ``with`` block, or `close` it.
    Raises StoreError for what it lacks; TypeError and ValueError for what is no dense tensor.

    >>> from dtlib.memory import HostStore
    >>> with HostStore() as store:
    ...     store.put("moments", torch.arange(3.0)).wait()
    ...     store.get("moments").wait(), store.sent, store.received
    (tensor([0., 1., 2.]), 12, 12)
    """

    def __init__(self, *, capacity: float = float("inf"), duplex: bool = True, record=False):
        if not (isinstance(capacity, int | float) and capacity > 0):
            raise ValueError(f"capacity = {capacity}; a store must hold a positive number of bytes")
        self.capacity, self.record = capacity, record
        self.sent = self.received = self.held = self.peak_bytes = 0
        self.spans: list[Span] = []
        self._shapes: dict[str, tuple] = {}
        self._last: dict[str, Future] = {}
        self._kept_back: dict[str, torch.Tensor] = {}
        self._spoiled: set[str] = set()
        self._unwanted: deque[str] = deque()
        self._lock = threading.RLock()
        self._closed = False
        self._open_lanes(duplex)

    def put(self, key: str, tensor: torch.Tensor, after: Sequence[Transfer] = ()) -> Transfer:
        """Send a tensor there, under a name; what had that name is replaced when it has arrived.

        The tensor must stay as it is until the transfer is done. `after`: what must be done before.
        Raises StoreError at once where there is no room, and from `wait` where it could not be
        written; then the store keeps a copy in memory, `get` still answers, and `flush` tries
        again.
        """
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise TypeError(f"{key!r}: a store keeps dense tensors, not {type(tensor).__name__}")
        with self._lock:
            self._check_open(key)
            size = tensor.nbytes
            held = self.held + size - self._bytes_of(key)
            if held > self.capacity:
                raise StoreError(
                    f"{key!r} has {size} bytes, but {self.held} of {self.capacity} are taken; "
                    "nothing was moved"
                )
            self._shapes[key] = tensor.shape, tensor.dtype, tensor.device
            self.held, self.sent = held, self.sent + size
            self.peak_bytes = max(self.peak_bytes, held)
            version = _version(tensor)
            tensor, ready = tensor.detach(), _ready(tensor)

            def job():
                self._store(key, tensor, ready)
                self._spoiled.discard(key)
                if _version(tensor) != version:
                    self._spoiled.add(key)
                    raise StoreError(_SPOILED.format(key))

            return Transfer(self._submit("out", key, size, job, after), size)

    def get(
        self, key: str, into: torch.Tensor | None = None, after: Sequence[Transfer] = ()
    ) -> Transfer:
        """Fetch the tensor of that name, into a tensor of the same shape or into a new one.

        The target must not be read, or used for anything else, before the transfer was waited for.
        Raises StoreError for an unknown name, ValueError for a target that does not fit.
        """
        with self._lock:
            self._check_open(key)
            if key not in self._shapes:
                raise StoreError(f"the store has nothing called {key!r}")
            shape, dtype, device = self._shapes[key]
            if into is None:
                into = torch.empty(shape, dtype=dtype, device=device)
            elif not isinstance(into, torch.Tensor):
                raise TypeError(f"{key!r}: the target is a {type(into).__name__}, not a tensor")
            elif (into.shape, into.dtype) != (shape, dtype) or not into.is_contiguous():
                raise ValueError(
                    f"{key!r} is {dtype} of shape {tuple(shape)}; the target is {into.dtype} of "
                    f"shape {tuple(into.shape)}{'' if into.is_contiguous() else ', with gaps'}"
                )
            self.received += into.nbytes
            target, ready = into.detach(), _ready(into)

            def job():
                self._fetch(key, target, ready)

            return Transfer(self._submit("in", key, into.nbytes, job, after), into.nbytes, into)

    def drop(self, key: str) -> None:
        """Forget a tensor, when its transfers are done. Raises StoreError for an unknown name."""
        with self._lock:
            self._check_open(key)
            if key not in self._shapes:
                raise StoreError(f"the store has nothing called {key!r}")
            self.held -= self._bytes_of(key)
            del self._shapes[key]

            def job():
                self._kept_back.pop(key, None)
                self._forget(key)

            self._submit("out", key, 0, job, ())

    def drop_soon(self, key: str) -> None:
        """The same at the next call, and safe where no lock may be taken, as in a finalizer."""
        self._unwanted.append(key)

    def flush(self) -> None:
        """Wait for all transfers, and write again what could not be written.

        Raises StoreError if that fails once more.
        """
        with self._lock:
            self._sweep()
            waiting = list(self._last.values())
        self._settle(waiting)
        for key, tensor in list(self._kept_back.items()):
            self._store(key, tensor, None)

    def close(self) -> None:
        """Wait for what is under way, and forget everything. Closing twice is allowed."""
        if not self._closed:
            self._closed = True
            for lane in set(self._lanes.values()):
                lane.shutdown()
            self._shapes.clear()
            self._last.clear()
            self._kept_back.clear()
            self.held = 0
            self._forget_all()

    def timeline(self, spans: Sequence[Span] = ()) -> Timeline:
        """The transfers that were recorded, and other spans of the same clock, as one Timeline."""
        return Timeline([*self.spans, *spans])

    def kind(self, key: str) -> tuple[torch.Size, torch.dtype, torch.device]:
        """Shape, dtype and home of a tensor. Raises StoreError for an unknown name."""
        if key not in self._shapes:
            raise StoreError(f"the store has nothing called {key!r}")
        return self._shapes[key]

    def keys(self) -> list[str]:
        """The names of what it holds."""
        return list(self._shapes)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _open_lanes(self, duplex: bool) -> None:
        out = ThreadPoolExecutor(1, thread_name_prefix="store-out")
        inward = ThreadPoolExecutor(1, thread_name_prefix="store-in") if duplex else out
        self._lanes = {"out": out, "in": inward}

    def _submit(self, direction: str, key: str, size: int, job, after) -> Future:
        """Run the job in its lane, after all that it depends on, which was asked for before it."""
        earlier = [transfer.future for transfer in after]
        if key in self._last:
            earlier.append(self._last[key])
        future = self._lanes[direction].submit(self._run, direction, key, size, job, earlier)
        self._last[key] = future
        future.add_done_callback(lambda done: self._done(key, done))
        return future

    def _run(self, direction: str, key: str, size: int, job, earlier) -> float:
        self._settle(earlier)
        start = time.perf_counter()
        job()
        visible = self._pace(start, size)
        if self.record and size:
            stop = time.perf_counter()
            self.spans.append(Span(0, f"link {direction}", key, start, stop, "communication"))
        return visible

    @staticmethod
    def _settle(futures) -> None:
        """Wait until they are over, well or not."""
        wait_for(futures)

    def _done(self, key: str, future) -> None:
        """A name whose transfers are over needs no entry; else there would be one for ever."""
        with self._lock:
            if self._last.get(key) is future:
                del self._last[key]

    def _store(self, key: str, tensor: torch.Tensor, ready) -> None:
        try:
            self._write(key, tensor, ready)
        except OSError as error:
            self._kept_back[key] = tensor.detach().to("cpu", copy=True)
            raise StoreError(self._failure(key, tensor, error)) from error
        self._kept_back.pop(key, None)

    def _fetch(self, key: str, target: torch.Tensor, ready) -> None:
        if key in self._spoiled:
            raise StoreError(_SPOILED.format(key))
        if key in self._kept_back:
            target.copy_(self._kept_back[key])
        else:
            self._read(key, target, ready)

    def _check_open(self, key: str) -> None:
        if self._closed:
            raise StoreError(f"{key!r}: the store is closed")
        self._sweep()

    def _sweep(self) -> None:
        while self._unwanted:
            unwanted = self._unwanted.popleft()
            if unwanted in self._shapes:
                self.drop(unwanted)

    def _bytes_of(self, key: str) -> int:
        shape, dtype, _ = self._shapes.get(key, ((0,), torch.uint8, None))
        return shape.numel() * dtype.itemsize if key in self._shapes else 0

    def _pace(self, start: float, size: int) -> float:
        """When the other side sees what was moved; a store with a slow link waits here."""
        return start

    def _failure(self, key: str, tensor: torch.Tensor, error: OSError) -> str:
        return f"{key!r}: {tensor.nbytes} bytes could not be stored: {error}"

    def _write(self, key: str, tensor: torch.Tensor, ready) -> None:
        raise NotImplementedError

    def _read(self, key: str, target: torch.Tensor, ready) -> None:
        raise NotImplementedError

    def _forget(self, key: str) -> None:
        raise NotImplementedError

    def _forget_all(self) -> None:
        raise NotImplementedError


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor as a row of bytes, in the same memory."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def memory_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor of the host, to read or write a file with.

    `numpy` would do, but a tensor that was lent to it can never be resized again.
    """
    return memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def copy_across(source: torch.Tensor, target: torch.Tensor, ready) -> None:
    """Copy, and return when it is done: on a GPU beside its arithmetic, once `ready` has happened.

    `ready` marks what the arithmetic still had to do when the transfer was asked for: a copy that
    does not wait for it takes what was in the memory before.
    """
    if ready is None:
        target.copy_(source)
        return
    stream = torch.cuda.Stream(source.device if source.is_cuda else target.device)
    stream.wait_event(ready)
    with torch.cuda.stream(stream):
        target.copy_(source, non_blocking=True)
    stream.synchronize()


def _version(tensor: torch.Tensor) -> int:
    """Changes with every write into the tensor or into a view of it."""
    return 0 if tensor.is_inference() else tensor._version


def _ready(tensor: torch.Tensor):
    """What the GPU must have done before the tensor may be copied; nothing on a CPU."""
    return torch.cuda.current_stream(tensor.device).record_event() if tensor.is_cuda else None
