"""Copies at a buddy: a lone loss is undone to the bit, a lost pair is an error, bytes count."""

import pytest
import torch
from hybrid_cases import SPECS, same, some_batches

from dtlib.composition.checkpoint.buddies import BuddyCopies
from dtlib.composition.checkpoint.shards import CheckpointError
from dtlib.composition.hybrid.parallel import parallelize
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT
from dtlib.parallelism.operators.counting import counted

LAYOUTS = {
    "replicas": {"dp": 8},
    "ZeRO 1": {"dp": 8, "zero": 1},
    "ZeRO 3": {"dp": 8, "zero": 3},
    "three axes": {"dp": 2, "pp": 2, "tp": 2, "zero": 1, "sequence_parallel": True},
}


def made(layout, seed=0):
    layout = Layout(**layout)
    mesh = Mesh.of(**{axis: getattr(layout, axis) for axis in ("dp", "pp", "tp")})
    run = parallelize(GPT(SPECS["new"], seed=seed, dtype=torch.float64), mesh, layout)
    return run, run.optimizer(torch.optim.AdamW, lr=1e-2)


def train(run, optimizer, steps) -> None:
    for tokens, targets in some_batches(SPECS["new"], 8, 8, 6)[steps.start : steps.stop]:
        run.forward_backward(tokens, targets)
        optimizer.step()
        optimizer.zero_grad()


def lives_through(layout, by, losses, change=None):
    """A run that keeps its state after step 3, and loses ranks after step 5: all go on from there.

    Returns what the weights are after six steps and a number that is drawn after the third, with
    and without losses; or the error.
    """
    import torch.distributed as dist

    rank = dist.get_rank()
    run, optimizer = made(layout)
    copies = BuddyCopies(run, optimizer, by=by)
    train(run, optimizer, range(3))
    torch.manual_seed(rank)
    copies.keep(3)
    drawn = torch.rand(1)
    train(run, optimizer, range(3, 6))
    due = run.state_dict()
    run.close()
    if change:
        change(rank, copies)
    for lost in losses:
        run, optimizer = made(layout, seed=9)
        before = run.state_dict()
        if rank in lost:
            copies = BuddyCopies(run, optimizer, by=by)
        copies.run, copies.optimizer, copies.group = run, optimizer, run.places.everyone
        torch.manual_seed(99)
        try:
            assert copies.restore(lost=rank in lost) == 3
        except CheckpointError as error:
            assert same(run.state_dict(), before)
            run.close()
            return str(error)
        now = torch.rand(1)
        train(run, optimizer, range(3, 6))
        found = run.state_dict()
        run.close()
    return {"drawn": drawn} | due, {"drawn": now} | found


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_lone_loss_is_undone_to_the_bit_and_so_is_the_next(eight, layout):
    for due, found in eight.run(lives_through, layout, 1, [{3}, {4}, {0, 2, 6}]):
        assert same(due, found)


def test_a_whole_node_may_go_where_buddies_are_on_the_next(eight):
    for due, found in eight.run(lives_through, LAYOUTS["three axes"], 2, [{2, 3}, {6, 7}]):
        assert same(due, found)


def test_a_rank_and_its_buddy_are_too_many_and_all_are_told_so(eight):
    for by, lost, buddy in ((4, {1, 5}, 5), (1, {7, 0}, 0), (2, set(range(8)), 2)):
        (said,) = set(eight.run(lives_through, LAYOUTS["ZeRO 3"], by, [lost]))
        first = min(rank for rank in lost if (rank + by) % 8 in lost)
        assert said == (f"rank {first} and its buddy, rank {buddy}, are both lost: load from disk")


def of_two_steps(rank, copies) -> None:
    """As if a failure had come while step 4 was being kept: some have it, and all have step 3."""
    (two,) = copies.kept.values()
    if rank % 3:
        copies.kept[4] = tuple(kept._replace(data=kept.data + 1) for kept in two)


def flip(rank, copies) -> None:
    """A bit of what rank 5 keeps of rank 4."""
    if rank == 5:
        copies.kept[3][1].data[100] ^= 1


def forget(rank, copies) -> None:
    if rank == 2:
        copies.kept.clear()


def test_a_failure_while_copies_are_exchanged_leaves_those_before(eight):
    for due, found in eight.run(lives_through, LAYOUTS["ZeRO 1"], 1, [{3}], of_two_steps):
        assert same(due, found)


def test_sabotage_a_bit_that_flips_in_a_buddys_memory_is_named_on_all_ranks(eight):
    (said,) = set(eight.run(lives_through, LAYOUTS["ZeRO 3"], 1, [{4}], flip))
    assert said.startswith("rank 4: memory of rank 4, bytes ")
    assert said.endswith("a byte has changed since it was written")


def test_where_a_rank_has_kept_nothing_all_are_sent_to_the_disk(eight):
    (said,) = set(eight.run(lives_through, LAYOUTS["ZeRO 3"], 1, [{4}], forget))
    assert said == "no step was kept by all ranks: load a checkpoint from disk"


def bytes_sent(layout) -> tuple[int, int, int, int]:
    """Bytes that are said to be sent and counted, of this rank's copy and of the other's."""
    run, optimizer = made(layout)
    train(run, optimizer, range(1))
    copies = BuddyCopies(run, optimizer, by=1)
    with counted(run.places.everyone) as log:
        said = copies.keep(1)
    own, others = copies.kept[1]
    run.close()
    return said, log.bytes["send"], len(own.data), len(others.data)


@pytest.mark.parametrize("name", ["replicas", "ZeRO 1", "ZeRO 3"])
def test_the_bytes_are_those_of_the_formula(eight, name):
    """Weights 8 bytes each, moments 16; ZeRO divides the moments by P, stage 3 the weights, too.

    Besides: a step of 4 bytes for each tensor of which there is something, and the generator.
    """
    zero, psi = LAYOUTS[name].get("zero", 0), SPECS["new"].params()
    found = eight.run(bytes_sent, LAYOUTS[name])
    generator = torch.get_rng_state().nbytes
    weights = 8 * psi if zero < 3 else 8 * psi / 8
    moments = 16 * psi / 8 if zero else 16 * psi
    tensors = len(list(GPT(SPECS["new"]).parameters()))
    total = sum(said for said, *_ in found)
    steps = total - 8 * (weights + moments + generator)
    assert steps % 4 == 0 and (steps == 8 * 4 * tensors if not zero else steps <= 8 * 4 * tensors)
    for rank, (said, sent, own, others) in enumerate(found):
        assert said == sent == own and others == found[rank - 1][2]


def test_a_rank_that_would_be_its_own_buddy_is_refused(eight):
    def refused(by):
        run, optimizer = made({"dp": 8})
        try:
            BuddyCopies(run, optimizer, by=by)
        except ValueError as error:
            return str(error)
        finally:
            run.close()

    (said,) = set(eight.run(refused, 8))
    assert said == "BuddyCopies: by is 8, but must be from 1 to 7"
