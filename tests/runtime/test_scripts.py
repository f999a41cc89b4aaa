"""A script needs no `if __name__ == "__main__"`: the ranks do not run it."""

import os
import subprocess
import sys
import tempfile

import pytest

from dtlib.runtime import forkserver

SCRIPT = """
from dataclasses import dataclass
from dtlib import launch

print("once", flush=True)

@dataclass
class Point:
    x: int

def move(point, step):
    import torch.distributed as dist

    return Point(point.x + step * dist.get_rank())

with launch(2) as ranks:
    points = ranks.run(move, Point(1), 10)
    print(points, all(type(point) is Point for point in points), flush=True)
    ranks.run(move, None, 10)
"""


def test_a_script_runs_once_and_its_classes_go_and_come(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == ["once", "[Point(x=1), Point(x=11)] True"]
    assert done.returncode == 1
    message = "RankError: ranks 0, 1 failed: AttributeError: 'NoneType' object has no attribute 'x'"
    assert message in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.splitlines()[-2:] == [
        "  script.py, line 14, in move",
        "    return Point(point.x + step * dist.get_rank())",
    ]


WHERE = """
import multiprocessing.util, tempfile
from dtlib import launch

with launch(2) as ranks:
    print(ranks.cell("x = torch.ones(1); dist.all_reduce(x); x.item()"))
    print(multiprocessing.util.get_temp_dir())
    print(tempfile.gettempdir())
"""


def test_a_long_tmpdir_is_no_hindrance_and_stays_the_place_for_files(tmp_path):
    """A socket's path has 107 bytes on Linux; those of multiprocessing lie below TMPDIR."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", WHERE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    total, sockets, files = done.stdout.splitlines()
    assert (total, files) == ("[2.0, 2.0]", str(folder))
    assert sockets.startswith("/tmp/pymp-") and not os.path.exists(sockets)
    assert not list(folder.glob("dtlib-*"))


@pytest.mark.parametrize(("length", "moved"), [(103 - 32, False), (103 - 31, True)])
def test_sockets_move_only_where_their_paths_would_be_too_long(monkeypatch, length, moved):
    folder, chosen = "/" + "t" * (length - 1), []
    monkeypatch.setattr(tempfile, "tempdir", folder)
    record = lambda: chosen.append(tempfile.gettempdir())  # noqa: E731
    monkeypatch.setattr(forkserver.mp.util, "get_temp_dir", record)
    forkserver._make_room_for_sockets()
    assert chosen == ["/tmp"] * moved
    assert tempfile.gettempdir() == folder
