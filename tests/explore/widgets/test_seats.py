"""Seats of ranks: the page computes the loads and times that the library computes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from page import opened
from scripts import Scripts

from dtlib.collectives import (
    Nodes,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    round_robin,
)
from dtlib.explore import SeatPlan, Task
from dtlib.foundations import GB, format_quantity


def rail_ring(nodes, gpus):
    turned = [
        [m * gpus + (i + k) % gpus for m in range(nodes) for i in range(gpus)] for k in range(gpus)
    ]
    return ring_all_reduce(nodes * gpus).over(turned, shares=True)


def hierarchical(nodes, gpus):
    seats = np.arange(nodes * gpus).reshape(nodes, gpus)
    inside = ring_reduce_scatter(gpus).over(seats).cut(nodes)
    back = ring_all_gather(gpus).over(seats).cut(nodes)
    return inside >> ring_all_reduce(nodes).over(seats.T, shares=True) >> back


SCHEDULES = {
    "one ring": ring_all_reduce(16),
    "a ring for each port": rail_ring(4, 4),
    "hierarchical": hierarchical(4, 4),
}
EXCHANGED = [0, 9, 2, 3, 4, 5, 6, 7, 8, 1, *range(10, 16)]
MACHINE = Nodes(4, 4, inside=(0, 450 * GB), nic=(0, 50 * GB), pod_nodes=2, order=EXCHANGED)
TASK = Task("repair", "time < 0.376 and nics == 1", {"order": range(16)}, "Repaired.")


def plan(**options) -> SeatPlan:
    return SeatPlan(SCHEDULES, 10 * GB, MACHINE, **{"title": "Who sits where?"} | options)


@pytest.fixture(scope="module")
def model():
    return Scripts("seats/model.js")


ORDERS = [
    list(range(16)),
    EXCHANGED,
    round_robin(4, 4),
    np.random.default_rng(3).permutation(16).tolist(),
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_page_computes_the_loads_of_every_port_as_the_library_does(model, order):
    spec = plan().spec
    for (i, schedule), nics, taper in product(enumerate(SCHEDULES.values()), (1, 2, 4), (1, 4)):
        machine = replace(MACHINE, order=order, nics=nics, taper=taper)
        shape = spec["shape"] | {"nics": nics, "taper": taper}
        given = {
            "edges": spec["edges"][i],
            "order": order,
            "shape": shape,
        }
        sent = model("seatLoads(edges, order, shape)", **given)
        for port, load in machine.edge_loads(schedule, 1).items():
            assert sent[port.kind][port.direction][port.number] == pytest.approx(float(load))
        total = sum(sum(way) for ways in sent.values() for way in ways.values())
        assert total == pytest.approx(float(sum(machine.edge_loads(schedule, 1).values())))
        betas = model("seatBetas(shape, betas)", shape=shape, betas=spec["betas"])
        assert betas == pytest.approx({kind: w.beta for kind, w in machine.wires.items()})
        values = plan().names(schedule=i, seats="as given", order=order, nics=nics, taper=taper)
        worst = model("seatTime(loads, betas, n)", loads=sent, betas=betas, n=spec["n"])
        assert worst["seconds"] == pytest.approx(values["time"])
        bound = model("seatBound(shape, betas, n)", shape=shape, betas=betas, n=spec["n"])
        assert bound == pytest.approx(values["bound"])


def test_two_ranks_change_places_and_no_other(model):
    assert model("exchanged([2, 0, 1], 0, 1)") == [2, 1, 0]
    for order in plan().spec["orders"].values():
        assert sorted(order) == list(range(16))


def test_sabotage_loads_that_forget_the_order_are_noticed(model):
    spec = plan().spec
    shape = spec["shape"] | {"nics": 1, "taper": 1}
    given = {"edges": spec["edges"][0], "shape": shape}
    right = model("seatLoads(edges, order, shape)", order=EXCHANGED, **given)
    wrong = model("seatLoads(edges, order, shape)", order=list(range(16)), **given)
    assert max(right["NIC"]["out"]) == pytest.approx(3 * max(wrong["NIC"]["out"]))
    assert right != wrong


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": Task("", "time > 0", {})}, "met already at the start"),
        ({"task": Task("", "time < 0", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are schedule"),
    ],
)
def test_a_plan_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        plan(**options)


def test_a_plan_needs_a_machine_and_schedules_that_fit():
    with pytest.raises(ValueError, match="ring: 8 ranks on a machine of 16"):
        SeatPlan({"ring": ring_all_reduce(8)}, 1, MACHINE, title="t")
    with pytest.raises(ValueError, match="at most 32 ranks"):
        SeatPlan({}, 1, replace(MACHINE, nodes=16, order=None), title="t")
    with pytest.raises(ValueError, match="schedules: from 1 to 4; got 0"):
        SeatPlan({}, 1, MACHINE, title="t")
    with pytest.raises(ValueError, match="nics: 3, but must be one of 1, 2, 4"):
        SeatPlan(SCHEDULES, 1, replace(MACHINE, nics=3), title="t")


def test_seats_are_exchanged_by_keys_and_by_presses(browser, tmp_path):
    shown = plan()

    def says(tab, **state):
        seconds = shown.names(**{"schedule": 0, "seats": "as given"} | state)["time"]
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)",
            arg=f"needs {format_quantity(seconds, 's', 3)},",
        )

    viewport = {"width": 1000, "height": 900}
    with opened(browser, tmp_path, plan(task=TASK), viewport=viewport) as tab:
        says(tab)
        tab.get_by_role("button", name="node 0, seat 1").focus()
        for key in ("Enter", "ArrowDown", "ArrowDown", "Enter"):
            tab.keyboard.press(key)
        says(tab, order=range(16))
        assert "Done. Repaired." in tab.locator(".dt-task").inner_text()
        tab.get_by_label("dealt in turn").check()
        says(tab, order=round_robin(4, 4))
        tab.get_by_role("button", name="node 3, seat 3").click()
        tab.get_by_role("button", name="node 0, seat 0").click()
        says(tab, order=[15 if x == 0 else 0 if x == 15 else x for x in round_robin(4, 4)])
        tab.locator(".dt-reset").click()
        says(tab)
