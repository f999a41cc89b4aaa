"""What a page has to have: graders say so beforehand, and nothing is imported before it is used."""

import json
import subprocess
import sys

import pytest

from dtlib.exercises.manifest import exercises_of, groups

ABSENT = ("torch", "multiprocessing", "concurrent", "matplotlib", "sympy", "IPython", "cloudpickle")
WITHOUT = """
import json, re, sys, types
for name in {absent!r}: sys.modules[name] = None
sys.thread_info = types.SimpleNamespace(name="pthread-stubs")
from dtlib.exercises import NotYet
from dtlib.exercises.manifest import exercises_of
from dtlib.exercises.declarations.question import pauses_of, questions_of
needs = {{}}
for group in {groups!r}:
    asked = [*questions_of(group), *pauses_of(group)]
    for one in [e.declaration for e in exercises_of(group)] + asked:
        try:
            one.judge(one.right())
        except (ModuleNotFoundError, NotYet) as error:
            needs[one.slug] = re.search("of ([a-z]+).* halted", str(error))[1]
print(json.dumps(needs))
"""


def without(groups: list[str], absent=ABSENT) -> dict[str, str]:
    """What the right answers of some groups lack in a Python like a page's: slug, and package."""
    code = WITHOUT.format(absent=absent, groups=groups)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("kind", ["chapters", "labs"])
def test_an_exercise_needs_torch_just_when_its_declaration_says_so(kind):
    some = [group for group in groups() if group[0].isdigit() == (kind == "chapters")]
    said = {e.slug: e.needs for group in some for e in exercises_of(group) if e.needs}
    found = without(some)
    assert dict.fromkeys(found, "torch") == said
    assert set(said.values()) == {"torch"}


def test_a_package_that_is_needed_and_not_declared_is_found():
    assert set(without(["20"], ("numpy",)).values()) == {"numpy"}


IMPORTED = """
import sys
from importlib import import_module
from dtlib.exercises.declarations.rooms import module_of
from dtlib.exercises.manifest import groups
for number in [group for group in groups() if group[0].isdigit()]:
    for what in ("chapters", "questions"):
        import_module(module_of(what, number))
{more}
heavy = ("numpy", "torch", "multiprocessing", "concurrent.futures", "matplotlib", "sympy")
print(*[name for name in heavy if name in sys.modules])
"""


def heavy_imports(more: str = "") -> list[str]:
    """What the declarations of all chapters import before anything is judged."""
    code = [sys.executable, "-c", IMPORTED.format(more=more)]
    run = subprocess.run(code, capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_declarations_import_nothing_heavy_before_it_is_used():
    assert heavy_imports() == []
    assert heavy_imports("import dtlib.collectives.check") == ["numpy"]
