"""An answer is typed, judged by keys alone, and still there when the reader comes back."""

import pytest
from page_inspection import start_browser

pytestmark = pytest.mark.site
PAGE = "chapters/4-parallelism/17-sequence-parallelism.html"


@pytest.fixture(scope="module")
def tab(home):
    for browser in start_browser():
        tab = browser.new_page()
        tab.goto(home + PAGE)
        yield tab


def answered(tab, *texts) -> str:
    """What is said of an answer to exercise 17.4, sent by the Enter key."""
    box = tab.get_by_role("group", name="Your answer to exercise 17.4")
    for field, text in zip(box.get_by_role("textbox").all(), texts, strict=True):
        field.fill(text)
    field.press("Enter")
    return box.get_by_role("status").inner_text()


def test_a_slip_is_told_its_hint_and_a_right_answer_is_kept(tab):
    assert "in which step does nobody have a whole block" in answered(tab, "7.5", "8.5", "8")
    assert answered(tab, "7.5", "15 + 1/2", "8").startswith("✓ the work of the mean")
    tab.reload()
    box = tab.get_by_role("group", name="Your answer to exercise 17.4")
    assert [f.input_value() for f in box.get_by_role("textbox").all()] == ["7.5", "15 + 1/2", "8"]
    assert box.get_by_role("status").inner_text().startswith("✓")
    assert answered(tab, "7.5", "", "8") == "(b): there is nothing here yet"


def test_three_questions_are_asked_before_the_exercises_and_judged(tab):
    tab.goto(tab.url.replace("17-sequence-parallelism", "14-data-parallelism"))
    assert tab.locator(".questions li").count() == 3
    assert tab.locator(".questions + #exercises, .questions ~ #exercises").count() == 1
    box = tab.get_by_role("group", name="Your answer to question 1")
    for text, says in (("12.25 GB", "sent: a ring has two phases"), ("24.5 GB", "✓ the number of")):
        box.get_by_role("textbox").fill(text)
        box.get_by_role("textbox").press("Enter")
        assert box.get_by_role("status").inner_text().startswith(says)
    tab.goto(tab.url.replace("14-data-parallelism", "17-sequence-parallelism"))


def test_code_is_judged_in_the_notebook_which_is_there(tab):
    box = tab.get_by_role("group", name="Your answer to exercise 17.6")
    link = box.get_by_role("link", name="notebook of this page").evaluate("a => a.href")
    assert tab.request.get(link).json()["nbformat"] == 4
