"""NCCL where every rank has a GPU of its own, else gloo: shown on fakes, which need no GPU."""

import os

import pytest
import torch
import torch.distributed as dist

from dtlib.runtime import backend, launcher, torchrun
from dtlib.runtime.backend import choose_backend, device, take_device, visible_gpus
from dtlib.runtime.exchange import Exchange
from dtlib.runtime.messages import Failure, Reply
from dtlib.runtime.pool import Pool
from dtlib.runtime.verdict import judge

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def taken(monkeypatch):
    """The GPUs that this process has made its own."""
    numbers = []
    monkeypatch.setattr(torch.cuda, "set_device", numbers.append)
    return numbers


@pytest.fixture
def gpus(monkeypatch):
    """Let the machine have so many GPUs."""

    def have(number):
        monkeypatch.setattr(backend, "visible_gpus", lambda: number)
        monkeypatch.setattr(launcher, "visible_gpus", lambda: number)

    return have


def test_a_rank_under_nccl_takes_the_gpu_of_its_number(taken):
    assert take_device("nccl", 3) == torch.device("cuda", 3)
    assert taken == [3]


def test_a_rank_under_gloo_takes_no_gpu(taken):
    assert take_device("gloo", 3) == torch.device("cpu")
    assert taken == []


@pytest.mark.parametrize(
    ("number", "ranks", "wanted", "chosen"),
    [
        (4, 4, None, "nccl"),
        (3, 4, None, "gloo"),
        (8, 4, "gloo", "gloo"),
        (4, 4, "nccl", "nccl"),
        (0, 1, None, "gloo"),
    ],
)
def test_nccl_is_chosen_where_there_are_gpus_enough(gpus, number, ranks, wanted, chosen):
    gpus(number)
    assert choose_backend(ranks, wanted) == chosen


@pytest.mark.parametrize(
    ("number", "wanted", "n", "chosen"),
    [(8, None, 8, "nccl"), (1, None, 4, "gloo"), (0, None, 4, "gloo"), (8, "gloo", 4, "gloo")],
)
def test_without_a_number_there_is_a_rank_for_each_of_several_gpus(
    gpus, monkeypatch, number, wanted, n, chosen
):
    gpus(number)
    monkeypatch.setattr(launcher, "_warm_pool", Pool)
    ranks = launcher.launch(backend=wanted)
    assert (ranks.n, ranks._pool.backend) == (n, chosen)


def test_a_machine_without_a_driver_has_no_gpus_and_torch_is_not_asked(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: asked.append(True) or 2)
    monkeypatch.setattr(backend, "_GPU_DRIVERS", (str(tmp_path / "driver"),))
    assert visible_gpus() == 0 and asked == []
    (tmp_path / "driver").touch()
    assert visible_gpus() == 2 and asked == [True]


def test_beside_nccl_gloo_carries_the_tensors_of_the_cpu(monkeypatch):
    assert backend.torch_backend("nccl") == "cpu:gloo,cuda:nccl"
    assert backend.torch_backend("gloo") == "gloo"
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend_config", lambda: "cpu:gloo,cuda:nccl")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    assert device() == torch.device("cuda", 2)
    monkeypatch.setattr(dist, "get_backend_config", lambda: "cpu:gloo")
    assert device() == torch.device("cpu")


@pytest.mark.parametrize(
    ("told", "ranks_here", "local_rank"),
    [({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"}, 8, 1), ({}, 16, 9)],
)
def test_the_ranks_of_a_node_share_its_gpus(monkeypatch, gpus, taken, told, ranks_here, local_rank):
    """A launcher that does not number the ranks of a node has one node."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    told = {"RANK": "9", "WORLD_SIZE": "16", "MASTER_ADDR": "node-0", "MASTER_PORT": "1", **told}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    joined = []
    monkeypatch.setattr(dist, "init_process_group", lambda *a, **k: joined.append((a, k)))
    monkeypatch.setattr(torchrun.atexit, "register", lambda _: None)
    gpus(ranks_here)
    torchrun._join_the_world(60, None)
    assert taken == [local_rank]
    ((names, options),) = joined
    assert names == ("cpu:gloo,cuda:nccl",) and options["timeout"].total_seconds() == 60
    gpus(ranks_here - 1)
    torchrun._join_the_world(60, None)
    assert taken == [local_rank] and joined[1][0] == ("gloo",)


def failed_exchange():
    exchange = Exchange([])
    failure = Failure("ValueError: no", (), "", 1.0, False)
    exchange.replies = {0: Reply(b"", None, True), 1: Reply(None, failure, True)}
    return exchange


def test_ranks_of_nccl_are_replaced_after_a_failure_and_the_error_says_so():
    """NCCL does not let go of the peers of a failed rank; gloo does."""
    exchange = failed_exchange()
    kept = Pool(2, "nccl")._finish(exchange)
    assert not kept
    assert "The ranks start anew" in str(judge(exchange, 60, kept))
    kept = Pool(2, "gloo")._finish(exchange)
    assert kept
    assert "The ranks start anew" not in str(judge(exchange, 60, kept))


def test_ranks_of_nccl_that_hang_are_located_and_not_waited_for(monkeypatch):
    """To free them would take seconds, and they are replaced in any case."""
    done = []
    monkeypatch.setattr(Exchange, "silent", ["a rank"])
    monkeypatch.setattr(Exchange, "locate", lambda self: done.append("located"))
    monkeypatch.setattr(Exchange, "free", lambda self, generation: done.append("freed"))
    Pool(2, "nccl")._free(Exchange([]))
    assert done == ["located"]
    Pool(2, "gloo")._free(Exchange([]))
    assert done == ["located", "located", "freed"]


def test_this_process_is_no_rank_and_knows_its_environment_again():
    assert not dist.is_initialized() and not set(LAUNCHERS[:2]) & set(os.environ)
