"""`launch`: ranks of any number, that know nothing of what others did on the same processes."""

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from processes import rank_processes

from dtlib.runtime import RankError, close_pools, launch
from dtlib.runtime import launcher as launcher_module

SUM = "x = torch.ones(1); dist.all_reduce(x); x.item()"


def test_eight_ranks_agree():
    with launch(8) as ranks:
        assert ranks.n == 8
        assert ranks.cell("(rank, world_size)") == [(rank, 8) for rank in range(8)]
        assert ranks.cell(SUM) == [8.0] * 8


def test_one_rank_is_a_group_too():
    with launch(1) as ranks:
        assert ranks.cell(SUM) == [1.0]


def test_launches_of_different_sizes_are_nested():
    with launch(2) as two:
        two.cell("mine = 'two'")
        with launch(3) as three:
            three.cell("mine = 'three'")
            assert two.cell(SUM) == [2.0] * 2
            assert three.cell(SUM) == [3.0] * 3
        assert two.cell("mine") == ["two"] * 2


def test_two_launches_of_one_size_share_processes_but_no_names(ranks):
    ranks.cell("mine = 'first'; torch.manual_seed(1)")
    with launch(4) as second:
        assert second.run(os.getpid) == ranks.run(os.getpid)
        with pytest.raises(RankError, match="NameError: name 'mine'"):
            second.cell("mine")
        second.cell("mine = 'second'; torch.manual_seed(2)")
        drawn = ranks.cell("torch.rand(1).item()")
        assert ranks.cell("mine") == ["first"] * 4
    torch.manual_seed(1)
    assert drawn == [torch.rand(1).item()] * 4


LOOK = """
import os, sys
(
    torch.get_default_dtype(),
    torch.is_grad_enabled(),
    torch.initial_seed(),
    len(dist.distributed_c10d._world.pg_map),
    sorted(globals().keys() - {"LOOK"}),
)
"""
CHANGE = """
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.manual_seed(7)
pair = dist.new_group([0, 1])
left_behind = 1
"""


def test_a_launch_sees_nothing_of_the_one_before():
    with launch(2) as ranks:
        fresh = ranks.cell(LOOK)
        processes = ranks.run(os.getpid)
    with launch(2) as ranks:
        ranks.cell(CHANGE)
        changed = ranks.cell(LOOK)
        assert all(now != then for now, then in zip(changed[0], fresh[0], strict=True))
    with launch(2) as ranks:
        assert ranks.cell(LOOK) == fresh
        assert ranks.run(os.getpid) == processes


def test_closed_ranks_say_so():
    with launch(2) as ranks:
        pass
    with pytest.raises(RuntimeError, match=r"these ranks are closed: launch\(\) again"):
        ranks.cell("rank")
    ranks.close()


def test_there_is_no_launch_inside_a_rank(ranks):
    def nested():
        from dtlib.runtime import launch

        launch(2)

    with pytest.raises(RankError, match=r"ranks 0-3 failed: RuntimeError: launch\(\) was called"):
        ranks.run(nested)


def test_threads_take_turns_on_the_same_ranks(ranks):
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda i: ranks.cell(f"{SUM} * {i}"), range(12)))
    assert results == [[4.0 * i] * 4 for i in range(12)]


def test_a_call_within_a_call_of_the_same_thread_is_refused(ranks, monkeypatch):
    """It would wait for itself."""

    class Curious(io.StringIO):
        def write(self, text):
            ranks.cell("rank")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Curious())
        with pytest.raises(RuntimeError, match="busy with another call of this thread"):
            ranks.cell("print('look')")
    assert ranks.cell("rank") == [0, 1, 2, 3]


def test_idle_ranks_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(launcher_module, "IDLE_RANKS_KEPT", 6)
    close_pools()
    for n in (2, 3, 4):
        with launch(n) as ranks:
            latest = set(ranks.run(os.getpid))
    assert len(rank_processes()) == 4
    assert latest == rank_processes()
    with launch(4) as ranks, launch(3), launch(2):
        assert set(ranks.run(os.getpid)) == latest  # those in use stay
        assert len(rank_processes()) == 4 + 3 + 2
    close_pools()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a positive integer, got 0"),
        ({"n": -2}, "n must be a positive integer, got -2"),
        ({"n": "4"}, "n must be a positive integer, got '4'"),
        ({"n": 2.0}, "n must be a positive integer, got 2.0"),
        ({"n": True}, "n must be a positive integer, got True"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, got 0"),
        ({"timeout": -1}, "timeout must be a positive number of seconds, got -1"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds, got nan"),
        ({"timeout": "9"}, "timeout must be a positive number of seconds, got '9'"),
        ({"backend": "mpi"}, "backend must be 'gloo', 'nccl' or None, got 'mpi'"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named_with_what_is_allowed(arguments, message):
    with pytest.raises(ValueError) as caught:
        launch(**{"n": 2, **arguments})
    assert str(caught.value) == message


def test_the_time_of_a_call_is_checked_before_the_call(ranks):
    ranks.cell("kept = rank")
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got 0"):
        ranks.cell("rank", timeout=0)
    assert ranks.cell("kept") == [0, 1, 2, 3]


def test_nccl_without_gpus_is_refused(monkeypatch):
    monkeypatch.setattr("dtlib.runtime.backend.visible_gpus", lambda: 1)
    with pytest.raises(ValueError, match="'nccl' needs a GPU for each of 2 ranks, found 1"):
        launch(2, backend="nccl")


def test_windows_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RuntimeError, match="on Windows, run the book inside WSL 2"):
        launch(2)


WITHOUT_TORCH = """
import sys

sys.modules["torch"] = None  # what imports it fails
import dtlib, dtlib.runtime.doctor

try:
    dtlib.launch(2)
except ModuleNotFoundError as error:
    print(error)
print(dtlib.runtime.doctor.doctor())
"""


def test_without_torch_the_package_imports_and_launch_says_what_to_install():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    message, *report = done.stdout.splitlines()
    assert message == "ranks need PyTorch, which is not installed: pip install torch"
    assert any(line.startswith("torch ") and f"PROBLEM: {message}" in line for line in report)
    assert any(line.startswith("two ranks ") and "PROBLEM" in line for line in report)
