"""Every exercise has a stub: Python that defines what its check is given."""

import ast
from functools import cache
from pathlib import Path

import pytest

from book.notebooks.stubs import exercise_text, stub
from dtlib.contents import chapters
from dtlib.exercises.manifest import manifest

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = [exercise for exercise in manifest().exercises if not exercise.lab]


@cache
def page(number: str) -> Path:
    return ROOT / next(f"{c.page}.md" for c in chapters() if c.number == number)


def stub_of(exercise):
    return stub(exercise_text(page(exercise.chapter), exercise.slug), exercise.declaration)


def defined(code: str) -> set[str]:
    """The names that a cell with this code leaves behind."""
    found = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
    return found


def asked_for(answer: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(answer)) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.label)
def test_a_stub_defines_all_that_its_check_is_given(exercise):
    code, answer = stub_of(exercise)
    assert asked_for(answer) and asked_for(answer) <= defined(code)


def test_a_repair_begins_with_the_broken_code_under_the_name_that_is_asked_for():
    repaired = [one for one in EXERCISES if one.slug == "ex-repair-the-ring"]
    code, answer = stub_of(*repaired)
    assert answer == "my_ring" and "leaky_ring" not in code
    assert code.startswith("# a function of P that returns a Schedule\ndef my_ring(P):\n    reduce")


def test_a_text_without_a_check_and_a_page_without_the_exercise_are_refused():
    some = EXERCISES[0]
    with pytest.raises(ValueError, match=r"no line check\(number, answer\)"):
        stub("Nothing is asked here.", some.declaration)
    with pytest.raises(ValueError, match=r"slug='ex-none': .* has no exercise with this label"):
        exercise_text(page(some.chapter), "ex-none")
    assert not asked_for("answer") <= defined("anwser = ...")
