"""What a server saw, arrival by arrival: simulated in virtual time, or measured on ranks.

One history is read by all: `mean_staleness` and `idle_fraction` count, `descend` replays gradient
descent on it.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtlib.efficiency.asynchrony.rules import Rule
from dtlib.formulas.require import require_count


@dataclass(frozen=True)
class Arrival:
    """A gradient of `worker`, at weights of version `read`, that arrives at `time` (s).

    `version`, that of the weights then; `used` and `released` as the rule said.
    """

    time: float
    worker: int
    read: int
    version: int
    used: tuple[int, ...]
    released: tuple[int, ...]

    @property
    def staleness(self) -> int:
        """Updates since its weights were read."""
        return self.version - self.read


@dataclass
class History:
    """All arrivals of a run of P workers, in their order."""

    P: int
    arrivals: list[Arrival] = field(default_factory=list)

    def note(self, rule: Rule, worker: int, time: float) -> Arrival:
        """Ask the rule about an arrival, and keep both."""
        read, version = rule.read[worker], rule.version
        reply = rule.arrive(worker)
        arrival = Arrival(time, worker, read, version, reply.used, reply.released)
        self.arrivals.append(arrival)
        return arrival

    @property
    def updates(self) -> int:
        """How many there were."""
        return sum(bool(arrival.used) for arrival in self.arrivals)

    @property
    def staleness(self) -> list[int]:
        """Of each gradient that came."""
        return [arrival.staleness for arrival in self.arrivals]

    @property
    def mean_staleness(self) -> float:
        """Updates between reading and arrival, on average."""
        return sum(self.staleness) / len(self.arrivals)

    @property
    def ages_in_flight(self) -> list[int]:
        """Of the gradients that are still being computed at the end: how stale each is by then."""
        read: dict[int, int | None] = dict.fromkeys(range(self.P), 0)
        version = 0
        for arrival in self.arrivals:
            version += bool(arrival.used)
            read[arrival.worker] = None
            read |= dict.fromkeys(arrival.released, version)
        return [version - r for r in read.values() if r is not None]

    @property
    def idle_fraction(self) -> float:
        """Share of the workers' time in which they wait for a reply."""
        since, waited = {}, 0.0
        end = self.arrivals[-1].time
        for arrival in self.arrivals:
            since[arrival.worker] = arrival.time
            for worker in arrival.released:
                waited += arrival.time - since.pop(worker)
        waited += sum(end - began for began in since.values())
        return waited / (self.P * end) if end else 0.0


def simulate_server(rule: Rule, durations: Callable[[int], float], updates: int) -> History:
    """A run in virtual time: messages take none, the server neither.

    Arguments: `rule`, a new one; `durations`, called with a worker for the seconds of its next
    gradient; `updates`, after which the run ends.
    Raises ValueError where everybody waits: no arrival is left that could release one.
    """
    require_count("simulate_server", updates=updates)
    history = History(rule.P)
    computing = [(durations(worker), worker) for worker in range(rule.P)]
    heapq.heapify(computing)
    while rule.version < updates:
        if not computing:
            raise ValueError(
                f"simulate_server: after {rule.version} updates all workers wait, "
                f"{sorted(rule.waiting)}, for replies that only an arrival brings; some worker "
                "must always be released"
            )
        time, worker = heapq.heappop(computing)
        for each in history.note(rule, worker, time).released:
            heapq.heappush(computing, (time + durations(each), each))
    return history


def descend(history: History, gradient: Callable[[Any, int], Any], start: Any, lr: float) -> list:
    """The weights after each update, if the gradients came in this order.

    Equation: x of version v + 1 is that of v, less lr times the mean of the used gradients, each at
    the version that its worker had read. Arguments: `gradient` of (weights, worker); `start`.
    """
    weights, held = [start], {}
    for arrival in history.arrivals:
        held[arrival.worker] = gradient(weights[arrival.read], arrival.worker)
        if arrival.used:
            weights.append(updated(weights[-1], held, arrival.used, lr))
    return weights


def updated(weights: Any, held: Mapping[int, Any], used: Sequence[int], lr: float) -> Any:
    """The weights after a step along the mean of the gradients that are used, of those held."""
    return weights - lr * (sum(held[worker] for worker in used) / len(used))
