"""Code is edited, run, stopped and judged below its exercise, by keys as well.

What runs it here is a double of the engine, which keeps the order of its messages; the engine
itself has tests of its own. Nothing comes unasked.
"""

import pytest
from code_tab import PAGE, with_double
from page_inspection import PHONE, axe_faults

pytestmark = pytest.mark.site


def box_of(tab, label="12.6"):
    box = tab.get_by_role("group", name=f"Your answer to exercise {label}")
    box.scroll_into_view_if_needed()
    box.get_by_role("button", name="Check").wait_for()
    return box


def write(box, code) -> None:
    box.get_by_role("textbox").fill(code)


def said(box, text):
    box.get_by_role("status").filter(has_text=text).wait_for()
    return box.get_by_role("status")


def pressed(box, name, text):
    box.get_by_role("button", name=name).click()
    return said(box, text)


def test_nothing_is_fetched_before_an_editor_is_near_and_no_engine_before_a_click(browser, home):
    tab = with_double(browser.new_page())
    fetched = []
    tab.on("request", lambda asked: fetched.append(asked.url.rpartition("/")[2].partition("?")[0]))
    tab.goto(home + PAGE, wait_until="networkidle")
    assert "offer.js" in fetched and not {"bench.js", "bench.css", "engine.js"} & {*fetched}
    box = box_of(tab)
    assert {"bench.js", "bench.css"} <= {*fetched} and "engine.js" not in fetched
    box.get_by_role("button", name="Run").click()
    tab.wait_for_function("globalThis.asked?.length")
    assert "engine.js" in fetched
    tab.close()


def test_a_wrong_answer_is_told_why_a_right_one_is_kept_and_counts_in_the_index(tab):
    box = box_of(tab)
    assert box.get_by_role("textbox").input_value().startswith("# a function of P")
    assert pressed(box, "Check", "P = 2: goes wrong").get_attribute("data-passed") == "false"
    write(box, "def my_ring(P):\n    return right")
    assert pressed(box, "Check", "✓ all sums").get_attribute("data-passed") == "true"
    assert tab.evaluate("asked.at(-1)") == {
        "code": "def my_ring(P):\n    return right",
        "label": "12.6",
        "answer": "my_ring",
    }
    assert tab.evaluate("dtKept.read('dtlib-answer:ex-repair-the-ring')") == {
        "passed": True,
        "answer": "my_ring",
    }
    tab.reload()
    box = box_of(tab)
    assert box.get_by_role("textbox").input_value().endswith("return right")
    said(box, "✓ It passed")
    box.get_by_role("button", name="Reset").click()
    assert "return Schedule" in box.get_by_role("textbox").input_value()
    assert not tab.evaluate("dtKept.names()")


def test_what_never_ends_is_stopped_and_python_can_be_cancelled_while_it_comes(tab):
    box = box_of(tab)
    write(box, "while True:\n    pass")
    box.get_by_role("button", name="Run").click()
    box.locator("button:disabled", has_text="Check").wait_for()
    pressed(box, "Stop", "Stopped. The names of the page are gone")
    assert box.get_by_role("button", name="Stop").is_hidden()
    tab.evaluate("globalThis.engineTakes = Infinity")
    box.get_by_role("button", name="Run").click()
    box.get_by_text("1.1 of 4.4 MB").wait_for()
    pressed(box, "Cancel", "Cancelled. Nothing runs")
    tab.evaluate("globalThis.engineTakes = 0")
    write(box, "6 * 7")
    box.get_by_role("button", name="Run").click()
    box.get_by_role("group", name="Output of exercise 12.6").get_by_text("42").wait_for()


def test_where_python_does_not_come_the_notebook_is_named(tab):
    box = box_of(tab)
    tab.evaluate("globalThis.engineFails = 'A part of Python is missing'")
    pressed(box, "Run", "A part of Python is missing. The notebook of this page runs it")
    assert box.get_by_role("link", name="notebook of this page").count() == 1


def test_an_error_is_its_line_and_the_page_goes_on(tab):
    box = box_of(tab)
    write(box, "1 / 0")
    pressed(box, "Check", "ZeroDivisionError: division by zero")
    assert "Traceback" in box.get_by_role("group", name="Output of").inner_text()
    write(box, "print(1)")
    assert box.get_by_role("status").count() == 0
    box.get_by_role("button", name="Run").click()
    box.get_by_text("printed", exact=True).wait_for()


def test_the_keyboard_runs_indents_and_leaves(tab):
    box = box_of(tab)
    code = box.get_by_role("textbox")
    write(box, "")
    code.focus()
    code.press_sequentially("if x:\ny = 1\n")
    code.press("Shift+Tab")
    code.press_sequentially("z")
    assert code.input_value() == "if x:\n    y = 1\nz"
    for keys, count in (("Control+Enter", 1), ("Shift+Enter", 2)):
        code.press(keys)
        tab.wait_for_function(
            f"globalThis.asked?.filter(({{ code }}) => code.endsWith('z')).length === {count}"
        )
        box.locator("button:enabled", has_text="Run").wait_for()
    code.press("Tab")
    assert code.input_value().endswith("z   ")
    assert code.evaluate("e => e === document.activeElement")
    code.press("Escape")
    code.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Run"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_editor_fits_a_phone_and_axe_finds_nothing(browser, home, scheme):
    context = browser.new_context(viewport=PHONE, color_scheme=scheme)
    tab = with_double(context.new_page())
    tab.goto(home + PAGE)
    box = box_of(tab)
    write(box, f"print({'1 + ' * 40}1)\n1 / 0")
    pressed(box, "Check", "ZeroDivisionError")
    assert tab.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert axe_faults(tab) == []
    context.close()
