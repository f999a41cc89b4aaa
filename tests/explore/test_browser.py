"""The widgets on a page like the site's, driven as a reader would: keys, pointer, small screens."""

from contextlib import contextmanager

import pytest
from page import page

from dtlib.collectives import (
    halving_doubling_all_reduce_time,
    ring_all_reduce_time,
    ring_half_performance_bytes,
    tree_all_reduce_time,
)
from dtlib.explore import Explorer, Fastest, Task, answer, bet, between
from dtlib.formulas.units import GB, KB, MB, format_quantity, us
from dtlib.shown import chapter_header, compare

N = {"n": between(1 * KB, 10 * GB, start=1 * GB)}
P = {"P": between(2, 1024, start=8)}
LINK = {
    "alpha": between(0.1 * us, 100 * us, start=2 * us),
    "beta": between(GB, 1000 * GB, start=50 * GB),
}
START = {"n": 1 * GB, "P": 8, "alpha": 2 * us, "beta": 50 * GB}
PAIR = {"ring": ring_all_reduce_time, "tree": tree_all_reduce_time}
RANKS = 4
NUMBER = '<p>It takes <data value="x" data-formula="time(n = 1 GB) = 35 ms">35 ms</data>.</p>'


def outputs():
    return [
        NUMBER,
        chapter_header("12"),
        bet("12.1", "How long do 1,024 GPUs take?", unit="ms", anchor=35.0, anchor_label="8 GPUs"),
        answer("12.1", 0.04, conclusion="A sum does not care who adds first."),
        Explorer(
            PAIR,
            x=N,
            sliders=P | LINK,
            title="Ring or tree",
            marks={"half the bandwidth": ring_half_performance_bytes},
            task=Task(
                "Let the tree win on 64 ranks.",
                "tree < ring and P >= 64",
                {"P": 64, "n": 1 * KB},
                "Yes.",
            ),
        ),
        Fastest(
            PAIR | {"halving": halving_doubling_all_reduce_time},
            x=N,
            y=P,
            sliders=LINK,
            title="The map",
        ),
        compare([("ring", 0.035, 0.035, [0.05, 0.052, 0.06])], "s"),
    ]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for theme in ("light", "dark"):
        (folder / f"{theme}.html").write_text(page(*outputs(), theme=theme), encoding="utf-8")
    return {theme: (folder / f"{theme}.html").as_uri() for theme in ("light", "dark")}


@pytest.fixture(scope="module")
def visit(browser, addresses):
    """Open the page; nothing may be said on the console, and nothing asked of the network."""

    @contextmanager
    def visit(theme="light", script="", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        context.add_init_script(script)
        tab, faults = context.new_page(), []
        tab.on(
            "console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None
        )
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("request", lambda r: faults.append(r.url) if r.url.startswith("http") else None)
        tab.goto(addresses[theme])
        if options.get("java_script_enabled", True):
            tab.wait_for_selector("html[data-widgets=ready]")
        yield tab
        context.close()
        assert faults == []

    return visit


def widget(tab, title: str):
    return tab.get_by_role("group", name=title, exact=True)


def values(group) -> list[str]:
    return group.locator(".dt-row-value").all_inner_texts()


def times(**changes) -> list[str]:
    return [format_quantity(f(**START | changes), "s", 3) for f in PAIR.values()]


def test_keys_move_the_probe_and_the_sliders_to_the_library_s_values(visit):
    with visit() as tab:
        explorer = widget(tab, "Ring or tree")
        assert values(explorer) == times()
        probe = explorer.get_by_role("slider", name="bytes of the message")
        probe.focus()
        for _ in range(40):
            tab.keyboard.press("ArrowLeft")
        assert probe.get_attribute("aria-valuetext") == "10 MB"
        assert values(explorer) == times(n=10 * MB)
        tab.keyboard.press("Tab")
        for _ in range(3):
            tab.keyboard.press("ArrowRight")
        assert values(explorer) == times(n=10 * MB, P=64)
        explorer.get_by_text("At n = 10 MB, P = 64").wait_for()
        explorer.get_by_role("button", name="Reset").click()
        assert values(explorer) == times()


def test_the_formula_shows_the_numbers_of_the_moment(visit):
    with visit() as tab:
        explorer = widget(tab, "Ring or tree")
        explorer.get_by_role("slider", name="ranks").fill("5")
        numbers = explorer.locator(".dt-row").first.locator(".dt-number").all_text_contents()
        shown = [number.replace("\u202f", " ") for number in numbers]
        assert shown == ["64", "2 µs", "64", "64", "1 GB", "50 GB/s"]


def test_the_pointer_drags_the_probe(visit):
    with visit() as tab:
        explorer = widget(tab, "Ring or tree")
        explorer.locator(".dt-handle").scroll_into_view_if_needed()
        handle = explorer.locator(".dt-handle").bounding_box()
        x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
        tab.mouse.move(x, y)
        tab.mouse.down()
        tab.mouse.move(x - 150, y, steps=4)
        tab.mouse.up()
        probe = explorer.get_by_role("slider", name="bytes of the message")
        text = probe.get_attribute("aria-valuetext")
        moved = next(v for v in N["n"].values if format_quantity(v, "B", 3) == text)
        assert moved < 0.1 * GB
        assert values(explorer) == times(n=moved)
        tab.keyboard.press("ArrowRight")
        assert probe.get_attribute("aria-valuetext") != text, "keys go on where the pointer ended"


def test_a_curve_can_be_singled_out(visit):
    with visit() as tab:
        explorer = widget(tab, "Ring or tree")
        name = explorer.get_by_role("button", name="tree")
        dim = explorer.locator("path.dt-curve[opacity]")
        name.press("Enter")
        assert name.get_attribute("aria-pressed") == "true" and dim.count() == 1
        name.press("Enter")
        assert name.get_attribute("aria-pressed") == "false" and dim.count() == 0


def test_the_map_names_the_fastest_at_its_point(visit):
    with visit() as tab:
        map_ = widget(tab, "The map")
        map_.get_by_role("slider", name="ranks").fill("9")
        map_.get_by_role("slider", name="bytes of the message").press("Home")
        at = START | {"n": 1 * KB, "P": 1024}
        formulas = [*PAIR.values(), halving_doubling_all_reduce_time]
        found = [f(**at) for f in formulas]
        for text, value in zip(values(map_), found, strict=True):
            assert text.startswith(format_quantity(value, "s", 3))
            assert text.endswith("fastest") == (value == min(found))


BLOCKED = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('blocked'); }});"


def test_a_bet_is_answered_where_nothing_may_be_kept(visit):
    from playwright.sync_api import expect

    with visit(script=BLOCKED) as tab:
        field = tab.get_by_label("Your bet in ms")
        field.fill("4 s")
        field.press("Enter")
        assert "your bet: 4 s" in tab.locator(".dt-kind-bet").inner_text()
        said = expect(tab.locator(".dt-kind-answer"))
        said.to_contain_text("You said 4 s, it is 40 ms, off by a factor 100.")
        said.to_contain_text("A sum does not care")


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_nothing_on_the_page_shuts_a_reader_out(visit, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    screen = {"width": width, "height": 900}
    with visit(theme, color_scheme=theme, viewport=screen) as tab:
        tab.get_by_role("button", name="Skip").first.click()
        found = axe.run(tab).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []
        ink = tab.locator(".dt-widget").first.evaluate("x => getComputedStyle(x).color")
        assert ink == {"light": "rgb(31, 35, 40)", "dark": "rgb(230, 233, 238)"}[theme]


def test_a_phone_shows_it_all_and_every_target_can_be_hit(visit):
    phone = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
    with visit(**phone) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        targets = tab.locator("button:visible, input:visible:not([type=radio]), label:visible")
        boxes = targets.evaluate_all("all => all.map(x => x.getBoundingClientRect())")
        small = [box for box in boxes if min(box["width"], box["height"]) < 40]
        assert small == []
        explorer = widget(tab, "Ring or tree")
        drawing = explorer.locator("svg.dt-drawing")
        drawing.scroll_into_view_if_needed()
        box = drawing.bounding_box()
        tab.touchscreen.tap(box["x"] + 120, box["y"] + 100)
        probe = explorer.get_by_role("slider", name="bytes of the message")
        text = probe.get_attribute("aria-valuetext")
        assert text != "1 GB"


def test_without_scripts_and_in_print_there_are_figures(visit):
    with visit(java_script_enabled=False) as tab:
        assert tab.locator(".dt-static:visible").count() == 4
    with visit() as tab:
        assert tab.locator(".dt-static:visible").count() == 0
        tab.emulate_media(media="print")
        assert tab.locator(".dt-static:visible").count() == 4
        assert tab.locator(".dt-widget:visible").count() == 0


def test_a_number_in_prose_shows_its_formula(visit):
    with visit() as tab:
        number, tip = tab.locator("data"), tab.locator(".dt-tip")
        assert not tip.is_visible()
        tab.keyboard.press("Tab")
        assert tip.inner_text() == "time(n = 1 GB) = 35 ms"
        assert number.get_attribute("aria-describedby") == tip.get_attribute("id")
        tab.keyboard.press("Escape")
        assert not tip.is_visible()
        number.hover()
        assert tip.is_visible()
        tip.hover()
        tab.wait_for_timeout(300)
        assert tip.is_visible(), "a pointer may rest on the formula"
