"""A script needs no `if __name__ == "__main__"`: the ranks do not run it."""

import subprocess
import sys

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
