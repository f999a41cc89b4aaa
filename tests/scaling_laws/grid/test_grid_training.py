"""Any number of processes train a folder's cells; who is killed goes on to the same digits."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys

import pytest

from dtlib.scaling_laws.grid import QuantileText, ZipfWords, results, train_cells, training
from dtlib.scaling_laws.grid.cells import FAMILIES, HELD_OUT, MI, REDUCED, TINY, Cell, family
from dtlib.scaling_laws.grid.command import Bar, cells_of, grid_command, table

TOKENS = 64 * 1024  # 64 steps


@pytest.fixture(scope="module")
def text():
    return QuantileText(ZipfWords(), words=512)


def cells(*multiples: int, width: int = 16) -> list[Cell]:
    return [Cell("early", width, multiple * TOKENS, 1) for multiple in multiples]


def found(folder) -> list[dict]:
    """What was measured, without what depends on the day and the machine's load."""
    return [
        {key: value for key, value in cell.items() if key not in ("seconds", "date")}
        for cell in results(folder)
    ]


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert train_cells(cells(1, 2, 4), folder, text) == 3
    return found(folder)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_run_that_is_cut_short_goes_on_to_the_same_digits(
    text, whole, tmp_path, monkeypatch, after
):
    monkeypatch.setattr(training, "SAVED", 20)
    calls = iter(range(after))

    def until_killed(cell, tokens):
        if next(calls, None) is None:
            raise Killed

    with pytest.raises(Killed):
        train_cells(cells(1, 2, 4), tmp_path, text, until_killed)
    before = len(results(tmp_path))
    assert before < 3
    assert train_cells(cells(1, 2, 4), tmp_path, text) == 3 - before
    assert found(tmp_path) == whole


def test_a_trunk_that_lost_a_step_is_seen(text, whole, tmp_path, monkeypatch):
    load = training.Trunk.load

    def skip_one(trunk, path):
        load(trunk, path).step += 1
        return trunk

    monkeypatch.setattr(training.Trunk, "load", skip_one)
    train_cells(cells(1, 2, 4), tmp_path, text)
    assert found(tmp_path) != whole


SCRIPT = """
import sys
from pathlib import Path
from dtlib.scaling_laws.grid import QuantileText, ZipfWords, train_cells, training
from dtlib.scaling_laws.grid.cells import Cell
training.SAVED = 20
cells = [Cell("early", 16, m * 64 * 1024, 1) for m in (1, 2, 4)]
say = lambda cell, tokens: print(cell.name, flush=True)
train_cells(cells, Path(sys.argv[1]), QuantileText(ZipfWords(), words=512), say)
"""


def test_a_process_that_is_killed_leaves_what_is_finished_and_no_half_cell(text, whole, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    while not process.stdout.readline().startswith("early-w16-s1-0.125Mi"):
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    files = list((tmp_path / "cells").iterdir())
    assert all(
        json.loads(file.read_text())["excess"] > 0 for file in files if file.suffix == ".json"
    )
    assert len(results(tmp_path)) < 3
    train_cells(cells(1, 2, 4), tmp_path, text)
    assert found(tmp_path) == whole


def test_a_shorter_run_after_longer_ones_starts_anew_and_is_the_same(text, whole, tmp_path):
    assert train_cells(cells(4), tmp_path, text) == 1
    assert train_cells(cells(1, 2), tmp_path, text) == 2
    assert found(tmp_path) == whole


def test_two_processes_do_not_train_one_trunk(text, tmp_path):
    (tmp_path / "trunks").mkdir()
    with (tmp_path / "trunks" / "w16-s1.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        both = cells(1) + cells(1, width=24)
        assert train_cells(both, tmp_path, text) == 1
        assert [cell["width"] for cell in results(tmp_path)] == [24]
    assert train_cells(both, tmp_path, text) == 1


def test_what_is_done_is_not_trained_again(text, tmp_path):
    train_cells(cells(1), tmp_path, text)
    before = (tmp_path / "cells" / "early-w16-s1-0.0625Mi.json").stat().st_mtime_ns
    assert train_cells(cells(1), tmp_path, text) == 0
    assert (tmp_path / "cells" / "early-w16-s1-0.0625Mi.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", FAMILIES)
def test_held_out_runs_have_3_to_4_times_the_compute_of_all_that_are_fitted(name):
    largest = max(cell.flops for cell in family(FAMILIES[name], 1))
    for width, mi in HELD_OUT[name].items():
        assert 3.5 <= Cell("fit", width, mi * MI, 1).flops / largest <= 4.01


def test_a_family_begins_with_its_cheapest_cells_and_names_each_once():
    cells = family(REDUCED, 2)
    assert len({cell.name for cell in cells}) == len(cells)
    assert [cell.tokens for cell in cells] == sorted(cell.tokens for cell in cells)
    assert {cell.kind for cell in cells if cell.tokens < MI} == {"early"}
    assert set(family(TINY, 2)) < set(cells)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "guess"}, "kind is 'guess'"),
        ({"tokens": 0}, "tokens is 0"),
        ({"rate": -1.0}, "rate is -1.0"),
        ({"kind": "held-out"}, "prediction is ''"),
        ({"prediction": "abc"}, "prediction is 'abc'"),
    ],
)
def test_a_cell_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Cell(**{"kind": "fit", "width": 16, "tokens": MI, "seed": 1} | wrong)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_counts_what_others_have_finished_and_ends_at_100():
    todo, done = cells(1, 1, width=16)[:1] + cells(1, width=24), set()
    ticks = iter(range(100))
    bar = Bar(todo, lambda: done, stream=Terminal(), clock=lambda: next(ticks))
    bar(todo[0], TOKENS // 2)
    assert "width 16, seed 1, 0.0 of 0.0625 Mi" in bar.stream.getvalue()
    done |= {cell.name for cell in todo}
    bar(todo[1], TOKENS)
    assert "100%" in bar.stream.getvalue() and "0 min left" in bar.stream.getvalue()


def test_in_a_file_each_finished_cell_is_a_line():
    (cell,), done = cells(1), set()
    bar = Bar([cell], lambda: done, stream=io.StringIO())
    bar(cell, TOKENS // 2)
    done.add(cell.name)
    bar(cell, TOKENS)
    assert len(bar.stream.getvalue().splitlines()) == 1


def test_the_command_says_what_is_done(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FAMILIES, "tiny", {16: 0.25})
    assert grid_command(["tiny", "4", "--into", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "100%  width 16, seed 4" in said
    assert said.splitlines()[-2].split() == ["width", "0.25", "Mi"]
    assert [cell["seed"] for cell in results(tmp_path)] == [4]


def test_ctrl_c_is_no_error(tmp_path, capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dtlib.scaling_laws.grid.command.train_cells", stop)
    assert grid_command(["tiny", "--into", str(tmp_path)]) == 130
    assert "the same command goes on from here" in capsys.readouterr().out


def test_held_out_runs_without_predictions_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        cells_of("held-out", [1], tmp_path)


def test_a_table_averages_seeds_and_leaves_gaps():
    one = {"kind": "fit", "width": 16, "tokens": MI, "excess": 0.3}
    other = one | {"excess": 0.5}
    wide = one | {"width": 32, "tokens": 2 * MI}
    assert table([one, other, wide]).splitlines() == [
        "width    1 Mi    2 Mi",
        "   16  0.4000",
        "   32          0.3000",
    ]
