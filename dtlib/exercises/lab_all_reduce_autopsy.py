"""Graders of the lab 'All-reduce autopsy': every function meets runs that it has not seen."""

from collections.abc import Iterator, Sequence
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, whole
from dtlib.exercises.practice_run import MB, Logs, Machine, Sleeper, draw_machine, practice_logs
from dtlib.exercises.verdict import NotYet

SEEDS = (101, 102, 104, 105, 107, 108)
GAIN_SEEDS = (103, 122, 125, 138)
GAIN_BYTES = 256 * MB


@grader("ex-autopsy-clocks")
def clocks(answer: Any) -> str:
    function(answer, "clock_offsets(logs)")
    for machine, logs in _runs(aligned=False):
        given = items(call(answer, logs), "the offsets", machine.ranks)
        given = [real(value, f"the offset of rank {r}", "s") for r, value in enumerate(given)]
        if abs(given[0]) > 1e-9:
            raise NotYet("rank 0 has the reference clock: its offset must be 0")
        errors = [g - t for g, t in zip(given, machine.offsets, strict=True)]
        far = [r for r, error in enumerate(errors) if abs(error) > machine.alpha / 2]
        late = machine.straggler
        if all(abs(g + t) < 1e-3 for g, t in zip(given, machine.offsets, strict=True)):
            raise NotYet("every offset has the wrong sign: a clock that is ahead shows more")
        if max(map(abs, errors)) == abs(errors[late]) > machine.delay / 3:
            raise NotYet(
                "the clock of one rank is right, but the rank is late: what do all do at "
                "the same moment?"
            )
        if far:
            raise NotYet(
                f"{_where(machine)}: {len(far)} clocks are off by more than half a latency: "
                "which moment is the same for all ranks, and what does one bad record do to you?"
            )
    return "on runs of 6 to 9 ranks every clock is right to half a latency"


@grader("ex-autopsy-link")
def link(answer: Any) -> str:
    function(answer, "healthy_link(logs)")
    for machine, logs in _runs():
        alpha, beta = items(call(answer, logs), "(alpha, beta)", 2)
        beta, alpha = real(beta, "beta", "bytes/s"), real(alpha, "alpha", "s")
        slow = machine.beta / machine.slow_factor
        hints = {
            slow: "that is the link that holds up the ring; most links are better",
            slow * (1 - machine.contention): "that is the worst link beside arithmetic",
            machine.beta * (1 - machine.contention): "arithmetic runs beside some transfers",
            1 / machine.beta: "that is seconds per byte",
            machine.ranks * slow: "a ring sends chunks, not the vector",
        }
        if alpha > 1.15 * machine.alpha:
            raise NotYet(
                f"{_where(machine)}: alpha is too large: a transfer begins when both sides "
                "are there, and one bad record must not count"
            )
        _near(beta, machine.beta, "beta", 0.05, machine, hints)
        _near(alpha, machine.alpha, "alpha", 0.15, machine)
    return "alpha within 15%, beta within 5%, on six machines"


@grader("ex-autopsy-split")
def split(answer: Any) -> str:
    function(answer, "split(call)")
    for machine, logs in _runs():
        for records in logs.calls("all-reduce")[:20]:
            waits, transfer = items(call(answer, records), "(waits, transfer)", 2)
            waits = items(waits, "waits", machine.ranks)
            last = max(r.launch for r in records)
            end = min(r.finish for r in records)
            for record, value in zip(records, waits, strict=True):
                _exact_wait(real(value, "a wait", "s"), record, last, records)
            transfer = real(transfer, "transfer", "s")
            if abs(transfer - (end - last)) > 1e-9:
                first = min(r.launch for r in records)
                side = "large" if transfer > end - last else "small"
                hint = (
                    "before the last rank is there, nothing can be complete"
                    if transfer >= end - first - 1e-9
                    else "from the last launch to the first finish"
                )
                raise NotYet(f"{_where(machine)}: the transfer is too {side}: {hint}")
    return "on 120 all-reduces, waiting and transfer add up to what the first to finish has seen"


def _exact_wait(value: float, record: Any, last: float, records: Sequence) -> None:
    if abs(value - (last - record.launch)) <= 1e-9:
        return
    if abs(value - (record.finish - record.launch)) <= 1e-9:
        raise NotYet("waits: from launch to finish a rank waits, and then it transfers")
    if abs(value - (record.launch - min(r.launch for r in records))) <= 1e-9:
        raise NotYet("waits: that is how late a rank is; the late one is who does not wait")
    if value < 0:
        raise NotYet("waits: no rank waits for less than nothing")
    raise NotYet("waits: a rank waits until the last one launches")


@grader("ex-autopsy-straggler")
def straggler(answer: Any) -> str:
    function(answer, "straggler(logs)")
    for machine, logs in _runs():
        rank, delay = items(call(answer, logs), "(rank, delay)", 2)
        rank = whole(rank, "rank")
        if rank == machine.hiccup:
            raise NotYet(f"{_where(machine)}: this rank was late a few times; who is it always?")
        if rank != machine.straggler:
            hint = "this rank waits for another: who is in the collective for the shortest time?"
            raise NotYet(f"{_where(machine)}: {hint}")
        _near(real(delay, "delay", "s"), machine.delay, "delay", 0.1, machine)
    return "the late rank is found on six runs, and how late it is, within 10%"


@grader("ex-autopsy-slow-link")
def slow_link(answer: Any) -> str:
    function(answer, "slow_link(logs)")
    for machine, logs in _runs():
        sender, factor = items(call(answer, logs), "(sender, factor)", 2)
        sender, P = whole(sender, "sender"), machine.ranks
        if sender == (machine.slow_link + 1) % P:
            raise NotYet("this rank receives over the slow link: who sends?")
        if sender in (machine.straggler, (machine.straggler - 1) % P):
            hint = "a late rank is at one end of this link, and the link is healthy"
            raise NotYet(f"{_where(machine)}: {hint}: when did the transfer begin?")
        if sender != machine.slow_link:
            raise NotYet(f"{_where(machine)}: this link is as fast as the others")
        factor = real(factor, "factor")
        hints = {1 / machine.slow_factor: "how many times slower, not which share is left"}
        _near(factor, machine.slow_factor, "factor", 0.06, machine, hints)
    return "the slow link is found on six rings, and by which factor, within 6%"


@grader("ex-autopsy-contention")
def contention(answer: Any) -> str:
    function(answer, "contention(logs)")
    for machine, logs in _runs():
        share = real(call(answer, logs), "the share")
        left = 1 - machine.contention
        hints = {
            left: "that is what is left, not what is lost",
            1 / left: "that is how many times longer it takes; which share of beta is lost?",
            1 / left - 1: "that is by how much longer it takes; which share of beta is lost?",
        }
        if not 0 < share < 1 and min(abs(share / h - 1) for h in hints) > 0.05:
            raise NotYet(f"{_where(machine)}: a share lies between 0 and 1: same sizes, same wait?")
        if abs(share - machine.contention) > 0.03:
            _near(share, machine.contention, "the share", 0.0, machine, hints)
    return "the share of bandwidth that arithmetic takes is right within 0.03 on six runs"


@grader("ex-autopsy-gains")
def gains(answer: Any) -> str:
    function(answer, "gains(logs, n)")
    for machine, logs in _runs(aligned=False, seeds=GAIN_SEEDS):
        truth = machine.gains(GAIN_BYTES)
        given = call(answer, logs, GAIN_BYTES)
        if not isinstance(given, dict) or set(given) != set(truth):
            raise NotYet(f"return a dict with the keys {', '.join(truth)}")
        for cause, value in given.items():
            value = real(value, f"the gain without the {cause}", "s")
            _near(value, truth[cause], cause, 0.15, machine, _gain_hints(machine, cause))
        if list(given) != sorted(truth, key=truth.get, reverse=True):
            raise NotYet("the seconds are right, but the largest gain must stand first")
    return "on four runs each gain is right within 15%, and the largest stands first"


def _gain_hints(machine: Machine, cause: str) -> dict[float, str]:
    P, n = machine.ranks, GAIN_BYTES
    volume = 2 * (P - 1) * n / P / machine.beta
    return {
        "straggler": {machine.delay / P: "the delay is not shared: everybody waits for all of it"},
        "slow link": {
            volume * (machine.slow_factor - 1): "in this run arithmetic goes on meanwhile, and "
            "the slow link loses bandwidth to it as well",
        },
        "contention": {
            volume * (1 / (1 - machine.contention) - 1): "the ring goes at the pace of its slow "
            "link, and it is that one that loses bandwidth",
        },
    }[cause]


@grader("ex-autopsy-real")
def real_straggler(answer: Any) -> str:
    sleeper, verdict = items(answer, "(sleeper, straggler(...))", 2)
    if not isinstance(sleeper, Sleeper):
        raise NotYet(f"the first item is the Sleeper of the run, got {type(sleeper).__name__}")
    rank, delay = items(verdict, "(rank, delay)", 2)
    if whole(rank, "rank") != sleeper._rank:
        raise NotYet("another rank sleeps: look at launches by rank, not at times inside a call")
    delay, slept = real(delay, "delay", "s"), sleeper._seconds
    if not slept / 2 < delay < 2 * slept:
        number(delay, slept, "delay", "s", tolerance=0.1)
    return "the sleeper is found among real ranks, and its sleep within a factor of two"


def _runs(aligned: bool = True, seeds: Sequence[int] = SEEDS) -> Iterator[tuple[Machine, Logs]]:
    for seed in seeds:
        machine, logs = draw_machine(seed), practice_logs(seed)
        yield machine, logs.aligned(machine.offsets) if aligned else logs


def _where(machine: Machine) -> str:
    return f"a run of {machine.ranks} ranks"


def _near(
    value: float,
    truth: float,
    what: str,
    tolerance: float,
    machine: Machine,
    hints: dict[float, str] | None = None,
) -> None:
    """Pass within ``tolerance``; else the hint whose value is near, or the side."""
    if abs(value / truth - 1) <= tolerance:
        return
    near = [hint for other, hint in (hints or {}).items() if abs(value / other - 1) < 0.06]
    side = "large" if value > truth else "small"
    if near:
        raise NotYet(f"{_where(machine)}: {what}: {near[0]}")
    much = "far too" if not 1 / 3 < value / truth < 3 else "too"
    raise NotYet(f"{_where(machine)}: {what} is {much} {side}, by more than the records scatter")
