"""The text that runs in a notebook runs under torchrun, where the ranks are there already."""

import subprocess
import sys

SCRIPT = """
import sys
from dtlib.runtime import launch

def total(x):
    import torch
    import torch.distributed as dist

    sum_of_ranks = torch.tensor(float(dist.get_rank() + 1))
    dist.all_reduce(sum_of_ranks)
    return x * sum_of_ranks.item() + dist.get_rank()

said = []
try:
    launch(3)
except ValueError as error:
    said.append(str(error))
with launch() as ranks:
    said.append(f"{ranks.n} ranks")
    said.append(f"result {ranks.run(total, 100)}")
    ranks.push(y=5)
    said.append(f"cell {ranks.cell('y + rank')}")
with launch(2, debug=True) as ranks:
    try:
        ranks.cell("dist.all_reduce(torch.ones(2 + rank))")
    except Exception as error:
        said.append(type(error).__name__)
with open(sys.argv[1] + str(total(0)), "w") as file:
    file.write("\\n".join(said))
"""


def test_under_torchrun_launch_joins_and_run_returns_the_result_of_this_rank(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = [str(tmp_path / "script.py"), str(tmp_path / "said")]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", *script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert (tmp_path / f"said{rank}.0").read_text().splitlines() == [
            "n is 3, but torchrun has started 2 ranks: "
            "start it with --nproc-per-node=3, or leave out n",
            "2 ranks",
            f"result {300.0 + rank}",
            f"cell {5 + rank}",
            "CollectiveMismatch",
        ]
