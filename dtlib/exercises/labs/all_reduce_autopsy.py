"""The tasks of the lab 'All-reduce autopsy': every function meets runs that it has not seen."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.judge import items, number, real, whole
from dtlib.exercises.practice.run import Logs, Machine, Record, Sleeper, draw_machine, practice_logs
from dtlib.exercises.verdict import NotYet

# fmt: off
_SEEDS = (101, 102, 104, 105, 107, 108)
_GAIN_SEEDS = (103, 122, 125, 138)


@dataclass(frozen=True)
class _Run(Logs):
    """Logs, and the machine that wrote them, which the check alone knows."""

    _machine: Machine = field(repr=False)


@cache
def _run(seed: int, aligned: bool) -> _Run:
    machine, logs = draw_machine(seed), practice_logs(seed)
    logs = logs.aligned(machine.offsets) if aligned else logs
    return _Run(logs.ranks, logs.records, machine)


def _runs(*, aligned: bool = True, seeds: Sequence[int] = _SEEDS) -> Iterator[tuple[str, tuple]]:
    for run in (_run(seed, aligned) for seed in seeds):
        yield f"a run of {run.ranks} ranks", (run,)


def _near(value: float, right: float, what: str, tolerance: float) -> None:
    if abs(value / right - 1) > tolerance:
        much = "far too" if not 1 / 3 < value / right < 3 else "too"
        side = "large" if value > right else "small"
        raise NotYet(f"{what} is {much} {side}, by more than the records scatter")


def _clocks_law(given: Any, right: Sequence[float], logs: _Run) -> None:
    machine = logs._machine
    given = items(given, "the offsets", machine.ranks)
    given = [real(value, f"the offset of rank {rank}", "s") for rank, value in enumerate(given)]
    if abs(given[0]) > 1e-9:
        raise NotYet("rank 0 has the reference clock: its offset must be 0")
    errors = [abs(g - r) for g, r in zip(given, right, strict=True)]
    if max(errors) == errors[machine.straggler] > machine.delay / 3:
        raise NotYet("the clock of one rank is right, but the rank is late: what do all do at the "
                     "same moment?")
    if max(errors) > machine.alpha / 2:
        far = sum(error > machine.alpha / 2 for error in errors)
        raise NotYet(f"{far} clocks are off by more than half a latency: which moment is the same "
                     "for all ranks, and what does one bad record do to you?")


clocks = Function(
    "ex-autopsy-clocks",
    About("One clock for all", "design", 1, 8,
          "find the offsets of clocks from a moment that is the same for all"),
    "clock_offsets(logs)", lambda logs: logs._machine.offsets,
    partial(_runs, aligned=False), _clocks_law,
    "on runs of 6 to 9 ranks every clock is right to half a latency",
    {
        "every offset has the wrong sign: a clock that is ahead shows more":
            lambda logs: [-offset for offset in logs._machine.offsets],
        "rank 0 has the reference clock": lambda logs: [x + 1 for x in logs._machine.offsets],
    },
)


def _link_law(given: Any, right: tuple[float, float], logs: _Run) -> None:
    alpha, beta = items(given, "(alpha, beta)", 2)
    beta, alpha = real(beta, "beta", "bytes/s"), real(alpha, "alpha", "s")
    if alpha > 1.15 * right[0]:
        raise NotYet("alpha is too large: a transfer begins when both sides are there, and one bad "
                     "record must not count")
    _near(beta, right[1], "beta", 0.05)
    _near(alpha, right[0], "alpha", 0.15)


def _link(beta: Callable[[Machine], float]) -> Callable[[_Run], tuple[float, float]]:
    return lambda logs: (logs._machine.alpha, beta(logs._machine))


link = Function(
    "ex-autopsy-link",
    About("A healthy link", "design", 2, 10,
          "fit alpha and beta to transfers, without waiting and without outliers"),
    "healthy_link(logs)", _link(lambda m: m.beta), _runs, _link_law,
    "alpha within 15%, beta within 5%, on six machines",
    {
        "that is the link that holds up the ring; most links are better":
            _link(lambda m: m.beta / m.slow_factor),
        "that is the worst link beside arithmetic":
            _link(lambda m: m.beta / m.slow_factor * (1 - m.contention)),
        "arithmetic runs beside some transfers": _link(lambda m: m.beta * (1 - m.contention)),
        "that is seconds per byte": _link(lambda m: 1 / m.beta),
        "a ring sends chunks, not the vector": _link(lambda m: m.ranks * m.beta / m.slow_factor),
    },
)


def _split(call: Sequence[Record], *, after: Callable = max) -> tuple[list[float], float]:
    last = max(record.launch for record in call)
    waits = [last - record.launch for record in call]
    return waits, min(record.finish for record in call) - after(r.launch for r in call)


def _split_law(given: Any, right: tuple[list[float], float], call: Sequence[Record]) -> None:
    waits, transfer = items(given, "(waits, transfer)", 2)
    for value, wait in zip(items(waits, "waits", len(call)), right[0], strict=True):
        if abs(real(value, "a wait", "s") - wait) > 1e-9:
            less = "no rank waits for less than nothing"
            raise NotYet(f"waits: {less if value < 0 else 'a rank waits until the last launches'}")
    transfer = real(transfer, "transfer", "s")
    if abs(transfer - right[1]) > 1e-9:
        side = "large" if transfer > right[1] else "small"
        raise NotYet(f"the transfer is too {side}: from the last launch to the first finish")


split = Function(
    "ex-autopsy-split",
    About("Waiting and transfer", "compute", 1, 5, "tell waiting for the last rank from transfer"),
    "split(call)", _split,
    lambda: ((where, (call,)) for where, (logs,) in _runs()
             for call in logs.calls("all-reduce")[:20]),
    _split_law,
    "on 120 all-reduces, waiting and transfer add up to what the first to finish has seen",
    {
        "waits: from launch to finish a rank waits, and then it transfers":
            lambda call: ([r.finish - r.launch for r in call], _split(call)[1]),
        "waits: that is how late a rank is; the late one is who does not wait":
            lambda call: ([r.launch - min(x.launch for x in call) for r in call], _split(call)[1]),
        "the transfer is too large: before the last rank is there, nothing can be complete":
            lambda call: (_split(call)[0], max(r.finish - r.launch for r in call)),
        "waits: no rank waits for less than nothing":
            lambda call: ([-wait for wait in _split(call)[0]], _split(call)[1]),
    },
)


def _straggler_law(given: Any, right: tuple[int, float], logs: _Run) -> None:
    rank, delay = items(given, "(rank, delay)", 2)
    rank = whole(rank, "rank")
    if rank == logs._machine.hiccup:
        raise NotYet("this rank was late a few times; who is it always?")
    if rank != right[0]:
        raise NotYet("this rank waits for another: who is in the collective for the shortest time?")
    _near(real(delay, "delay", "s"), right[1], "delay", 0.1)


straggler = Function(
    "ex-autopsy-straggler",
    About("Who is late", "repair", 2, 8, "find a rank that is always late among ranks that wait"),
    "straggler(logs)", lambda logs: (logs._machine.straggler, logs._machine.delay),
    _runs, _straggler_law,
    "the late rank is found on six runs, and how late it is, within 10%",
    {
        "late a few times": lambda logs: (logs._machine.hiccup, logs._machine.delay),
        "delay is too large": lambda logs: (logs._machine.straggler, 2 * logs._machine.delay),
    },
)


def _slow_link_law(given: Any, right: tuple[int, float], logs: _Run) -> None:
    machine, (sender, factor) = logs._machine, items(given, "(sender, factor)", 2)
    sender = whole(sender, "sender")
    if sender == (right[0] + 1) % machine.ranks:
        raise NotYet("this rank receives over the slow link: who sends?")
    if sender in (machine.straggler, (machine.straggler - 1) % machine.ranks):
        raise NotYet("a late rank is at one end of this link, and the link is healthy: when did "
                     "the transfer begin?")
    if sender != right[0]:
        raise NotYet("this link is as fast as the others")
    _near(real(factor, "factor"), right[1], "factor", 0.06)


def _slow_link(logs: _Run) -> tuple[int, float]:
    return logs._machine.slow_link, logs._machine.slow_factor


slow_link = Function(
    "ex-autopsy-slow-link",
    About("Which link is slow", "design", 2, 7,
          "find the slow link of a ring, which an all-reduce does not show"),
    "slow_link(logs)", _slow_link, _runs, _slow_link_law,
    "the slow link is found on six rings, and by which factor, within 6%",
    {
        "factor: how many times slower, not which share is left":
            lambda logs: (_slow_link(logs)[0], 1 / _slow_link(logs)[1]),
        "factor is far too large": lambda logs: (_slow_link(logs)[0], 9.0),
    },
)


def _contention_law(given: Any, right: float, logs: _Run) -> None:
    share = real(given, "the share")
    if abs(share - right) <= 0.03:
        return
    if not 0 < share < 1:
        raise NotYet("a share lies between 0 and 1: same sizes, same wait?")
    _near(share, right, "the share", 0.0)


contention = Function(
    "ex-autopsy-contention",
    About("What arithmetic takes", "compute", 2, 6,
          "compare like with like: transfers beside arithmetic and in quiet"),
    "contention(logs)", lambda logs: logs._machine.contention, _runs, _contention_law,
    "the share of bandwidth that arithmetic takes is right within 0.03 on six runs",
    {
        "the share: that is what is left, not what is lost":
            lambda logs: 1 - logs._machine.contention,
        "the share: that is how many times longer it takes; which share of beta is lost?":
            lambda logs: 1 / (1 - logs._machine.contention),
        "the share: that is by how much longer it takes; which share of beta is lost?":
            lambda logs: 1 / (1 - logs._machine.contention) - 1,
    },
)


def _gains(logs: _Run, n: int, *, sharers: bool = False, quiet: bool = False,
           healthy: bool = False) -> dict[str, float]:
    machine, P = logs._machine, logs.ranks
    volume, left = 2 * (P - 1) * n / P / machine.beta, 1 - machine.contention
    found = machine.gains(n)
    if sharers:
        found["straggler"] /= P
    if quiet:
        found["slow link"] = volume * (machine.slow_factor - 1)
    if healthy:
        found["contention"] = volume * (1 / left - 1)
    return dict(sorted(found.items(), key=lambda cause: -cause[1]))


def _gains_law(given: Any, right: dict[str, float], logs: _Run, n: int) -> None:
    if not isinstance(given, dict) or set(given) != set(right):
        raise NotYet("return a dict with the keys straggler, slow link, contention")
    for cause, value in given.items():
        _near(real(value, f"the gain without the {cause}", "s"), right[cause], cause, 0.15)
    if list(given) != list(right):
        raise NotYet("the seconds are right, but the largest gain must stand first")


gains = Function(
    "ex-autopsy-gains",
    About("What to repair first", "derive", 3, 10,
          "predict what each repair gains, in the state in which the run is"),
    "gains(logs, n)", _gains,
    lambda: ((where, (logs, 256 * 10**6))
             for where, (logs,) in _runs(aligned=False, seeds=_GAIN_SEEDS)),
    _gains_law,
    "on four runs each gain is right within 15%, and the largest stands first",
    {
        "straggler: the delay is not shared: everybody waits for all of it": {"sharers": True},
        "slow link: in this run arithmetic goes on meanwhile, and the slow link loses bandwidth "
        "to it as well": {"quiet": True},
        "contention: the ring goes at the pace of its slow link, and it is that one that loses "
        "bandwidth": {"healthy": True},
    },
)


def _real_law(answer: Any) -> None:
    sleeper, verdict = items(answer, "(sleeper, straggler(...))", 2)
    if not isinstance(sleeper, Sleeper):
        raise NotYet(f"the first item is the Sleeper of the run, got {type(sleeper).__name__}")
    rank, delay = items(verdict, "(rank, delay)", 2)
    if whole(rank, "rank") != sleeper._rank:
        raise NotYet("another rank sleeps: look at launches by rank, not at times inside a call")
    delay, slept = real(delay, "delay", "s"), sleeper._seconds
    if not slept / 2 < delay < 2 * slept:
        number(delay, slept, "delay", "s", tolerance=0.1)


def _slept(others: int = 0, factor: float = 1.0) -> tuple:
    sleeper = Sleeper(4, 0.05, seed=1)
    return sleeper, ((sleeper._rank + others) % 4, 0.052 * factor)


real_straggler = Made(
    "ex-autopsy-real",
    About("Four real ranks", "compute", 1, 6, "find a late rank in records of real collectives"),
    _real_law, _slept,
    "the sleeper is found among real ranks, and its sleep within a factor of two",
    {
        "another rank sleeps": lambda: _slept(others=1),
        "delay is too large": lambda: _slept(factor=1000),
        "delay is too small": lambda: _slept(factor=0.02),
        "the Sleeper of the run": lambda: (4, (1, 0.05)),
    },
)
