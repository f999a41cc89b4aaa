"""`python -m dtlib doctor` reports, whatever is wrong."""

import importlib.metadata

import pytest

from dtlib.__main__ import main
from dtlib.runtime import RankDied, doctor


def lines_by_title(report):
    return {line[:16].strip(): line[16:].strip() for line in report.splitlines()}


@pytest.fixture
def finding():
    return lambda: lines_by_title(doctor.doctor())


def test_every_finding_is_a_line_of_text(finding, capsys):
    found = finding()
    assert found.keys() == doctor._FINDINGS.keys()
    assert all(found.values())
    assert "PROBLEM" not in "".join(found.values())
    assert found["torch"].startswith(importlib.metadata.version("torch"))
    assert main(["doctor"]) == 0
    assert lines_by_title(capsys.readouterr().out).keys() == found.keys()


def test_the_two_ranks_are_real(finding):
    assert finding()["two ranks"].startswith("work: ")


DEATH = RankDied("rank 1 was killed by SIGKILL\nits last words", 1, -9, "")


@pytest.mark.parametrize("problem", [DEATH, OSError("no"), KeyError()], ids=["death", "OS", "key"])
def test_what_goes_wrong_is_a_line_of_the_report(finding, monkeypatch, problem):
    def broken(*_, **__):
        raise problem

    monkeypatch.setattr(doctor, "launch", broken)
    monkeypatch.setattr(doctor, "visible_gpus", broken)
    found = finding()
    assert found.keys() == doctor._FINDINGS.keys()
    assert found["two ranks"].startswith("PROBLEM: ")
    assert found["GPUs"].startswith("PROBLEM: ")
    assert "PROBLEM" not in found["Python"]


def test_a_wrong_sum_is_a_problem(finding, monkeypatch):
    monkeypatch.setattr(doctor, "_sum_of_ranks", lambda: 4.0)
    assert finding()["two ranks"].startswith("PROBLEM: the sum of 1 and 2 came out as [4.0, 4.0]")
