"""Axes in an order on nodes: groups are the library's, and edges that leave are counted."""

import re

import pytest
from scripts import Scripts

from dtlib.explore import MeshPainter, Task
from dtlib.explore.kit.still import still
from dtlib.machines.axis_order import Axis
from dtlib.mesh import Mesh

AXES = (Axis("dp", 2, 8e9), Axis("tp", 4, 60e9), Axis("pp", 4, 0.4e9))
ORDERS = ["dp tp pp", "dp pp tp", "tp dp pp", "tp pp dp", "pp dp tp", "pp tp dp"]


def painter(**options) -> MeshPainter:
    given = {"title": "Which axis leaves the node?", "axes": AXES, "order": ("tp", "dp", "pp")}
    return MeshPainter(**given | options)


@pytest.mark.parametrize("order", ORDERS)
def test_the_page_has_the_groups_of_the_mesh(order):
    model, names = Scripts("mesh_painter/model.js"), order.split()
    sizes = {axis.name: axis.size for axis in AXES}
    axes = [{"name": name, "size": sizes[name]} for name in names]
    mesh = Mesh([sizes[name] for name in names], names)
    for name in names:
        assert model("groupsAlong(axes, name)", axes=axes, name=name) == mesh.groups(name)


@pytest.mark.parametrize("node", [4, 8])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("axis", ["dp", "tp", "pp"])
def test_every_state_names_the_same_numbers(order, axis, node):
    shown, state = painter(), {"order": order, "axis": axis, "node": node}
    names = still(shown, **state)["names"]
    expected = shown.names(**state)
    assert {name: names[name] for name in expected} == pytest.approx(expected)


def test_as_many_edges_glow_as_leave_a_node():
    shown = painter()
    for order in ORDERS:
        drawing = still(shown, order=order, axis="pp")["figures"][0]
        assert (
            len(re.findall(r'stroke-dasharray="6 3"', drawing)) == shown.crossings(order, 8)["pp"]
        )


def test_an_axis_innermost_stays_in_its_node_and_outermost_leaves_with_every_edge():
    shown = painter()
    assert shown.crossings("pp dp tp", 8) == {"pp": 32, "dp": 0, "tp": 0}
    assert shown.crossings("tp dp pp", 8) == {"tp": 32, "dp": 0, "pp": 0}
    assert shown.crossings("dp pp tp", 8) == {"dp": 32, "pp": 16, "tp": 0}
    names = shown.names(order="pp dp tp", axis="tp", node=8)
    assert names == {"away": 32 * 0.4e9, "least": 32 * 0.4e9, "heaviest_away": 0, "crossing": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"order": ("tp", "dp")}, "order: 'tp dp', but must be one of"),
        ({"axis": "cp"}, "axis: 'cp', but must be one of dp, tp, pp"),
        ({"axes": (*AXES[:2], Axis("pp", 8, 1e9))}, "ranks is 64, but must be a multiple of 8"),
        ({"axes": AXES[1:2] * 1, "order": ("tp",)}, "ranks is 4, but must be a multiple of 8"),
        ({"task": Task("", "away == 7", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        painter(**options)
