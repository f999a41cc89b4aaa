"""A script that cannot be read is one clear error, and leaves no process and no file behind."""

import os
import time

import pytest

from dtlib.composition import ScriptError, read_script

STEP = """
import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""
STOPS = {
    "never a step": ("import torch\nprint('done')", "came to its end after it had reached its"),
    "one step": (STEP + "step()", "came to its end after it had reached the end of .* step 1"),
    "an error": (STEP + "step()\nmodel.no", "raised at line 9 after .* step 1: AttributeError"),
    "no Python": ("import torch\nfor", "raised at line 2 after .*: SyntaxError"),
    "arguments": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()",
        "came to exit code 2 .*two optimizer steps; its last words: usage: .*required: data",
    ),
    "input": (STEP + "step()\ninput('go on? ')", "waits for input at line 9 after .* step 1"),
    "values": (
        STEP + "torch.nonzero(model.weight)",
        "asks for values that only a GPU would know at line 8 after .*nonzero",
    ),
    "another rank": (
        "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "dist.recv(torch.zeros(1, dtype=torch.long), 1)",
        "raised at line 3 .*: a message of another rank decides",
    ),
    "killed": ("import os\nos.abort()", "lost its process after it had reached its first line"),
}


@pytest.mark.parametrize("name", STOPS)
def test_what_stops_a_script_is_named_with_what_it_had_reached(name, tmp_path):
    text, said = STOPS[name]
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    with pytest.raises(ScriptError, match=f"(?s)read_script: train.py {said}"):
        read_script(tmp_path / "train.py", 4)


def test_two_steps_are_enough_and_nothing_is_saved(tmp_path):
    """The twin of the errors above: a loop without an end, whose tidying up never runs."""
    script = tmp_path / "train.py"
    endless = f"""
import sys
assert sys.argv[1:] == ["--fast"] and __name__ == "__main__" and __file__ == {str(script)!r}
try:
    while True:
        try:
            step()
            torch.save(model.state_dict(), {str(tmp_path / "saved.pt")!r})
        except BaseException:
            pass
finally:
    open({str(tmp_path / "tidied")!r}, "w")
"""
    script.write_text(STEP + endless, encoding="utf-8")
    assert read_script(script, 4, ["--fast"]).param_count == 72
    assert [file.name for file in tmp_path.iterdir()] == ["train.py"]


def test_a_script_that_hangs_is_ended_with_all_that_it_has_started(tmp_path):
    script, started = tmp_path / "train.py", tmp_path / "started"
    hangs = f"""
import os, subprocess, time
child = subprocess.Popen(["sleep", "600"])
open({str(started)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
    script.write_text(hangs, encoding="utf-8")
    with pytest.raises(ScriptError, match=r"still running at line 5 after 4 s; .* its first line"):
        read_script(script, 4, timeout=4)
    pids = [int(word) for word in started.read_text().split()]
    assert len(pids) == 2 and not any(map(is_alive, pids))


def is_alive(pid: int) -> bool:
    """Whether a process is there, a moment after it was ended at the latest."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"path": "missing.py"}, "path is 'missing.py', but must be a file"),
        ({"ranks": 0}, "ranks is 0, but must be a whole number of at least 1"),
        ({"argv": "--tp 8"}, "argv is '--tp 8', but must be a list of words"),
        ({"timeout": -1}, "timeout is -1, but must be a positive number"),
    ],
)
def test_arguments_that_cannot_be_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        read_script(**{"path": __file__} | wrong)
