"""The index of exercises: one row for each, in order, with what the script filters by."""

import re

from book._tools.listings.exercise_index import exercise_page, judged
from dtlib.exercises.manifest import exercises_of, manifest

ROWS = [line for line in exercise_page().splitlines() if "dt-facts" in line]
FACTS = [dict(re.findall(r'data-(\w+)="([^"]*)"', row)) for row in ROWS]


def test_every_exercise_has_one_row_in_the_order_of_the_book():
    assert [facts["slug"] for facts in FACTS] == [e.slug for e in manifest().exercises]


def test_a_row_leads_to_its_exercise_or_to_its_lab():
    for row, exercise in zip(ROWS, manifest().exercises, strict=True):
        target = f"(#lab-{exercise.lab})" if exercise.lab else f"<{exercise.slug}>`"
        assert target in row


def test_a_row_says_what_the_declaration_says():
    for facts, exercise in zip(FACTS, manifest().exercises, strict=True):
        assert facts["kind"] == exercise.kind
        assert (len(facts["stars"]), int(facts["minutes"])) == (exercise.stars, exercise.minutes)
        assert f"{exercise.chapter} " in facts["where"].split("&#124;")[1]


def test_no_bar_within_a_cell_breaks_the_table():
    assert {row.count("|") for row in ROWS} == {7}


def test_numbers_are_judged_in_the_page_code_by_code_and_arguments_by_a_person_too():
    found = {e.kind: judged(e) for e in exercises_of("12")}
    assert found["compute"] == ("in the page",)
    assert found["derive"][-1] == "by hand"
    assert judged(exercises_of("all-reduce")[0])[0] == "by code"
