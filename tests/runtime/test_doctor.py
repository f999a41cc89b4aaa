"""`python -m dtlib doctor` reports, whatever is wrong."""

import importlib.metadata
import json
from types import SimpleNamespace

import pytest

from dtlib.__main__ import main
from dtlib.runtime import RankDied, backend, doctor


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


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (64 * 10**6, "64 MB"),
        (64 * 10**6 - 1, "64 MB; start a container with --shm-size=1g"),
        (16 * 10**9, "16,000 MB"),
    ],
)
def test_little_shared_memory_comes_with_what_to_do(monkeypatch, size, said):
    monkeypatch.setattr(doctor.os.path, "isdir", lambda _: True)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(total=size))
    assert doctor._shared_memory() == said


def test_a_system_without_shared_memory_is_told_that_it_needs_none(monkeypatch):
    monkeypatch.setattr(doctor.os.path, "isdir", lambda _: False)
    assert doctor._shared_memory() == "no /dev/shm; not needed for messages between ranks"


def test_gpus_are_counted_and_used_if_there_are_enough(monkeypatch):
    for gpus, said in (
        (4, "nccl for 4 ranks, a GPU for each"),
        (3, "gloo for 4 ranks, on the CPU"),
    ):
        monkeypatch.setattr(doctor, "visible_gpus", lambda gpus=gpus: gpus)
        monkeypatch.setattr(backend, "visible_gpus", lambda gpus=gpus: gpus)
        assert (doctor._gpus(), doctor._backend()) == (str(gpus), said)


def test_the_processors_are_those_that_this_process_may_use(monkeypatch):
    said = "; each rank computes with one thread, 4 ranks unless you say more"
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert doctor._cores() == f"2{said}"
    monkeypatch.delattr(doctor.os, "sched_getaffinity")
    monkeypatch.setattr(doctor.os, "cpu_count", lambda: 6)
    assert doctor._cores() == f"6{said}"


def test_facts_for_programs_name_each_card_and_its_entry(monkeypatch, capsys):
    cards = [SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=85.0e9)] * 2
    cards.append(SimpleNamespace(name="Abacus 1", total_memory=1e9))
    monkeypatch.setattr(doctor, "visible_gpus", lambda: len(cards))
    monkeypatch.setattr("torch.cuda.get_device_properties", cards.__getitem__)
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["version"] == 1 and facts["cores"] >= 1
    assert [card["entry"] for card in facts["gpus"]] == ["h100-sxm", "h100-sxm", None]
    assert facts["gpus"][2] == {"name": "Abacus 1", "memory_bytes": 1e9, "entry": None}
