"""Wrong answers of chapter 3 that no slip derives: (exercise, answer, what it must be told)."""

from itertools import permutations

from dtlib.exercises.chapters.foundations.ch03 import _by_bytes, _latency_at

WALL, GROUPS = "ex-busiest-wall", "ex-repair-dealt-ranks"
LATENCY, PLACEMENT = "ex-deepest-byte", "ex-design-placement"


def without_members(axes, levels):
    def seconds(order):
        total, stride = 0.0, 1
        for _, size, v in order:
            total += max(v * ranks / uplink for ranks, uplink in levels if ranks < stride * size)
            stride *= size
        return total

    return [axis[0] for axis in min(permutations(axes), key=seconds)]


# fmt: off
WRONG = [
    (WALL, lambda ring, node_of, v: v, "nothing leaves it|too few"),
    (WALL, lambda ring, node_of: 0, r"must take busiest_wall\(ring, node_of, v\)"),
    (GROUPS, lambda rank, t, nodes, gpus: list(range(t)), "spread over|is not in the group"),
    (GROUPS, lambda rank, t, nodes, gpus: [rank], "4 items"),
    (LATENCY, lambda read_time, size: read_time(size) - read_time(size - 1), "not yet a latency"),
    (LATENCY, lambda read_time, size: 2 * _latency_at(read_time, size), "too large"),
    (LATENCY, lambda size: 0, r"must take latency_at\(read_time, size\)"),
    (PLACEMENT, lambda axes, levels: _by_bytes(axes, levels)[::-1], "another order is"),
    (PLACEMENT, lambda axes, levels: [a[0] for a in sorted(axes, key=lambda a: -a[2] / a[1])],
     "another order is"),
    (PLACEMENT, without_members, "another order is"),
    (PLACEMENT, lambda axes, levels: ["tensor"], "items"),
    (PLACEMENT, lambda axes, levels: ["tensor"] * len(axes), "once, got"),
]
