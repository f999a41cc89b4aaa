"""Files of checkpoints: what is written comes back, what is damaged is named, no stop loses any."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
import torch
from checkpoint_cases import ALONE, Stopped, Stopping, is_that_of, loaded, parts, rows

from dtlib.composition.checkpoint.disk import UNFINISHED, Disk
from dtlib.composition.checkpoint.manifest import (
    NAME,
    complete_steps,
    folder_of,
    newest_checkpoint,
    read_manifest,
)
from dtlib.composition.checkpoint.reading import check_same, found_manifest, read_parts
from dtlib.composition.checkpoint.saving import load_checkpoint, save_checkpoint
from dtlib.composition.checkpoint.shards import CheckpointError, Part
from dtlib.composition.checkpoint.writing import TOKEN, write_checkpoint


def test_what_is_written_in_columns_comes_back_in_rows(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    here = write_checkpoint(tmp_path, 7, parts(0.5), extra={"cursor": 3})
    assert here == newest_checkpoint(tmp_path) == folder_of(tmp_path, 7)
    assert is_that_of(loaded(tmp_path), 7, 0.5)
    assert read_manifest(here).extra == {"cursor": 3}


def test_the_newest_are_kept_and_what_was_never_completed_goes(tmp_path):
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, parts(step), keep=2)
    (tmp_path / "step-00000002" / NAME).unlink()
    (tmp_path / "other").mkdir()
    write_checkpoint(tmp_path, 4, parts(4), keep=2)
    assert complete_steps(tmp_path) == [3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other", "step-00000003", "step-00000004"
    ]  # fmt: skip


def test_every_flipped_byte_is_named_and_nothing_is_changed(tmp_path):
    write_checkpoint(tmp_path, 1, parts(1))
    path = folder_of(tmp_path, 1) / "rank-00000.bin"
    good = path.read_bytes()
    for byte in range(len(good)):
        path.write_bytes(good[:byte] + bytes([good[byte] ^ 16]) + good[byte + 1 :])
        here, manifest = found_manifest(tmp_path, ALONE)
        entry = next(e for e in manifest.entries if e.offset <= byte < e.offset + e.length)
        wanted = rows()
        with pytest.raises(CheckpointError, match="a byte has changed since") as error:
            read_parts(here, manifest, wanted, ALONE)
        assert str(entry) in str(error.value)
        assert not any(part.tensor.any() for part in wanted)


def test_a_flipped_byte_of_the_manifest_is_noticed(tmp_path):
    write_checkpoint(tmp_path, 1, parts(1))
    path = folder_of(tmp_path, 1) / NAME
    good = path.read_bytes()
    for byte in range(len(good) - 1):
        path.write_bytes(good[:byte] + bytes([good[byte] ^ 1]) + good[byte + 1 :])
        with pytest.raises(CheckpointError):
            read_manifest(path.parent)


@pytest.mark.parametrize(
    "damage, says",
    [
        (lambda here: (here / "rank-00000.bin").unlink(), "the file is missing"),
        (lambda here: os.truncate(here / "rank-00000.bin", 20), "the file ends after 20 bytes"),
        (lambda here: (here / NAME).write_text("{}\n"), "its first line is not that of a dtlib"),
        (lambda here: (here / NAME).write_bytes(b"\xff\xfe"), "a byte has changed"),
        (lambda here: (here / NAME).unlink(), "so no checkpoint: it is written last"),
    ],
)
def test_damage_is_said_in_one_clear_error(tmp_path, damage, says):
    write_checkpoint(tmp_path, 1, parts(1))
    damage(folder_of(tmp_path, 1))
    with pytest.raises(CheckpointError, match=says):
        loaded(tmp_path)


@pytest.mark.parametrize(
    "wanted, says",
    [
        ([Part("v", (2,), ((0, 2),), torch.zeros(2))], "v: the checkpoint has no such tensor"),
        ([Part("w", (3, 5), ((0, 3), (0, 5)), torch.zeros(3, 5))], r"float32 of shape \(3, 5\)"),
        ([Part("w", (3, 4), ((0, 3), (0, 4)), torch.zeros(3, 4).double())], "is float64"),
        (rows()[:2], "step: is in the checkpoint, and no rank has it here"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, wanted, says):
    write_checkpoint(tmp_path, 1, parts(1))
    _, manifest = found_manifest(tmp_path, ALONE)
    with pytest.raises(CheckpointError, match=says):
        check_same(wanted, manifest.tensors())


def test_a_hole_is_found_before_the_checkpoint_exists(tmp_path):
    with pytest.raises(CheckpointError, match=r"no rank has the box \(\(0, 3\), \(1, 4\)\)"):
        write_checkpoint(tmp_path, 1, [parts(1)[0], parts(1)[2]])
    assert newest_checkpoint(tmp_path) is None


def test_a_step_that_is_complete_is_not_written_again(tmp_path):
    write_checkpoint(tmp_path, 1, parts(1))
    with pytest.raises(CheckpointError, match="there is a complete checkpoint of this step"):
        write_checkpoint(tmp_path, 1, parts(2))
    assert is_that_of(loaded(tmp_path), 1, 1)


def operations_of_a_save(tmp_path) -> int:
    disk = Stopping(10**6)
    write_checkpoint(tmp_path / "counted", 1, parts(1))
    write_checkpoint(tmp_path / "counted", 2, parts(2), keep=1, disk=disk)
    return 10**6 - disk.left


@pytest.mark.parametrize("within", [False, True])
def test_wherever_the_writer_stops_a_whole_checkpoint_is_the_newest(tmp_path, within):
    seen = set()
    for left in range(operations_of_a_save(tmp_path)):
        folder = tmp_path / f"{left}"
        write_checkpoint(folder, 10, parts(10))
        (folder / "notes").write_text("mine")
        with pytest.raises(Stopped):
            write_checkpoint(folder, 20, parts(20), keep=1, disk=Stopping(left, within))
        found = loaded(folder)
        assert is_that_of(found, 10, 10) or is_that_of(found, 20, 20)
        assert (folder / "notes").read_text() == "mine"
        seen.add(found[0])
        write_checkpoint(folder, 30, parts(30), keep=1)  # the next one needs no help
        assert is_that_of(loaded(folder), 30, 30)
        assert {p.name for p in folder.iterdir()} == {"notes", "step-00000030"}
    assert seen == {10, 20}


def test_a_full_disk_is_an_error_and_the_checkpoint_before_it_is_whole(tmp_path):
    for left in range(operations_of_a_save(tmp_path) - 2):
        folder = tmp_path / f"{left}"
        write_checkpoint(folder, 10, parts(10))
        disk = Stopping(left, full=True)
        try:
            write_checkpoint(folder, 20, parts(20), disk=disk)
        except CheckpointError as error:
            assert "No space left on device" in str(error)
            assert is_that_of(loaded(folder), 10, 10)
        else:
            assert is_that_of(loaded(folder), 20, 20)


def test_sabotage_a_manifest_that_is_written_first_is_found_out(tmp_path):
    """Were the manifest there before the files, a stop would leave a checkpoint without them."""
    write_checkpoint(tmp_path, 10, parts(10))
    write_checkpoint(tmp_path, 20, parts(20))
    (folder_of(tmp_path, 20) / "rank-00000.bin").rename(
        folder_of(tmp_path, 20) / f"rank-00000.bin{UNFINISHED}"
    )
    with pytest.raises(CheckpointError, match="the file is missing"):
        loaded(tmp_path)


def saves_for_ever(folder: str) -> None:
    """What a child does until it is killed."""
    torch.set_num_threads(1)
    for step in range(1, 10**6):
        write_checkpoint(folder, step, parts(step), keep=2)


def test_a_writer_that_is_killed_at_random_moments_loses_nothing(tmp_path, request):
    """Twenty kills; `--examples 1000` makes a thousand."""
    kills, draw = request.config.getoption("examples") or 20, Random(0)
    context = multiprocessing.get_context("fork")
    caught_between = 0
    for kill in range(kills):
        folder = tmp_path / f"{kill % 2}"
        for path in folder.glob("*"):
            Disk().remove(path)
        child = context.Process(target=saves_for_ever, args=(str(folder),))
        child.start()
        while len(complete_steps(folder)) < 1:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        step, _ = found = loaded(folder)
        assert is_that_of(found, step, step)
        names = {path.name for path in folder.iterdir()}
        caught_between += any(not (folder / name / NAME).exists() for name in names)
    assert caught_between or kills < 20  # some kills fell within a save


def test_twenty_steps_are_ten_and_ten_to_the_bit(tmp_path):
    data = torch.randn(20, 4, 6, generator=torch.Generator().manual_seed(1))

    def made(seed):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 6)]
        model = torch.nn.Sequential(*layers)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    def train(model, optimizer, steps):
        for step in steps:
            (model(data[step]) - data[step]).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    through = made(0)
    train(*through, range(20))
    first = made(0)
    train(*first, range(10))
    save_checkpoint(tmp_path, *first, step=10, extra={"cursor": 10})
    again = made(5)
    got = load_checkpoint(tmp_path, *again)
    train(*again, range(got.extra["cursor"], 20))
    assert got.step == 10
    for one, other in zip(through[0].parameters(), again[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_checkpoint_of_a_deeper_model_is_refused_and_the_run_is_as_it_was(tmp_path):
    def made(layers):
        return torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(layers)))

    deep, shallow = made(3), made(2)
    save_checkpoint(tmp_path, deep, torch.optim.SGD(deep.parameters(), lr=1.0), step=1)
    before = [p.detach().clone() for p in shallow.parameters()]
    with pytest.raises(CheckpointError, match=r"model\.2\.bias: is in the checkpoint, and no rank"):
        load_checkpoint(tmp_path, shallow)
    assert all(torch.equal(p, old) for p, old in zip(shallow.parameters(), before, strict=True))
    assert load_checkpoint(tmp_path, made(3)).step == 1  # without an optimizer its state is left


def test_extra_state_and_the_token_are_plain_files(tmp_path):
    here = write_checkpoint(tmp_path, 3, parts(3), extra={"lr": 0.1})
    body = json.loads((here / NAME).read_text().splitlines()[1])
    assert body["extra"] == {"lr": 0.1} and body["step"] == 3
    assert {path.name for path in here.iterdir()} == {NAME, TOKEN, "rank-00000.bin"}
    assert Path(here).name == "step-00000003"
