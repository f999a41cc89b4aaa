"""The micro-lab's script: it refuses bad arguments by name, and keeps the logs that it compared."""

import importlib.util
import sys
from pathlib import Path

import pytest

from dtlib.micro_lab.step_log import read_log

FILE = Path(__file__).parents[2] / "labs" / "5-memory" / "micro-lab" / "microlab.py"


@pytest.fixture
def script(monkeypatch, tmp_path):
    """The script as a function of its arguments, in an empty folder."""
    spec = importlib.util.spec_from_file_location("microlab", FILE)
    module = importlib.util.module_from_spec(spec)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "microlab", module)
    monkeypatch.chdir(tmp_path)
    spec.loader.exec_module(module)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["microlab.py", *words])
        module.main()

    return run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--engine deepspeed", "invalid choice: 'deepspeed'"),
        ("--steps 0", "--steps 0: must be a positive number"),
        ("--bucket-mb -1", "--bucket-mb -1.0: must be a positive number"),
        ("--bucket-mb nan", "--bucket-mb nan: must be a positive number"),
        ("--timeout inf", "--timeout inf: must be a positive number"),
        ("--batch 7", "--batch 7: must be a multiple of 2, for 2 ranks share it"),
        ("--world 3", "--batch 32: must be a multiple of 3, for 3 ranks share it"),
        ("--world 1", "--world 1 --steps 50: two ranks and two steps at least, or --engine"),
        ("--data sst2", "--data sst2: mini does not have its words"),
        ("--folder file/below", "--folder file/below: Not a directory; name a folder"),
    ],
)
def test_a_bad_argument_is_named_before_a_process_starts(script, capsys, monkeypatch, words, says):
    Path("file").touch()
    monkeypatch.setattr(sys.modules["microlab"], "launch", None)
    with pytest.raises(SystemExit) as left:
        script(*words.split())
    assert left.value.code == 2 and says in capsys.readouterr().err


def test_without_the_extras_the_published_weights_are_refused(script, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        script("--size", "pretrained", "--data", "sst2")
    said = capsys.readouterr().err
    assert "transformers and datasets missing, pip install 'dtlib[online]'" in said


def test_one_engine_writes_its_logs_and_says_where(script, capsys):
    script("--engine", "torch-ddp", "--steps", "2", "--folder", "new/deep")
    assert "the logs are in new/deep/" in capsys.readouterr().out
    records = read_log(Path("new/deep").glob("torch-ddp.rank*.jsonl"))
    assert {(r["rank"], r["step"]) for r in records if r["op"] == "step"} == {
        (rank, step) for rank in (0, 1) for step in (0, 1)
    }


def test_a_run_that_is_too_slow_ends_with_one_message(script):
    with pytest.raises(SystemExit, match="--timeout gives them more time"):
        script("--engine", "ddp", "--steps", "500", "--timeout", "0.05")


def test_the_whole_run_keeps_the_logs_that_it_compared(script, monkeypatch, capsys):
    module = sys.modules["microlab"]
    monkeypatch.setattr(module, "bucket_sweep", lambda *given, **options: None)
    monkeypatch.setattr(module, "LEARNING", 5)
    script("--steps", "3", "--batch", "8")
    said = capsys.readouterr().out
    assert all(f"({letter})" in said for letter in "abcdef")
    kept = read_log(Path("logs").glob("torch-ddp.rank*.jsonl"))
    assert max(r["step"] for r in kept) == 2
    longer = read_log(Path("logs/longer").glob("torch-ddp.rank*.jsonl"))
    assert max(r["step"] for r in longer) == 4
