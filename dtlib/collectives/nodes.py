"""Ranks in nodes: which ports a message uses, what each port carries, and how long a round takes.

The nouns, from small to large:

- **Place**: where a GPU is. Node ``k`` has the places ``k G ... k G + G - 1``; rank ``r`` runs at
  place ``order[r]``.
- **Port**: one direction of one connection: of a GPU to the others of its node, of a NIC to the
  network, of a pod to the other pods.
- **Rail**: the NIC that a rank uses, its index in the node modulo the number of NICs.
- **Pod**: neighbouring nodes whose network leads to the rest through one bundle of links.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from dtlib.collectives.cost.bounds import all_reduce_lower_bound_bytes
from dtlib.collectives.rounds import Round, Send
from dtlib.collectives.schedule import Schedule
from dtlib.collectives.topology import busiest_port_time
from dtlib.formulas.poly import maximum
from dtlib.machines.machine import Cluster


class Port(NamedTuple):
    """One direction of a connection: ``kind`` is "GPU", "NIC" or "pod", ``number`` counts them all.

    GPU and NIC are numbered through the cluster: with 4 NICs in a node, NIC 5 is in node 1.

    >>> print(Port("NIC", 5, "out"))
    NIC 5 out
    """

    kind: str
    number: int
    direction: str

    def __str__(self) -> str:
        return " ".join(map(str, self))


class Wire(NamedTuple):
    """What a message costs: ``alpha`` seconds plus its bytes over ``beta``, in one direction."""

    alpha: float
    beta: float


@dataclass(frozen=True)
class Nodes:
    """``nodes`` times ``ranks_per_node`` GPUs, with a fast network inside and a slower one between.

    A message inside a node uses the out port of its sender and the in port of its receiver there.
    A message to another node leaves through the NIC of its sender's rail and enters through the NIC
    of its receiver's, and pays for nothing else inside. A port has one message at a time, for
    ``alpha`` plus its bytes over ``beta``. Between pods messages share ``1 / taper`` of what the
    NICs of a pod can send, without turns. A round lasts as long as its slowest port.

    Arguments: ``nodes``, ``ranks_per_node``; ``inside``, the port of a GPU, and ``nic``, that of a
    NIC: a `Link` or a pair of alpha and beta; ``nics`` of a node, at most one for each rank;
    ``taper``, at least 1; ``pod_nodes``, nodes in a pod, of which ``nodes`` is a multiple;
    ``order``, the place of each rank (None: rank r at place r). Raises ValueError for others.

    >>> machine = Nodes(2, 2, inside=(1e-6, 450e9), nic=(2e-6, 50e9), nics=2)
    >>> over = Round.of([Send(1, 2, chunk=0), Send(3, 0, chunk=1)])
    >>> round(machine.round_time(over, chunk_bytes=1_000_000) * 1e6, 3)
    22.0
    >>> from dtlib.collectives import ring_all_reduce
    >>> machine.leaving(ring_all_reduce(4), n=8_000_000)
    [12000000, 12000000]
    >>> machine.ordered([0, 2, 1, 3]).leaving(ring_all_reduce(4), n=8_000_000)
    [24000000, 24000000]
    """

    nodes: int
    ranks_per_node: int
    inside: Wire
    nic: Wire
    nics: int = 1
    taper: float = 1
    pod_nodes: int = 1
    order: tuple[int, ...] | None = None

    def __post_init__(self):
        for field in ("inside", "nic"):
            object.__setattr__(self, field, _wire(field, getattr(self, field)))
        for field in ("nodes", "ranks_per_node", "nics", "pod_nodes", "taper"):
            if not getattr(self, field) >= 1:
                _refuse(self, field, "be at least 1")
        if self.nics > self.ranks_per_node:
            _refuse(self, "nics", "not exceed ranks_per_node, because a rank uses one NIC")
        if self.nodes % self.pod_nodes:
            _refuse(self, "pod_nodes", f"divide nodes = {self.nodes}")
        if self.order is not None:
            object.__setattr__(self, "order", tuple(np.asarray(self.order).tolist()))
            if sorted(self.order) != list(range(self.P)):
                _refuse(self, "order", f"have each of the places 0..{self.P - 1} once")

    @classmethod
    def of(cls, cluster: Cluster, **changes) -> "Nodes":
        """The nodes of a `Cluster`, one rank on each GPU; ``changes`` as for `Nodes`.

        >>> from dtlib.foundations import Cluster, catalog
        >>> dgx = Nodes.of(Cluster(catalog["dgx-h100"], nodes=32), pod_nodes=8, taper=2)
        >>> dgx.P, dgx.nics, dgx.nic.beta
        (256, 8, 50000000000)
        """
        node = cluster.node
        known = {"inside": node.link, "nic": node.nic, "nics": node.nics}
        return cls(cluster.nodes, node.gpus, **known | changes)

    def ordered(self, order: Sequence[int] | None) -> "Nodes":
        """The same machine with its ranks at other places."""
        return replace(self, order=order)

    @property
    def P(self) -> int:
        """Ranks of the whole machine."""
        return self.nodes * self.ranks_per_node

    @property
    def pods(self) -> int:
        """Pods of the whole machine."""
        return self.nodes // self.pod_nodes

    @property
    def wires(self) -> dict[str, Wire]:
        """What a message costs at a port of each kind; at that of a pod only its bytes count."""
        uplink = self.pod_nodes * self.nics * self.nic.beta / self.taper
        return {"GPU": self.inside, "NIC": self.nic, "pod": Wire(0, uplink)}

    def round_time(self, round: Round, chunk_bytes):
        """Seconds that a round takes when a chunk has ``chunk_bytes`` bytes."""
        times = (
            busiest_port_time(ports, count, *self.wires[kind], chunk_bytes)
            for kind, _, ports, count in self._crossings(round)
        )
        return reduce(maximum, times)

    def link_loads(self, round: Round) -> dict[Port, int]:
        """How many chunks go through each port in a round; ports without any are left out."""
        return {
            Port(kind, number, direction): chunks
            for kind, direction, ports, count in self._crossings(round)
            for number, chunks in enumerate(np.bincount(ports, count).astype(int).tolist())
            if chunks
        }

    def edge_loads(self, schedule: Schedule, n) -> dict[Port, int | Fraction]:
        """Bytes through each port in a whole schedule, ``n`` of them a rank's message; exact.

        >>> from dtlib.collectives import ring_all_reduce
        >>> machine = Nodes(2, 2, inside=(1e-6, 450e9), nic=(2e-6, 50e9))
        >>> loads = machine.edge_loads(ring_all_reduce(4), n=1000)
        >>> [f"{port}: {load}" for port, load in loads.items() if port.kind == "NIC"]
        ['NIC 0 in: 1500', 'NIC 0 out: 1500', 'NIC 1 in: 1500', 'NIC 1 out: 1500']
        """
        chunks = defaultdict(int)
        for run in schedule.rounds.runs:
            for port, load in self.link_loads(run[0]).items():
                chunks[port] += len(run) * load
        return {
            port: _whole(Fraction(n) * chunks[port] / schedule.parts) for port in sorted(chunks)
        }

    def leaving(self, schedule: Schedule, n) -> list[int | Fraction]:
        """Bytes that leave each node in a whole schedule, through all of its NICs; exact."""
        out = [0] * self.nodes
        for port, load in self.edge_loads(schedule, n).items():
            if port.kind == "NIC" and port.direction == "out":
                out[port.number // self.nics] += load
        return [_whole(Fraction(load)) for load in out]

    def cut_bound(self, n):
        """Bytes that the busiest node must send, and must receive, in any all-reduce.

        Equation: 2(N - 1)/N n for N nodes. What ranks of one node tell each other is free here, so
        a node is like one rank, and the bound is `all_reduce_lower_bound_bytes` of N ranks. Exact
        for whole numbers and Fractions.

        >>> machine = Nodes(32, 8, inside=(1e-6, 450e9), nic=(2e-6, 50e9))
        >>> machine.cut_bound(1600)
        3100
        """
        exact = isinstance(n, int | Fraction)
        bound = _all_reduce_bound(Fraction(n) if exact else n, self.nodes)
        return _whole(bound) if exact else bound

    def cut_bound_time(self, n):
        """Seconds that no all-reduce undercuts: the busiest node through its NICs, or pod out."""
        walls = (self.nodes, self.nics * self.nic.beta), (self.pods, self.wires["pod"].beta)
        return reduce(maximum, (_all_reduce_bound(n, N) / beta for N, beta in walls))

    def ports(self, send: Send) -> tuple[Port, Port]:
        """The two ports that a message occupies: one to leave through, one to enter through."""
        crossings = self._crossings(Round.of([send]))
        return tuple(
            Port(kind, int(ports[0]), direction)
            for kind, direction, ports, _ in crossings
            if kind != "pod"
        )

    @cached_property
    def _ports_of_ranks(self) -> dict[str, np.ndarray]:
        """For each rank the number of its node, and of the port of each kind that it uses."""
        place = np.arange(self.P) if self.order is None else np.array(self.order)
        node, index = np.divmod(place, self.ranks_per_node)
        rail = node * self.nics + index % self.nics
        return {"node": node, "GPU": place, "NIC": rail, "pod": node // self.pod_nodes}

    def _crossings(self, round: Round) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
        """By kind and direction: the port of each message that uses such a one, and its chunks."""
        of = self._ports_of_ranks
        away = of["node"][round.src] != of["node"][round.dst]
        far = of["pod"][round.src] != of["pod"][round.dst]
        for kind, uses in (("GPU", ~away), ("NIC", away), ("pod", far)):
            if uses.any():
                those = slice(None) if uses.all() else uses  # a slice copies nothing
                yield kind, "out", of[kind][round.src[those]], round.count[those]
                yield kind, "in", of[kind][round.dst[those]], round.count[those]


def _wire(field: str, given) -> Wire:
    """A pair of alpha and beta, or a link that has both, as a `Wire`."""
    alpha, beta = given if isinstance(given, tuple) else (given.alpha, given.beta)
    if alpha < 0 or beta <= 0:
        raise ValueError(
            f"{field} must have alpha >= 0 and beta > 0; got alpha = {alpha}, beta = {beta}"
        )
    return Wire(alpha, beta)


def _all_reduce_bound(n, ranks: int):
    return all_reduce_lower_bound_bytes(n, Fraction(ranks) if isinstance(n, Fraction) else ranks)


def _refuse(machine: Nodes, field: str, rule: str) -> None:
    raise ValueError(f"{field} must {rule}; got {field} = {getattr(machine, field)}")


def _whole(number: Fraction) -> int | Fraction:
    return int(number) if number.denominator == 1 else number


def round_robin(nodes: int, ranks_per_node: int) -> list[int]:
    """The order in which a launcher deals ranks to nodes like cards: rank r to node r mod nodes.

    >>> round_robin(nodes=2, ranks_per_node=4)
    [0, 4, 1, 5, 2, 6, 3, 7]
    """
    return [r % nodes * ranks_per_node + r // nodes for r in range(nodes * ranks_per_node)]
