"""The board of axes: the page computes what the library computes, from the keyboard as well."""

import itertools
import json

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import PlacementBoard, Task
from dtlib.foundations import Axis, AxisOrder, axis_orders, boundary_time, catalog, format_quantity

AXES = (Axis("data", 8, 3.8e9), Axis("pipeline", 4, 4.3e9), Axis("tensor", 16, 150e9))
LINKS = {"link": catalog["nvlink4"].beta, "port": catalog["ib-ndr400"].beta}
TASK = Task("sort them", "faster == 0", {"order": ["tensor", "pipeline", "data"]}, "Sorted.")


def board(**options) -> PlacementBoard:
    return PlacementBoard(AXES, **LINKS, **{"title": "Who crosses?", "taper": 7} | options)


STATES = [
    {"node": node, "pod": pod, "sharing": sharing, "taper": taper}
    for node, pod in itertools.product((4, 8, 32), (64, 512))
    for sharing, taper in ((1, 7), (4, 1), (2, 3))
]


@pytest.fixture(scope="module")
def model():
    scripts = Scripts("js/placing_model.js")
    names = "traffic, members, container, uplink"
    scripts.context.eval(f"globalThis.time = ({names}) => {boundary_time.js()}")
    return scripts


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_page_computes_every_order_as_the_library_does(model, state):
    shown = board()
    levels = shown.levels(**state)
    axes = shown.spec["axes"]
    sent = model("levelsOf(state, links)", state=state, links=shown.spec["links"])
    assert sent == [
        {"name": level.name, "ranks": level.ranks, "uplink": pytest.approx(level.uplink)}
        for level in levels
    ]
    for order in itertools.permutations(range(3)):
        places = model("placed(axes, order, sent, time)", axes=axes, order=order, sent=sent)
        here = AxisOrder(levels, [AXES[i] for i in order])
        for place in places:
            name = place["name"]
            assert place["stride"] == here.stride(name)
            assert place["seconds"] == pytest.approx(here.axis_time(name), rel=1e-12)
            assert place["members"] == [here.members(name, level.name) for level in levels]


def test_the_page_knows_every_order_once(model):
    for count in (1, 2, 3, 4):
        orders = model(f"ordersOf({count})")
        assert sorted(map(tuple, orders)) == list(itertools.permutations(range(count)))
    assert model("moved([0, 1, 2], 2, 0)") == [2, 0, 1]
    assert model("moved([0, 1, 2], 0, 2)") == [1, 2, 0]


def test_sabotage_a_wall_that_counts_no_members_is_noticed(model):
    shown = board()
    sent = model("levelsOf(state, links)", state=STATES[0], links=shown.spec["links"])
    model.context.eval("globalThis.wrong = (traffic, members, c, u) => (c * traffic) / u")
    axes = shown.spec["axes"]
    right, wrong = (
        model(f"totalOf(placed(axes, [0, 1, 2], sent, {f}))", axes=axes, sent=sent)
        for f in ("time", "wrong")
    )
    assert right != pytest.approx(wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"node": 6}, "node: 6 is no power of two"),
        ({"taper": 9}, "taper 9; allowed are 1, 2, 3"),
        ({"sharing": 3}, "sharing 3; allowed are 1, 2, 4, 8"),
        ({"task": Task("", "total > 0", {})}, "met already at the start"),
        ({"task": Task("", "total < 0", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are node"),
    ],
)
def test_a_board_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        board(**options)


def test_one_axis_cannot_be_put_in_order():
    with pytest.raises(ValueError, match="axes: from 2 to 4; got 1"):
        PlacementBoard(AXES[:1], **LINKS, title="t")
    with pytest.raises(ValueError, match="axis b: 3 is no power of two"):
        PlacementBoard((*AXES[:1], Axis("b", 3, 1)), **LINKS, title="t")


def test_a_board_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = board(task=TASK), board(task=TASK)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert first.static().html.startswith('<figure class="dt-figure dt-static">')
    assert repr(first) == "PlacementBoard('Who crosses?')"
    assert first._esm.count("export default {") == 1


@pytest.fixture(scope="module")
def tab(browser, tmp_path_factory):
    options = {"viewport": {"width": 1280, "height": 900}}
    with opened(browser, tmp_path_factory.mktemp("board"), board(task=TASK), **options) as tab:
        yield tab


def piece(tab, name):
    return tab.locator(f'.dt-piece[aria-label^="{name}"]')


def says(tab, total):
    tab.wait_for_function(
        "text => document.querySelector('.dt-summary').textContent.includes(text)",
        arg=f"in a step: {format_quantity(total, 's', 3)} ",
    )


def test_keys_put_the_axes_in_order_and_the_task_notices(tab):
    tab.locator(".dt-reset").click()
    shown = board()
    every = axis_orders(shown.levels(8, 64, 1, 7), AXES)
    says(tab, AxisOrder(shown.levels(8, 64, 1, 7), AXES).time)
    piece(tab, "tensor").focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowLeft")
    assert piece(tab, "tensor").get_attribute("aria-valuenow") == "1"
    assert piece(tab, "tensor").evaluate("node => node === document.activeElement")
    piece(tab, "pipeline").focus()
    tab.keyboard.press("ArrowLeft")
    says(tab, every[0].time)
    assert "Done. Sorted." in tab.locator(".dt-task").inner_text()


def test_a_wall_and_a_block_can_be_dragged(tab):
    tab.locator(".dt-reset").click()
    box = tab.locator(".dt-placing").bounding_box()
    doubling = (box["width"] - 24) / 9
    at = box["x"] + 12 + 3 * doubling
    tab.mouse.move(at, box["y"] + 64)
    tab.mouse.down()
    tab.mouse.move(at + 2 * doubling, box["y"] + 64, steps=6)
    tab.mouse.up()
    shown = board()
    says(tab, AxisOrder(shown.levels(32, 64, 1, 7), AXES).time)
    assert piece(tab, "GPUs in a node").get_attribute("aria-valuetext") == "32 GPUs"
    tab.mouse.move(box["x"] + 12 + 8 * doubling, box["y"] + 110)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 20, box["y"] + 110, steps=12)
    tab.mouse.up()
    says(tab, AxisOrder(shown.levels(32, 64, 1, 7), (AXES[2], *AXES[:2])).time)
    tab.locator(".dt-reset").click()
    says(tab, AxisOrder(shown.levels(8, 64, 1, 7), AXES).time)
