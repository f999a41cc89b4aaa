"""From and to torch.distributed.checkpoint: every bit, any layout on both sides, one error."""

import os
import pickle

import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_cases import whole
from hybrid_cases import SPECS, same, some_batches

from dtlib.composition.checkpoint.dcp import (
    CheckpointReader,
    from_torch_checkpoint,
    own_name,
    to_torch_checkpoint,
    torch_name,
)
from dtlib.composition.checkpoint.manifest import NAME, newest_checkpoint
from dtlib.composition.checkpoint.saving import load_checkpoint, save_checkpoint
from dtlib.composition.checkpoint.shards import CheckpointError, Part
from dtlib.composition.checkpoint.writing import write_checkpoint
from dtlib.composition.hybrid.parallel import parallelize
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT, next_token_loss
from dtlib.runtime import launch

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
LAYOUTS = {
    "three axes": {"dp": 2, "pp": 2, "tp": 2, "zero": 1, "sequence_parallel": True},
    "ZeRO 3": {"dp": 8, "zero": 3},
}


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


def hybrid(layout, save=None, load=None) -> None:
    """Train a step and save, or load and save what has been loaded."""
    layout = Layout(**layout)
    mesh = Mesh.of(**{axis: getattr(layout, axis) for axis in ("dp", "pp", "tp")})
    run = parallelize(GPT(SPECS["new"], seed=5 if load else 0, dtype=torch.float64), mesh, layout)
    optimizer = run.optimizer(torch.optim.AdamW, lr=1e-2)
    if load:
        load_checkpoint(load, run, optimizer)
    else:
        run.forward_backward(*some_batches(SPECS["new"], 8, 8, 1)[0])
        optimizer.step()
    save_checkpoint(save, run, optimizer, step=1)
    run.close()


def fsdp(save=None, load=None) -> dict:
    """FSDP2's state, whole, by torch's names: trained for a step and saved, or loaded."""
    from torch.distributed.checkpoint.state_dict import (
        get_model_state_dict,
        get_optimizer_state_dict,
    )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    model, mesh = GPT(SPECS["new"], seed=3, dtype=torch.float64), init_device_mesh("cpu", (4,))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens, targets = some_batches(SPECS["new"], 8, 8, 1)[0]
    next_token_loss(model(tokens), targets).backward()
    optimizer.step()
    of_optimizer = get_optimizer_state_dict(model, optimizer)
    state = {"model": get_model_state_dict(model), "optimizer": of_optimizer}
    if save:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(save))
    if load:
        state["optimizer"] = {"state": of_optimizer["state"]}
        dcp.load(state, storage_reader=CheckpointReader(load))
    tensors = {f"model.{name}": x for name, x in state["model"].items()}
    for name, slots in of_optimizer["state"].items():
        tensors |= {f"optimizer.state.{name}.{slot}": x for slot, x in slots.items()}
    assert any(isinstance(x, DTensor) and x.to_local().numel() < x.numel()
               for x in tensors.values())  # fmt: skip
    return {n: x.full_tensor() if isinstance(x, DTensor) else x for n, x in tensors.items()}


def by_torchs_names(folder) -> dict:
    """All tensors of a checkpoint of ours, but generators."""
    return {torch_name(n): x for n, x in whole(folder).items() if not n.startswith("random.")}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_torch_reads_ours_into_whole_tensors_and_into_shards(eight, four, layout, tmp_path):
    eight.run(hybrid, layout, save=tmp_path)
    due = by_torchs_names(tmp_path)
    found = {name: torch.zeros_like(x) for name, x in due.items()}
    dcp.load(found, storage_reader=CheckpointReader(tmp_path), no_dist=True)
    assert same(found, due)
    assert all(same(of_rank, due) for of_rank in four.run(fsdp, load=tmp_path))


def test_fsdp2_on_four_ranks_goes_on_as_three_axes_on_eight(eight, four, tmp_path):
    theirs, ours, again = tmp_path / "theirs", tmp_path / "ours", tmp_path / "again"
    due = four.run(fsdp, save=theirs)[0]
    from_torch_checkpoint(theirs, ours, step=1)
    assert same(by_torchs_names(ours), due)
    eight.run(hybrid, LAYOUTS["three axes"], load=ours, save=again)
    assert same(by_torchs_names(again), due)


def converted(source, folder):
    import torch.distributed as dist

    try:
        return from_torch_checkpoint(source, folder, step=2, group=dist.group.WORLD)
    except CheckpointError as error:
        return str(error)


def kinds() -> list[Part]:
    """Tensors of several kinds, in parts that are not equal."""
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    return [
        Part("model.a.weight", (5, 3), ((0, 4), (0, 3)), x[:4]),
        Part("model.a.weight", (5, 3), ((4, 5), (0, 3)), x[4:]),
        Part("optimizer.exp_avg.a.weight", (5, 3), ((0, 5), (0, 3)), x.bfloat16()),
        Part("optimizer.step.a.weight", (), (), torch.tensor(3.0)),
        Part("model.counts", (4,), ((0, 4),), torch.arange(4)),
        Part("random.0", (6,), ((0, 6),), torch.arange(6, dtype=torch.uint8)),
    ]


def test_there_and_back_is_every_bit_of_every_kind(four, tmp_path):
    ours, theirs, back = tmp_path / "ours", tmp_path / "theirs", tmp_path / "back"
    write_checkpoint(ours, 2, kinds())
    to_torch_checkpoint(ours, theirs)
    from_torch_checkpoint(theirs, back, step=2)
    assert same(whole(ours), whole(back))
    assert {x.dtype for x in whole(back).values()} == {part.tensor.dtype for part in kinds()}
    four.run(converted, theirs, tmp_path / "of four")
    assert same(whole(ours), whole(tmp_path / "of four"))


class Swapped(CheckpointReader):
    """Tells torch where the boxes are, and then takes them for one another."""

    def read_metadata(self):
        told = super().read_metadata()
        for entries in self.entries.values():
            entries.reverse()
        return told


def test_sabotage_boxes_that_are_swapped_are_another_tensor(tmp_path):
    x = torch.arange(8.0)
    parts = [Part("model.w", (8,), ((i, i + 4),), x[i : i + 4]) for i in (0, 4)]
    write_checkpoint(tmp_path, 1, parts)
    for reader, same_bits in ((CheckpointReader, True), (Swapped, False)):
        found = {"model.w": torch.zeros(8)}
        dcp.load(found, storage_reader=reader(tmp_path), no_dist=True)
        assert torch.equal(found["model.w"], x) == same_bits


def test_names_there_and_back():
    for name in (part.name for part in kinds()):
        kind = dcp.metadata.TensorStorageMetadata(None, torch.Size(), [])
        assert own_name(torch_name(name), kind) == name


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


DAMAGE = {
    "no metadata": (lambda f: (f / ".metadata").unlink(), r"FileNotFoundError: .*\.metadata"),
    "no file": (lambda f: only(f, "*.distcp").unlink(), r"FileNotFoundError: .*\.distcp"),
    "metadata cut short": (lambda f: os.truncate(f / ".metadata", 50), "pickle data was truncated"),
    "no pickle": (lambda f: (f / ".metadata").write_bytes(b"hello"), "UnpicklingError"),
    "another pickle": (
        lambda f: (f / ".metadata").write_bytes(pickle.dumps({"a": 1})), "AttributeError"),
    "a file cut short": (
        lambda f: os.truncate(only(f, "*.distcp"), 100), "RuntimeError: PytorchStreamReader"),
}  # fmt: skip


@pytest.mark.parametrize("damage, says", DAMAGE.values(), ids=DAMAGE)
def test_what_torch_cannot_read_is_one_line(tmp_path, damage, says):
    source, folder = tmp_path / "source", tmp_path / "folder"
    dcp.save({"model": {"w": torch.ones(9)}}, checkpoint_id=source, no_dist=True)
    damage(source)
    with pytest.raises(CheckpointError, match=f"torch's reader refuses it: .*{says}") as error:
        from_torch_checkpoint(source, folder, step=1)
    assert len(str(error.value).splitlines()) == 1
    assert newest_checkpoint(folder) is None


@pytest.mark.parametrize("state", [{"w": torch.ones(2)}, {"model": {"name": "a text"}}])
def test_other_names_and_what_is_no_tensor_are_refused(tmp_path, state):
    dcp.save(state, checkpoint_id=tmp_path / "source", no_dist=True)
    with pytest.raises(
        CheckpointError, match=r"(w|model\.name): is neither a tensor model\.<name>"
    ):
        from_torch_checkpoint(tmp_path / "source", tmp_path / "folder", step=1)


def test_an_error_of_one_source_is_told_to_all_ranks(four, tmp_path):
    (said,) = set(four.run(converted, tmp_path / "nothing", tmp_path / "folder"))
    assert "torch's reader refuses it" in said


def flipped(path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 16
    path.write_bytes(data)


def test_a_flipped_byte_of_ours_is_named_by_dcp_and_one_of_its_own_is_not(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    numbers = torch.arange(1000.0)
    here = write_checkpoint(ours, 1, [Part("model.w", (1000,), ((0, 1000),), numbers)])
    to_torch_checkpoint(ours, theirs)
    file = only(theirs, "*.distcp")
    flipped(file, file.read_bytes().index(numbers.numpy().tobytes()) + 402)
    found = {"model.w": torch.zeros(1000)}
    dcp.load(found, checkpoint_id=theirs, no_dist=True)
    assert int((found["model.w"] != numbers).sum()) == 1
    flipped(here / "rank-00000.bin", 402)
    with pytest.raises(CheckpointError, match=r"model\.w: a byte has changed since"):
        to_torch_checkpoint(ours, tmp_path / "out")
    with pytest.raises(dcp.CheckpointException, match=r"model\.w: a byte has changed since"):
        dcp.load(found, storage_reader=CheckpointReader(ours), no_dist=True)
    (here / NAME).unlink()
    with pytest.raises(CheckpointError, match="so no checkpoint"):
        CheckpointReader(here)
