"""Graders of chapter 3, The memory and links of a cluster."""

import math
import random
from collections.abc import Sequence
from itertools import permutations
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, formula, function, items, number, real
from dtlib.exercises.verdict import NotYet

GB, TB, ms = 10**9, 10**12, 1e-3


def _keys(answer: Any, names: Sequence[str]) -> dict:
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    return answer


@grader("ex-three-rings")
def three_rings(answer: Any) -> str:
    def seen(ranks: int, beta: float) -> float:
        return beta * ranks / (2 * (ranks - 1))

    walls = {"one_node": (8, 450 * GB), "end_to_end": (32, 400 * GB), "every_hop": (32, 50 * GB)}
    given = _keys(answer, list(walls))
    for name, (ranks, beta) in walls.items():
        right = seen(ranks, beta)
        mistakes = {
            2 * right: "a factor of 2 slipped in: one direction, and both phases of the ring",
            beta: "that is what is on the wire; the buffer is sent almost twice",
            right / GB: "in bytes/s, please",
        }
        if name == "end_to_end":
            mistakes[seen(32, 450 * GB)] = (
                "the GPU's own link is not the only wall: which is lower?"
            )
            mistakes[seen(32, 50 * GB)] = "a node has eight ports, and the ring leaves it once"
            mistakes[33.3 * GB] = "a node has eight ports, not one"
        if name == "every_hop":
            mistakes[seen(32, 400 * GB)] = "eight hops leave every node, through eight ports"
        number(given[name], right, name, "bytes/s", mistakes=mistakes)
    return "three rings, each as fast as the wall that limits it"


@grader("ex-one-layers-sums")
def one_layers_sums(answer: Any) -> str:
    buffer = 32 * 2048 * 8192 * 2

    def seconds(count: int, beta: float, share: float = 2 * 7 / 8) -> float:
        return count * share * buffer / beta

    a, b, c = items(answer, "(a, b, c)", 3)
    for what, value, count, beta in (
        ("(a)", a, 2, 450 * GB),
        ("(b)", b, 2, 50 * GB),
        ("(c)", c, 4, 450 * GB),
    ):
        right = seconds(count, beta)
        mistakes = {
            seconds(count, beta, 1): "a ring sends almost twice the buffer",
            seconds(count, beta, 2): "with eight ranks a ring sends a little less than twice",
            right / 2: f"half of it: {count} all-reduces, and bandwidth in one direction",
            right / ms: "in seconds, please",
        }
        number(value, right, what, "s", mistakes=mistakes)
    return "the forward pass inside and across, and the whole layer"


@grader("ex-bytes-under-way")
def bytes_under_way(answer: Any) -> str:
    lines, share = items(answer, "(lines, share)", 2)
    right = 690 / 1.98e9 * 3.35 * TB / 132 / 128
    mistakes = {
        right * 132: "that is the whole GPU; for each multiprocessor, please",
        right * 128: "those are bytes; a line has 128 of them",
        right * 132 * 128: "those are the bytes of the whole GPU",
    }
    number(lines, right, "lines", tolerance=0.02, mistakes=mistakes)
    mistakes = {100 * 16 / right: "as a share of 1, please", right / 16: "the other way round"}
    number(share, 16 / right, "share", tolerance=0.03, mistakes=mistakes)
    return "what must be under way, and what happens when it is not"


@grader("ex-repair-data-sheet")
def repair_data_sheet(answer: Any) -> str:
    both = "the sheet counts both directions"
    sheet = {
        "nvlink5": (900 * GB, {1.8 * TB: both}),
        "pcie5-x16": (
            64 * GB,
            {32 * GB: "that is the generation before", 128 * GB: both},
        ),
        "ib-xdr800": (
            100 * GB,
            {50 * GB: "a port is sold in one direction already", 800 * GB: "still in bits"},
        ),
        "h100-hbm": (3.35 * TB, {1.675 * TB: "memory is read and written over the same wires"}),
        "ddr5-socket": (
            8 * 4.8e9 * 8,
            {4.8e9 * 8: "one channel of eight", 8 * 4.8e9: "a transfer has 8 bytes"},
        ),
        "nvme-gen4": (6.5 * GB, {6.5 * GB / 8: "these are bytes already"}),
    }
    given = _keys(answer, list(sheet))
    for name, (right, mistakes) in sheet.items():
        mistakes |= {right / GB: "in bytes/s, please"}
        number(given[name], right, name, "bytes/s", tolerance=0.02, mistakes=mistakes)
    return "six figures that may be compared with each other"


@grader("ex-busiest-wall")
def busiest_wall(answer: Any) -> str:
    function(answer, "busiest_wall(ring, node_of, v)")
    cases = [
        ([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]),
        ([0, 2, 1, 3], [0, 0, 1, 1]),
        ([1, 0, 2], [5, 5, 5]),
    ]
    draw = random.Random(3)
    for _ in range(20):
        ranks = draw.randint(2, 12)
        ring = draw.sample(range(ranks), ranks)
        cases.append((ring, [draw.randrange(draw.randint(1, 4)) for _ in ring]))
    for ring, node_of in cases:
        hops = [(here, ring[(i + 1) % len(ring)]) for i, here in enumerate(ring)]
        out = [node_of[a] for a, b in hops if node_of[a] != node_of[b]]
        into = [node_of[b] for a, b in hops if node_of[a] != node_of[b]]
        v = 7 * GB
        most = max(map(out.count, out), default=0) * v
        value = real(call(answer, list(ring), list(node_of), v), "the returned value", "bytes")
        if math.isclose(value, most, abs_tol=1):
            continue
        where = f"ring {ring} with nodes {node_of}"
        if not out:
            raise NotYet(f"{where}: all ranks are in one node, so nothing leaves it")
        if math.isclose(value, len(out) * v):
            raise NotYet(f"{where}: that is what leaves all nodes together")
        if math.isclose(value, max(map((out + into).count, out)) * v):
            raise NotYet(f"{where}: what arrives is counted too; in one direction, please")
        straight = [node_of[a] for a, b in hops[:-1] if node_of[a] != node_of[b]]
        if math.isclose(value, max(map(straight.count, straight), default=0) * v, abs_tol=1):
            raise NotYet(f"{where}: the last rank of a ring sends to the first")
        raise NotYet(f"{where}: too {'many' if value > most else 'few'} bytes leave a node")
    return f"{len(cases)} rings, some of nodes of different sizes"


@grader("ex-repair-dealt-ranks")
def repair_dealt_ranks(answer: Any) -> str:
    function(answer, "tensor_group(rank, t, nodes, gpus)")
    machines = [(4, 8, 8), (8, 8, 8), (2, 3, 4), (8, 5, 16), (1, 2, 2)]
    for t, nodes, gpus in machines:
        where = f"t = {t}, {nodes} nodes of {gpus}"
        world = nodes * gpus
        groups = {}
        for rank in range(world):
            group = items(call(answer, rank, t, nodes, gpus), f"{where}: the group of a rank", t)
            group = [int(real(member, f"{where}: a rank of a group")) for member in group]
            if rank not in group:
                raise NotYet(f"{where}: rank {rank} is not in the group that it is given")
            if not all(0 <= member < world for member in group) or len(set(group)) < t:
                raise NotYet(f"{where}: the group of rank {rank} is not {t} different ranks")
            apart = {member % nodes for member in group}
            if len(apart) > 1:
                raise NotYet(f"{where}: the group of rank {rank} is spread over {len(apart)} nodes")
            groups[rank] = frozenset(group)
        for rank, group in groups.items():
            other = next((member for member in group if groups[member] != group), None)
            if other is not None:
                raise NotYet(
                    f"{where}: rank {other} is in the group of {rank}, but has another one"
                )
    return f"on {len(machines)} machines every group is at home, and every rank in one group"


@grader("ex-pipeline-sum")
def pipeline_sum(answer: Any) -> str:
    a, b, c = items(answer, "(a, b, c)", 3)
    mistakes = {2.0: "a ring of eight sends a little less than twice", 7 / 8: "that is one phase"}
    number(a, 1.75, "(a)", mistakes=mistakes | {3.5: "forward only"})
    mistakes = {7: "that is one phase of two", 16: "the last hop of a ring is not needed"}
    number(b, 14, "(b)", tolerance=1e-6, mistakes=mistakes)
    mistakes = {64: "forward only", 32 * 14: "those are messages", 1: "for each micro-batch one"}
    number(c, 32, "(c)", tolerance=1e-6, mistakes=mistakes)
    return "bytes, messages, and the meetings of all stages"


@grader("ex-deepest-byte")
def deepest_byte(answer: Any) -> str:
    from dtlib.machines.axis_order import nested_read_time

    function(answer, "latency_at(read_time, size)")
    draw = random.Random(8)
    for _ in range(8):
        capacities = sorted(draw.sample(range(2_000, 5_000_000), 3))
        latencies = sorted(draw.uniform(1, 200) * 1e-9 for _ in range(4))
        hidden = list(zip([*capacities, 0], latencies, strict=True))

        def read_time(size: float, hidden: list = hidden) -> float:
            return nested_read_time(size, hidden)

        edges = [1_000, *(2 * capacity for capacity in capacities)]
        for size in edges:
            level = next((i for i, c in enumerate(capacities) if size <= c), 3)
            if level < 3 and capacities[level] - size < 500:
                continue
            value = real(call(answer, read_time, size), "the returned latency", "s")
            right = latencies[level]
            if math.isclose(value, right, rel_tol=0.02):
                continue
            where = f"with {size:,} bytes, of which the last lies in level {level + 1}"
            if math.isclose(value, read_time(size), rel_tol=0.02):
                raise NotYet(f"{where}: that is the mean; the bytes before it outvote the last one")
            if math.isclose(value, 0, abs_tol=right / 50):
                raise NotYet(f"{where}: how fast the mean changes is not yet a latency")
            raise NotYet(f"{where}: the latency is too {'large' if value > right else 'small'}")
    return "eight machines of four levels, and the latency of each of them"


@grader("ex-small-inside")
def small_inside(answer: Any) -> str:
    def threshold(s: int, box: int, link: float, share: float) -> float:
        straddling = max(1 / link, s / (box * share))
        return (straddling - 1 / link) / (1 / share - 1 / link)

    cases = [
        {"s": s, "box": box, "link": link * GB, "share": share * GB}
        for s, box, link, share in (
            (2, 8, 450, 50),
            (4, 8, 450, 50),
            (2, 16, 300, 25),
            (8, 64, 900, 12.5),
            (2, 4, 450, 100),
        )
    ]
    wide = {"s": 2, "box": 64, "link": 100 * GB, "share": 50 * GB}
    hints = [
        (
            lambda s, box, link, share: (s / (box * share)) / (1 / share - 1 / link),
            "inside, the big axis is not free of charge either: compare with its own link",
        ),
        (
            lambda s, box, link, share: (1 / share - 1 / link) / (s / (box * share) - 1 / link),
            "the ratio is upside down: small over big",
        ),
        (
            lambda s, box, link, share: (1 / share - 1 / link) / (1 / share - 1 / link),
            "with the big one wholly outside it would be 1: how many of it stay in the node?",
        ),
        (
            lambda s, box, link, share: (1 / (s * share) - 1 / link) / (1 / share - 1 / link),
            "box / s members of the big axis stay in a node, not s",
        ),
    ]
    formula(answer, threshold, "threshold(s, box, link, share)", cases, wrong=hints)
    if real(call(answer, *wide.values()), "the returned value") < 0:
        raise NotYet("where enough members stay inside, the GPU's own link binds the big axis")
    formula(answer, threshold, "threshold(s, box, link, share)", [*cases, wide])
    return "on six machines the small axis changes sides at that ratio"


def _seconds(order: Sequence[tuple], levels: Sequence[tuple]) -> float:
    total, stride = 0.0, 1
    for _, size, v in order:
        walls = [0.0]
        for ranks, uplink in levels:
            members = min(max(ranks // stride, 1), size)
            if members < size:
                walls.append(ranks / members * v / uplink)
        total += max(walls)
        stride *= size
    return total


def _machines() -> list[tuple[list, list]]:
    """Axes and levels; the first is that of the page, the second refutes sorting by bytes."""
    dgx = [(1, 450 * GB), (8, 400 * GB)]
    machines = [
        (
            [("data", 8, 3.8 * GB), ("pipeline", 8, 4.3 * GB), ("tensor", 8, 150 * GB)],
            [*dgx, (64, 8 * 400 / 7 * GB)],
        ),
        ([("big", 8, 10 * GB), ("small", 2, 9 * GB)], dgx),
    ]
    draw = random.Random(10)
    for count in (2, 3, 3, 3, 4, 4, 4, 5, 5, 5):
        names = draw.sample(["ash", "birch", "cedar", "elm", "fir", "oak"], count)
        axes = [(name, 2 ** draw.randint(1, 4), draw.uniform(1, 100) * GB) for name in names]
        node, pod = 2 ** draw.randint(2, 5), 2 ** draw.randint(6, 8)
        share = draw.choice([25, 50, 100]) * GB
        taper = draw.randint(1, 8)
        machines.append((axes, [(1, 450 * GB), (node, node * share), (pod, pod * share / taper)]))
    return machines


@grader("ex-design-placement")
def design_placement(answer: Any) -> str:
    function(answer, "best_order(axes, levels)")
    machines = _machines()
    sorted_fails = 0
    for axes, levels in machines:
        best = min(_seconds(order, levels) for order in permutations(axes))
        heaviest = sorted(axes, key=lambda axis: -axis[2])
        sorted_fails += _seconds(heaviest, levels) > best * (1 + 1e-9)
        given = items(call(answer, list(axes), list(levels)), "the order", len(axes))
        named = {axis[0]: axis for axis in axes}
        if sorted(map(str, given)) != sorted(named):
            raise NotYet(f"return each of the names {', '.join(named)} once, got {given!r}")
        time = _seconds([named[name] for name in given], levels)
        if time <= best * (1 + 1e-9):
            continue
        sizes = ", ".join(f"{name} {size} ranks {v / GB:.1f} GB" for name, size, v in axes)
        where = f"{sizes}; walls at {', '.join(str(ranks) for ranks, _ in levels)} ranks"
        if time == _seconds(heaviest, levels):
            raise NotYet(f"{where}: the heaviest inside is not best here: who can straddle a wall?")
        if time == _seconds(heaviest[::-1], levels):
            raise NotYet(f"{where}: the names are asked from the inside outwards")
        raise NotYet(f"{where}: another order is {time / best:.2f} times as fast")
    return f"{len(machines)} machines, {sorted_fails} of which refute sorting by bytes"
