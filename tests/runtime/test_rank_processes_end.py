"""What a notebook does to its ranks: interrupt them, be killed, restart, end.

One child script plays the notebook. It tells what it sees line by line, and its last line names
all its processes.
"""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

import psutil
import pytest
from processes import come_to_rest, rank_processes, still_running, wait_until

from dtlib.runtime import close_pools, launch

NOTEBOOK = """
import os, signal, sys, time
from dtlib.runtime import launch

# What is started in the background of a script may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def say(*words):
    print(*words, flush=True)

ranks = launch(4, timeout=10_000)
ranks.cell("kept = rank")
try:
    say("idle")
    time.sleep(10_000)
except KeyboardInterrupt:
    say("names", ranks.cell("kept"))
for hang in ("dist.all_reduce(torch.ones(1)) if rank else None", "import time; time.sleep(10_000)"):
    before = ranks.run(os.getpid)
    try:
        say("hanging")
        ranks.cell(hang)
    except KeyboardInterrupt:
        say("interrupted")
    say("sum", ranks.cell("x = torch.ones(1); dist.all_reduce(x); x.item()"))
    say("same processes", ranks.run(os.getpid) == before)
ranks.cell("kept = rank")
say("directory", ranks._pool._directory)
launch(2).cell("rank")
say("ready")
ranks.cell("if rank == 1: dist.barrier()")
"""


@dataclass
class Story:
    """What the child has said, and its processes when it was killed, with those that stayed."""

    lines: list[str]
    processes: list[psutil.Process]
    survivors: list[psutil.Process]


@pytest.fixture(scope="module")
def story():
    child = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    guard = threading.Timer(1800, lambda: os.killpg(child.pid, signal.SIGKILL))
    guard.start()
    lines, processes = [], []
    for line in child.stdout:
        lines.append(line.strip())
        if lines[-1] in ("idle", "hanging"):
            # As a terminal does, and Jupyter, once it is what it says.
            assert come_to_rest(psutil.Process(child.pid))
            os.killpg(child.pid, signal.SIGINT)
        if lines[-1] == "ready":
            processes = psutil.Process(child.pid).children(recursive=True)
            child.kill()
            break
    guard.cancel()
    survivors = still_running(processes)
    for process in survivors:
        process.kill()
    child.stdout.close()
    child.wait()
    return Story(lines, processes, survivors)


def test_ctrl_c_leaves_idle_ranks_and_their_names_alone(story):
    assert story.lines[:2] == ["idle", "names [0, 1, 2, 3]"]


def test_ctrl_c_during_a_hang_reaches_the_reader_and_the_ranks_work_again(story):
    told = [line for line in story.lines if line.split()[0] in ("hanging", "interrupted", "sum")]
    assert told == ["hanging", "interrupted", "sum [4.0, 4.0, 4.0, 4.0]"] * 2


def test_ctrl_c_replaces_ranks_only_if_they_cannot_be_interrupted(story):
    """gloo does not listen while it waits; Python code does."""
    assert [line for line in story.lines if line.startswith("same")] == [
        "same processes False",
        "same processes True",
    ]


def test_nothing_is_left_of_a_notebook_that_is_killed(story):
    assert story.lines[-1] == "ready"
    assert len(story.processes) >= 4 + 2 + 1  # two pools and the fork server
    assert story.survivors == []


def test_the_files_of_a_killed_notebook_go_too(story):
    (directory,) = (line.split()[1] for line in story.lines if line.startswith("directory"))
    assert not os.path.exists(directory)


@pytest.mark.parametrize("end", ["os._exit(0)", "os.killpg(0, 9)"])
def test_a_process_that_ends_without_a_word_leaves_no_files(tmp_path, end):
    """Its ranks are idle: nobody interrupts them, they notice. Jupyter kills the whole group."""
    script = f"import os; from dtlib.runtime import launch; ranks = launch(3); {end}"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    subprocess.run(command, env=environment, timeout=600, start_new_session=True)
    assert wait_until(lambda: not list(tmp_path.glob("dtlib-*")))


def test_still_running_sees_a_process_that_stays():
    sleeper = psutil.Popen([sys.executable, "-c", "import time; time.sleep(10_000)"])
    assert still_running([sleeper], 0.1) == [sleeper]
    sleeper.kill()
    assert still_running([sleeper]) == []
    sleeper.wait()


def test_ranks_work_after_their_processes_were_ended():
    with launch(2) as ranks:
        before = set(ranks.run(os.getpid))
        assert before <= rank_processes()
        close_pools()
        assert rank_processes() == set()
        after = set(ranks.run(os.getpid))
        assert rank_processes() == after
        assert not after & before
        close_pools()
        assert rank_processes() == set()
