"""The clock of waiting stands still for a process that has no processor, and only for it."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from processes import wait_until

from dtlib.runtime import patience
from dtlib.runtime.exchange import Exchange
from dtlib.runtime.patience import Patience, seconds_without_processor

counted = pytest.mark.skipif(
    not seconds_without_processor(os.getpid()), reason="this system does not count waiting times"
)


@pytest.fixture
def started():
    """Start Python programs; they end with the test."""
    processes = []

    def start(program: str, **options) -> psutil.Popen:
        processes.append(psutil.Popen([sys.executable, "-c", program], **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


SPIN = "import os; os.sched_setaffinity(0, [{}])\nwhile True: pass"


@counted
def test_processes_that_share_a_processor_have_but_a_part_of_the_time(started):
    core = min(os.sched_getaffinity(0))
    crowd = [started(SPIN.format(core)) for _ in range(4)]
    assert wait_until(lambda: all(one.cpu_times().user > 0.1 for one in crowd))
    clock, began = Patience([crowd[0].pid]), time.monotonic()
    before = crowd[0].cpu_times().user
    assert wait_until(lambda: crowd[0].cpu_times().user > before + 0.3)
    assert clock.elapsed() < 0.8 * (time.monotonic() - began)


@counted
def test_a_process_that_sleeps_has_all_the_time(started):
    sleeper = started("import time; time.sleep(10_000)")
    assert wait_until(lambda: sleeper.status() == psutil.STATUS_SLEEPING)
    clock = Patience([sleeper.pid])
    before = time.monotonic()
    assert wait_until(lambda: clock.elapsed() > 0.3)
    assert time.monotonic() - before >= 0.3


def test_a_process_that_is_not_there_does_not_stop_the_clock():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    clock = Patience([gone.pid])
    assert wait_until(lambda: clock.elapsed() > 0.05)


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_process_that_ends_while_it_is_asked_has_not_waited(monkeypatch, error):
    """Linux answers with either, depending on how far the end has come."""

    def listdir(_):
        raise error

    monkeypatch.setattr(patience.os, "listdir", listdir)
    assert seconds_without_processor(os.getpid()) == {}


def test_the_most_hindered_process_decides(monkeypatch):
    waits = {1: {"1": 5.0}, 2: {"2": 0.0, "3": 1.0}}
    now = 100.0
    monkeypatch.setattr(patience, "seconds_without_processor", lambda process: dict(waits[process]))
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    clock = Patience([1, 2])
    now, waits[1]["1"], waits[2]["3"] = 101.0, 5.25, 1.5
    assert clock.elapsed() == 1 - 0.5
    now, waits[2]["9"] = 102.0, 100.0  # a thread that is new, and cannot have waited longer
    assert clock.elapsed() == 0


def test_a_machine_that_was_suspended_has_not_waited(monkeypatch):
    """Whoever looks an hour late has slept for that hour, and the ranks with him."""
    now = 0.0
    monkeypatch.setattr(patience, "seconds_without_processor", lambda _: {})
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    clock = Patience([1])
    now = 0.5
    assert clock.left(60) == patience.LONGEST_LOOK
    now = 3600.5
    assert clock.elapsed() == 0.5 + patience.LONGEST_LOOK
    now = 3601.25
    assert clock.left(3) == 3 - 2.25 and clock.left(2.25) == 0


def test_sabotage_a_clock_that_may_look_late_takes_an_hour_of_sleep_for_waiting(monkeypatch):
    now = 0.0
    monkeypatch.setattr(patience, "LONGEST_LOOK", float("inf"))
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    clock = Patience([])
    now = 3600.0
    assert clock.left(60) < 0


STOPPED = """
import pathlib, time
from dtlib.runtime import launch

def work(begun):
    pathlib.Path(begun).touch()
    for _ in range(40):
        time.sleep(0.05)

with launch(2, timeout=4) as ranks:
    ranks.run(work, {!r})
    print("done")
"""


def test_ranks_that_were_stopped_with_their_notebook_go_on_with_it(started, tmp_path):
    """As on a laptop whose lid is closed: all stop, for longer than the ranks may take."""
    begun = tmp_path / "begun"
    notebook = started(STOPPED.format(str(begun)), stdout=subprocess.PIPE, text=True)
    assert wait_until(begun.exists)
    family = [notebook, *notebook.children(recursive=True)]
    for process in family:
        process.suspend()
    time.sleep(5)
    for process in family:
        process.resume()
    assert notebook.stdout.read() == "done\n"
    notebook.stdout.close()


# What the exchange makes of it.


class Silent:
    """A rank that never answers."""

    rank, pid = 0, 4711

    def __init__(self):
        self.connection, self._write = os.pipe()
        self.process = self
        self.sentinel = self.connection


def test_a_rank_without_processor_is_not_given_up(monkeypatch):
    """Ten seconds on the wall are one of patience: that is when the rank is given up."""
    now = 0.0
    looks = []

    def look(sources, seconds):
        nonlocal now
        looks.append(now)
        now += seconds
        return []

    monkeypatch.setattr("dtlib.runtime.exchange.wait", look)
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    monkeypatch.setattr(patience, "seconds_without_processor", lambda _: {"1": 0.9 * now})
    exchange = Exchange([Silent()])
    exchange.collect(1.0)
    assert now == pytest.approx(10, abs=0.5) and len(looks) > 10
    monkeypatch.setattr(patience, "seconds_without_processor", lambda _: {})
    now, looks = 0.0, []
    exchange.collect(1.0)
    assert now == pytest.approx(1) and len(looks) == 2
