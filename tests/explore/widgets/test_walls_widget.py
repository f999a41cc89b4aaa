"""The walls: the same numbers in the page as in Python, for the pointer and for the keyboard."""

import pytest
from page import opened

from dtlib.explore import Task, Walls, between
from dtlib.foundations import (
    GB,
    catalog,
    day,
    exchanging_training_time,
    format_quantity,
    least_devices,
    training_time,
)

H100, A100 = catalog["h100-sxm"], catalog["a100-sxm"]
MODELS = {"GPT-3": (175e9, 300e9), "Llama 3.1 405B": (405.9e9, 15.6e12)}
RATE = {"peak": H100.peak("bf16"), "mfu": 0.4}
NETWORK = {"batch_tokens": 4e6, "beta": 50 * GB}
TITLE = "What fits"
FOUND = " ".join(["Yes, and that is a long answer."] * 12)
GOAL = (
    "P == 1024 and 19 < tokens / params and tokens / params < 21 and abs(time / deadline - 1) < 0.1"
)


def walls(**changes):
    arguments = {
        "params": between(1e8, 1e13, start=5e9),
        "tokens": between(1e9, 1e14, start=1e11),
        "P": between(1, 65536, start=1),
        "mfu": between(0.1, 0.6, start=0.4, step=0.05),
        "gpus": {"H100": H100, "A100": A100},
        "deadline": 90 * day,
        "tokens_per_param": 20,
        **NETWORK,
        "models": MODELS,
        "title": TITLE,
        "task": Task("Find it.", GOAL, {"P": 1024, "params": 160e9, "tokens": 3.2e12}, FOUND),
    }
    return Walls(**arguments | changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"models": {"tiny": (1e6, 1e10)}}, "model 'tiny': .* outside of the plane"),
        ({"gpus": dict.fromkeys("abcde", H100)}, "gpus: at most 4"),
        ({"models": dict.fromkeys("abcdefghi", (1e9, 1e10))}, "models: at most 8"),
        ({"task": Task("", "time > 0", {})}, "met already at the start"),
    ],
)
def test_walls_name_what_is_wrong(changes, says):
    with pytest.raises(ValueError, match=says):
        walls(**changes)


@pytest.fixture(scope="module")
def tab(browser, tmp_path_factory):
    viewport = {"width": 1280, "height": 1000}
    with opened(browser, tmp_path_factory.mktemp("walls"), walls(), viewport=viewport) as tab:
        yield tab


@pytest.fixture
def group(tab):
    group = tab.get_by_role("group", name=TITLE, exact=True)
    group.get_by_role("button", name="Reset").click()
    return group


def shown(group) -> list[str]:
    """The memory and the time that are asked for, before ' of ' what there is."""
    rows = group.locator(".dt-row:has(.dt-meter) .dt-row-value")
    return [text.split(" of ")[0] for text in rows.all_inner_texts()]


def noted(group) -> str:
    """What the other rows say."""
    rows = group.locator(".dt-row:not(:has(.dt-meter))")
    return " ".join(rows.all_inner_texts())


def asked(params, tokens, seconds) -> list[str]:
    return [format_quantity(16 * params, "B", 3), format_quantity(seconds, "s", 3)]


def test_keys_move_the_model_to_the_library_s_values(group, tab):
    assert shown(group) == asked(5e9, 1e11, training_time(5e9, 1e11, 1, **RATE))
    group.get_by_role("slider", name="parameters").focus()
    for _ in range(20):
        tab.keyboard.press("ArrowRight")
    assert shown(group) == asked(5e10, 1e11, training_time(5e10, 1e11, 1, **RATE))
    tab.keyboard.press("Tab")
    for _ in range(20):
        tab.keyboard.press("ArrowLeft")
    assert shown(group) == asked(5e10, 1e10, training_time(5e10, 1e10, 1, **RATE))
    held = least_devices(5e10, H100.hbm_bytes)
    assert f"that needs {held} H100" in noted(group)


def test_the_exchange_is_counted_as_the_formula_counts_it(group):
    group.get_by_role("slider", name="GPUs").fill("10")
    group.get_by_text("at 50 GB/s").click()
    seconds = exchanging_training_time(5e9, 1e11, 1024, **RATE, **NETWORK)
    assert shown(group) == asked(5e9, 1e11, seconds)
    left = training_time(5e9, 1e11, 1024, **RATE) / seconds
    assert f"{format_quantity(0.4 * left, '%', 3)} of the peak is left" in noted(group)


def test_another_gpu_brings_its_own_memory_and_rate(group):
    group.get_by_text("A100").click()
    rate = {"peak": A100.peak("bf16"), "mfu": 0.4}
    assert shown(group) == asked(5e9, 1e11, training_time(5e9, 1e11, 1, **rate))


def test_a_click_on_a_published_model_takes_it(group, tab):
    dot = group.locator(".dt-published circle").nth(1)
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    tab.mouse.click(box["x"] + 4, box["y"] + 4)
    params, tokens = MODELS["Llama 3.1 405B"]
    assert shown(group) == asked(params, tokens, training_time(params, tokens, 1, **RATE))


def test_the_square_is_dragged_and_the_task_is_noticed(group, tab):
    status = group.get_by_role("status")
    group.get_by_role("slider", name="GPUs").fill("10")
    assert status.inner_text() == ""
    plane = group.locator(".dt-map-frame").bounding_box()
    square = group.locator(".dt-handle").bounding_box()
    tab.mouse.move(square["x"] + 8, square["y"] + 8)
    tab.mouse.down()
    x = plane["x"] + plane["width"] * 3.204 / 5  # 160 B on an axis from 100 M to 10 T
    y = plane["y"] + plane["height"] * (1 - 3.505 / 5)  # 3.2 T on one from 1 B to 100 T
    tab.mouse.move(x, y, steps=4)
    tab.mouse.move(x + 0.5, y)  # the task is met and has pushed the figure down: nothing jumps
    tab.mouse.up()
    assert shown(group) == asked(160e9, 3.2e12, training_time(160e9, 3.2e12, 1024, **RATE))
    assert status.inner_text() == f"Done. {FOUND}"


def test_a_dragged_square_keeps_to_the_line_of_tokens_per_parameter(group, tab):
    plane = group.locator(".dt-map-frame").bounding_box()
    x = plane["x"] + plane["width"] * 3.204 / 5
    on_the_line = plane["y"] + plane["height"] * (1 - 3.505 / 5)
    tab.mouse.click(x, on_the_line + 6)
    assert shown(group) == asked(160e9, 3.2e12, training_time(160e9, 3.2e12, 1, **RATE))
    tab.mouse.click(x, on_the_line + 40)
    assert shown(group)[1] != format_quantity(training_time(160e9, 3.2e12, 1, **RATE), "s", 3)
