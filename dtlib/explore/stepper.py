"""Stepper: a schedule played round by round, with what every rank holds, has sent and waits for."""

import html
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dtlib.collectives import check
from dtlib.collectives.cost import bounds
from dtlib.collectives.cost.simulated import round_times
from dtlib.collectives.schedule import Schedule
from dtlib.explore.controls import Task
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity

MOST_RANKS, MOST_BREAKABLE, MOST_DRAWN = 16, 256, 64


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
    (the round of the dropped message, -1 for none), whose solution gives ``done``, or
    ``drop``, (round, position of the message), in the first schedule.
    Raises ValueError for another collective, too many ranks, or a task that cannot be met.
    """

    _esm = script("quantities.js", "page.js", "dataflow.js", "stepper_figure.js", "stepper.js")
    _css = script("widget.css", "stepper.css")

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
        kind = COLLECTIVES[collective]
        first = next(iter(schedules.values()))
        if first.P > MOST_RANKS:
            raise ValueError(f"P = {first.P}: a stepper shows at most {MOST_RANKS} ranks")
        spec = {
            "title": title or f"{first.P} ranks, round by round",
            "n": float(n),
            "done": done,
            "schedules": [
                _exported(label, schedule, n, topology, kind, breakable)
                for label, schedule in schedules.items()
            ],
            "bound": float(bounds.all_reduce_lower_bound_bytes(n, first.P))
            if collective == "all-reduce"
            else None,
            "task": _task(task, first, kind, done),
        }
        self._schedules = dict(schedules)
        super().__init__(spec=spec)

    def _figure(self) -> str:
        from dtlib.collectives.drawing import draw
        from dtlib.style import inline_svg

        rows = []
        for exported in self.spec["schedules"]:
            time = format_quantity(sum(exported["times"]), "s", 3)
            busiest = format_quantity(max(_sent(exported)) * self.spec["n"], "B", 3)
            count = len(exported["rounds"])
            rows.append(
                f"<tr><th scope='row'>{html.escape(exported['label'])}</th>"
                f"<td>{count}</td><td>{time}</td><td>{busiest}</td></tr>"
            )
        schedule = next(iter(self._schedules.values()))
        drawing = inline_svg(draw(schedule), alt=str(schedule)) if _is_drawable(schedule) else ""
        return (
            f'{drawing}<div class="dt-compare"><table><thead><tr><td></td><th>rounds</th>'
            "<th>time</th><th>sent by the busiest rank</th></tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div>"
            f"<figcaption>{html.escape(as_sentence(self.spec['title']))}</figcaption>"
        )


def _is_drawable(schedule: Schedule) -> bool:
    """Whether a drawing of all messages would still be read."""
    return schedule.P <= 8 and schedule.messages() <= MOST_DRAWN


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


def _sent(exported: dict) -> list[float]:
    """Parts of the message that each rank sends."""
    sent = [0.0] * exported["P"]
    for round in exported["rounds"]:
        for src, _, _, _, count in round:
            sent[src] += count / exported["parts"]
    return sent


def _task(task: Task | None, schedule: Schedule, kind: Collective, done: int) -> dict | None:
    """The task for the script. Raises ValueError when it is met at the start, or never."""
    if task is None:
        return None

    def names(done=done, drop=None) -> dict[str, int]:
        values = {"done": done, "rounds": len(schedule), "wrong": 0, "dropped": -1}
        if drop:
            *_, last = check.states(without(schedule, *drop), kind.start)
            *_, goal = check.states(schedule, kind.start)
            values |= {"wrong": int((last != goal).any(axis=2).sum()), "dropped": drop[0]}
        return values

    return task.checked(names)
