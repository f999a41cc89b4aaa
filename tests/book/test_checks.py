"""A failing command fails its step and the whole run, and the other commands still run."""

import pytest

from book._tools import checks
from book._tools.layout import ROOT

FINE, BAD = ["platform"], ["no_such_module"]


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.setattr(checks, "STEPS", {"one": [BAD, FINE], "two": [FINE]})


def test_a_step_fails_when_any_of_its_commands_does(steps, capfd):
    assert checks.run("two") and not checks.run("one")
    assert capfd.readouterr().out.count("\n") == 2


def test_the_run_ends_with_what_failed(steps, capfd):
    assert checks.run_all([]) == 1
    assert capfd.readouterr().out.endswith("FAILED: one\n")
    assert checks.run_all(["two"]) == 0
    assert capfd.readouterr().out.endswith("all checks passed\n")


def test_an_unknown_step_is_refused():
    with pytest.raises(SystemExit, match="libary"):
        checks.run_all(["libary"])


def test_whoever_marks_a_test_of_the_site_is_a_file_of_tests():
    """A mark from elsewhere would not be seen in the file, and the test never run."""
    marks = [file for file in ROOT.glob("tests/**/*.py") if checks.SITE in file.read_text("utf-8")]
    assert {str(file.relative_to(ROOT)) for file in marks} == set(checks.site_tests())


def test_what_the_steps_run_may_keep_its_compiled_modules(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    kept = ["timeit", "-n1", "-r1", "import sys; assert not sys.dont_write_bytecode"]
    monkeypatch.setattr(checks, "STEPS", {"one": [kept]})
    assert checks.run("one")
