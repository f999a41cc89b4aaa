"""Levels inside levels: what crosses a boundary, what that costs, and who should cross it.

The nouns, from small to large:

- **Level**: a container of ranks and the boundary around it: a GPU (one rank), a node, a pod. Out
  of it go `uplink` bytes/s in one direction.
- **Axis**: one dimension of the mesh of ranks, with the bytes that each rank passes on to its
  neighbour along it in one step.
- **AxisOrder**: the axes in an order, innermost first. Ranks are numbered along the first axis,
  then along the second, and so on; a container holds consecutive ranks.

Along an axis ranks are neighbours in a chain or a ring. Where `members` of them share a container,
one of their links leaves it, not all: that is why the order decides what an axis costs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations
from operator import mul

from dtlib.errors import DtlibError
from dtlib.formulas.units import format_quantity
from dtlib.machines.machine import Node
from dtlib.machines.traffic import boundary_time
from dtlib.mesh import Mesh


class AxisOrderError(DtlibError, ValueError):
    """Axes that do not fit into the levels, or an axis that leaves a container it should not."""


@dataclass(frozen=True)
class Level:
    """A container of `ranks` ranks; `uplink` bytes/s leave it, in one direction.

    `alpha` is the latency of a message that leaves it, in seconds.
    Raises ValueError for a count or a bandwidth that is not positive, or a negative latency.

    >>> Level("node", ranks=8, uplink=400e9).share
    50000000000.0
    """

    name: str
    ranks: int
    uplink: float
    alpha: float = 0.0

    def __post_init__(self):
        for field, allowed, good in (
            ("ranks", "a whole number of at least 1", self.ranks == int(self.ranks) >= 1),
            ("uplink", "a positive number of bytes/s", 0 < self.uplink < math.inf),
            ("alpha", "a number of seconds that is not negative", 0 <= self.alpha < math.inf),
        ):
            if not good:
                value = getattr(self, field)
                raise ValueError(
                    f"Level {self.name!r}: {field} is {value!r}, but must be {allowed}"
                )

    @property
    def share(self) -> float:
        """Bytes/s that every rank has to itself when all of them send out of the container."""
        return self.uplink / self.ranks


def cluster_levels(node: Node, pod_nodes: int | None = None, taper: float = 1):
    """The levels of a cluster of equal nodes: GPU, node and, with `pod_nodes`, pod.

    A network port belongs to each of `node.nics`; out of a pod goes 1/`taper` of what its nodes can
    send. Arguments: `node`; `pod_nodes`, nodes in one pod; `taper`, at least 1. Returns Levels,
    innermost first. Raises ValueError for a taper below 1 and as `Level` does.

    >>> from dtlib.foundations import catalog
    >>> [level.name for level in cluster_levels(catalog["dgx-h100"], pod_nodes=8, taper=7)]
    ['GPU', 'node', 'pod']
    """
    if taper < 1:
        raise ValueError(
            f"taper is {taper!r}, but must be at least 1: a boundary adds no bandwidth"
        )
    levels = [
        Level("GPU", 1, node.link.beta, node.link.alpha),
        Level("node", node.gpus, node.network_bandwidth, node.nic.alpha),
    ]
    if pod_nodes is not None:
        uplink = pod_nodes * node.network_bandwidth / taper
        levels.append(Level("pod", pod_nodes * node.gpus, uplink, node.nic.alpha))
    return tuple(levels)


@dataclass(frozen=True)
class Axis:
    """One dimension of the mesh: `size` ranks, each of which passes `traffic` bytes on in a step.

    `messages` is the number of messages that wait for one another in one step.
    Raises ValueError for a size below 1 or a negative amount.
    """

    name: str
    size: int
    traffic: float
    messages: int = 0

    def __post_init__(self):
        for field, least in (("size", 1), ("traffic", 0), ("messages", 0)):
            value = getattr(self, field)
            if not value >= least:
                raise ValueError(
                    f"Axis {self.name!r}: {field} is {value!r}, but must be at least {least}"
                )


@dataclass(frozen=True)
class AxisOrder:
    """Axes in an order, innermost first, on levels that lie inside one another.

    Arguments: `levels`, Levels from the smallest to the largest; `axes`, Axis objects of different
    names. Raises AxisOrderError when a container would hold a part of a group that others do not,
    and ValueError for levels out of order or two axes of one name.

    >>> node = Level("node", ranks=4, uplink=100e9), Level("pod", ranks=8, uplink=50e9)
    >>> place = AxisOrder(node, (Axis("a", 4, 1e9), Axis("b", 4, 1e9)))
    >>> place.members("a", "node"), place.members("b", "node"), place.members("b", "pod")
    (4, 1, 2)
    >>> place.axis_time("a"), place.axis_time("b")
    (0.0, 0.08)
    """

    levels: Sequence[Level]
    axes: Sequence[Axis]

    def __post_init__(self):
        object.__setattr__(self, "levels", tuple(self.levels))
        object.__setattr__(self, "axes", tuple(self.axes))
        sizes = [level.ranks for level in self.levels]
        if sizes != sorted(sizes):
            raise ValueError(f"levels must go from the smallest to the largest, got {sizes} ranks")
        if len({axis.name for axis in self.axes}) < len(self.axes):
            raise ValueError(f"two axes have one name: {', '.join(a.name for a in self.axes)}")
        for level in self.levels:
            self._check_fits(level)

    def _check_fits(self, level: Level) -> None:
        for axis in self.axes:
            stride, end = self.stride(axis.name), self.stride(axis.name) * axis.size
            if stride < level.ranks < end and (level.ranks % stride or end % level.ranks):
                raise AxisOrderError(
                    f"a {level.name} of {level.ranks} ranks cuts the axis {axis.name} of "
                    f"{axis.size} ranks, {stride} apart, into unequal parts"
                )

    @property
    def ranks(self) -> int:
        """Ranks of the whole mesh."""
        return self.mesh.size

    def axis(self, name: str) -> Axis:
        """The axis of that name. Raises KeyError, which lists the axes."""
        return _named(self.axes, name)

    def stride(self, name: str) -> int:
        """How far apart in rank number two neighbours along the axis are."""
        strides = accumulate((axis.size for axis in self.axes), mul, initial=1)
        return dict(zip((axis.name for axis in self.axes), strides, strict=False))[name]

    @property
    def mesh(self) -> Mesh:
        """The ranks in this order as a mesh, which names the outermost axis first."""
        return Mesh.of(**{axis.name: axis.size for axis in reversed(self.axes)})

    def group(self, name: str, rank: int = 0) -> list[int]:
        """The ranks that share an axis with `rank`, in the order of the axis."""
        return self.mesh.groups_of(rank)[name]

    def members(self, name: str, level: str) -> int:
        """How many ranks of one group share a container of the level."""
        inside = _named(self.levels, level).ranks // self.stride(name)
        return min(max(inside, 1), self.axis(name).size)

    def crosses(self, name: str, level: str) -> bool:
        """Whether a group along the axis leaves its container of the level."""
        return self.members(name, level) < self.axis(name).size

    def load(self, name: str, level: str) -> float:
        """Bytes of the axis that leave one container of the level in a step, in one direction."""
        groups = _named(self.levels, level).ranks / self.members(name, level)
        return groups * self.axis(name).traffic if self.crosses(name, level) else 0.0

    def axis_time(self, name: str) -> float:
        """Seconds that the axis communicates in a step: its busiest boundary, and its latencies."""
        axis = self.axis(name)
        crossed = [level for level in self.levels if self.crosses(name, level.name)]
        times = (
            boundary_time(axis.traffic, self.members(name, level.name), level.ranks, level.uplink)
            for level in crossed
        )
        waits = axis.messages * max((level.alpha for level in crossed), default=0.0)
        return max(times, default=0.0) + waits

    @property
    def time(self) -> float:
        """Seconds of communication in a step when the axes take turns."""
        return sum(self.axis_time(axis.name) for axis in self.axes)

    @property
    def order(self) -> str:
        """The names of the axes, innermost first."""
        return ", ".join(axis.name for axis in self.axes)

    def __repr__(self) -> str:
        return f"AxisOrder({self.order}: {format_quantity(self.time, 's', 3)} in a step)"


def _named(things: Sequence, name: str):
    for thing in things:
        if thing.name == name:
            return thing
    raise KeyError(f"no {name!r}; there are {', '.join(thing.name for thing in things)}")


def axis_orders(levels: Sequence[Level], axes: Sequence[Axis]) -> list[AxisOrder]:
    """Every order of the axes that fits into the levels, fastest first.

    Raises AxisOrderError, that of the given order, when none fits.

    >>> levels = Level("GPU", 1, 450e9), Level("node", 8, 400e9)
    >>> axes = Axis("pipeline", 8, 4e9), Axis("tensor", 8, 150e9)
    >>> [place.order for place in axis_orders(levels, axes)]
    ['tensor, pipeline', 'pipeline, tensor']
    """
    fitting = []
    for order in permutations(axes):
        try:
            fitting.append(AxisOrder(levels, order))
        except AxisOrderError:
            continue
    if not fitting:
        AxisOrder(levels, axes)
    return sorted(fitting, key=lambda place: place.time)


def best_axis_order(levels: Sequence[Level], axes: Sequence[Axis]) -> AxisOrder:
    """The order of the axes that communicates least: all of them are tried."""
    return axis_orders(levels, axes)[0]


def check_inside(order: AxisOrder, axis: str, level: str) -> None:
    """Pass when no group along the axis leaves its container of the level.

    Raises AxisOrderError, which names the first ranks of one group that lie apart.

    >>> levels = Level("GPU", 1, 450e9), Level("node", 8, 400e9)
    >>> axes = Axis("data", 2, 4e9), Axis("tensor", 8, 150e9)
    >>> check_inside(AxisOrder(levels, axes), "tensor", "node")
    Traceback (most recent call last):
    ...
    dtlib.machines.axis_order.AxisOrderError: axis tensor leaves the node: of its 8 ranks 0, 2, \
4, 6, 8, ... only 4 share one
    """
    if not order.crosses(axis, level):
        return
    group, members = order.group(axis), order.members(axis, level)
    shown = ", ".join(map(str, group[:5])) + (", ..." if len(group) > 5 else "")
    inside = "no two" if members == 1 else f"only {members}"
    raise AxisOrderError(
        f"axis {axis} leaves the {level}: of its {len(group)} ranks {shown} {inside} share one"
    )


def nested_read_time(size, memories):
    """The mean time of one read at a random place in `size` bytes, on levels inside one another.

    Equation: the latency of every level, weighted with the share of the bytes that lie there.
    Arguments: `size`, bytes that are in use; `memories`, pairs (capacity in bytes, latency in
    seconds), nearest first, each holding what the one before it holds and more; the last holds
    everything, so that its capacity does not matter. Returns seconds.
    Raises ValueError for a size that is not positive.
    Source: the average memory access time of any cache, with one level inside another.

    >>> caches = [(1000, 1.0), (3000, 5.0), (0, 100.0)]
    >>> nested_read_time(500, caches), nested_read_time(2000, caches)
    (1.0, 3.0)
    """
    if not size > 0:
        raise ValueError(f"size is {size!r}, but must be a positive number of bytes")
    *caches, (_, last) = memories
    seconds, held = 0.0, 0.0
    for capacity, latency in caches:
        here = max(0.0, min(capacity, size) - held)
        seconds, held = seconds + here * latency, held + here
    return (seconds + (size - held) * last) / size
