"""What connects the ranks, and how long one round of messages takes on it.

A topology has ``P`` ranks and ``round_time(round, chunk_bytes)``: the seconds that a `Round` takes
when a chunk has ``chunk_bytes`` bytes. Anything that offers both can be passed to `schedule_time`.
With ``ports(send)`` besides, the ports that a message occupies, `timeline` shows who waits for
whom. Machines with a fast network in every node and a slower one between are `Nodes`.
``alpha`` is the latency of a message in seconds, ``beta`` a bandwidth in bytes/s. Sizes and times
may be ints, floats or Fractions, and sizes arrays.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from dtlib.collectives.schedule import Round
from dtlib.formulas.poly import maximum


@dataclass(frozen=True)
class Switch:
    """Every rank has one full-duplex port to a switch that never is the bottleneck.

    A port sends one message at a time and, independently, receives one at a time; each costs
    ``alpha`` plus its bytes over ``beta``, the bandwidth of a port in one direction. A round lasts
    as long as its busiest port needs. This is the one-port alpha-beta model.

    >>> from dtlib.collectives import Send
    >>> switch = Switch(P=4, alpha=5e-6, beta=50e9)
    >>> exchange = Round.of([Send(0, 1, chunk=0), Send(1, 0, chunk=1)])
    >>> switch.round_time(exchange, chunk_bytes=1_000_000)
    2.5e-05
    """

    P: int
    alpha: float
    beta: float

    def __post_init__(self):
        _check_machine(self)

    def round_time(self, round: Round, chunk_bytes):
        times = (
            busiest_port_time(ports, round.count, self.alpha, self.beta, chunk_bytes)
            for ports in (round.src, round.dst)
        )
        return reduce(maximum, times)


def busiest_port_time(ports: np.ndarray, count: np.ndarray, alpha, beta, chunk_bytes):
    """Seconds until the slowest port is through with its messages, one after the other.

    Equation: the largest of ``messages alpha + chunks chunk_bytes / beta`` over the ports.
    Arguments: for every message its ``ports`` and ``count``, in chunks; ``chunk_bytes``, a number
    or an array of them. Returns seconds. Raises ValueError when there is no message.

    >>> busiest_port_time(np.array([0, 0, 7]), np.array([1, 1, 5]), 1, 1, np.array([0, 10]))
    array([ 2., 51.])
    """
    messages, size = np.bincount(ports), int(count[0])
    if (count == size).all():
        most = int(messages.max())
        return most * alpha + most * size * chunk_bytes / beta
    chunks = np.bincount(ports, count)
    occurring = np.flatnonzero(np.bincount(messages)).tolist()
    loads = {k: int(chunks[messages == k].max()) for k in occurring if k}
    return reduce(maximum, (k * alpha + load * chunk_bytes / beta for k, load in loads.items()))


@dataclass(frozen=True)
class SharedHost:
    """All ranks are processes of one machine, whose ``cores`` carry every message through memory.

    A message is ``alpha`` seconds plus its bytes over ``beta`` of work for a core, half of it for
    the sender and half for the receiver, which may run at once. The cores share the work of a round
    evenly: it lasts as long as they need for all of it, or for the largest message if that is
    longer. Here the total traffic counts, not the busiest rank, and so the few messages of a tree
    beat the many of a ring as long as they are small.

    >>> from dtlib.collectives import Send
    >>> host = SharedHost(P=4, alpha=100e-6, beta=1e9, cores=2)
    >>> pairs = Round.of([Send(0, 1, 0), Send(1, 0, 0), Send(2, 3, 0), Send(3, 2, 0)])
    >>> round(host.round_time(pairs, chunk_bytes=1_000_000), 6)
    0.0022
    """

    P: int
    alpha: float
    beta: float
    cores: int

    def __post_init__(self):
        _check_machine(self)
        if self.cores < 1:
            raise ValueError(f"cores must be at least 1; got cores = {self.cores}")

    def round_time(self, round: Round, chunk_bytes):
        messages = self._share(len(round), 1)
        load = self._share(int(round.count.sum()), int(round.count.max()))
        return messages * self.alpha + load * chunk_bytes / self.beta

    def _share(self, total: int, largest: int):
        """What the busiest core has to do of a round's work, whole where it comes out even."""
        work, cores = max((total, self.cores), (largest, 2), key=lambda each: each[0] / each[1])
        return work // cores if work % cores == 0 else work / cores


def _check_machine(machine: Switch | SharedHost) -> None:
    if machine.P < 1:
        raise ValueError(f"P must be at least 1; got P = {machine.P}")
    if machine.alpha < 0:
        raise ValueError(f"alpha must not be negative; got alpha = {machine.alpha}")
    if machine.beta <= 0:
        raise ValueError(f"beta must be positive; got beta = {machine.beta}")
