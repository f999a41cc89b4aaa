"""The exercises of chapter 3, The memory and links of a cluster, in the order of its page."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, items, real
from dtlib.exercises.verdict import NotYet

# fmt: off
GB = 10**9


def _seen(ranks: int, beta: float) -> float:
    return beta * ranks / (2 * (ranks - 1))


def _ring(name: str, ranks: int, beta: float, slips: dict[float, str]) -> Asked:
    right = _seen(ranks, beta)
    return Asked(name, right, "bytes/s", {
        2 * right: "a factor of 2 slipped in: one direction, and both phases of the ring",
        beta: "that is what is on the wire; the buffer is sent almost twice",
        right / GB: "in bytes/s, please", **slips})


three_rings = Numbers(
    "ex-three-rings",
    About("Three rings, three bandwidths", "compute", 1, 8,
          "tell what is on the wire from what its user sees", ("x3.1",)),
    [
        _ring("one_node", 8, 450 * GB, {}),
        _ring("end_to_end", 32, 400 * GB, {
              _seen(32, 450 * GB): "the GPU's own link is not the only wall: which is lower?",
              _seen(32, 50 * GB): "a node has eight ports, and the ring leaves it once",
              33.3 * GB: "a node has eight ports, not one"}),
        _ring("every_hop", 32, 50 * GB, {
              _seen(32, 400 * GB): "eight hops leave every node, through eight ports"}),
    ],
    "three rings, each as fast as the wall that limits it", keyed=True,
)


def _sums(name: str, count: int, beta: float) -> Asked:
    buffers = count * 32 * 2048 * 8192 * 2 / beta
    right = 1.75 * buffers
    return Asked(name, right, "s", {
        buffers: "a ring sends almost twice the buffer",
        2 * buffers: "with eight ranks a ring sends a little less than twice",
        right / 2: f"half of it: {count} all-reduces, and bandwidth in one direction",
        right * 1000: "in seconds, please"})


one_layers_sums = Numbers(
    "ex-one-layers-sums",
    About("One layer's sums", "compute", 1, 6,
          "price a layer's all-reduces inside and across nodes", ("x3.2",)),
    [_sums("(a)", 2, 450 * GB), _sums("(b)", 2, 50 * GB), _sums("(c)", 4, 450 * GB)],
    "the forward pass inside and across, and the whole layer",
)

_LINES = 690 / 1.98e9 * 3350 * GB / 132 / 128

bytes_under_way = Numbers(
    "ex-bytes-under-way",
    About("Bytes under way", "compute", 1, 5, "turn latency and bandwidth into requests in flight"),
    [
        Asked("lines", _LINES, "", {
              _LINES * 132: "that is the whole GPU; for each multiprocessor, please",
              _LINES * 128: "those are bytes; a line has 128 of them",
              _LINES * 132 * 128: "those are the bytes of the whole GPU"}, tolerance=0.02),
        Asked("share", 16 / _LINES, "", {1600 / _LINES: "as a share of 1, please",
              _LINES / 16: "the other way round"}, tolerance=0.03),
    ],
    "what must be under way, and what happens when it is not",
)

_BOTH = "the sheet counts both directions"


def _entry(name: str, gigabytes: float, slips: dict[float, str]) -> Asked:
    slips = {wrong * GB: hint for wrong, hint in slips.items()}
    return Asked(name, gigabytes * GB, "bytes/s",
                 {**slips, gigabytes: "in bytes/s, please"}, tolerance=0.02)


repair_data_sheet = Numbers(
    "ex-repair-data-sheet",
    About("A data sheet of data sheets", "repair", 2, 10,
          "bring data sheets to one direction and to bytes"),
    [
        _entry("nvlink5", 900, {1800: _BOTH}),
        _entry("pcie5-x16", 64, {32: "that is the generation before", 128: _BOTH}),
        _entry("ib-xdr800", 100, {
               50: "a port is sold in one direction already", 800: "still in bits"}),
        _entry("h100-hbm", 3350, {1675: "memory is read and written over the same wires"}),
        _entry("ddr5-socket", 307.2, {
               38.4: "a transfer has 8 bytes, and this is one channel of eight"}),
        _entry("nvme-gen4", 6.5, {6.5 / 8: "these are bytes already"}),
    ],
    "six figures that may be compared with each other", keyed=True,
)


def _busiest_wall(ring: list, node_of: list, v: float, *, ends=1, closed=True, busiest=max):
    hops = [*zip(ring, ring[1:] + ring[:1], strict=True)][: None if closed else -1]
    crossing = [hop for hop in hops if node_of[hop[0]] != node_of[hop[1]]]
    sent = Counter(node_of[rank] for hop in crossing for rank in hop[:ends])
    return busiest([*sent.values(), 0]) * v


def _rings() -> Iterator[tuple[str, tuple]]:
    rings = [([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]), ([0, 2, 1, 3], [0, 0, 1, 1]),
             ([1, 0, 2], [5, 5, 5])]
    draw = random.Random(3)
    for _ in range(20):
        ranks = draw.randint(2, 12)
        ring = draw.sample(range(ranks), ranks)
        rings.append((ring, [draw.randrange(draw.randint(1, 4)) for _ in ring]))
    for ring, node_of in rings:
        yield f"ring {ring} with nodes {node_of}", (ring, node_of, 7 * GB)


def _same_bytes(given: Any, right: float, *args: Any) -> None:
    given = real(given, "the returned value", "bytes")
    if given > right + 1:
        raise NotYet("too many bytes leave a node" if right else
                     "all ranks are in one node, so nothing leaves it")
    if given < right - 1:
        raise NotYet("too few bytes leave a node")


busiest_wall = Function(
    "ex-busiest-wall",
    About("The busiest wall", "derive", 2, 15, "count what a ring sends out of a node"),
    "busiest_wall(ring, node_of, v)", _busiest_wall, _rings, _same_bytes,
    "23 rings, some of nodes of different sizes",
    {
        "that is what leaves all nodes together": {"busiest": sum},
        "what arrives is counted too; in one direction, please": {"ends": 2},
        "the last rank of a ring sends to the first": {"closed": False},
    },
)


def _dealt_law(answer: Callable) -> None:
    function(answer, "tensor_group(rank, t, nodes, gpus)")
    for t, nodes, gpus in ((4, 8, 8), (8, 8, 8), (2, 3, 4), (8, 5, 16), (1, 2, 2)):
        where, world = f"t = {t}, {nodes} nodes of {gpus}", nodes * gpus
        groups = {}
        for rank in range(world):
            group = items(call(answer, rank, t, nodes, gpus), f"{where}: the group of a rank", t)
            group = [int(real(member, f"{where}: a rank of a group")) for member in group]
            if rank not in group:
                raise NotYet(f"{where}: rank {rank} is not in the group that it is given")
            if not all(0 <= member < world for member in group) or len(set(group)) < t:
                raise NotYet(f"{where}: the group of rank {rank} is not {t} different ranks")
            apart = len({member % nodes for member in group})
            if apart > 1:
                raise NotYet(f"{where}: the group of rank {rank} is spread over {apart} nodes")
            groups[rank] = set(group)
        for rank, group in groups.items():
            for other in group:
                if groups[other] != group:
                    raise NotYet(f"{where}: rank {other} is in the group of {rank}, "
                                 "but has another one")


def _tensor_group(rank: int, t: int, nodes: int, gpus: int) -> list[int]:
    seat, node = divmod(rank, nodes)
    return [(seat - seat % t + k) * nodes + node for k in range(t)]


repair_dealt_ranks = Made(
    "ex-repair-dealt-ranks",
    About("Dealt like cards", "repair", 2, 15, "keep groups at home whatever the launcher does"),
    _dealt_law, lambda: _tensor_group,
    "on 5 machines every group is at home, and every rank in one group",
    {
        "is spread over 4 nodes": lambda: lambda rank, t, nodes, gpus: [
            rank - rank % t + k for k in range(t)],
        "but has another one": lambda: lambda rank, t, nodes, gpus: [
            (rank // nodes + k) % gpus * nodes + rank % nodes for k in range(t)],
        "not 4 different ranks": lambda: lambda rank, t, nodes, gpus: [rank] * t,
        "is not in the group": lambda: lambda rank, t, nodes, gpus: [
            k * nodes for k in range(t)],
    },
)

pipeline_sum = Numbers(
    "ex-pipeline-sum",
    About("If the pipeline needed a sum", "derive", 2, 10, "tell bytes from meetings", ("x3.3",)),
    [
        Asked("(a)", 1.75, "", {2: "a ring of eight sends a little less than twice",
              7 / 8: "that is one phase", 3.5: "forward only"}),
        Asked("(b)", 14, "", {7: "that is one phase of two",
              16: "the last hop of a ring is not needed"}, 1e-6),
        Asked("(c)", 32, "", {64: "forward only", 32 * 14: "those are messages",
              1: "for each micro-batch one"}, 1e-6),
    ],
    "bytes, messages, and the meetings of all stages",
)


def _latency_at(read_time: Callable, size: int) -> float:
    return size * read_time(size) - (size - 1) * read_time(size - 1)


def _memories() -> Iterator[tuple[list, list]]:
    draw = random.Random(8)
    for _ in range(8):
        capacities = sorted(draw.sample(range(2_000, 5_000_000), 3))
        yield capacities, sorted(draw.uniform(1, 200) * 1e-9 for _ in range(4))


def _reads() -> Iterator[tuple[str, tuple]]:
    from dtlib.machines.axis_order import nested_read_time

    for capacities, latencies in _memories():
        levels = [*zip([*capacities, 0], latencies, strict=True)]
        for size in [1_000, *(2 * capacity for capacity in capacities)]:
            if any(0 <= capacity - size < 500 for capacity in capacities):
                continue
            level = sum(size > capacity for capacity in capacities) + 1
            where = f"with {size:,} bytes, of which the last lies in level {level}"
            yield where, (lambda size, levels=levels: nested_read_time(size, levels), size)


def _same_latency(given: Any, right: float, *args: Any) -> None:
    given = real(given, "the returned latency", "s")
    if math.isclose(given, right, rel_tol=0.02):
        return
    if abs(given) < right / 50:
        raise NotYet("how fast the mean changes is not yet a latency")
    raise NotYet(f"the latency is too {'large' if given > right else 'small'}")


deepest_byte = Function(
    "ex-deepest-byte",
    About("The deepest byte", "derive", 3, 20, "read a level's latency off a mean"),
    "latency_at(read_time, size)", _latency_at, _reads, _same_latency,
    "eight machines of four levels, and the latency of each of them",
    {"that is the mean; the bytes before it outvote the last one":
        lambda read_time, size: read_time(size)},
)


def _threshold(s: int, box: int, link: float, share: float) -> float:
    straddling = max(1 / link, s / (box * share))
    return (straddling - 1 / link) / (1 / share - 1 / link)


small_inside = Formula(
    "ex-small-inside",
    About("Small goes inside", "derive", 3, 20, "find the border at which a placement changes"),
    "threshold(s, box, link, share)", _threshold,
    lambda: [("", (s, box, link * GB, share * GB)) for s, box, link, share in (
        (2, 8, 450, 50), (4, 8, 450, 50), (2, 16, 300, 25), (8, 64, 900, 12.5), (2, 4, 450, 100),
        (2, 64, 100, 50))],
    same_number, "on six machines the small axis changes sides at that ratio",
    {
        "inside, the big axis is not free of charge either: compare with its own link":
            lambda s, box, link, share: s / (box * share) / (1 / share - 1 / link),
        "the ratio is upside down: small over big":
            lambda s, box, link, share: (1 / share - 1 / link) / (s / (box * share) - 1 / link),
        "with the big one wholly outside it would be 1: how many of it stay in the node?":
            lambda *machine: 1.0,
        "box / s members of the big axis stay in a node, not s":
            lambda s, box, link, share: (1 / (s * share) - 1 / link) / (1 / share - 1 / link),
        "where enough members stay inside, the GPU's own link binds the big axis":
            lambda s, box, link, share: (s / (box * share) - 1 / link) / (1 / share - 1 / link),
    },
)


def _seconds(order: Sequence[tuple], levels: Sequence[tuple]) -> float:
    total, stride = 0.0, 1
    for _, size, v in order:
        members = [min(max(ranks // stride, 1), size) for ranks, _ in levels]
        total += max((ranks / inside * v / uplink for inside, (ranks, uplink)
                      in zip(members, levels, strict=True) if inside < size), default=0.0)
        stride *= size
    return total


def _clusters() -> Iterator[tuple[list, list]]:
    """Axes and levels; the first is that of the page, the second refutes sorting by bytes."""
    dgx = [(1, 450 * GB), (8, 400 * GB)]
    yield ([("data", 8, 3.8 * GB), ("pipeline", 8, 4.3 * GB), ("tensor", 8, 150 * GB)],
           [*dgx, (64, 8 * 400 / 7 * GB)])
    yield [("big", 8, 10 * GB), ("small", 2, 9 * GB)], dgx
    draw = random.Random(10)
    for count in (2, 3, 3, 3, 4, 4, 4, 5, 5, 5):
        names = draw.sample(["ash", "birch", "cedar", "elm", "fir", "oak"], count)
        axes = [(name, 2 ** draw.randint(1, 4), draw.uniform(1, 100) * GB) for name in names]
        node, pod = 2 ** draw.randint(2, 5), 2 ** draw.randint(6, 8)
        share, taper = draw.choice([25, 50, 100]) * GB, draw.randint(1, 8)
        yield axes, [(1, 450 * GB), (node, node * share), (pod, pod * share / taper)]


def _orders() -> Iterator[tuple[str, tuple]]:
    for axes, levels in _clusters():
        sizes = ", ".join(f"{name} {size} ranks {v / GB:.1f} GB" for name, size, v in axes)
        yield f"{sizes}; walls at {', '.join(str(ranks) for ranks, _ in levels)} ranks", (
            axes, levels)


def _best_order(axes: list, levels: list) -> list[str]:
    return [axis[0] for axis in min(permutations(axes), key=lambda order: _seconds(order, levels))]


def _by_bytes(axes: list, levels: list) -> list[str]:
    return [name for name, _, _ in sorted(axes, key=lambda axis: -axis[2])]


def _as_fast(given: Any, right: list, axes: list, levels: list) -> None:
    named = {axis[0]: axis for axis in axes}
    given = items(given, "the order", len(axes))
    if sorted(map(str, given)) != sorted(named):
        raise NotYet(f"return each of the names {', '.join(named)} once, got {given!r}")
    time, best = (_seconds([named[name] for name in order], levels) for order in (given, right))
    if not math.isclose(time, best, rel_tol=1e-9):
        raise NotYet(f"another order is {time / best:.2f} times as fast")


design_placement = Function(
    "ex-design-placement",
    About("Design a placement", "design", 3, 30,
          "search for the placement that communicates least"),
    "best_order(axes, levels)", _best_order, _orders, _as_fast,
    "12 machines, 6 of which refute sorting by bytes",
    {
        "the heaviest inside is not always best: who can straddle a wall?": _by_bytes,
        "the names are asked from the inside outwards":
            lambda axes, levels: _best_order(axes, levels)[::-1],
    },
)
