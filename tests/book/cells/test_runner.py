"""What a reader's code gets back, in CPython: the engine in the page runs the same file."""

import builtins
import sys
from importlib.abc import MetaPathFinder

import numpy as np
import pytest

from book._engine import runner
from dtlib.exercises.manifest import exercises_of


@pytest.fixture
def run():
    return runner.Session().run


class Without(MetaPathFinder):
    """Modules that a page has not."""

    def __init__(self, *names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def without(monkeypatch):
    def leave_out(*names):
        monkeypatch.setattr(sys, "meta_path", [Without(*names), *sys.meta_path])
        for name in names:
            monkeypatch.delitem(sys.modules, name, raising=False)

    return leave_out


def test_names_last_and_the_last_line_is_shown(run):
    assert run("n = 20") == {"verdict": "none", "text": ""}
    assert run("n += 1\nn") == {"verdict": "value", "text": "21"}
    assert run("_ + 1")["text"] == "22"


def test_a_semicolon_shows_nothing_and_forgetting_forgets():
    session = runner.Session()
    assert session.run("n = 1\nn;")["verdict"] == "none"
    session.forget()
    assert session.run("n")["head"] == "NameError: name 'n' is not defined"


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float64(2), "np.float64(2.0)"),
        ([np.int64(2), {"a": np.True_}], "[np.int64(2), {'a': np.True_}]"),
        ((np.float32(0.5),), "(np.float32(0.5),)"),
        ([1.0, "a"], "[1.0, 'a']"),
        ({"a": {}}, "{'a': {}}"),
    ],
)
def test_numbers_of_numpy_say_what_they_are(value, text):
    assert runner.shown(value) == text == repr(value)


class OfNumpy1(np.float64):
    """As numpy 1 prints it."""

    __module__ = "numpy"
    __repr__ = lambda self: "2.0"  # noqa: E731


def test_numpy_1_is_read_as_numpy_2():
    OfNumpy1.__name__ = "float64"
    assert runner.shown([OfNumpy1(2)]) == "[np.float64(2.0)]"


def test_long_lists_break_as_in_a_notebook():
    from IPython.lib.pretty import pretty

    values = [
        {"ring": list(range(12)), "tree": {"a": "x" * 70}, "both": (1, 2)},
        [("a" * 30, "b" * 60), ("c" * 80,)],
        list(range(12)),
    ]
    assert [runner.shown(value) for value in values] == [pretty(value) for value in values]


def test_a_traceback_has_the_readers_lines_and_one_of_the_library(run):
    run("from dtlib.collectives import ring_all_reduce\ndef f():\n    return ring_all_reduce(0)")
    told = run("\n\nf()")
    lines = [line.strip() for line in told["text"].splitlines()]
    assert told["head"] == "ValueError: P must be at least 1; got P = 0"
    assert "this cell, line 3, in <module>" in lines and "f()" in lines
    assert "an earlier cell, line 3, in f" in lines
    assert len([line for line in lines if ", line " in line]) == 3
    assert "runner" not in told["text"] and "/" not in told["text"].replace("dtlib/", "").replace(
        "collectives/", ""
    )


def test_a_syntax_error_has_its_line_and_its_caret(run):
    told = run("x = 1\nprint(x))")
    assert told["text"].splitlines() == [
        "  this cell, line 2",
        "    print(x))",
        "            ^",
        "SyntaxError: unmatched ')'",
    ]


def test_the_librarys_errors_are_what_a_notebook_shows(run):
    run("from dtlib.collectives import Schedule, check_all_reduce")
    told = run("check_all_reduce(Schedule(2, 2, []))")
    assert told["verdict"] == "error" and told["text"].startswith("ScheduleError: ")
    assert "Traceback" not in told["text"]


def test_common_indentation_goes(run):
    assert run("    a = '''\n    b'''\n    a\n")["text"] == "'\\nb'"
    assert run("\tif True:\n\t\tb = 2\n\tb")["text"] == "2"
    assert "IndentationError" in run("a = 1\n    b = 2")["head"]


@pytest.mark.parametrize(
    "code, word",
    [
        ("%%ranks 4\nprint(rank)", "processes"),
        ("x = 1\n!pip install torch", "!pip"),
        ("%timeit 1", "%timeit"),
        ("sum?", "sum?"),
    ],
)
def test_commands_of_notebooks_are_named(run, code, word):
    told = run(code)
    assert told["verdict"] == "elsewhere" and word in told["text"]


def test_a_remainder_is_no_command(run):
    assert run("x = (7\n% 4)\nx")["text"] == "3"


def test_what_a_page_has_not_is_named_and_a_typing_error_is_one(run, without):
    without("torch", "sqlite3")
    for name in ("torch", "sqlite3"):
        told = run(f"import {name}")
        assert told["verdict"] == "elsewhere" and told["text"].startswith(f"{name} is not in the")
    assert run("import nunpy")["head"] == "ModuleNotFoundError: No module named 'nunpy'"


def test_what_asks_ends_or_starts_threads_gets_a_sentence(run, monkeypatch):
    monkeypatch.setattr(builtins, "input", runner.no_input)
    assert run("input('n?')")["verdict"] == "elsewhere"
    assert run("import sys\nsys.stdin.read()")["text"] == "''"
    assert (
        run("raise SystemExit(1)")["text"] == "SystemExit: the cell ended itself; the page goes on"
    )
    assert run("raise MemoryError")["text"].endswith("the memory of the page is full\n")
    assert "thread" in run('raise RuntimeError("can\'t start new thread")')["text"]
    deep = run("def f(n):\n    return f(n + 1)\nf(0)")
    assert deep["head"].startswith("RecursionError") and len(deep["text"].splitlines()) < 20


def test_long_values_are_cut(run):
    assert run("'a' * 10**6")["text"].endswith("... (1,000,002 characters)")


def test_an_answer_is_judged_by_the_check(run):
    right = [asked.value for asked in exercises_of("12")[4].declaration.asked]
    told = run(f"found = {right}", "12.5", "found")
    assert told["verdict"] == "Passed" and told["text"].startswith("12.5 passed: ")
    assert run("found = 3", "12.5", "found")["verdict"] == "NotYet"
    run("del found")
    assert run("mine = 3", "12.5", "found")["head"].endswith("which the code does not set")
    assert run("1", "99.1", "1")["verdict"] == "UnknownExercise"


def test_a_list_that_holds_itself_is_shown(run):
    assert run("a = [1]\na.append(a)\na")["text"] == "[1, [...]]"


def test_html_comes_from_the_library_alone(run):
    run("from dtlib.shown import compare\nclass Mine:\n    _repr_html_ = lambda self: '<b>'")
    assert "<table>" in run("compare([('ring', 1, 1, 2)], 's')")["html"]
    assert "html" not in run("Mine()")


def test_print_shows_numbers_inside_lists(capsys):
    runner.printed([OfNumpy1(2)], np.float64(2), sep=";")
    assert capsys.readouterr().out == "[np.float64(2.0)];2.0\n"


def test_a_step_reads_a_task_and_writes_its_result(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "TASK", tmp_path / "task")
    monkeypatch.setattr(runner, "RESULT", tmp_path / "result")
    (tmp_path / "task").write_text('{"code": "1 + 1"}')
    runner.step()
    assert (tmp_path / "result").read_text() == '{"verdict": "value", "text": "2"}'


def test_a_stub_waits_as_it_does_in_a_notebook(run):
    task = {"label": "12.1", "answer": "(sent, owned)"}
    waits = run("sent = owned = ...", **task)
    assert waits == {"verdict": "Unanswered", "text": "12.1 waits for your answer"}
    assert run("sent, owned = ..., 1", **task)["verdict"] == "NotYet"
