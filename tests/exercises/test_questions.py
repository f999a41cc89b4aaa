"""The questions of a chapter, at its end and in its text: right answers pass, slips are told."""

import re

import pytest
from test_answer_boxes import Page, differences
from test_answer_boxes import page as page
from test_declarations import misjudged

from dtlib.contents import chapters, written
from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.declarations.question import pauses_of, question, questions_of
from dtlib.exercises.manifest import manifest

ASKED = {c.number: questions_of(c.number) for c in chapters() if questions_of(c.number)}
PAUSES = [one for chapter in written() for one in pauses_of(chapter.number)]
EVERY = [one for several in ASKED.values() for one in several] + PAUSES
HELD = pytest.mark.parametrize("asked", EVERY, ids=lambda one: one.slug)


def test_every_written_chapter_has_three_questions():
    assert {number: len(several) for number, several in ASKED.items()} == dict.fromkeys(ASKED, 3)
    assert set(ASKED) == {chapter.number for chapter in written()}


def test_a_question_has_a_name_of_its_own_and_asks():
    slugs = [one.slug for one in EVERY]
    assert len({*slugs, *(e.slug for e in manifest().exercises)}) == len(slugs) + len(
        manifest().exercises
    )
    assert all(re.fullmatch(r"(ask|pause)-[a-z0-9-]+", slug) for slug in slugs)
    assert all(
        one.about.title.endswith(("?", "?)", "...")) or "?" in one.about.title for one in EVERY
    )


@HELD
def test_the_right_answer_passes_and_each_slip_is_told_its_hint(asked):
    assert asked.judge(asked.right()) == asked.verified
    assert any(asked.wrong()) and misjudged(asked) == []


@HELD
def test_the_page_says_of_it_what_python_says(page: Page, asked):
    assert differences(page, asked) == []


def test_sabotage_a_slip_that_gives_the_value_away_is_noticed():
    told = question("ask-a", "How many?", Asked("n", 7, slips={8: "no, 7"}), "seven")
    assert misjudged(told) == ["no, 7"]
