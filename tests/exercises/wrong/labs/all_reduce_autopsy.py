"""Wrong answers of the lab 'All-reduce autopsy' that no slip derives, and what they vary."""

from collections import defaultdict
from statistics import mean, median


def clock_offsets(logs, moment="finish", op="barrier", middle=median):
    calls = logs.calls(op)
    return [
        middle([getattr(call[r], moment) - getattr(call[0], moment) for call in calls])
        for r in range(logs.ranks)
    ]


def link_lines(logs, busy=False, best=min, waiting=False):
    times = defaultdict(list)
    for call in logs.calls("shift", busy=busy):
        for r in call:
            sender = (r.rank - 1) % logs.ranks
            start = r.launch if waiting else max(r.launch, call[sender].launch)
            times[sender, r.bytes].append(r.finish - start)
    sizes = sorted({n for _, n in times})
    small, large = sizes[0], sizes[-1]
    lines = []
    for sender in range(logs.ranks):
        t_small, t_large = best(times[sender, small]), best(times[sender, large])
        slope = (t_large - t_small) / (large - small)
        lines.append((t_small - small * slope, 1 / slope))
    return lines


def healthy_link(logs, choose=median, **options):
    lines = link_lines(logs, **options)
    return choose(a for a, _ in lines), choose(b for _, b in lines)


def link_from_all_reduce(logs, waiting=True):
    P = logs.ranks
    times = defaultdict(list)
    for call in logs.calls("all-reduce", busy=False):
        waits, transfer = split(call)
        times[call[0].bytes].append(transfer + (max(waits) if waiting else 0))
    small, large = min(times), max(times)
    t_small, t_large = min(times[small]), min(times[large])
    slope = (t_large - t_small) / (large - small)
    rounds = 2 * (P - 1)
    return (t_small - small * slope) / rounds, rounds / P / slope


def split(call):
    last = max(r.launch for r in call)
    return [last - r.launch for r in call], min(r.finish for r in call) - last


def straggler(logs, middle=median):
    lateness = [[] for _ in range(logs.ranks)]
    for op in ("barrier", "shift", "all-reduce"):
        for call in logs.calls(op):
            for r in call:
                others = [other.launch for other in call if other.rank != r.rank]
                lateness[r.rank].append(r.launch - median(others))
    late = [middle(values) for values in lateness]
    rank = late.index(max(late))
    return rank, late[rank]


def longest_inside(logs, choose=max):
    inside = [
        median(call[r].finish - call[r].launch for call in logs.calls("all-reduce"))
        for r in range(logs.ranks)
    ]
    return inside.index(choose(inside)), max(inside) - min(inside)


def last_of_the_slowest_collective(logs):
    slowest = max(
        logs.calls("all-reduce"), key=lambda c: max(r.finish for r in c) - min(r.launch for r in c)
    )
    rank = max(slowest, key=lambda r: r.launch).rank
    return rank, max(split(slowest)[0])


def slow_link(logs, **options):
    betas = [beta for _, beta in link_lines(logs, **options)]
    sender = betas.index(min(betas))
    return sender, median(betas) / betas[sender]


def slow_receiver(logs):
    sender, factor = slow_link(logs)
    return (sender + 1) % logs.ranks, factor


def longest_shift(logs):
    shifts = defaultdict(list)
    for call in logs.calls("shift"):
        for r in call:
            shifts[(r.rank - 1) % logs.ranks].append(r.finish - r.launch)
    times = {sender: median(values) for sender, values in shifts.items()}
    sender = max(times, key=times.get)
    return sender, times[sender] / median(times.values())


def slope(logs, busy):
    times = defaultdict(list)
    for call in logs.calls("all-reduce", busy=busy):
        times[call[0].bytes].append(split(call)[1])
    small, large = min(times), max(times)
    return (min(times[large]) - min(times[small])) / (large - small)


def contention(logs):
    return 1 - slope(logs, False) / slope(logs, True)


def contention_by_shifts(logs):
    quiet, busy = (median(b for _, b in link_lines(logs, busy=busy)) for busy in (False, True))
    return 1 - busy / quiet


def contention_of_all_sizes(logs):
    quiet, busy = (
        mean(split(call)[1] for call in logs.calls("all-reduce", busy=busy))
        for busy in (False, True)
    )
    return 1 - quiet / busy


def gains(raw, n, shares=1, slow_quiet=False, contention_healthy=False):
    logs = raw.aligned(clock_offsets(raw))
    P = logs.ranks
    (_, delay), (_, factor) = straggler(logs), slow_link(logs)
    (_, beta), lost = healthy_link(logs), contention(logs)
    quiet = 2 * (P - 1) * n / P / beta
    found = {
        "straggler": delay / shares,
        "slow link": quiet * (factor - 1) / (1 if slow_quiet else 1 - lost),
        "contention": quiet * (1 if contention_healthy else factor) * (1 / (1 - lost) - 1),
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def gains_without_order(raw, n):
    found = gains(raw, n)
    return dict(reversed(found.items()))


CLOCKS, LINK, LATE = "ex-autopsy-clocks", "ex-autopsy-link", "ex-autopsy-straggler"
SLOW, SHARE, GAINS = "ex-autopsy-slow-link", "ex-autopsy-contention", "ex-autopsy-gains"
RIGHT = [
    (CLOCKS, clock_offsets),
    (CLOCKS, lambda logs: clock_offsets(logs, op="all-reduce")),
    (LINK, healthy_link),
    (LINK, lambda logs: healthy_link(logs, best=median)),
    ("ex-autopsy-split", split),
    (LATE, straggler),
    (SLOW, slow_link),
    (SLOW, lambda logs: slow_link(logs, busy=True)),
    (SHARE, contention),
    (SHARE, contention_by_shifts),
    (GAINS, gains),
]

# fmt: off
WRONG = [
    (CLOCKS, lambda logs: clock_offsets(logs, moment="launch"), "but the rank is late"),
    (CLOCKS, lambda logs: clock_offsets(logs, middle=mean), "one bad record"),
    (CLOCKS, lambda logs: clock_offsets(logs, middle=max), "one bad record"),
    (CLOCKS, lambda logs: clock_offsets(logs, op="shift"), "same for all ranks|same moment"),
    (CLOCKS, lambda logs: [-x for x in clock_offsets(logs)], "wrong sign"),
    (CLOCKS, lambda logs: [0.0], "items in order"),
    (LINK, link_from_all_reduce, "both sides are there"),
    (LINK, lambda logs: link_from_all_reduce(logs, waiting=False), "holds up the ring"),
    (LINK, lambda logs: healthy_link(logs, choose=min), "holds up the ring"),
    (LINK, lambda logs: healthy_link(logs, busy=True), "beside some transfers"),
    (LINK, lambda logs: healthy_link(logs, best=max), "one bad record|too"),
    (LINK, lambda logs: healthy_link(logs, waiting=True, best=median), "both sides are there"),
    ("ex-autopsy-split", lambda call: (split(call)[0], split(call)[1] / 2), "too small: from the"),
    ("ex-autopsy-split", lambda call: split(call)[1], "must have 2 items"),
    (LATE, longest_inside, "shortest time"),
    (LATE, last_of_the_slowest_collective, "late a few times"),
    (LATE, lambda logs: straggler(logs, middle=mean), "late a few times"),
    (LATE, lambda logs: (straggler(logs)[0] + 0.5, 1.0), "whole number"),
    (SLOW, slow_receiver, "who sends"),
    (SLOW, longest_shift, "when did the transfer begin"),
    (SLOW, lambda logs: ((slow_link(logs)[0] - 1) % logs.ranks, 2), "as fast as the others|end"),
    (SHARE, contention_of_all_sizes, "the share is far too large"),
    (SHARE, lambda logs: 1 / (1 - contention(logs)), "how many times longer"),
    (SHARE, lambda logs: -0.2, "between 0 and 1"),
    (GAINS, gains_without_order, "must stand first"),
    (GAINS, lambda raw, n: gains(raw, n, shares=raw.ranks), "not shared"),
    (GAINS, lambda raw, n: gains(raw, n, slow_quiet=True), "arithmetic goes on meanwhile"),
    (GAINS, lambda raw, n: {"straggler": 1.0}, "dict with the keys"),
]
