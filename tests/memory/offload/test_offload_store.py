"""Stores: the same bits come back, every byte is counted, and nothing is lost or left behind."""

import gc
import os
import resource
import signal
import subprocess
import sys
import threading

import pytest
import torch

from dtlib.memory import DiskStore, HostStore, LateStore, StoreError, ThrottledStore
from dtlib.runtime import RankError, launch

MAKERS = {
    "host": lambda folder: HostStore(),
    "one lane": lambda folder: HostStore(duplex=False),
    "throttled": lambda folder: ThrottledStore(1e7, alpha=1e-4),
    "late": lambda folder: LateStore(),
    "disk": DiskStore,
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def store(request, tmp_path):
    with request.param(tmp_path) as store:
        yield store
    assert not list(tmp_path.iterdir())


def left_in(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


KINDS = torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_the_same_bits_come_back(store, dtype):
    for shape in ((3, 5), (), (0,), (1,), (2, 0, 3)):
        x = (torch.randn(shape) * 3).to(dtype)
        store.put("x", x)
        y = store.get("x").wait()
        assert (y.shape, y.dtype) == (x.shape, x.dtype) and torch.equal(x, y)
    odd = torch.tensor([float("nan"), float("-inf"), -0.0, 1e-45])
    store.put("odd", odd)
    assert torch.equal(store.get("odd").wait().view(torch.int32), odd.view(torch.int32))
    store.put("turned", torch.arange(6.0).view(2, 3).t())
    assert torch.equal(store.get("turned").wait(), torch.arange(6.0).view(2, 3).t())


def test_every_byte_is_counted(store):
    store.put("a", torch.zeros(10))
    store.put("b", torch.zeros(3, dtype=torch.float64))
    store.put("a", torch.zeros(5))
    store.get("b").wait()
    assert (store.sent, store.received) == (40 + 24 + 20, 24)
    assert (store.held, store.peak_bytes) == (44, 64)
    store.drop("a")
    store.flush()
    assert store.held == 24 and store.keys() == ["b"]


def test_a_name_is_read_and_written_in_the_order_of_the_calls(store):
    """Read after write, write after read: with lanes of their own, they might overtake."""
    old, new = torch.zeros(20_000), torch.ones(20_000)
    for _ in range(5):
        store.put("x", old)
        first = store.get("x")
        store.put("x", new)
        second = store.get("x")
        assert torch.equal(second.wait(), new) and torch.equal(first.wait(), old)


def test_a_transfer_can_wait_for_others(store):
    buffer = torch.ones(4)
    store.put("other", torch.full((4,), 7.0))
    out = store.put("x", buffer)
    arrived = store.get("other", into=buffer, after=[out]).wait()
    assert arrived is buffer and torch.equal(buffer, torch.full((4,), 7.0))
    assert torch.equal(store.get("x").wait(), torch.ones(4))


def test_what_is_changed_on_its_way_is_an_error_and_never_a_wrong_value():
    with LateStore() as store:
        tensor = torch.zeros(4)
        transfer = store.put("x", tensor)
        tensor.view(2, 2)[0] += 1
        fetched = store.get("x")
        for failed in (transfer, fetched):
            with pytest.raises(StoreError, match="'x' was changed while it was on its way"):
                failed.wait()
        store.put("x", tensor)
        assert torch.equal(store.get("x").wait(), tensor)


def test_unknown_names_wrong_targets_full_and_closed_stores_say_so(store):
    store.put("x", torch.zeros(4))
    with pytest.raises(StoreError, match="nothing called 'y'"):
        store.get("y")
    with pytest.raises(StoreError, match="nothing called 'y'"):
        store.drop("y")
    with pytest.raises(ValueError, match=r"shape \(4,\); the target is torch.float32 of shape"):
        store.get("x", into=torch.zeros(5))
    with pytest.raises(ValueError, match="with gaps"):
        store.get("x", into=torch.zeros(8)[::2])
    with pytest.raises(TypeError, match="'z': a store keeps dense tensors, not list"):
        store.put("z", [1, 2])
    store.capacity = 20
    with pytest.raises(StoreError, match="8 bytes, but 16 of 20 are taken; nothing was moved"):
        store.put("z", torch.zeros(2))
    store.put("x", torch.ones(5))  # in the place of the old one
    assert torch.equal(store.get("x").wait(), torch.ones(5))
    store.close()
    store.close()
    with pytest.raises(StoreError, match="the store is closed"):
        store.get("x")


def test_bad_links_are_refused():
    with pytest.raises(ValueError, match="beta = 0"):
        ThrottledStore(0)
    with pytest.raises(ValueError, match="alpha = -1"):
        ThrottledStore(1, alpha=-1)
    with pytest.raises(ValueError, match="capacity = 0"):
        HostStore(capacity=0)


def test_many_threads_may_use_one_store(store):
    wrong = []

    def work(name):
        for i in range(20):
            store.put(name, torch.full((50,), float(i)))
            if not torch.equal(store.get(name).wait(), torch.full((50,), float(i))):
                wrong.append((name, i))

    if isinstance(store, LateStore):
        pytest.skip("runs in the thread that waits")
    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_missing_folder_and_one_that_is_no_folder_are_named(tmp_path):
    with pytest.raises(StoreError, match=r"no folder '.*nowhere'; create it"):
        DiskStore(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"no folder '.*file'"):
        DiskStore(tmp_path / "file")


@pytest.fixture
def full_disk():
    """No file of this process may grow beyond 1,000 bytes: the system itself refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_an_error_and_loses_neither_the_new_nor_the_old(tmp_path, full_disk):
    with DiskStore(tmp_path) as store:
        store.put("small", torch.arange(10)).wait()
        store.put("x", torch.zeros(100)).wait()
        new = torch.arange(1000.0)
        transfer = store.put("x", new)
        with pytest.raises(StoreError, match="'x': 4000 bytes could not be written into") as error:
            transfer.wait()
        assert "bytes are free" in str(error.value) and "kept in memory" in str(error.value)
        new.zero_()  # the caller may go on using its buffer
        assert torch.equal(store.get("x").wait(), torch.arange(1000.0))
        assert torch.equal(store.get("small").wait(), torch.arange(10))
        assert not [name for name in left_in(tmp_path) if name.endswith(".part")]
        with pytest.raises(StoreError, match="could not be written"):
            store.flush()
        full_disk()  # there is room again
        store.flush()
        assert torch.equal(store.get("x").wait(), torch.arange(1000.0))
        assert sorted(path.stat().st_size for path in store.folder.iterdir()) == [80, 4000]


def test_a_folder_that_vanishes_loses_nothing_that_is_still_to_be_written(tmp_path):
    with DiskStore(tmp_path) as store:
        store.put("x", torch.ones(3)).wait()
        os.remove(next(store.folder.iterdir()))
        store.folder.rmdir()
        with pytest.raises(StoreError, match="'x' cannot be read from"):
            store.get("x").wait()
        with pytest.raises(StoreError, match="the folder is gone"):
            store.put("y", torch.ones(2)).wait()
        assert torch.equal(store.get("y").wait(), torch.ones(2))


def test_a_file_that_someone_cut_is_noticed(tmp_path):
    with DiskStore(tmp_path) as store:
        store.put("x", torch.ones(3)).wait()
        path = next(store.folder.iterdir())
        path.write_bytes(path.read_bytes()[:-4])
        with pytest.raises(StoreError, match="has 8 of 12 bytes"):
            store.get("x").wait()


def test_a_disk_store_cleans_up_when_it_is_forgotten_and_after_an_error(tmp_path):
    store = DiskStore(tmp_path)
    store.put("x", torch.ones(3)).wait()
    assert len(left_in(tmp_path)) == 3  # folder, file, lock
    del store
    gc.collect()
    assert not left_in(tmp_path)
    with pytest.raises(RuntimeError, match="mine"), DiskStore(tmp_path) as store:
        store.put("x", torch.ones(3))
        raise RuntimeError("mine")
    assert not left_in(tmp_path)


PROGRAM = """
import os, signal, sys, torch
from dtlib.memory import DiskStore
store = DiskStore(sys.argv[1])
store.put("x", torch.ones(3)).wait()
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "raises":
    raise RuntimeError("mine")
"""


@pytest.mark.parametrize("end", ["raises", "killed"])
def test_what_a_dead_process_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path, end):
    living = DiskStore(tmp_path)
    living.put("y", torch.ones(2)).wait()
    kept = left_in(tmp_path)
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path, end], capture_output=True)
    assert (left_in(tmp_path) != kept) == (end == "killed")
    DiskStore(tmp_path).close()
    assert left_in(tmp_path) == kept
    assert torch.equal(living.get("y").wait(), torch.ones(2))
    living.close()


def test_a_rank_that_raises_leaves_no_file(tmp_path):
    def work(folder):
        import torch.distributed as dist

        from dtlib.memory import DiskStore

        with DiskStore(folder) as store:
            store.put("x", torch.full((4,), float(dist.get_rank()))).wait()
            if dist.get_rank() == 1:
                raise ValueError("rank 1 is out")
            dist.barrier()

    with launch(2, timeout=60) as ranks:
        with pytest.raises(RankError, match="rank 1 is out"):
            ranks.run(work, str(tmp_path))
        ranks.run(lambda: None)  # both are ready again, so both have left their blocks
    assert not left_in(tmp_path)
