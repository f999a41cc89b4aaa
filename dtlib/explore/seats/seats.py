"""SeatPlan: ranks on the GPUs of nodes, which the reader exchanges, and what each port carries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dtlib.collectives.nodes import Nodes, round_robin
from dtlib.collectives.schedule import Schedule
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget

MOST_RANKS, MOST_PER_NODE, MOST_SCHEDULES = 32, 8, 4
TAPERS = (1, 2, 4, 8)


class SeatPlan(Widget):
    """Ranks that can change places, with a heat map of the network ports; bytes only, no latency.

    Arguments: `schedules`, a mapping from label to all-reduce, one to four; `n`, bytes of one
    rank's message; `machine`, a `Nodes` whose order, NICs and taper are shown first; `task`, a
    `Task` over ``time`` (seconds that the busiest port needs), ``bound`` (`Nodes.cut_bound_time`),
    ``nics`` (of a node), ``taper`` and ``schedule`` (0 for the first), whose solution gives some of
    ``order``, ``nics``, ``taper`` and ``schedule``.
    Raises ValueError for too many ranks, other numbers of ranks, and a task that cannot be met.
    """

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        n: float,
        machine: Nodes,
        *,
        title: str,
        task: Task | None = None,
    ):
        _check(schedules, machine)
        self._schedules, self._n, self._machine = list(schedules.values()), n, machine
        self._orders = {
            "as given": list(range(machine.P) if machine.order is None else machine.order),
            "in order": list(range(machine.P)),
            "dealt in turn": list(round_robin(machine.nodes, machine.ranks_per_node)),
            "shuffled": np.random.default_rng(0).permutation(machine.P).tolist(),
        }
        counts = [k for k in (1, 2, 4, 8) if k <= machine.ranks_per_node]
        tapers = [slider("taper", "taper out of a pod", TAPERS, machine.taper, unit="×")]
        super().__init__(
            title=title,
            controls=[
                choice("schedule", "Schedule", dict(enumerate(schedules)), 0),
                choice("seats", "Seats", {name: name for name in self._orders}, "as given"),
                slider("nics", "network ports of a node", counts, machine.nics),
                *(tapers if machine.pods > 1 else []),
            ],
            task=task,
            n=float(n),
            shape={
                "nodes": machine.nodes,
                "perNode": machine.ranks_per_node,
                "podNodes": machine.pod_nodes,
                "taper": machine.taper,
            },
            betas={"inside": float(machine.inside.beta), "nic": float(machine.nic.beta)},
            edges=[shares(schedule) for schedule in self._schedules],
            orders=self._orders,
        )

    def names(self, *, schedule: int, seats: str, order: Sequence[int] | None = None,
              **changes) -> dict[str, float]:  # fmt: skip
        """The names of a task: seconds of the busiest port, the bound, and what the machine is."""
        order = tuple(self._orders[seats] if order is None else order)
        machine = replace(self._machine, order=order, **changes)
        loads = machine.edge_loads(self._schedules[schedule], self._n)
        seconds = max(load / machine.wires[port.kind].beta for port, load in loads.items())
        bound = float(machine.cut_bound_time(self._n))
        return {
            "time": float(seconds), "bound": bound, "nics": machine.nics, "taper": machine.taper
        }  # fmt: skip


def _check(schedules: Mapping[str, Schedule], machine: Nodes) -> None:
    if machine.P > MOST_RANKS or machine.ranks_per_node > MOST_PER_NODE:
        raise ValueError(
            f"machine: at most {MOST_RANKS} ranks, {MOST_PER_NODE} in a node; "
            f"got {machine.P} and {machine.ranks_per_node}"
        )
    if not 1 <= len(schedules) <= MOST_SCHEDULES:
        raise ValueError(f"schedules: from 1 to {MOST_SCHEDULES}; got {len(schedules)}")
    for label, schedule in schedules.items():
        if schedule.P != machine.P:
            raise ValueError(f"{label}: {schedule.P} ranks on a machine of {machine.P}")


def shares(schedule: Schedule) -> list[list]:
    """Who sends how much to whom in a whole schedule: [source, destination, share of n].

    >>> from dtlib.collectives import ring_all_reduce
    >>> shares(ring_all_reduce(2))
    [[0, 1, 1.0], [1, 0, 1.0]]
    """
    chunks = np.zeros((schedule.P, schedule.P), dtype=np.int64)
    for run in schedule.rounds.runs:
        np.add.at(chunks, (run[0].src, run[0].dst), len(run) * run[0].count)
    return [
        [int(src), int(dst), int(chunks[src, dst]) / schedule.parts]
        for src, dst in np.argwhere(chunks)
    ]
