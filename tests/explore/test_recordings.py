"""A recording keeps its numbers and says where they come from."""

import json
import resource
import socket
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from book._tools.layout import write_if_new
from dtlib import recordings
from dtlib.files import whole_file, write_whole


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


@pytest.mark.parametrize(
    ("cpuinfo", "processor"),
    [
        ("processor : 0\nmodel name\t: EPYC 9654: 96 cores\n", "EPYC 9654: 96 cores"),
        ("model name : A\nflags : x\nmodel name : B\n", "A"),
        ("BogoMIPS : 50\n", "arm"),
        (None, "arm"),
    ],
)
def test_the_processor_is_the_first_that_the_machine_names(folder, monkeypatch, cpuinfo, processor):
    """A machine may have one processor, several, or none that says its model."""
    file = folder / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(recordings, "Path", lambda name: file)
    monkeypatch.setattr(recordings.platform, "processor", lambda: "arm")
    assert recordings.machine()["processor"] == processor


def test_spread_is_that_of_numpy_and_of_one_sample_the_sample():
    values = [0.9, 0.1, 0.4, 0.7, 0.2, 0.8, 0.3]
    found = recordings.save("spread", {"many": values, "one": [0.5]})
    low, middle, high = np.percentile(values, [10, 50, 90])
    expected = {"count": 7, "median": middle, "low": low, "high": high}
    assert found.spread["many"] == pytest.approx(expected)
    assert found.spread["one"] == {"count": 1, "median": 0.5, "low": 0.5, "high": 0.5}
    assert found.interval("one") == (0.5, 0.5) and found.values("many") == values


def test_what_was_recorded_is_shown_in_one_line(monkeypatch):
    monkeypatch.setattr(recordings, "machine", lambda: {"processor": "EPYC", "cores": 3})
    monkeypatch.setattr(recordings, "versions", lambda: {"python": "3.11.7", "torch": "2.13.0"})
    found = recordings.save("shown", {"a": [1.0]})
    assert repr(found) == (
        f"Recording('shown': EPYC, 3 cores, {found.date}, python 3.11.7, torch 2.13.0)"
    )


def test_versions_are_of_what_is_installed_without_the_build(monkeypatch):
    def version(library):
        if library != "torch":
            raise metadata.PackageNotFoundError(library)
        return "2.13.0+cpu"

    monkeypatch.setattr(metadata, "version", version)
    python = recordings.platform.python_version()
    assert recordings.versions() == {"python": python, "torch": "2.13.0"}


def test_recordings_are_listed_by_name(folder):
    assert recordings.available() == []
    with pytest.raises(FileNotFoundError, match="no recording 'a'; recordings: none yet"):
        recordings.load("a")
    for name in ("b", "a"):
        recordings.save(name, {"x": [1.0]})
    (folder / "other.txt").write_text("")
    assert recordings.available() == ["a", "b"]


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


def test_a_writer_that_fails_in_the_middle_leaves_the_old_file(folder):
    file = folder / "kept"
    file.write_bytes(b"old")
    with pytest.raises(KeyError), whole_file(file) as part:
        part.write(b"half")
        assert file.read_bytes() == b"old"
        raise KeyError("of a tensor")
    assert file.read_bytes() == b"old" and list(folder.iterdir()) == [file]


def test_sabotage_a_file_that_is_written_in_place_is_lost(folder):
    file = folder / "lost"
    file.write_text("old")
    with full_disk(), pytest.raises(OSError):
        Path.write_text(file, LONG)
    assert file.read_text() not in ("old", LONG)
