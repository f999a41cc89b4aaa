"""Every check of the autopsy: the solution passes, shortcuts that logs invite fail and say why."""

from collections import defaultdict
from dataclasses import replace
from statistics import mean, median

import pytest
from exercise_cases import Case, EveryExercise

from dtlib.collectives import ring_all_reduce_time
from dtlib.exercises.practice_run import (
    MB,
    Logs,
    Record,
    Sleeper,
    draw_machine,
    logs_of,
    practice_logs,
)


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


def slow_link_with_waiting(logs):
    return slow_link(logs, waiting=True, best=median)


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


SLEEPER = Sleeper(4, 0.05, seed=1)

CASES = {
    "ex-autopsy-clocks": Case(
        solution=clock_offsets,
        also_right=[lambda logs: clock_offsets(logs, op="all-reduce")],
        wrong=[
            (lambda logs: clock_offsets(logs, moment="launch"), "but the rank is late"),
            (lambda logs: clock_offsets(logs, middle=mean), "one bad record"),
            (lambda logs: clock_offsets(logs, middle=max), "one bad record"),
            (lambda logs: clock_offsets(logs, op="shift"), "same for all ranks|same moment"),
            (lambda logs: [-x for x in clock_offsets(logs)], "wrong sign"),
            (lambda logs: [x + 1 for x in clock_offsets(logs)], "reference clock"),
            (lambda logs: [0.0], "items in order"),
        ],
    ),
    "ex-autopsy-link": Case(
        solution=healthy_link,
        also_right=[lambda logs: healthy_link(logs, best=median)],
        wrong=[
            (link_from_all_reduce, "both sides are there"),
            (lambda logs: link_from_all_reduce(logs, waiting=False), "holds up the ring"),
            (lambda logs: healthy_link(logs, choose=min), "holds up the ring"),
            (lambda logs: healthy_link(logs, busy=True), "beside some transfers"),
            (lambda logs: healthy_link(logs, best=max), "one bad record|too"),
            (lambda logs: healthy_link(logs, waiting=True, best=median), "both sides are there"),
            (lambda logs: (healthy_link(logs)[0], 1 / healthy_link(logs)[1]), "seconds per byte"),
        ],
    ),
    "ex-autopsy-split": Case(
        solution=split,
        wrong=[
            (lambda c: ([r.finish - r.launch for r in c], split(c)[1]), "and then it transfers"),
            (
                lambda c: ([r.launch - min(x.launch for x in c) for r in c], split(c)[1]),
                "the late one is who does not wait",
            ),
            (
                lambda c: (split(c)[0], max(r.finish - r.launch for r in c)),
                "nothing can be complete",
            ),
            (lambda c: (split(c)[0], split(c)[1] / 2), "too small: from the last launch"),
            (lambda c: ([-w for w in split(c)[0]], split(c)[1]), "less than nothing"),
            (lambda c: split(c)[1], "must have 2 items"),
        ],
    ),
    "ex-autopsy-straggler": Case(
        solution=straggler,
        wrong=[
            (longest_inside, "shortest time"),
            (last_of_the_slowest_collective, "late a few times"),
            (lambda logs: straggler(logs, middle=mean), "late a few times"),
            (lambda logs: (straggler(logs)[0], 2 * straggler(logs)[1]), "delay is too large"),
            (lambda logs: (straggler(logs)[0] + 0.5, 1.0), "whole number"),
        ],
    ),
    "ex-autopsy-slow-link": Case(
        solution=slow_link,
        also_right=[lambda logs: slow_link(logs, busy=True)],
        wrong=[
            (slow_receiver, "who sends"),
            (longest_shift, "when did the transfer begin"),
            (lambda logs: ((slow_link(logs)[0] - 1) % logs.ranks, 2), "as fast as the others|end"),
            (lambda logs: (slow_link(logs)[0], 1 / slow_link(logs)[1]), "which share is left"),
            (lambda logs: (slow_link(logs)[0], 9.0), "factor is far too large"),
        ],
    ),
    "ex-autopsy-contention": Case(
        solution=contention,
        also_right=[contention_by_shifts],
        wrong=[
            (lambda logs: 1 - contention(logs), "what is left"),
            (lambda logs: 1 / (1 - contention(logs)), "how many times longer"),
            (lambda logs: 1 / (1 - contention(logs)) - 1, "how much longer"),
            (contention_of_all_sizes, "the share is far too large"),
            (lambda logs: -0.2, "between 0 and 1"),
        ],
    ),
    "ex-autopsy-gains": Case(
        solution=gains,
        wrong=[
            (gains_without_order, "must stand first"),
            (lambda raw, n: gains(raw, n, shares=raw.ranks), "not shared"),
            (lambda raw, n: gains(raw, n, slow_quiet=True), "arithmetic goes on meanwhile"),
            (lambda raw, n: gains(raw, n, contention_healthy=True), "pace of its slow link"),
            (lambda raw, n: {"straggler": 1.0}, "dict with the keys"),
        ],
    ),
    "ex-autopsy-real": Case(
        solution=(SLEEPER, (SLEEPER._rank, 0.052)),
        wrong=[
            ((SLEEPER, ((SLEEPER._rank + 1) % 4, 0.05)), "another rank sleeps"),
            ((SLEEPER, (SLEEPER._rank, 50)), "delay is too large"),
            ((SLEEPER, (SLEEPER._rank, 0.001)), "delay is too small"),
            ((4, (1, 0.05)), "Sleeper of the run"),
        ],
        secret=[0.05],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("seed", range(300, 330))
def test_the_solution_finds_every_cause_on_any_machine(seed):
    machine, raw = draw_machine(seed), practice_logs(seed)
    assert clock_offsets(raw) == pytest.approx(machine.offsets, abs=machine.alpha / 2)
    logs = raw.aligned(machine.offsets)
    alpha, beta = healthy_link(logs)
    assert alpha == pytest.approx(machine.alpha, rel=0.15)
    assert beta == pytest.approx(machine.beta, rel=0.05)
    assert straggler(logs) == (machine.straggler, pytest.approx(machine.delay, rel=0.1))
    assert slow_link(logs) == (machine.slow_link, pytest.approx(machine.slow_factor, rel=0.06))
    assert contention(logs) == pytest.approx(machine.contention, abs=0.03)
    assert gains(raw, 256 * MB) == pytest.approx(machine.gains(256 * MB), rel=0.15)


def test_the_ring_of_a_machine_without_faults_is_the_formula():
    sound = replace(draw_machine(5), slow_factor=1.0, delay=0.0)
    expected = ring_all_reduce_time(64 * MB, sound.ranks, sound.alpha, sound.beta)
    assert sound.all_reduce_time(64 * MB, busy=False) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_removing_a_cause_gains_what_the_run_without_it_shows(seed):
    machine = draw_machine(seed)
    without = {
        "straggler": replace(machine, delay=0.0),
        "slow link": replace(machine, slow_factor=1.0),
        "contention": replace(machine, contention=0.0),
    }

    def seconds(machine):
        calls = practice_logs(seed, machine).aligned(machine.offsets).calls("all-reduce", busy=True)
        whole = [max(waits) + rest for waits, rest in map(split, calls)]
        return median(w for w, c in zip(whole, calls, strict=True) if c[0].bytes == 256 * MB)

    for cause, gain in machine.gains(256 * MB).items():
        shown = seconds(machine) - seconds(without[cause])
        assert shown == pytest.approx(gain, rel=0.1, abs=0.05 * seconds(machine))


def test_the_same_seed_makes_the_same_logs_and_another_others():
    assert practice_logs(3) == practice_logs(3)
    assert practice_logs(3) != practice_logs(4)


def test_logs_of_ranks_find_the_one_that_sleeps():
    sleeps = [0.0, 0.0, 0.05, 0.0]
    ranks = [
        [Record(i, "all-reduce", r, 4, False, i + sleeps[r], i + 0.06) for i in range(5)]
        for r in range(4)
    ]
    assert straggler(logs_of(ranks)) == (2, pytest.approx(0.05))


def test_logs_want_an_offset_for_each_rank():
    with pytest.raises(ValueError, match="2 ranks have 2 offsets, got 1"):
        Logs(2, ()).aligned([0.0])
