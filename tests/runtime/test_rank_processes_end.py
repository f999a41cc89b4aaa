"""What a notebook does to its ranks: interrupt them, be killed, restart, end.

One child script plays the notebook. It tells what it sees line by line, and its last line names
all its processes.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from processes import come_to_rest, rank_processes, still_running, wait_until

from dtlib.runtime import close_pools, launch

NOTEBOOK = """
import multiprocessing.util, os, signal, sys, time
from dtlib.runtime import launch

# What is started in the background of a script may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def say(*words, **options):
    print(*words, flush=True, **options)

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
    except KeyboardInterrupt as error:
        say(*f"{error}".splitlines(), sep="\\n")
    say("sum", ranks.cell("x = torch.ones(1); dist.all_reduce(x); x.item()"))
    say("same processes", ranks.run(os.getpid) == before)
ranks.cell("kept = rank")
say("directories", ranks._pool._directory, multiprocessing.util.get_temp_dir())
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
    told = [line for line in story.lines if line.split()[0] in ("hanging", "sum")]
    assert told == ["hanging", "sum [4.0, 4.0, 4.0, 4.0]"] * 2


def test_ctrl_c_shows_in_a_few_lines_where_each_rank_was(story):
    begin = story.lines.index("hanging")
    freed = "The ranks are free again and keep what their cells had defined, except process groups."
    assert story.lines[begin + 1 : begin + 7] == [
        "interrupted (rank 0 had finished)",
        "ranks 1-3 were at",
        "<ranks cell 3>, line 1, in <module>",
        "dist.all_reduce(torch.ones(1)) if rank else None",
        "torch/distributed/distributed_c10d.py, in all_reduce",
        freed,
    ]
    begin = story.lines.index("hanging", begin + 1)
    assert story.lines[begin + 1 : begin + 6] == [
        "interrupted",
        "ranks 0-3 were at",
        "<ranks cell 5>, line 1, in <module>",
        "import time; time.sleep(10_000)",
        freed,
    ]


def test_ctrl_c_frees_ranks_that_wait_in_gloo_or_in_python(story):
    assert [line for line in story.lines if line.startswith("same")] == ["same processes True"] * 2


def test_nothing_is_left_of_a_notebook_that_is_killed(story):
    assert story.lines[-1] == "ready"
    assert len(story.processes) >= 4 + 2 + 1  # two pools and the fork server
    assert story.survivors == []


def test_the_files_of_a_killed_notebook_go_too(story):
    (line,) = (line for line in story.lines if line.startswith("directories"))
    assert [path for path in line.split()[1:] if os.path.exists(path)] == []


@pytest.fixture
def short_folder():
    """Short enough for sockets, which else lie in /tmp; `tmp_path` grows with a user's runs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("end", ["os._exit(0)", "os.killpg(0, 9)"])
def test_a_process_that_ends_without_a_word_leaves_no_files(short_folder, end):
    """Its ranks are idle: nobody interrupts them, they notice. Jupyter kills the whole group."""
    script = f"import os; from dtlib.runtime import launch; ranks = launch(3); {end}"
    environment = {**os.environ, "TMPDIR": str(short_folder)}
    command = [sys.executable, "-c", script]
    subprocess.run(command, env=environment, timeout=600, start_new_session=True)
    assert wait_until(lambda: not folders_in(short_folder))


def test_a_killed_process_without_ranks_leaves_what_the_ranks_would_have_removed(short_folder):
    """The twin of the test above: it is the ranks that clear up, and the folders that are seen."""
    script = "import os; from dtlib.runtime import close_pools, launch; launch(1); close_pools()"
    environment = {**os.environ, "TMPDIR": str(short_folder)}
    command = [sys.executable, "-c", f"{script}; os._exit(0)"]
    subprocess.run(command, env=environment, timeout=600, check=True)
    assert [folder.name[:5] for folder in folders_in(short_folder)] == ["pymp-"]


def folders_in(folder):
    """The folders of ranks, and those of multiprocessing, that are in a folder."""
    return [*folder.glob("dtlib-*"), *folder.glob("pymp-*")]


def test_still_running_sees_a_process_that_stays():
    sleeper = psutil.Popen([sys.executable, "-c", "import time; time.sleep(10_000)"])
    assert still_running([sleeper], 0.1) == [sleeper]
    sleeper.kill()
    assert still_running([sleeper]) == []
    sleeper.wait()


def descriptors():
    return len(os.listdir("/dev/fd"))


def test_ranks_work_after_their_processes_were_ended():
    close_pools()
    with launch(2) as ranks:
        before, opened = set(ranks.run(os.getpid)), descriptors()
        assert before <= rank_processes()
        directory = ranks._pool._directory
        assert os.path.exists(directory)
        close_pools()
        assert rank_processes() == set() and not os.path.exists(directory)
        assert descriptors() < opened
        after = set(ranks.run(os.getpid))
        assert rank_processes() == after
        assert not after & before
        assert descriptors() == opened
        close_pools()
        assert rank_processes() == set()
