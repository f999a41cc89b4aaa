"""A failing command fails its step and the whole run, and the other commands still run."""

import pytest

from book._tools import checks

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
