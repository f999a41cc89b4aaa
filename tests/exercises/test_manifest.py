"""The manifest: complete, in the order of the pages, every exercise with a page and a test."""

import importlib.util
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dtlib import contents as plan
from dtlib.exercises import UnknownExercise, check
from dtlib.exercises.engine import find_grader
from dtlib.exercises.manifest import Manifest, ManifestError, manifest, parse

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = manifest().exercises
LABEL = re.compile(r"^(?P<fence>[:`]{3,})\{exercise(?:-start)?\}.*?\n:label:\s*(?P<slug>\S+)", re.M)

ENTRY = """
[[exercise]]
label = "12.1"
slug = "ex-a"
title = "A"
chapter = "12"
kind = "compute"
stars = 1
minutes = 5
skill = "count"
test = "tests/x.py"
"""


def page(chapter: plan.Chapter) -> Path:
    """The source of a chapter."""
    return ROOT / f"{chapter.page}.md"


def test_a_complete_entry_is_read():
    (exercise,) = parse(ENTRY).exercises
    assert (exercise.group, exercise.number, exercise.check) == ("12", 1, True)
    assert exercise.module == "dtlib.exercises.chapter_12"
    assert replace(exercise, label="all-reduce.1", lab="all-reduce").module.endswith(
        "lab_all_reduce"
    )


BROKEN = {
    'kind = "compute"': ('kind = "essay"', "kind must be one of"),
    "stars = 1": ("stars = 4", "stars must be 1, 2 or 3"),
    "minutes = 5": ("minutes = 0", "minutes must be a positive"),
    'slug = "ex-a"': ('slug = "a"', "slug must start with"),
    'label = "12.1"': ('label = "11.1"', "the label must be '12'"),
    'skill = "count"': ('skill = " "', "skill must not be empty"),
    'title = "A"': ('headline = "A"', "missing title"),
    'test = "tests/x.py"': ('test = "tests/x.py"\npoints = 3', "unknown points"),
}


@pytest.mark.parametrize("line", BROKEN)
def test_every_defect_of_an_entry_is_named(line):
    other, says = BROKEN[line]
    with pytest.raises(ManifestError, match=says):
        parse(ENTRY.replace(line, other))


def test_twins_and_gaps_are_refused():
    with pytest.raises(ManifestError, match=r"two exercises have the label '12\.1'"):
        parse(ENTRY + ENTRY)
    with pytest.raises(ManifestError, match="must count 1, 2, 3"):
        parse(ENTRY.replace("12.1", "12.2"))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.slug)
def test_every_exercise_has_a_grader_and_a_test_with_a_solution_and_wrong_answers(exercise):
    if exercise.check:
        assert callable(find_grader(exercise))
    if exercise.declaration:
        return
    file = ROOT / exercise.test
    assert file.exists()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert exercise.slug in module.CASES


WRITTEN = [chapter for chapter in plan.chapters() if chapter.is_written()]


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda c: c.number)
def test_the_page_prints_the_exercises_in_the_order_of_the_manifest(chapter):
    printed = [match["slug"] for match in LABEL.finditer(page(chapter).read_text())]
    assert printed == [exercise.slug for exercise in manifest().of(chapter.number)]


def untraced(listed: Manifest) -> list[str]:
    """Source items of written chapters that lack an exercise on the chapter's page."""
    missing = []
    for chapter in WRITTEN:
        text = page(chapter).read_text()
        for item in chapter.covers:
            slugs = [e.slug for e in listed.covering(item)]
            if not any(f":label: {slug}" in text for slug in slugs):
                missing.append(f"{item} of chapter {chapter.number}")
    return missing


def test_every_source_item_of_a_written_chapter_has_a_page_an_exercise_and_a_test():
    assert untraced(manifest()) == []


@pytest.mark.skipif(not plan.chapter("12").is_written(), reason="chapter 12 is not written yet")
def test_a_source_item_without_an_exercise_is_reported():
    without = Manifest(tuple(replace(e, covers=()) for e in EXERCISES))
    assert "A.3 of chapter 12" in untraced(without)


def test_an_unknown_label_lists_the_labels_that_exist():
    with pytest.raises(UnknownExercise, match=r"no exercise '12\.99'; 12 has 12\.1, 12\.2, "):
        check("12.99", 1)
    with pytest.raises(UnknownExercise, match=r"checks exist for (\w+, )*4, (\w+, )*12"):
        check("99.1", 1)


def test_an_exercise_in_words_says_that_no_program_can_judge_it(monkeypatch):
    import dtlib.exercises.engine as engine

    words = replace(EXERCISES[0], kind="derive", check=False)
    monkeypatch.setattr(engine, "exercises_of", lambda group: (words,))
    with pytest.raises(UnknownExercise, match="asks for words"):
        check(words.label, "an essay")


def test_the_exercises_import_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from dtlib.exercises import check, record, manifest\n"
        "from dtlib.exercises.manifest import manifest\n"
        "from dtlib.exercises.engine import find_grader\n"
        "[find_grader(e) for e in manifest().exercises if not e.lab]\n"
        "print(check('12.4', 4000))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("12.4 passed")
