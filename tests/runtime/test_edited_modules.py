"""A module of the reader's that is edited between two launches is imported anew on warm ranks."""

import importlib
import os
import sys

import pytest

from dtlib.runtime import launch
from dtlib.runtime.modules import ModuleWatch


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module; both tests use warm ranks, and so each needs a name of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, answer):
        (tmp_path / f"{name}.py").write_text(f"answer = {answer}")

    return write


def test_a_launch_sees_the_module_as_it_is_now(write):
    processes = []
    for answer in (1, 22, 333):
        write("lesson_a", answer)
        with launch(2) as ranks:
            assert ranks.cell("import lesson_a; lesson_a.answer") == [answer] * 2
            processes.append(ranks.run(os.getpid))
    assert processes[0] == processes[1] == processes[2]


def test_within_a_launch_a_module_stays_as_it_is(write):
    """As in a notebook: an import is done once."""
    with launch(2) as ranks:
        for answer in (1, 22):
            write("lesson_b", answer)
            assert ranks.cell("import lesson_b; lesson_b.answer") == [1] * 2


def test_a_module_is_forgotten_if_and_only_if_its_file_has_changed(write, tmp_path):
    write("lesson_c", 1)
    file = tmp_path / "lesson_c.py"
    os.utime(file, (1e9, 1e9))
    watch = ModuleWatch()
    module = importlib.import_module("lesson_c")
    for _ in range(2):
        watch.forget_edited()
        assert sys.modules["lesson_c"] is module
    os.utime(file)
    watch.forget_edited()
    assert "lesson_c" not in sys.modules
