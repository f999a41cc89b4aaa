"""Saves that a run does not wait for: what was copied is what arrives, and no error is lost."""

import multiprocessing
import os
import signal
import time
from random import Random
from threading import Event, Timer

import pytest
import torch
from checkpoint_cases import Stopped, Stopping
from hybrid_cases import SPECS, same, some_batches

from dtlib.composition.checkpoint import background
from dtlib.composition.checkpoint.background import BackgroundSaves
from dtlib.composition.checkpoint.disk import Disk
from dtlib.composition.checkpoint.manifest import complete_steps, folder_of, newest_checkpoint
from dtlib.composition.checkpoint.saving import load_checkpoint, save_checkpoint
from dtlib.composition.checkpoint.shards import CheckpointError
from dtlib.composition.hybrid.parallel import parallelize
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT
from dtlib.parallelism.operators.counting import counted
from dtlib.runtime import launch


class Held(Disk):
    """A disk that writes nothing before it is told to go on."""

    def __init__(self):
        self.go_on = Event()

    def write(self, path, blocks):
        assert self.go_on.wait(60)
        super().write(path, blocks)


def net(value: float = 0.0):
    """A small model full of a value, its optimizer, and a function that takes a step."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    torch.nn.init.constant_(model.weight, value)

    def step():
        optimizer.zero_grad()
        model(torch.ones(3)).square().sum().backward()
        optimizer.step()

    return model, optimizer, step


def saved_while_it_trains(folder) -> tuple[dict, dict]:
    """The weights at the save, and those that a checkpoint has that was written after a step."""
    disk, (model, optimizer, step) = Held(), net(1)
    step()
    with BackgroundSaves(folder, model, optimizer, disk=disk) as saves:
        blocked = saves.save(1)
        due = {name: x.clone() for name, x in model.state_dict().items()}
        due |= {f"{key}.{i}": x.clone() for i, s in enumerate(optimizer.state.values())
                for key, x in s.items()}  # fmt: skip
        assert newest_checkpoint(folder) is None and blocked.bytes >= 4 * 3 * 8
        step()
        disk.go_on.set()
        assert saves.finish() == newest_checkpoint(folder) == folder_of(folder, 1)
    again, restored, _ = net(7)
    load_checkpoint(folder, again, restored)
    found = again.state_dict() | {f"{key}.{i}": x for i, s in enumerate(restored.state.values())
                                  for key, x in s.items()}  # fmt: skip
    return due, found


def test_what_the_run_does_after_the_copy_is_not_in_the_checkpoint(tmp_path):
    assert same(*saved_while_it_trains(tmp_path))


def test_sabotage_without_the_copy_another_step_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "copied", lambda part: part)
    due, found = saved_while_it_trains(tmp_path)
    assert due.keys() == found.keys()
    assert not any(torch.equal(due[name], found[name]) for name in due)


def test_a_second_save_waits_for_the_first(tmp_path):
    disk, (model, _, _) = Held(), net(1)
    with BackgroundSaves(tmp_path, model, disk=disk) as saves:
        assert saves.finish() is None
        saves.save(1)
        Timer(0.1, disk.go_on.set).start()
        saves.save(2)
        assert complete_steps(tmp_path)[0] == 1
        assert saves.finish() == saves.finish() == folder_of(tmp_path, 2)
    assert complete_steps(tmp_path) == [1, 2]


def loaded_value(folder) -> tuple[int, float]:
    model, _, _ = net(-1)
    step = load_checkpoint(folder, model).step
    (value,) = model.weight.unique().tolist()
    return step, value


@pytest.mark.parametrize("full", [False, True])
def test_wherever_the_disk_fails_the_next_call_says_so_and_one_is_whole(tmp_path, full):
    counted = Stopping(10**6)
    save_checkpoint(tmp_path / "counted", net(1)[0], step=10)
    save_checkpoint(tmp_path / "counted", net(2)[0], step=20, keep=1, disk=counted)
    seen = set()
    for left in range(10**6 - counted.left):
        folder = tmp_path / f"{left}"
        save_checkpoint(folder, net(10)[0], step=10)
        saves = BackgroundSaves(folder, net(20)[0], keep=1, disk=Stopping(left, full=full))
        saves.save(20)
        told = None
        try:
            saves.close()
        except (CheckpointError, Stopped) as error:
            told = error
        found = loaded_value(folder)
        seen.add((found, type(told)))
        if told and full:
            assert "No space left on device" in str(told)
        with BackgroundSaves(folder, net(40)[0], keep=1) as saves:
            saves.save(40)
        assert loaded_value(folder) == (40, 40) and complete_steps(folder) == [40]
    old, new = (10, 10), (20, 20)
    one_is_whole = {(old, CheckpointError), (new, type(None))} if full else {
        (old, Stopped), (new, Stopped)}  # fmt: skip
    assert seen == one_is_whole


def test_an_error_is_raised_once_and_by_whatever_is_called_next(tmp_path):
    for call in ("save", "finish", "close"):
        saves = BackgroundSaves(tmp_path / call, net()[0], disk=Stopping(2, full=True))
        saves.save(1)
        with pytest.raises(CheckpointError, match="No space left on device"):
            getattr(saves, call)(*[2] * (call == "save"))
        assert saves.finish() is None, "nothing was begun"
        saves.close()


def saves_for_ever(folder: str) -> None:
    """What a child does until it is killed: a step never waits for the disk but for one save."""
    torch.set_num_threads(1)
    model, _, _ = net()
    with BackgroundSaves(folder, model) as saves:
        for step in range(1, 10**6):
            torch.nn.init.constant_(model.weight, step)
            saves.save(step)


def test_a_run_that_is_killed_while_it_saves_loses_nothing(tmp_path, request):
    """Six kills; `--examples 1000` makes a thousand."""
    draw, context = Random(1), multiprocessing.get_context("fork")
    for kill in range(request.config.getoption("examples") or 6):
        folder = tmp_path / f"{kill}"
        child = context.Process(target=saves_for_ever, args=(str(folder),))
        child.start()
        while len(complete_steps(folder)) < 1:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        step, value = loaded_value(folder)
        assert value == step == complete_steps(folder)[-1]


def trained(folder=None, load=False, steps=range(6), full_on=None):
    """Losses and weights of a run that saves after three steps, in the background, if it is told.

    Rank 1's disk writes nothing before all steps are done.
    """
    import torch.distributed as dist

    rank, layout = dist.get_rank(), Layout(dp=2, tp=2, zero=1)
    run = parallelize(GPT(SPECS["new"], dtype=torch.float64), Mesh.of(dp=2, tp=2), layout)
    optimizer = run.optimizer(torch.optim.AdamW, lr=1e-2)
    if load:
        load_checkpoint(folder, run, optimizer)
    disk = Held() if rank == 1 else Stopping(0, full=True) if rank == full_on else Disk()
    saves = None if folder is None or load else BackgroundSaves(folder, run, optimizer, disk=disk)
    losses, said = [], ""
    for step, (tokens, targets) in enumerate(some_batches(SPECS["new"], 8, 8, 6)):
        if step in steps:
            losses.append(float(run.forward_backward(tokens, targets)))
            optimizer.step()
            optimizer.zero_grad()
        if saves and step == 2:
            saves.save(3)
    if saves:
        assert newest_checkpoint(folder) is None
        if rank == 1:
            disk.go_on.set()
        try:
            saves.finish()
        except CheckpointError as error:
            said = str(error)
        saves.close()
    weights = run.state_dict()
    run.close()
    return losses, weights, said


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


def test_training_goes_on_while_a_rank_has_not_written_yet(four, tmp_path):
    due, found = four.run(trained), four.run(trained, tmp_path)
    again = four.run(trained, tmp_path, load=True, steps=range(3, 6))
    for one, other, resumed in zip(due, found, again, strict=True):
        assert one[0] == other[0] and same(one[1], other[1])
        assert one[0][3:] == resumed[0] and same(one[1], resumed[1])


def calls_of_training(folder, save) -> tuple[dict, dict]:
    """What a save calls on the group of the training, and on all groups."""
    run = parallelize(GPT(SPECS["new"]), Mesh.of(dp=4), Layout(dp=4))
    with counted(run.places.everyone) as training, counted() as anywhere:
        save(folder, run)
    run.close()
    return training.calls, anywhere.calls


def in_the_background(folder, run):
    with BackgroundSaves(folder, run) as saves:
        saves.save(1)


def test_a_save_in_the_background_calls_nothing_on_the_group_of_the_training(four, tmp_path):
    for training, anywhere in four.run(calls_of_training, tmp_path / "one", in_the_background):
        assert not training and anywhere["all_gather"] > 1
    for training, anywhere in four.run(calls_of_training, tmp_path / "other", at_once):
        assert training == anywhere, "the sabotage: the same, with the group that it has"


def at_once(folder, run):
    save_checkpoint(folder, run, step=1)


def test_a_full_disk_of_one_rank_is_the_same_error_on_all(four, tmp_path):
    (said,) = {said for _, _, said in four.run(trained, tmp_path, full_on=2)}
    assert "rank 2: OSError: " in said and "No space left on device" in said
    assert newest_checkpoint(tmp_path) is None
