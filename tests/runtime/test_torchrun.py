"""The text that runs in a notebook runs under torchrun, where the ranks are there already."""

import os
import subprocess
import sys

import pytest

from dtlib.runtime import frames, launch, torchrun

POD = {"RANK": "0", "WORLD_SIZE": "1"}


@pytest.fixture
def pod(monkeypatch):
    """What a pod of Kubeflow or SageMaker tells all that it runs."""
    for name in [*POD, "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"]:
        monkeypatch.delenv(name, raising=False)
    for name, value in POD.items():
        monkeypatch.setenv(name, value)


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


class Kernel:
    kernel = "of Jupyter"


@pytest.mark.parametrize(("shell", "joins"), [(Kernel(), False), (object(), True), (None, True)])
def test_in_a_pod_a_notebook_has_ranks_of_its_own_and_a_script_joins(
    pod, monkeypatch, shell, joins
):
    """IPython in a terminal may be what torchrun has started; a notebook never is."""
    monkeypatch.setattr(frames, "_shell", lambda: shell)
    assert torchrun.is_torchrun() is joins


def test_a_notebook_in_a_pod_adds_up_over_ranks_of_its_own(pod, monkeypatch):
    monkeypatch.setattr(frames, "_shell", Kernel)
    with launch(2) as ranks:
        assert ranks.cell("import os; os.environ['RANK'], os.environ['WORLD_SIZE']") == [
            ("0", "2"),
            ("1", "2"),
        ]
        assert ranks.cell("x = torch.ones(1); dist.all_reduce(x); x.item()") == [2.0] * 2
    assert {name: os.environ[name] for name in POD} == POD


def test_a_script_in_a_pod_is_told_how_to_get_ranks_of_its_own(pod):
    """The twin: without a notebook the same call is refused."""
    with pytest.raises(ValueError) as caught:
        launch(2)
    assert str(caught.value) == (
        "n is 2, but WORLD_SIZE in the environment is 1: leave out n to join that world, or unset "
        "RANK WORLD_SIZE for ranks of your own"
    )


def test_half_of_what_a_launcher_tells_is_named_before_anyone_waits(pod, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "node-0")
    with pytest.raises(RuntimeError) as caught:
        launch()
    assert str(caught.value) == (
        "RANK and WORLD_SIZE are set, but MASTER_PORT not: start the script with torchrun, or "
        "unset RANK WORLD_SIZE for ranks of your own"
    )
