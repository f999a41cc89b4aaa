"""SeatPlan: ranks on the GPUs of nodes, which the reader exchanges, and what each port carries."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dtlib.collectives.nodes import Nodes
from dtlib.collectives.schedule import Schedule
from dtlib.explore.controls import Task, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity

MOST_RANKS, MOST_PER_NODE, MOST_SCHEDULES = 32, 8, 4
TAPERS = (1, 2, 4, 8)
_NAMES = ("time", "bound", "nics", "taper", "schedule")


class SeatPlan(Widget):
    """Ranks that can change places, with a heat map of the network ports; bytes only, no latency.

    Arguments: `schedules`, a mapping from label to all-reduce, one to four; `n`, bytes of one
    rank's message; `machine`, a `Nodes` whose order, NICs and taper are shown first; `task`, a
    `Task` over ``time`` (seconds that the busiest port needs), ``bound`` (`Nodes.cut_bound_time`),
    ``nics`` (of a node), ``taper`` and ``schedule`` (0 for the first), whose solution gives some of
    ``order``, ``nics``, ``taper`` and ``schedule``.
    Raises ValueError for too many ranks, other numbers of ranks, and a task that cannot be met.
    """

    _esm = script("quantities.js", "page.js", "seats_model.js", "seats.js")
    _css = script("widget.css", "plot.css", "seats.css")

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        n: float,
        machine: Nodes,
        *,
        title: str,
        task: Task | None = None,
    ):
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
        counts = [k for k in (1, 2, 4, 8) if k <= machine.ranks_per_node]
        tapers = TAPERS if machine.pods > 1 else TAPERS[:1]
        if machine.nics not in counts or machine.taper not in tapers:
            raise ValueError(f"nics must be of {counts} and taper of {list(tapers)}")
        self._schedules, self._n, self._machine = dict(schedules), n, machine
        order = list(range(machine.P)) if machine.order is None else list(machine.order)
        start = {"nics": machine.nics, "taper": machine.taper, "schedule": 0}
        spec = {
            "title": title,
            "n": float(n),
            "shape": {
                "nodes": machine.nodes,
                "perNode": machine.ranks_per_node,
                "podNodes": machine.pod_nodes,
            },
            "betas": {"inside": float(machine.inside.beta), "nic": float(machine.nic.beta)},
            "schedules": [
                {"label": label, "edges": shares(schedule)} for label, schedule in schedules.items()
            ],
            "sliders": [
                slider_over("nics", "network ports of a node", "", counts, machine.nics),
                slider_over("taper", "taper out of a pod", "×", tapers, machine.taper),
            ][: 1 + (len(tapers) > 1)],
            "start": start | {"order": order},
            "task": self._task(task),
        }
        super().__init__(spec=spec)

    def values(
        self, order: Sequence[int] | None = None, schedule: int = 0, **changes
    ) -> dict[str, float]:
        """The names of a task for an order, a schedule, and other ports or taper."""
        order = self._machine.order if order is None else tuple(order)
        machine = replace(self._machine, order=order, **changes)
        _, seconds = self._busiest(machine, list(self._schedules.values())[schedule])
        bound = float(machine.cut_bound_time(self._n))
        named = {"nics": machine.nics, "taper": machine.taper, "schedule": schedule}
        return {"time": float(seconds), "bound": bound} | named

    def _busiest(self, machine: Nodes, schedule: Schedule) -> tuple:
        loads = machine.edge_loads(schedule, self._n)
        times = {port: load / machine.wires[port.kind].beta for port, load in loads.items()}
        return max(times.items(), key=lambda item: item[1])

    def _task(self, task: Task | None) -> dict | None:
        if task is None:
            return None
        return task.checked(self.values) | {"names": list(_NAMES)}

    def _figure(self) -> str:
        from dtlib.style import BACKWARD, figure, inline_svg, quantity_axis

        machine, label = self._machine, next(iter(self._schedules))
        loads = machine.edge_loads(self._schedules[label], self._n)
        out = {
            p.number: load for p, load in loads.items() if (p.kind, p.direction) == ("NIC", "out")
        }
        numbers = range(machine.nodes * machine.nics)
        fig, ax = figure(height=2.4)
        names = [f"node {k // machine.nics}, port {k % machine.nics}" for k in numbers]
        ax.barh(names, [float(out.get(k, 0)) for k in numbers], color=BACKWARD, alpha=0.7)
        ax.invert_yaxis()
        quantity_axis(ax.xaxis, "B", "bytes out of the port")
        port, seconds = self._busiest(machine, self._schedules[label])
        text = f"{label}: {port} needs {format_quantity(float(seconds), 's', 3)}"
        caption = f"{as_sentence(self.spec['title'])} {html.escape(text)}."
        return inline_svg(fig, alt=text) + f"\n<figcaption>{caption}</figcaption>"


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
