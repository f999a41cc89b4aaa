"""Ranks that start while the reader reads on: who wants them waits, and nothing is left of them."""

import os
import shutil
import signal
import subprocess
import sys
import threading

import psutil
import pytest
from processes import still_running, wait_until

from dtlib.runtime import RanksError, launch, launcher
from dtlib.runtime import pool as pool_module

ENDS = {"exit": "", "kill": "print('begun', flush=True); time.sleep(10_000)"}
NOTEBOOK = "import time\nfrom dtlib.runtime.launcher import start_in_background\n"


@pytest.fixture
def slow(monkeypatch):
    """Pools that start only once they may; a list of what they are to raise."""
    may_start, failures = threading.Event(), []

    class Slow(launcher.Pool):
        def _repair(self):
            assert may_start.wait(600)
            if failures:
                raise failures.pop()

    monkeypatch.setattr(launcher, "Pool", Slow)
    monkeypatch.setattr(launcher, "start_server", lambda: None)
    monkeypatch.setattr(launcher, "_pools", {})
    return may_start, failures


def test_the_first_who_wants_ranks_waits_for_them(slow):
    may_start, _ = slow
    assert launcher.start_in_background().startswith("4 ranks over gloo")
    launched = []
    first = threading.Thread(target=lambda: launched.append(launch(4, backend="gloo")))
    first.start()
    first.join(0.2)
    assert first.is_alive() and not launched
    may_start.set()
    first.join()
    assert [ranks.n for ranks in launched] == [4]


def test_why_ranks_cannot_start_is_told_to_whoever_wants_them(slow):
    may_start, failures = slow
    failures += [RanksError("no room"), RanksError("no room")]
    launcher.start_in_background()
    may_start.set()
    assert wait_until(lambda: len(failures) < 2)
    with pytest.raises(RanksError, match="no room"):
        launch(4, backend="gloo")


def test_a_pool_that_has_ended_starts_no_rank(monkeypatch):
    monkeypatch.setattr(pool_module, "start_server", lambda: None)
    pool = launcher.Pool(2, "gloo")
    pool.end()
    with pytest.raises(RanksError, match="this process ends"):
        pool.start()
    pool.close()


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_of_a_notebook_that_ends_before_its_ranks_are_there(end):
    folder = f"/tmp/b{os.getpid()}"  # short enough for sockets
    os.mkdir(folder)
    child = subprocess.Popen(
        [sys.executable, "-c", f"{NOTEBOOK}start_in_background()\n{ENDS[end]}"],
        env={**os.environ, "TMPDIR": folder},
        stdout=subprocess.PIPE,
    )
    family = []
    if end == "kill":
        child.stdout.readline()
        family = psutil.Process(child.pid).children(recursive=True)
        assert family, "the fork server"
        child.send_signal(signal.SIGKILL)
    child.communicate(timeout=600)
    assert still_running(family) == []
    assert wait_until(lambda: left_in(folder) == [], 120), left_in(folder)
    shutil.rmtree(folder)


def left_in(folder: str) -> list[str]:
    """What lies there, but for the cache that torch makes itself a folder for."""
    return [name for name in os.listdir(folder) if not name.startswith("torchinductor")]
