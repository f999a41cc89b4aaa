"""Four processes play two nodes of two GPUs: bytes through the wall, and times behind slow ports.

The network is emulated. A message to the other node holds a port of its sender's node, which is a
lock on a file, for `NIC`'s latency plus its bytes over `NIC`'s bandwidth, asleep; then it goes
its usual way. With one port the two processes of a node share the lock; with two, each has one.
"""

import fcntl
import tempfile
import time
from contextlib import contextmanager

from benchmarks.timing import ping_pong, size_label, slowest
from dtlib import launch, recordings
from dtlib.collectives import (
    execute,
    hierarchical_all_reduce,
    multi_rail_ring_all_reduce,
    ring_all_reduce,
)
from dtlib.collectives.transport import PointToPoint
from dtlib.foundations import KB, MB

NAME = "two-nodes-4-ranks"
SIZE = 8 * MB
NIC = (0.5e-3, 40 * MB)
REPETITIONS = 7
PING_PONG_SIZES = [64 * KB, 1 * MB, 4 * MB]
SCHEDULES = {
    "ring, node by node": ring_all_reduce(4),
    "ring, dealt in turn": ring_all_reduce(4).relabelled([0, 2, 1, 3]),
    "a ring for each port": multi_rail_ring_all_reduce(2, 2),
    "hierarchical": hierarchical_all_reduce(2, 2),
}


class EmulatedPorts(PointToPoint):
    """Messages between nodes wait for a port; `crossed` counts the bytes that this rank sent."""

    def __init__(self, group, folder: str, ports: int):
        super().__init__(group)
        node, gpu = divmod(self.rank, 2)
        self.lock, self.crossed = f"{folder}/node-{node}-port-{gpu % ports}", 0

    def isend(self, buffer, dst: int):
        if dst // 2 != self.rank // 2:
            self.crossed += buffer.nbytes
            alpha, beta = NIC
            with held(self.lock):
                time.sleep(alpha + buffer.nbytes / beta)
        return super().isend(buffer, dst)


@contextmanager
def held(path: str):
    """Only one process at a time; the operating system opens the lock when a process ends."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def all_reduces(schedules, folder, ports, count):
    """On each rank: the seconds of every repetition, and the bytes that it sent across."""
    import torch
    import torch.distributed as dist

    rank, times, crossed = dist.get_rank(), {name: [] for name in schedules}, {}
    for _ in range(count + 1):
        for name, schedule in schedules.items():
            tensor = torch.full((SIZE // 4,), float(rank + 1))
            wire = EmulatedPorts(dist.group.WORLD, folder, ports)
            dist.barrier()
            start = time.perf_counter()
            execute(schedule, tensor, transport=wire)
            times[name].append(time.perf_counter() - start)
            crossed[name] = wire.crossed
            if not (tensor == 10).all():
                raise ArithmeticError(f"{name}: rank {rank} has a wrong sum")
    return {name: series[1:] for name, series in times.items()}, crossed


def measure_two_nodes() -> None:
    samples, bytes_out = {}, {}
    with launch(2) as pair:
        first, _ = pair.run(ping_pong, PING_PONG_SIZES, 15)
    for n, series in slowest([first]).items():
        samples[f"ping-pong {size_label(n)}"] = series
    for ports in (1, 2):
        with tempfile.TemporaryDirectory() as folder, launch(4) as ranks:
            results = ranks.run(all_reduces, SCHEDULES, folder, ports, REPETITIONS)
        for name, series in slowest([times for times, _ in results]).items():
            samples[f"{name}, ports {ports}"] = series
            bytes_out[name] = sum(crossed[name] for _, crossed in results[:2])
    recordings.save(
        NAME,
        samples,
        unit="s",
        ranks=4,
        bytes=SIZE,
        alpha=NIC[0],
        beta=NIC[1],
        sizes=PING_PONG_SIZES,
        bytes_out_of_a_node=bytes_out,
    )
