"""A recording keeps its numbers and says where they come from."""

import json
import resource
import socket
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from book._tools.layout import write_if_new
from dtlib import recordings
from dtlib.files import write_whole


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "directory", lambda: tmp_path)
    return tmp_path


def test_what_was_saved_is_loaded():
    samples = {"ring": [0.3, 0.1, 0.2], "tree": [0.5]}
    recordings.save("all-reduce", samples, unit="s", ranks=4)
    found = recordings.load("all-reduce")
    assert found.samples == samples and found.about == {"unit": "s", "ranks": 4}
    assert found.median("ring") == 0.2 and found.values("tree") == [0.5]
    assert found.interval("ring") == pytest.approx((0.12, 0.28))


def test_pairs_are_grouped_by_their_first_member():
    recordings.save("ping-pong", [(8, 2.0), (8, 4.0), (16, 5.0)])
    found = recordings.load("ping-pong")
    assert found.samples == [[8, 2.0], [8, 4.0], [16, 5.0]]
    assert found.median(8) == 3.0 and found.spread["16"]["count"] == 1


def test_arrays_are_stored_as_numbers():
    recordings.save("fit", {"a": np.array([1.0, 2.0])}, sizes=[1, 2])
    assert recordings.load("fit").values("a") == [1.0, 2.0]


def test_a_recording_says_where_and_when_but_not_on_whose_host(folder):
    found = recordings.save("here", {"a": [1.0]})
    assert found.machine["cores"] >= 1 and found.machine["processor"]
    assert found.versions["python"] and len(found.date) == 10
    assert socket.gethostname() not in (folder / "here.json").read_text()
    assert found.machine["processor"] in repr(found)


def test_a_file_is_json_with_a_line_for_each_series(folder):
    recordings.save("lines", {"a": [1.0, 2.0], "b": [3.0]})
    text = (folder / "lines.json").read_text()
    assert json.loads(text)["samples"] == {"a": [1.0, 2.0], "b": [3.0]}
    assert '    "a": [1.0, 2.0],\n' in text


def test_an_unknown_name_lists_the_known_ones():
    recordings.save("known", {"a": [1.0]})
    with pytest.raises(FileNotFoundError, match="no recording 'other'; recordings: known"):
        recordings.load("other")
    with pytest.raises(KeyError, match="no 'b'; recorded are a"):
        recordings.load("known").median("b")


@pytest.mark.parametrize(
    ("samples", "about", "said"),
    [({}, {}, "nothing to record"), ({"a": [1.0]}, {"date": "today"}, "'date'")],
)
def test_what_would_lose_information_is_refused(samples, about, said):
    with pytest.raises(ValueError, match=said):
        recordings.save("wrong", samples, **about)


# A file that is there already.

LONG = "new " * 1000


@contextmanager
def full_disk(limit: int = 1000):
    """No file of this process can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("write", [write_whole, write_if_new])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(folder, write):
    file = folder / "kept"
    file.write_text("old")
    with full_disk(), pytest.raises(OSError):
        write(file, LONG)
    assert file.read_text() == "old" and list(folder.iterdir()) == [file]
    write(file, LONG)
    assert file.read_text() == LONG and list(folder.iterdir()) == [file]


def test_a_recording_that_cannot_be_stored_leaves_the_published_one(folder):
    recordings.save("ring", {"ring": [0.5]})
    before = (folder / "ring.json").read_bytes()
    with full_disk(), pytest.raises(OSError):
        recordings.save("ring", {"ring": [float(i) for i in range(1000)]})
    assert (folder / "ring.json").read_bytes() == before
    assert recordings.load("ring").median("ring") == 0.5
    assert len(list(folder.iterdir())) == 1


def test_what_is_not_yet_on_the_disk_does_not_take_the_file_s_place(folder, monkeypatch):
    file = folder / "kept"
    file.write_text("old")

    def not_on_the_disk(_):
        raise OSError("Input/output error")

    monkeypatch.setattr("dtlib.files.os.fsync", not_on_the_disk)
    with pytest.raises(OSError, match="Input/output error"):
        write_whole(file, "new")
    assert file.read_text() == "old" and list(folder.iterdir()) == [file]


def test_sabotage_a_file_that_is_written_in_place_is_lost(folder):
    file = folder / "lost"
    file.write_text("old")
    with full_disk(), pytest.raises(OSError):
        Path.write_text(file, LONG)
    assert file.read_text() not in ("old", LONG)
