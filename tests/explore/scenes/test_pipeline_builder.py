"""The pipeline builder: its rules are the library's, its levels can be done in every way."""

import re
from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page import opened
from scripts import Scripts

from dtlib.explore import PipelineBuilder
from dtlib.explore.kit.still import still
from dtlib.explore.pipeline_builder.levels import LEVELS, one_by_one, tiles
from dtlib.explore.pipeline_builder.pipeline_builder import as_schedule, solved
from dtlib.parallelism.pipeline import (
    PipelineSchedule,
    check_schedule,
    gpipe,
    one_f_one_b,
    simulate,
    zero_bubble,
)

BUILDERS = {
    "one by one": one_by_one,
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "ZB-H1": lambda p, m: zero_bubble(p, m, c=1),
    "ZB-H2": lambda p, m: zero_bubble(p, m, c=2),
}
NUMBERED = list(enumerate(LEVELS))


def builder() -> PipelineBuilder:
    return PipelineBuilder(title="A pipeline", key="a-pipeline")


@pytest.fixture(scope="module")
def model():
    return Scripts("pipeline_lab/model.js", "pipeline_builder/model.js")


def shape(schedule, **more) -> dict:
    far = 3 * schedule.p * schedule.m + 9
    return {"p": schedule.p, "m": schedule.m, "columns": far, "goal": far, "room": None,
            "split": schedule.splits_backward} | more  # fmt: skip


# The rules are the library's.


@pytest.mark.parametrize("name", BUILDERS)
def test_the_grid_counts_a_schedule_as_the_simulator_does(model, name):
    for p, m in product(range(1, 7), range(1, 10)):
        schedule = BUILDERS[name](p, m)
        timeline = simulate(schedule)
        lying = tiles(schedule)
        built = model("builtOf(level, lying)", level=shape(schedule), lying=lying)
        assert built["makespan"] == timeline.makespan
        assert built["idle"] == pytest.approx(float(timeline.bubble_fraction), abs=1e-12)
        assert built["peaks"] == timeline.peak_activations
        assert built["solved"] and not any(one["lacks"] for one in built["actions"])
        found = [(a["rank"], f"{a['stage']}{a['kind']}{a['batch']}") for a in built["actions"]]
        assert sorted(found) == sorted((span.rank, span.name) for span in timeline.spans)


shuffles = st.tuples(
    st.sampled_from(sorted(BUILDERS)), st.integers(2, 4), st.integers(1, 4), st.randoms()
)


@given(shuffles)
def test_what_the_grid_refuses_is_what_the_checker_or_the_simulator_refuses(model, drawn):
    """One action goes earlier, to where its rank is free: both sides judge alike."""
    name, p, m, random = drawn
    schedule = BUILDERS[name](p, m)
    lying = tiles(schedule)
    at = random.randrange(len(lying))
    rank, start, kind = lying[at]
    others = [(time, time + 1 + (k == "BW")) for r, time, k in lying if r == rank and time != start]
    stay = 1 + (kind == "BW")
    free = [
        time
        for time in range(max(0, start - 4), start + 1)
        if all(time + stay <= begin or stop <= time for begin, stop in others)
    ]
    lying[at] = [rank, random.choice(free), kind]
    built = model("builtOf(level, lying)", level=shape(schedule), lying=lying)
    level = SimpleNamespace(best=schedule, goal=99, room=None)
    assert built["solved"] == solved(level, *as_schedule(level, lying))


def test_sabotage_a_grid_that_forgets_the_stage_after_takes_what_the_library_refuses(model):
    level = shape(gpipe(2, 1))
    wrong = [[0, 0, "F"], [0, 1, "BW"], [1, 1, "F"], [1, 2, "BW"]]
    assert not model("builtOf(level, lying)", level=level, lying=wrong)["solved"]
    forgetful = Scripts("pipeline_lab/model.js", "pipeline_builder/model.js")
    forgetful.context.eval("pipelineNeeds = ({ kind, stage, batch }) => "
                           "kind === 'F' && stage ? [`${stage - 1}F${batch}`] : []")  # fmt: skip
    assert forgetful("builtOf(level, lying)", level=level, lying=wrong)["solved"]


@pytest.mark.parametrize(("at", "level"), NUMBERED, ids=[level.name for level in LEVELS])
def test_a_level_is_done_by_its_schedule_and_not_at_the_start(at, level):
    check_schedule(level.best)
    assert simulate(level.best).makespan == level.goal
    assert max(level.best.peak_activations) <= (level.room or level.best.m)
    work = {str(at): tiles(level.best)}
    done = still(builder(), level=at, work=work)["names"]
    assert done["solved"] == 1 == builder().names(level=at, work=work)["solved"]
    assert still(builder(), level=at)["names"]["solved"] == 0


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_no_schedule_that_is_shown_later_is_named_before(level):
    """What is to be found is not among the words of the level."""
    words = level.spec()
    assert not re.search(r"GPipe|1F1B|bubble", words["text"] + words["hint"])
    assert "{" not in words["text"] + words["hint"] + words["found"]


def test_the_first_levels_goals_are_the_bound():
    for level in LEVELS[:3]:
        p, m = level.best.p, level.best.m
        assert level.goal == (m + p - 1) * 3
    assert LEVELS[3].goal == (LEVELS[3].best.p - 1) + 3 * LEVELS[3].best.m


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_rows_are_text_that_the_library_reads(model, level):
    text = model(
        "rowsAsText(level, builtOf(level, lying).actions)",
        level=level.spec(),
        lying=tiles(level.best),
    )
    read = eval(text, {"PipelineSchedule": PipelineSchedule})
    assert read.rows == level.best.rows


# What is said of a tile that cannot stand there.


def refused(model, level, lying, tile) -> str | None:
    found = model("refusalOf(level, lying, tile)", level=level, lying=lying, tile=tile)
    return found and found["words"]


def test_a_refusal_says_what_is_missing(model):
    third, fourth = LEVELS[2].spec(), LEVELS[3].spec()
    begun = [[0, 0, "F"], [0, 1, "F"]]
    for level, lying, tile, words in (
        (third, [], [1, 0, "F"], "F0 of stage 1 must wait for F0 of stage 0, which is not in the"),
        (third, begun, [1, 0, "F"], "F0 of stage 1 must wait for F0 of stage 0, which ends at 1."),
        (third, begun, [0, 2, "BW"], "B0 of stage 0 must wait for B0 of stage 1"),
        (
            third,
            begun,
            [0, 2, "F"],
            "No room: stage 0 would hold 3 micro-batches",
        ),
        (third, begun, [0, 1, "F"], "Stage 0 is busy then."),
        (third, begun, [0, 16, "F"], "The grid ends here."),
        (fourth, [[2, 0, "F"]], [2, 1, "W"], "W0 of stage 2 must wait for B0 of stage 2"),
        (fourth, [[0, i, "F"] for i in range(3)], [0, 4, "F"], "Stage 0 has all its 3 F already."),
    ):
        assert (refused(model, level, lying, tile) or "nothing").startswith(words)
    assert refused(model, third, begun, [1, 1, "F"]) is None


# By hand.

DESK = {"viewport": {"width": 1000, "height": 1000}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def cell(tab, rank, time):
    box = tab.locator(f".dt-drawing [aria-label^='Stage {rank}, time {time}:']").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def says(tab, words) -> None:
    tab.wait_for_function(
        "words => document.querySelector('.dt-summary').textContent.includes(words)", arg=words
    )


def pull(tab, rank, start, to) -> None:
    tab.mouse.move(*cell(tab, rank, start))
    tab.mouse.down()
    tab.mouse.move(*cell(tab, rank, to), steps=6)
    tab.mouse.up()


def test_a_mouse_pulls_tiles_and_a_reload_remembers_what_was_done(browser, tmp_path):
    with opened(browser, tmp_path, builder(), **DESK) as tab:
        assert tab.locator(".dt-known").count() == 0
        for move in ((0, 6, 1), (1, 7, 4), (1, 8, 5), (0, 10, 7)):
            pull(tab, *move)
        tab.wait_for_selector(".dt-task.is-met")
        tab.get_by_role("button", name="GPipe").click()
        assert tab.locator(".dt-drawing").count() == 2
        tab.reload()
        tab.wait_for_selector(".dt-task.is-met")
        tab.get_by_role("button", name="Undo").click()
        assert tab.locator(".dt-tick").first.text_content() == " ✓"
        tab.get_by_role("button", name="Next").click()
        assert tab.locator(".dt-task.is-met").count() == 0


def test_a_stroke_paints_a_row_and_is_undone_at_once(browser, tmp_path):
    with opened(browser, tmp_path, builder(), **DESK) as tab:
        tab.get_by_role("radio", name="2 The bound").check()
        tab.mouse.move(*cell(tab, 0, 0))
        tab.mouse.down()
        tab.mouse.move(*cell(tab, 0, 5), steps=30)
        tab.mouse.up()
        says(tab, "Still to be put: 12 F, 16 B.")
        tab.get_by_role("button", name="Undo").click()
        says(tab, "Still to be put: 16 F, 16 B.")


def test_fingers_do_the_third_level_on_a_phone(browser, tmp_path):
    with opened(browser, tmp_path, builder(), **PHONE) as tab:
        tab.get_by_role("radio", name="3 No room").check()
        for rank, start, kind in sorted(tiles(LEVELS[2].best), key=lambda tile: tile[1]):
            tab.get_by_role("button", name="F, forward" if kind == "F" else "B, backward").tap()
            tab.touchscreen.tap(*cell(tab, rank, start))
        tab.wait_for_selector(".dt-task.is-met")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_keys_alone_do_the_last_level(browser, tmp_path):
    with opened(browser, tmp_path, builder(), reduced_motion="reduce", **DESK) as tab:
        tab.get_by_role("radio", name="4 W can wait").check()
        says(tab, "Still to be put: 9 F, 9 B, 9 W.")
        tab.get_by_role("button", name="Stage 0, time 0:").focus()
        tab.keyboard.press("b")
        says(tab, "B0 of stage 0 must wait for F0 of stage 0, which is not in the grid yet.")
        for rank, start, kind in sorted(tiles(LEVELS[3].best), key=lambda tile: tile[1]):
            here = tab.evaluate("document.activeElement.ariaLabel").split(":")[0]
            row, column = map(int, re.findall(r"\d+", here))
            for _ in range(abs(rank - row)):
                tab.keyboard.press("ArrowDown" if rank > row else "ArrowUp")
            for _ in range(abs(start - column)):
                tab.keyboard.press("ArrowRight" if start > column else "ArrowLeft")
            tab.keyboard.press(kind.lower())
        tab.wait_for_selector(".dt-task.is-met")
        assert tab.get_by_role("group", name="known schedules").get_by_role("button").count() == 5
