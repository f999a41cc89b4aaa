"""Logs of a run to practise an autopsy on: what is wrong with its machine the check alone knows."""

import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

KB, MB = 10**3, 10**6
SHIFT_SIZES = (1 * KB, 32 * KB, 1 * MB, 32 * MB)
QUIET_SIZES = (1 * MB, 16 * MB, 64 * MB)
BUSY_SIZES = (16 * MB, 64 * MB, 256 * MB)
REPETITIONS = 12
BARRIERS = 60
SPREAD = 1e-4


class Record(NamedTuple):
    """What one rank has written down of one call: times in seconds on its own clock.

    `call` counts the collectives of the run; `busy` says that arithmetic ran meanwhile.
    """

    call: int
    op: str
    rank: int
    bytes: int
    busy: bool
    launch: float
    finish: float


@dataclass(frozen=True)
class Logs:
    """The records of all ranks of a run.

    >>> logs = Logs(2, [Record(0, "barrier", r, 0, False, 1.0 + r, 2.5) for r in (1, 0)])
    >>> [[record.rank for record in call] for call in logs.calls("barrier")]
    [[0, 1]]
    >>> logs.aligned([0.0, 0.5]).calls("barrier")[0][1].launch
    1.5
    """

    ranks: int
    records: Sequence[Record] = field(repr=False)

    def calls(self, op: str, *, busy: bool | None = None) -> list[list[Record]]:
        """Each call of ``op`` as a list of records by rank; with ``busy``, only such calls."""
        found: dict[int, list[Record]] = {}
        for record in sorted(self.records, key=lambda r: (r.call, r.rank)):
            if record.op == op and busy in (None, record.busy):
                found.setdefault(record.call, []).append(record)
        return list(found.values())

    def aligned(self, offsets: Sequence[float]) -> "Logs":
        """The same logs on one clock: ``offsets[r]`` seconds less on the clock of rank r."""
        if len(offsets) != self.ranks:
            raise ValueError(f"{self.ranks} ranks have {self.ranks} offsets, got {len(offsets)}")
        moved = (
            r._replace(launch=r.launch - offsets[r.rank], finish=r.finish - offsets[r.rank])
            for r in self.records
        )
        return Logs(self.ranks, tuple(moved))


@dataclass(frozen=True)
class Machine:
    """A ring of links with one late rank, one slow link, and arithmetic that takes bandwidth.

    ``slow_link`` is the rank that sends over it, to the next one; it has ``1 / slow_factor`` of
    ``beta``. ``contention`` is the share of bandwidth that is lost while arithmetic runs.
    ``hiccup`` is a rank that is very late a few times.
    """

    ranks: int
    alpha: float
    beta: float
    straggler: int
    delay: float
    slow_link: int
    slow_factor: float
    contention: float
    hiccup: int
    offsets: tuple[float, ...]

    def link_time(self, src: int, n: float, busy: bool) -> float:
        """Seconds for ``n`` bytes from rank ``src`` to the next one."""
        beta = self.beta / (self.slow_factor if src == self.slow_link else 1.0)
        return self.alpha + n / (beta * (1 - self.contention if busy else 1.0))

    def all_reduce_time(self, n: float, busy: bool) -> float:
        """Seconds of a ring all-reduce from the last arrival on: its slowest link sets the pace."""
        rounds = 2 * (self.ranks - 1)
        return rounds * self.link_time(self.slow_link, n / self.ranks, busy)

    def gains(self, n: float) -> dict[str, float]:
        """Seconds that an all-reduce of ``n`` bytes beside arithmetic gains without each cause."""

        def seconds(machine: Machine) -> float:
            return machine.delay + machine.all_reduce_time(n, busy=True)

        without = {
            "straggler": replace(self, delay=0.0),
            "slow link": replace(self, slow_factor=1.0),
            "contention": replace(self, contention=0.0),
        }
        return {cause: seconds(self) - seconds(machine) for cause, machine in without.items()}


def draw_machine(seed: int) -> Machine:
    """A machine with faults, the same for the same ``seed``."""
    draw = random.Random(f"machine {seed}")

    def between(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    P = draw.randint(6, 9)
    late, hiccup, sender = draw.sample(range(1, P), 3)
    while late in (sender, (sender + 1) % P):
        late, hiccup, sender = draw.sample(range(1, P), 3)
    return Machine(
        ranks=P,
        alpha=between(5e-6, 30e-6),
        beta=between(10e9, 50e9),
        straggler=late,
        delay=between(2e-3, 60e-3),
        slow_link=sender,
        slow_factor=draw.uniform(1.3, 3.0),
        contention=draw.uniform(0.15, 0.6),
        hiccup=hiccup,
        offsets=(0.0, *(draw.uniform(-0.05, 0.05) for _ in range(P - 1))),
    )


def practice_logs(seed: int, machine: Machine | None = None) -> Logs:
    """The logs of a run on the machine of ``seed``: barriers, shifts and ring all-reduces.

    >>> logs = practice_logs(0)
    >>> len(logs.calls("shift")), len(logs.calls("all-reduce", busy=True))
    (96, 36)
    """
    machine = machine or draw_machine(seed)
    noise = random.Random(f"noise {seed}")
    plan = [("barrier", 0, False)] * BARRIERS
    for busy, sizes in ((False, QUIET_SIZES), (True, BUSY_SIZES)):
        plan += [("all-reduce", n, busy) for n in sizes] * REPETITIONS
        plan += [("shift", n, busy) for n in SHIFT_SIZES] * REPETITIONS
    noise.shuffle(plan)
    records: list[Record] = []
    now = 0.0
    for call, (op, n, busy) in enumerate(plan):
        launches = [now + lag for lag in _lags(machine, noise)]
        finishes = _finishes(machine, noise, op, n, busy, launches)
        for rank, (launch, finish) in enumerate(zip(launches, finishes, strict=True)):
            off = machine.offsets[rank]
            records.append(Record(call, op, rank, n, busy, launch + off, finish + off))
        now = max(finishes) + 1e-3
    return Logs(machine.ranks, tuple(records))


def _lags(machine: Machine, noise: random.Random) -> list[float]:
    """How late each rank launches: all a little, the straggler always, the hiccup rarely."""
    lags = [noise.uniform(0.0, SPREAD) for _ in range(machine.ranks)]
    lags[machine.straggler] += machine.delay
    if noise.random() < 0.06:
        lags[machine.hiccup] += 30 * machine.delay
    return lags


def _finishes(
    machine: Machine, noise: random.Random, op: str, n: int, busy: bool, launches: list[float]
) -> list[float]:
    """When each rank has noticed the end: always a little late, now and then very late."""
    P, last = machine.ranks, max(launches)

    def slower() -> float:
        return 1 + noise.expovariate(1 / 0.02)

    if op == "barrier":
        ends = [last + 2 * math.ceil(math.log2(P)) * machine.alpha * slower()] * P
    elif op == "all-reduce":
        ends = [last + machine.all_reduce_time(n, busy) * slower()] * P
    else:
        ends = [
            max(launches[r], launches[r - 1]) + machine.link_time((r - 1) % P, n, busy) * slower()
            for r in range(P)
        ]
    noticed = [end + noise.expovariate(10 / machine.alpha) for end in ends]
    spikes = [noise.uniform(50, 400) if noise.random() < 0.03 else 0 for _ in range(P)]
    return [end + spike * machine.alpha for end, spike in zip(noticed, spikes, strict=True)]


class Sleeper:
    """Makes one rank of ``ranks`` late by ``seconds``; which one, it keeps to itself.

    >>> Sleeper(4, 0.0).nap(1)
    """

    def __init__(self, ranks: int, seconds: float, seed: int | None = None):
        self._rank = random.Random(seed).randrange(ranks)
        self._seconds = seconds

    def nap(self, rank: int) -> None:
        """Sleep, if ``rank`` is the one."""
        if rank == self._rank:
            time.sleep(self._seconds)


def logs_of(ranks: Iterable[Sequence[Record]]) -> Logs:
    """One `Logs` of the lists of records that the ranks have kept.

    >>> logs_of([[Record(0, "barrier", 0, 0, False, 0.0, 1.0)]]).ranks
    1
    """
    lists = [tuple(map(Record._make, records)) for records in ranks]
    return Logs(len(lists), tuple(record for records in lists for record in records))
