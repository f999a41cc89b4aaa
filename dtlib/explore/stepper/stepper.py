"""Stepper: a schedule played round by round, with what every rank holds, has sent and waits for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dtlib.collectives import check
from dtlib.collectives.cost import bounds
from dtlib.collectives.cost.simulated import round_times
from dtlib.collectives.schedule import Schedule
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice
from dtlib.explore.kit.widget import Widget

MOST_RANKS, MOST_BREAKABLE = 16, 256


class Collective(NamedTuple):
    """How a collective is checked, where it starts, and which cells count at the end."""

    check: Callable[[Schedule], None]
    start: Callable[[Schedule], np.ndarray]
    owned_only: bool = False


COLLECTIVES = {
    "all-reduce": Collective(check.check_all_reduce, check.everywhere),
    "reduce-scatter": Collective(check.check_reduce_scatter, check.everywhere, owned_only=True),
    "all-gather": Collective(check.check_all_gather, check.at_owners),
    "broadcast": Collective(check.check_broadcast, check.at_root),
}


class Stepper(Widget):
    """Rounds of a schedule, one at a time: chunks on every rank, messages, bytes sent and time.

    Arguments: `schedules`, a Schedule or a mapping from label to Schedule; `n`, bytes of one rank's
    message; `topology`, which times the rounds; `collective`, what the schedules compute: one of
    "all-reduce", "reduce-scatter", "all-gather", "broadcast"; `done`, how many rounds are done at
    first; `breakable`, whether the reader may drop a message to see what the checker says;
    `task`, a `Task` over ``done``, ``rounds``, ``wrong`` (cells that end wrong) and ``dropped``
    (the round of the dropped message, -1 for none), whose solution gives ``done``, ``schedule``
    (0 for the first), or ``drop``, (round, position of the message).
    Raises ValueError for another collective, too many ranks, or a task that cannot be met.
    """

    def __init__(
        self,
        schedules: Schedule | Mapping[str, Schedule],
        n: float,
        topology,
        *,
        collective: str = "all-reduce",
        title: str | None = None,
        done: int = 1,
        breakable: bool = True,
        task: Task | None = None,
    ):
        if isinstance(schedules, Schedule):
            schedules = {schedules.name: schedules}
        if collective not in COLLECTIVES:
            known = ", ".join(map(repr, COLLECTIVES))
            raise ValueError(f"collective {collective!r}; allowed are {known}")
        self._kind_of, self._done = COLLECTIVES[collective], done
        self._schedules = list(schedules.values())
        first = self._schedules[0]
        if first.P > MOST_RANKS:
            raise ValueError(f"P = {first.P}: a stepper shows at most {MOST_RANKS} ranks")
        several = [choice("schedule", "Schedule", dict(enumerate(schedules)), 0)]
        reduces = collective == "all-reduce"
        super().__init__(
            title=title or f"{first.P} ranks, round by round",
            controls=several if len(schedules) > 1 else [],
            task=task,
            start={"done": done},
            n=float(n),
            schedules=[
                _exported(label, schedule, n, topology, self._kind_of, breakable)
                for label, schedule in schedules.items()
            ],
            bound=float(bounds.all_reduce_lower_bound_bytes(n, first.P)) if reduces else None,
        )

    def names(self, *, schedule: int = 0, done: int | None = None,
              drop: tuple[int, int] | None = None) -> dict[str, int]:  # fmt: skip
        """The names of a task, by the states that the schedule goes through."""
        played = self._schedules[schedule]
        done = min(self._done if done is None else done, len(played))
        values = {"done": done, "rounds": len(played), "wrong": 0, "dropped": -1}
        if drop:
            *_, last = check.states(without(played, *drop), self._kind_of.start)
            *_, goal = check.states(played, self._kind_of.start)
            values |= {"wrong": int((last != goal).any(axis=2).sum()), "dropped": drop[0]}
        return values


def _exported(label: str, schedule: Schedule, n, topology, kind: Collective, breakable) -> dict:
    """What the script needs to know of a schedule."""
    states = list(check.states(schedule, kind.start))
    owned = check.at_owners(schedule).any(axis=2) if kind.owned_only else None
    wanted = np.ones(states[0].shape[:2], dtype=bool) if owned is None else owned
    breaks = []
    if breakable and schedule.messages() <= MOST_BREAKABLE:
        breaks = [
            [_verdict(without(schedule, t, i), kind) for i in range(len(round))]
            for t, round in enumerate(schedule)
        ]
    return {
        "label": label,
        "P": schedule.P,
        "chunks": schedule.chunks,
        "parts": schedule.parts,
        "rounds": [[[*map(int, send)] for send in round] for round in schedule],
        "times": [float(time) for time in round_times(schedule, n, topology)],
        "start": states[0].tolist(),
        "goal": states[-1].tolist(),
        "wanted": wanted.astype(int).tolist(),
        "verdict": _verdict(schedule, kind),
        "breaks": breaks,
    }


def without(schedule: Schedule, t: int, position: int) -> Schedule:
    """The schedule with one message of round `t` left out."""
    rounds = [list(round) for round in schedule]
    del rounds[t][position]
    return replace(schedule, rounds=rounds)


def _verdict(schedule: Schedule, kind: Collective) -> str:
    """What the checker says, or nothing when it is content."""
    try:
        kind.check(schedule)
    except check.ScheduleError as error:
        return str(error)
    return ""
