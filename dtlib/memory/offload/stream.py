"""The one loop of offloading: wait for this part, work on it, send it back, ask for a later one."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from dtlib.formulas.require import require_count, require_type
from dtlib.memory.offload.store import Store, Transfer
from dtlib.timeline import Recorder, Timeline


@dataclass
class Turn:
    """What is here now: its name in the store, and the tensor, which may be replaced."""

    key: str
    tensor: torch.Tensor


def streamed(
    store: Store, keys: Iterable[str], lookahead: int = 1, back: bool = False
) -> Iterator[Turn]:
    """Tensors of a store in this order, each here for one turn of a loop.

    Equation: the order of `simulate_offload`: what is asked for after turn i is the tensor of turn
    i + lookahead + 1, into the buffer that was freed longest ago.
    Arguments: `store`; `keys`; `lookahead`, tensors; `back`, whether each goes back after its turn.
    Yields a Turn; its tensor belongs to it until the next turn begins. When the loop ends, all is
    back. Raises ValueError for a negative look-ahead; StoreError where the store fails: a failed
    return is raised at the end, when every turn was taken.

    >>> from dtlib.memory import HostStore
    >>> with HostStore() as store:
    ...     for key in "abc":
    ...         store.put(key, torch.zeros(2)).wait()
    ...     for turn in streamed(store, "abc", back=True):
    ...         turn.tensor += 1
    ...     store.get("b").wait(), store.received
    (tensor([1., 1.]), 32)
    """
    require_type("streamed", Store, store=store)
    require_count("streamed", 0, lookahead=lookahead)
    keys = list(keys)
    buffers = Buffers(store, keys, lookahead + 1 + back)
    fetched: dict[int, Transfer] = {}
    returned: list[Transfer] = []

    def ask(j: int) -> None:
        if j < len(keys):
            free = returned[j - buffers.count :][:1] if back and j >= buffers.count else ()
            fetched[j] = store.get(keys[j], into=buffers.of(j), after=free)

    for j in range(lookahead + 1):
        ask(j)
    for i, key in enumerate(keys):
        turn = Turn(key, fetched.pop(i).wait())
        yield turn
        if back:
            returned.append(store.put(key, turn.tensor))
        ask(i + lookahead + 1)
    wait_for_all(returned)


class Buffers:
    """Room on the device for a few tensors of a store, used in turns. `bytes`: all of it."""

    def __init__(self, store: Store, keys: list[str], count: int):
        self._kinds = [store.kind(key) for key in keys]
        self.count = min(count, len(keys))
        size = max((shape.numel() * dtype.itemsize for shape, dtype, _ in self._kinds), default=0)
        device = self._kinds[0][2] if keys else None
        self._rooms = [
            torch.empty(size, dtype=torch.uint8, device=device) for _ in range(self.count)
        ]
        self.bytes = size * self.count

    def of(self, j: int) -> torch.Tensor:
        """The buffer of turn j, in the shape of what comes."""
        shape, dtype, _ = self._kinds[j]
        room = self._rooms[j % self.count][: shape.numel() * dtype.itemsize]
        return room.view(dtype).view(shape)


def wait_for_all(transfers: Iterable[Transfer]) -> None:
    """Wait for every one, and raise the first error only then."""
    errors = []
    for transfer in transfers:
        try:
            transfer.wait()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def measure_offload(
    store: Store,
    layers: int,
    layer_bytes: int | Sequence[int],
    computing: float,
    lookahead: int,
    before: Callable[[], None] = lambda: None,
) -> Timeline:
    """The pipeline of `simulate_offload` on real threads: fetch layers, and sleep for each.

    Arguments: `store`, made with ``record=True``; `layers`, their number; `layer_bytes`, one number
    or one for each layer; `computing`, seconds of arithmetic, for which the device is taken to be
    busy; `lookahead`; `before`, called when all layers are in the store, where they stay for the
    next measurement. Returns a Timeline of the lane and of the arithmetic. Raises ValueError for a
    store that does not record, no layer, and for sizes that are not one for each layer.
    """
    if not store.record:
        raise ValueError("the store keeps no record; make it with record=True")
    require_count("measure_offload", layers=layers)
    sizes = [layer_bytes] * layers if isinstance(layer_bytes, int) else list(layer_bytes)
    if len(sizes) != layers:
        raise ValueError(f"layer_bytes has {len(sizes)} sizes for {layers} layers")
    require_count("measure_offload", 0, **{f"bytes of layer {i}": n for i, n in enumerate(sizes)})
    keys = [f"layer {i}" for i in range(layers)]
    there = set(store.keys())
    sent = [
        store.put(key, torch.zeros(size, dtype=torch.uint8))
        for key, size in zip(keys, sizes, strict=True)
        if key not in there or store.kind(key)[0].numel() != size
    ]
    wait_for_all(sent)
    before()
    store.spans.clear()
    recorder = Recorder(rank=0)
    for turn in streamed(store, keys, lookahead):
        with recorder.span(turn.key, "forward"):
            time.sleep(computing)
    return store.timeline(recorder.spans)


ALIGNMENT = 64  # bytes, as torch aligns its own tensors


def places(kinds: Iterable[tuple[torch.Size, torch.dtype]]) -> tuple[list[int], int]:
    """Where tensors lie in one row of bytes, each aligned; and the bytes of the row.

    >>> places([(torch.Size([3]), torch.float32), (torch.Size([2, 2]), torch.float64)])
    ([0, 64], 128)
    """
    offsets, total = [], 0
    for shape, dtype in kinds:
        offsets.append(total)
        total += -(-shape.numel() * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return offsets, total


def placed(row: torch.Tensor, offset: int, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """The tensor that lies there, as a view of the row."""
    return row[offset : offset + shape.numel() * dtype.itemsize].view(dtype).view(shape)
