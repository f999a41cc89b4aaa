"""A finger that begins on a handle moves the handle, up and down too, and not the page."""

import pytest
from page import opened

from dtlib.collectives import ring_all_reduce_time, tree_all_reduce_time
from dtlib.explore import Fastest, OneRun, PlacementBoard, Walls, between
from dtlib.formulas.units import GB, KB, day, us
from dtlib.foundations import Axis, catalog

PHONE = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
SPACE = "<p style='height: 1500px'>A page to scroll.</p>"
BELOW, STEPS = 90, 12  # pixels that the finger goes down, and in how many steps
SABOTAGE = ".dt-grab { pointer-events: none !important }"


def fastest():
    return Fastest(
        {"ring": ring_all_reduce_time, "tree": tree_all_reduce_time},
        x={"n": between(1 * KB, 10 * GB, start=1 * GB)},
        y={"P": between(2, 1024, start=128)},
        sliders={},
        fixed={"alpha": 2 * us, "beta": 50 * GB},
        title="Map",
    )


def walls():
    H100 = catalog["h100-sxm"]
    return Walls(
        params=between(1e8, 1e13, start=5e10),
        tokens=between(1e9, 1e14, start=1e13),
        P=between(1, 65536, start=1),
        mfu=between(0.1, 0.6, start=0.4, step=0.05),
        gpus={"H100": H100},
        deadline=90 * day,
        tokens_per_param=20,
        batch_tokens=4e6,
        beta=50 * GB,
        models={},
        title="What fits",
    )


def one_run():
    step = {"compute": 100, "n": 10 * GB, "alpha": 10 * us, "beta": 50 * GB}
    A100 = catalog["a100-sxm"]
    return OneRun(title="Draw", params=175e9, tokens=300e9, gpu=A100, **step)


def board():
    axes = (Axis("data", 8, 3.8e9), Axis("tensor", 16, 150e9))
    return PlacementBoard(axes, catalog["nvlink4"].beta, catalog["ib-ndr400"].beta, title="Walls")


HANDLES = {
    fastest: ".dt-handle",
    walls: ".dt-handle",
    one_run: ".dt-handle",
    board: "[data-grip=node] .dt-grab",
}
SIDEWAYS = {board, one_run}  # a wall moves along the ruler only, a pen does not go back
each_figure = pytest.mark.parametrize("make", HANDLES, ids=lambda make: make.__name__)


def drag(browser, folder, make, style="") -> tuple[str, float]:
    """How a finger's way down from the handle ends, and how far the handle has come with it.

    A page that begins to scroll takes the finger away: the event that ends it is a cancel.
    """
    with opened(browser, folder, SPACE, make(), SPACE, **PHONE) as tab:
        tab.add_style_tag(content=style or "p {}")
        handle = tab.locator(".dt-widget").locator(HANDLES[make]).first
        handle.evaluate("node => node.scrollIntoView({ block: 'center' })")
        tab.evaluate("""() => {
          for (const end of ["pointerup", "pointercancel"])
            addEventListener(end, () => { globalThis.end ??= end }, true);
        }""")
        before = handle.bounding_box()
        x, y = (before[at] + before[size] / 2 for at, size in (("x", "width"), ("y", "height")))
        finger = tab.context.new_cdp_session(tab)
        for step in range(STEPS + 1):
            points = [{"x": x, "y": y + BELOW * step / STEPS}]
            kind = "touchMove" if step else "touchStart"
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        end = tab.wait_for_function("globalThis.end").json_value()
        moved = "(node, y) => node.getBoundingClientRect().y + scrollY - y"
        page = tab.evaluate("scrollY")
        return end, handle.evaluate(moved, before["y"] + page)


@each_figure
def test_a_finger_takes_the_handle_along(browser, tmp_path, make):
    end, moved = drag(browser, tmp_path, make)
    assert end == "pointerup"
    assert moved == pytest.approx(0 if make in SIDEWAYS else BELOW, abs=20)


@pytest.mark.parametrize("make", HANDLES)
def test_sabotage_a_handle_without_its_grip_loses_the_finger_to_the_page(browser, tmp_path, make):
    end, _ = drag(browser, tmp_path, make, SABOTAGE)
    assert end == "pointercancel"
