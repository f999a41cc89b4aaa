"""The instructors' page: its plans add up, and name exercises that exist."""

import re
from pathlib import Path

import pytest

from dtlib import contents as plan
from dtlib.exercises.manifest import exercise_totals, groups, manifest
from dtlib.exercises.semester import WEEKS, semester_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book/instructors.md").read_text(encoding="utf-8")
DISCUSSION = 10
HOURS = {"Two hours": (2, 0), "Four hours": (4, 20), "Eight hours": (8, 60)}
ROW = re.compile(r"^\| (\d+) \| (.*?) \|\s*(.*?)\s*\|$", re.M)
MINUTES = {e.label: e.minutes for e in manifest().exercises}


def rows(title: str) -> list[tuple[int, str, list[str]]]:
    """Minutes, subject and exercises of each row of a plan."""
    text = PAGE.partition(f"**{title}**")[2].partition("\n\n**")[0]
    found = ROW.findall(text)
    return [(int(m), what, labels.split(", ") if labels else []) for m, what, labels in found]


@pytest.mark.parametrize("title", HOURS)
def test_a_plan_fills_its_hours_and_no_more(title):
    hours, breaks = HOURS[title]
    total = sum(minutes for minutes, _, _ in rows(title))
    assert 60 * hours - 30 < total + breaks <= 60 * hours


@pytest.mark.parametrize("title", HOURS)
def test_the_minutes_of_a_plan_are_those_of_chapters_labs_and_exercises(title):
    chapters = {f"Chapter {c.number}": c.minutes for c in plan.chapters() if c.is_written()}
    for minutes, what, labels in rows(title):
        if labels:
            work = sum(MINUTES[label] for label in labels)
            assert work <= minutes <= work + DISCUSSION, what
        assert minutes == chapters.get(what, minutes)


def test_the_semester_names_every_week_once_and_says_what_is_planned():
    assert len(WEEKS) == 14
    shown = repr(semester_table())
    for chapter in plan.chapters():
        if f"{chapter.number} {chapter.title}" in shown:
            planned = f"{chapter.title} (planned)" in shown
            assert planned != chapter.is_written()


def test_the_totals_count_every_exercise_and_minute_once():
    rows = exercise_totals().rows
    assert [name.split()[1] for name, *_ in rows] == list(groups())
    exercises = manifest().exercises
    assert sum(int(row[1]) for row in rows) == len(exercises)
    assert sum(int(row[2]) for row in rows) == sum(e.minutes for e in exercises)
    assert all(int(row[1]) == sum(map(int, row[3:])) for row in rows)


def test_the_page_shows_the_nbgrader_commands_that_the_labs_are_tested_with():
    for command in ("generate_assignment all-reduce --create", "autograde all-reduce", "export"):
        assert f"nbgrader {command}" in PAGE
