"""Checkpoints of real ranks: any layout to any other, and one error for all."""

import pytest
import torch
from hybrid_cases import ONLY_ROUNDING, SPECS, some_batches

from dtlib.composition.checkpoint.manifest import newest_checkpoint, read_manifest
from dtlib.composition.checkpoint.saving import load_checkpoint, save_checkpoint
from dtlib.composition.checkpoint.shards import CheckpointError, Part
from dtlib.composition.checkpoint.writing import write_checkpoint
from dtlib.composition.hybrid.parallel import parallelize
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT
from dtlib.models.equality import relative_errors, worst
from dtlib.runtime import launch

THREE = {"dp": 2, "pp": 2, "tp": 2, "zero": 1, "sequence_parallel": True}
WAYS = {
    "the same": ("old", THREE, THREE),
    "ZeRO 3 to a pipeline": ("old", {"dp": 8, "zero": 3}, {"pp": 4, "dp": 2}),
    "three axes to ZeRO 2": ("old", THREE, {"tp": 4, "dp": 2, "zero": 2}),
    "a pipeline to ZeRO 3 and cp": (
        "old", {"pp": 4, "dp": 2}, {"dp": 2, "cp": 2, "tp": 2, "zero": 3}),
    "key heads on more ranks": ("new", {"tp": 2, "pp": 4}, {"tp": 4, "dp": 2, "zero": 1}),
    "experts": (
        "experts", {"dp": 2, "pp": 2, "tp": 2, "ep": 2, "zero": 1}, {"dp": 4, "ep": 4, "pp": 2}),
}  # fmt: skip


def trained(kind, layout, steps, save=None, load=None):
    """The weights after these steps of a run, saved at its end, or loaded at its beginning."""
    layout = Layout(**layout)
    mesh = Mesh.of(**{axis: getattr(layout, axis) for axis in ("dp", "cp", "pp", "tp")})
    model = GPT(SPECS[kind], seed=9 if load else 0, dtype=torch.float64)
    run = parallelize(model, mesh, layout)
    optimizer = run.optimizer(torch.optim.AdamW, lr=1e-2)
    if load:
        got = load_checkpoint(load, run, optimizer)
        assert got.step == got.extra["cursor"] == steps.start
    for tokens, targets in some_batches(SPECS[kind], 8, 8, steps.stop)[steps.start :]:
        run.forward_backward(tokens, targets)
        optimizer.step()
        optimizer.zero_grad()
    if save:
        save_checkpoint(save, run, optimizer, step=steps.stop, extra={"cursor": steps.stop})
    weights = run.state_dict()
    run.close()
    return weights


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_one_layout_has_saved_another_goes_on_with(eight, way, tmp_path):
    kind, before, after = way
    through = eight.run(trained, kind, before, range(6))[0]
    eight.run(trained, kind, before, range(3), save=tmp_path)
    found = eight.run(trained, kind, after, range(3, 6), load=tmp_path)[0]
    if before == after:
        assert all(torch.equal(found[name], through[name]) for name in through)
    compared = {n: x for n, x in through.items() if not n.endswith(ONLY_ROUNDING)}
    assert worst(relative_errors({n: found[n] for n in compared}, compared))[1] < 1e-11


def sharded_alone(folder, save):
    """Write, or read back and compare, a plain `FullySharded` module of this world's ranks."""
    import torch.distributed as dist

    from dtlib.memory import FullySharded

    net = FullySharded(GPT(SPECS["old"], seed=3 if save else 4), dist.group.WORLD)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    if save:
        net(torch.arange(8)[None]).square().mean().backward()
        optimizer.step()
        save_checkpoint(folder, net, optimizer, step=1, group=dist.group.WORLD)
    else:
        load_checkpoint(folder, net, optimizer, group=dist.group.WORLD)
    return net.state_dict(), net.optimizer_state_dict(optimizer)["state"]


def test_eight_ranks_write_and_three_read_the_same_tensors(eight, tmp_path):
    weights, state = eight.run(sharded_alone, tmp_path, save=True)[0]
    with launch(3) as three:
        found, found_state = three.run(sharded_alone, tmp_path, save=False)[0]
    assert all(torch.equal(weights[name], found[name]) for name in weights)
    for number, of_one in state.items():
        for key, value in of_one.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(found_state[number][key]))


def test_each_number_is_written_once(eight, tmp_path):
    eight.run(trained, "new", {"dp": 4, "tp": 2}, range(1), save=tmp_path)
    here = newest_checkpoint(tmp_path)
    of_model = [e for e in read_manifest(here).entries if e.name.startswith("model.")]
    assert sum(e.length for e in of_model) == 8 * SPECS["new"].params()
    sizes = sorted(path.stat().st_size for path in here.glob("rank-*.bin"))
    assert sizes[-1] - sizes[0] <= max(e.length for e in of_model)


def told(folder_of_rank, bad_rank=None):
    """What each rank is told that writes a part of a vector."""
    import torch.distributed as dist

    rank = dist.get_rank()
    folder = folder_of_rank[rank] if isinstance(folder_of_rank, list) else folder_of_rank
    part = Part("x", (8,), ((rank, rank + 1),), torch.ones(1))
    parts = [] if rank == bad_rank else [part]
    try:
        write_checkpoint(folder, 1, parts, group=dist.group.WORLD)
    except CheckpointError as error:
        return str(error)
    return ""


def test_ranks_that_see_different_folders_are_told_so(eight, tmp_path):
    folders = [tmp_path / ("mine" if rank == 5 else "ours") for rank in range(8)]
    said = eight.run(told, folders)
    assert len(set(said)) == 1
    assert "rank 5" in said[0] and "is not the folder that rank 0 writes to" in said[0]
    assert newest_checkpoint(tmp_path / "ours") is None


def test_a_part_that_no_rank_has_is_an_error_of_all(eight, tmp_path):
    (said,) = set(eight.run(told, tmp_path, bad_rank=3))
    assert "rank 0: x: no rank has the box ((3, 4),) of (8,)" in said
    assert newest_checkpoint(tmp_path) is None
    assert set(eight.run(told, tmp_path)) == {""}
