"""Schedules by puts and signals: the sender writes into the receiver's memory, and says so.

The nouns:

- **Window**: memory of each rank that every rank of its machine can write into. It holds a rank's
  data, room for what is to be added, and its signals.
- **Put**: a write into a part of another rank's window. The receiver does nothing.
- **Signal**: a number that only grows and that one rank writes: how many messages came from it, or
  how many rounds it has begun.

The executor follows the same `RankMessages` as `execute`. Two-sided messages meet: a receive is
posted, and the sender is told. Here a receiver says which round it has begun, which opens all the
places that it would have posted receives for; the sender writes there and raises its count. So the
bits are those of `execute`, and a race would be a wrong order of these two signals.
"""

import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist

from dtlib.collectives.on_ranks import In, RankMessages, messages_for
from dtlib.collectives.schedule import Schedule
from dtlib.formulas.require import require, require_count
from dtlib.runtime.process_group import ranks_of, told

_FENCE = threading.Lock()


class Window:
    """Memory of every rank of a group, into which each of them can write.

    Arguments: `group`, whose ranks are processes of one machine and all make it at once; `numel`
    and `dtype` of each rank's `data`; `patience`, seconds to wait for a signal. Attributes: `data`,
    this rank's own; `puts` and `put_bytes`, what this rank wrote into others.
    Raises TimeoutError, which names the rank that is waited for. Source: the put and signal of
    OpenSHMEM and NVSHMEM, on shared memory.
    """

    def __init__(self, group, numel: int, dtype=torch.float32, patience: float = 60.0):
        require_count("Window", numel=numel)
        self.rank, self.P = ranks_of(group)
        self.numel, self.dtype, self.patience = numel, dtype, patience
        self.puts = self.put_bytes = self.rounds_before = 0
        self._received = Counter()
        length = 8 * (self.P + 1) + 2 * numel * dtype.itemsize
        shared = Path("/dev/shm")
        handle, name = tempfile.mkstemp(dir=shared if shared.is_dir() else None)
        os.close(handle)
        names = told(name, group)
        self._memory = [
            torch.from_file(name, shared=True, size=length, dtype=torch.uint8) for name in names
        ]
        dist.barrier(group=group)  # all have opened it
        Path(name).unlink()
        self.data = self.data_of(self.rank)

    def data_of(self, rank: int) -> torch.Tensor:
        """The data of a rank's window."""
        return self._row(rank)[: self.numel]

    def room_of(self, rank: int) -> torch.Tensor:
        """Where messages to a rank land that it is to add."""
        return self._row(rank)[self.numel :]

    def put(self, target: torch.Tensor, source: torch.Tensor, rank: int) -> None:
        """Write into a part of a rank's window, and then raise this rank's count there."""
        target.copy_(source)
        _fence()
        self._signals(rank)[self.rank] += 1
        self.puts += 1
        self.put_bytes += source.nbytes

    def begin(self, round: int) -> None:
        """Tell all that this rank has begun so many rounds."""
        _fence()
        self._signals(self.rank)[self.P] = round

    def wait_for_round(self, rank: int, round: int) -> None:
        """Until a rank has begun that many rounds."""
        self._wait(self._signals(rank), self.P, round, f"rank {rank} to begin round {round}")

    def wait_for_messages(self, source: int, more: int) -> None:
        """Until so many further messages of a rank are there."""
        self._received[source] += more
        count = self._received[source]
        self._wait(self._signals(self.rank), source, count, f"message {count} of rank {source}")

    def _wait(self, signals, place: int, value: int, what: str) -> None:
        late = time.monotonic() + self.patience
        while signals[place] < value:
            if time.monotonic() > late:
                raise TimeoutError(f"rank {self.rank} has waited {self.patience:g} s for {what}")
            time.sleep(0)
        _fence()

    def _signals(self, rank: int):
        return self._memory[rank][: 8 * (self.P + 1)].view(torch.int64).numpy()

    def _row(self, rank: int) -> torch.Tensor:
        return self._memory[rank][8 * (self.P + 1) :].view(self.dtype)


def execute_by_puts(schedule: Schedule, window: Window) -> torch.Tensor:
    """Run one rank of a schedule on the data of its window, in place; every rank calls it.

    Returns the window's `data`, with the same bits as `execute` gives. Raises ValueError for a
    schedule of another number of ranks, TimeoutError where a rank does not come.
    """
    P = schedule.P
    require(P == window.P, "execute_by_puts", "schedule.P", P, f"{window.P}")
    own = messages_for(schedule, window.rank, window.numel)
    places = {peer: _Places(schedule, peer, window) for peer in _peers(own)}
    data, room = window.data, window.room_of(window.rank)
    for t, (out, into) in enumerate(own.rounds):
        parts = [data[m.part].clone() if m.copied else data[m.part] for m in out]
        window.begin(window.rounds_before + t + 1)
        for message, part in zip(out, parts, strict=True):
            opens, target = places[message.peer].next(t)
            window.wait_for_round(message.peer, window.rounds_before + opens + 1)
            window.put(target, part, message.peer)
        for source, count in Counter(message.peer for message in into).items():
            window.wait_for_messages(source, count)
        for message in into:
            if message.landing:
                data[message.part] += room[message.landing]
    window.rounds_before += len(schedule)
    return data


class _Places:
    """Where this rank's messages to a peer go, in their order, and the round that opens each."""

    def __init__(self, schedule: Schedule, peer: int, window: Window):
        theirs = messages_for(schedule, peer, window.numel)
        opened = iter([t for t, posted in enumerate(theirs.posts) for _ in posted])
        self.of_round: list[list[tuple]] = []
        for _, into in theirs.rounds:
            opens = [next(opened) for _ in into]
            mine = [(t, m) for t, m in zip(opens, into, strict=True) if m.peer == window.rank]
            self.of_round.append(mine)
        self.data, self.room = window.data_of(peer), window.room_of(peer)

    def next(self, t: int) -> tuple[int, torch.Tensor]:
        opens, message = self.of_round[t].pop(0)
        return opens, self._target(message)

    def _target(self, message: In) -> torch.Tensor:
        return self.room[message.landing] if message.landing else self.data[message.part]


def _peers(own: RankMessages) -> set[int]:
    return {message.peer for out, _ in own.rounds for message in out}


def _fence() -> None:
    """What was written before is seen before what is written after, on processors that reorder."""
    with _FENCE:
        pass
    with _FENCE:
        pass
