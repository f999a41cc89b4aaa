"""Three chapters judged twice: in CPython, and by the engine in a page, word for word the same.

Chapter 16 looks for the best of many, 18 counts in integers, 20 runs ranks: here in threads, in the
page in steps. All chapters and labs: python -m book replay.
"""

import pytest

from book._engine.replay import compared as replayed
from book._engine.replay.page import EngineError, python_in_page
from dtlib.exercises.manifest import exercises_of

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def python():
    with python_in_page() as found:
        yield found


@pytest.mark.parametrize("chapter", ["16", "18", "20"])
def test_every_answer_is_told_the_same_in_the_page(chapter, python):
    found = replayed.compared(chapter, python)
    assert found.differing == ()
    assert {row.slug for row in found.rows} > {e.slug for e in exercises_of(chapter) if not e.needs}


def test_another_verdict_is_found_and_named(python, monkeypatch):
    first, *others = replayed.answers.replay("20", None)
    told = [first._replace(told="passed: anything"), *others]
    monkeypatch.setattr(replayed.answers, "replay", lambda group, more: told)
    monkeypatch.setattr(replayed, "LISTED", replayed.LISTED / "nowhere")
    assert replayed.compared("20", python).differing == ((told[0], first.told),)
    told.pop()
    with pytest.raises(AssertionError, match="20: the page has"):
        replayed.compared("20", python)


def test_code_that_fails_in_the_page_is_an_error_with_its_reason(python):
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        python.run("1 / 0")


def test_the_table_says_what_stays_outside():
    rows = tuple(replayed.answers.replay("22", None))
    row = replayed.Compared("22", rows, ((rows[0], "otherwise"),)).cells()
    assert row == ("22", "11", "9", str(len(rows)), str(len(rows) - 1), row[-1])
    assert row[-1].count("needs torch") == 2
