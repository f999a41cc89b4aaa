"""The manifest: complete, in the order of the pages, every exercise with a page."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dtlib import contents as plan
from dtlib.exercises import UnknownExercise, check
from dtlib.exercises.manifest import Manifest, ManifestError, exercises_of, groups, manifest

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = manifest().exercises
LABEL = re.compile(r"^(?P<fence>[:`]{3,})\{exercise(?:-start)?\}.*?\n:label:\s*(?P<slug>\S+)", re.M)


def page(chapter: plan.Chapter) -> Path:
    """The source of a chapter."""
    return ROOT / f"{chapter.page}.md"


BROKEN = {
    "kind must be one of": {"kind": "essay"},
    "stars must be 1, 2 or 3": {"stars": 4},
    "minutes must be a positive": {"minutes": 0},
    "slug must start with": {"slug": "a"},
    "skill must not be empty": {"skill": " "},
}


@pytest.mark.parametrize("says", BROKEN)
def test_every_defect_of_an_exercise_is_named(says):
    with pytest.raises(ManifestError, match=rf"exercise 1\.1: .*{says}"):
        replace(EXERCISES[0], **BROKEN[says])


def test_twins_are_refused():
    with pytest.raises(ManifestError, match="two exercises have the slug"):
        Manifest(EXERCISES[:1] * 2)


def test_chapters_and_labs_count_in_the_order_of_their_modules():
    assert list(groups()) == list(dict.fromkeys(e.group for e in EXERCISES))
    assert [e.label for e in exercises_of("17")] == [f"17.{n}" for n in range(1, 12)]
    (first, *_), lab = exercises_of("all-reduce"), manifest().of("all-reduce")
    assert (first.label, first.chapter, first.lab) == ("all-reduce.1", "12", "all-reduce")
    assert lab == exercises_of("all-reduce")
    assert exercises_of("no-lab") == ()


def test_every_lab_of_the_plan_is_declared():
    labs = {path.rpartition("/")[2] for chapter in plan.chapters() for path in chapter.labs}
    assert labs == {path.parent.name for path in ROOT.glob("labs/*/*/README.md")}
    assert labs == {exercise.lab for exercise in EXERCISES} - {""}


WRITTEN = [chapter for chapter in plan.chapters() if chapter.is_written()]


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda c: c.number)
def test_the_page_prints_the_exercises_in_the_order_of_the_manifest(chapter):
    printed = [match["slug"] for match in LABEL.finditer(page(chapter).read_text())]
    assert printed == [exercise.slug for exercise in exercises_of(chapter.number)]


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


def test_the_exercises_import_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from dtlib.exercises import check, record\n"
        "from dtlib.exercises.manifest import manifest\n"
        "manifest()\n"
        "print(check('12.4', 4000))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("12.4 passed")
