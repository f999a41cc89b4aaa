"""How far a scene was played is kept under a scene's name; what was kept as a bet comes along."""

import json

from page import opened

from dtlib.explore import PipelineBuilder
from dtlib.explore.pipeline_builder.levels import LEVELS, tiles

OLD, NEW = "dtlib-bet:toy", "dtlib-scene:toy"
KEPT = "name => JSON.parse(localStorage.getItem(name))"
STARTS = {str(i): level.start() for i, level in enumerate(LEVELS)}
SOLVED = STARTS | {"0": tiles(LEVELS[0].best)}
DONE = {"level": 1, "work": STARTS, "won": [0]}
ORDER = ("drawing", "summary", "actions")


def builder() -> PipelineBuilder:
    return PipelineBuilder(title="Toy", key="toy")


def begin_with(tab, kept: dict) -> None:
    tab.evaluate("localStorage.clear()")
    for name, data in kept.items():
        tab.evaluate("([name, data]) => localStorage.setItem(name, data)", [name, json.dumps(data)])
    tab.reload()
    tab.wait_for_selector("html[data-widgets=ready]")
    tab.wait_for_selector(".dt-choice input")


def level(tab) -> int:
    radios = tab.locator(".dt-choice input")
    return [radios.nth(i).is_checked() for i in range(radios.count())].index(True)


def test_a_scene_that_was_kept_as_a_bet_goes_on_and_is_kept_as_a_scene(browser, tmp_path):
    with opened(browser, tmp_path, builder()) as tab:
        begin_with(tab, {OLD: DONE})
        assert level(tab) == 1
        assert tab.evaluate(KEPT, OLD) is None
        assert tab.evaluate(KEPT, NEW)["won"] == [0]
        tab.locator(".dt-choice input").nth(2).check()
        assert tab.evaluate(KEPT, NEW)["level"] == 2


def test_what_is_kept_already_is_not_overwritten_by_what_is_older(browser, tmp_path):
    with opened(browser, tmp_path, builder()) as tab:
        begin_with(tab, {OLD: DONE, NEW: DONE | {"level": 3}})
        assert level(tab) == 3


def test_the_next_level_begins_at_its_task_and_has_the_keyboard(browser, tmp_path):
    with opened(browser, tmp_path, builder(), viewport={"width": 390, "height": 500}) as tab:
        begin_with(tab, {NEW: {"level": 0, "work": SOLVED, "won": [0]}})
        tab.get_by_role("button", name="Next").click()
        assert level(tab) == 1
        assert tab.evaluate("document.activeElement.matches('.dt-choice input:checked')")
        assert 0 <= tab.locator(".dt-task").bounding_box()["y"] < 100


def test_the_sentence_stands_between_the_grid_and_the_buttons(browser, tmp_path):
    with opened(browser, tmp_path, builder(), viewport={"width": 390, "height": 500}) as tab:
        tops = [tab.locator(f".dt-{part}").first.bounding_box()["y"] for part in ORDER]
        assert tops == sorted(tops)
