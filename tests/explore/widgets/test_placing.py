"""The board of axes: the page computes what the library computes, from the keyboard as well."""

import itertools

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import PlacementBoard, Task
from dtlib.explore.kit.still import still
from dtlib.foundations import Axis, AxisOrder, axis_orders, boundary_time, catalog, format_quantity

AXES = (Axis("data", 8, 3.8e9), Axis("pipeline", 4, 4.3e9), Axis("tensor", 16, 150e9))
LINKS = {"link": catalog["nvlink4"].beta, "port": catalog["ib-ndr400"].beta}
TASK = Task("sort them", "faster == 0", {"order": ["tensor", "pipeline", "data"]}, "Sorted.")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def board(**options) -> PlacementBoard:
    return PlacementBoard(AXES, **LINKS, **{"title": "Who crosses?", "taper": 7} | options)


STATES = [
    {"node": node, "pod": pod, "sharing": sharing, "taper": taper}
    for node, pod in itertools.product((4, 8, 32), (64, 512))
    for sharing, taper in ((1, 7), (4, 1), (2, 3))
]


@pytest.fixture(scope="module")
def model():
    scripts = Scripts("placing/model.js")
    given = "{ traffic, members, container, uplink }"
    scripts.context.eval(f"globalThis.time = ({given}) => {boundary_time.js()}")
    scripts.context.eval(f"globalThis.wrong = ({given}) => (container * traffic) / uplink")
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
    axes = shown.spec["axes"]
    right, wrong = (
        model(f"totalOf(placed(axes, [0, 1, 2], sent, {f}))", axes=axes, sent=sent)
        for f in ("time", "wrong")
    )
    assert right != pytest.approx(wrong)


def walls(names) -> list[int]:
    return [names[name] for name in ("sharing", "node", "pod")]


@pytest.mark.parametrize(
    ("change", "stand"),
    [
        ({"node": 256}, [1, 256, 512]),
        ({"pod": 4}, [1, 2, 4]),
        ({"sharing": 8}, [8, 8, 64]),
        ({"taper": 2}, [1, 8, 64]),
    ],
)
def test_a_wall_that_is_moved_pushes_the_others_on(change, stand):
    assert walls(still(board(), **change)["names"]) == stand


def test_sabotage_walls_that_push_nothing_stand_across():
    widget = board()
    widget._esm = widget._esm.replace("drag, changed", "drag")
    sharing, node, pod = walls(still(widget, pod=4)["names"])
    assert not sharing <= node < pod


def test_an_axis_that_is_moved_pushes_the_others_on():
    said = still(board(), place_tensor=1)["said"]
    assert said.startswith("From the inside: tensor, data, pipeline.")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"node": 6}, "node: 6, but must be one of 2, 4, 8"),
        ({"pod": 1024}, "pod: 1024, but must be one of 4, 8, 16"),
        ({"taper": 9}, "taper: 9, but must be one of 1, 2, 3"),
        ({"sharing": 3}, "sharing: 3, but must be one of 1, 2, 4, 8"),
        ({"task": Task("", "total > 0", {})}, "met already at the start"),
        ({"task": Task("", "total < 0", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are place_data"),
        (
            {"task": Task("", "total < 1", {"order": ["expert"]})},
            "no axis 'expert'; there are data",
        ),
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


@pytest.fixture(scope="module")
def tab(browser, tmp_path_factory):
    options = {"viewport": {"width": 1280, "height": 900}}
    with opened(browser, tmp_path_factory.mktemp("board"), board(task=TASK), **options) as tab:
        yield tab


def says(tab, total):
    tab.wait_for_function(
        "text => document.querySelector('.dt-summary').textContent.includes(text)",
        arg=f"in a step: {format_quantity(total, 's', 3)} ",
    )


def test_keys_put_the_axes_in_order_and_the_task_notices(tab):
    tab.locator(".dt-reset").click()
    levels = board().levels(8, 64, 1, 7)
    says(tab, AxisOrder(levels, AXES).time)
    tensor = tab.get_by_role("slider", name="tensor")
    tensor.focus()
    for key in ("Home", "ArrowRight", "ArrowLeft"):
        tab.keyboard.press(key)
    assert tensor.get_attribute("aria-valuenow") == "0"
    assert tensor.evaluate("node => node === document.activeElement")
    tab.get_by_role("slider", name="pipeline").focus()
    tab.keyboard.press("ArrowLeft")
    says(tab, axis_orders(levels, AXES)[0].time)
    assert "Done. Sorted." in tab.locator(".dt-task").inner_text()


def drag(tab, grip, doublings):
    """Take hold of a grip and move it along the ruler."""
    box = tab.locator(f'.dt-drawing [data-grip="{grip}"] .dt-handle').bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    step = (tab.locator(".dt-drawing").bounding_box()["width"] - 24) / 9
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + doublings * step, y, steps=12)
    tab.mouse.up()


def test_a_wall_and_a_block_can_be_dragged(tab):
    tab.locator(".dt-reset").click()
    shown = board()
    drag(tab, "node", 2)
    says(tab, AxisOrder(shown.levels(32, 64, 1, 7), AXES).time)
    node = tab.get_by_role("slider", name="GPUs in a node")
    assert node.get_attribute("aria-valuetext") == "32 GPUs"
    assert node.evaluate("node => node === document.activeElement")
    drag(tab, "place_tensor", -6.5)
    says(tab, AxisOrder(shown.levels(32, 64, 1, 7), (AXES[2], *AXES[:2])).time)
    tab.locator(".dt-reset").click()
    says(tab, AxisOrder(shown.levels(8, 64, 1, 7), AXES).time)


MEETING = """(svg) => {
  const { width, height } = svg.viewBox.baseVal;
  const words = [...svg.querySelectorAll("text")].map((one) => {
    const { x, y, width, height } = one.getBBox();
    return { text: one.textContent, left: x, right: x + width, top: y + 3, bottom: y + height };
  });
  const cut = ({ left, right, top, bottom }) =>
    left < -1 || right > width + 1 || top < 0 || bottom > height;
  const meet = (a, b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return words
    .filter((one, i) => cut(one) || words.slice(i + 1).some((other) => meet(one, other)))
    .map(({ text }) => text);
}"""


def test_wherever_the_walls_stand_a_phone_shows_all_words_and_none_on_another(browser, tmp_path):
    with opened(browser, tmp_path, board(), **PHONE) as tab:
        node = tab.get_by_role("slider", name="GPUs in a node")
        figure = tab.locator(".dt-drawing")
        node.press("Home")
        for _ in range(8):
            assert figure.evaluate(MEETING) == []
            node.press("ArrowRight")
        figure.locator("text").first.evaluate("node => node.setAttribute('x', 200)")
        assert figure.evaluate(MEETING)  # sabotage
