"""Debug mode tells what the ranks disagree about, where gloo gives garbage, aborts or waits."""

import pytest

from dtlib.runtime import CollectiveMismatch, RankError, RankTimeout, launch
from dtlib.runtime.fingerprint import Fingerprint, compare


@pytest.fixture(scope="module")
def checked():
    with launch(4, debug=True) as ranks:
        yield ranks


def mismatch(ranks, source):
    with pytest.raises(RankError, match="CollectiveMismatch") as caught:
        ranks.cell(source)
    return caught.value


DISAGREEMENTS = {
    "shapes": (
        "dist.all_reduce(torch.ones(2, 3 + (rank == 2)))",
        "ranks 0, 1, 3 call all_reduce(tensor=float32[2, 3], op=SUM)",
        "rank 2 calls all_reduce(tensor=float32[2, 4], op=SUM)",
    ),
    "dtypes": (
        "dist.all_reduce(torch.ones(2, dtype=torch.int32 if rank == 1 else torch.float32))",
        "ranks 0, 2, 3 call all_reduce(tensor=float32[2], op=SUM)",
        "rank 1 calls all_reduce(tensor=int32[2], op=SUM)",
    ),
    "reductions": (
        "dist.all_reduce(torch.ones(2), op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)",
        "rank 0 calls all_reduce(tensor=float32[2], op=SUM)",
        "ranks 1-3 call all_reduce(tensor=float32[2], op=MAX)",
    ),
    "operations": (
        "dist.barrier() if rank == 3 else dist.broadcast(torch.ones(2), src=0)",
        "ranks 0-2 call broadcast(tensor=float32[2], src=0)",
        "rank 3 calls barrier()",
    ),
    "roots": (
        "dist.broadcast(torch.ones(2), src=rank % 2)",
        "ranks 0, 2 call broadcast(tensor=float32[2], src=0)",
        "ranks 1, 3 call broadcast(tensor=float32[2], src=1)",
    ),
}


@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_a_disagreement_is_told_with_both_sides(checked, what):
    source, *sides = DISAGREEMENTS[what]
    error = mismatch(checked, source)
    assert error.ranks == [0, 1, 2, 3]
    for side in sides:
        assert f"  {side}\n" in str(error)
    assert source in str(error)


def test_the_two_sides_of_a_message_must_have_the_same_size(checked):
    source = "dist.send(torch.ones(4), 1) if rank == 0 else dist.recv(torch.ones({}), 0)"
    checked.cell("if rank < 2: " + source.format(4))
    error = mismatch(checked, "if rank < 2: " + source.format("2, 3"))
    words = "rank 0 sends float32[4] to rank 1, which receives float32[2, 3]"
    assert f"CollectiveMismatch: {words}" in str(error)


def test_the_two_sides_of_a_message_must_have_the_same_dtype(checked):
    error = mismatch(
        checked,
        "if rank == 2: dist.isend(torch.ones(4), 3).wait()\n"
        "if rank == 3: dist.irecv(torch.ones(4, dtype=torch.int32), 2).wait()",
    )
    assert "rank 2 sends float32[4] to rank 3, which receives int32[4]" in str(error)


def test_the_parts_of_an_all_to_all_must_fit(checked):
    source = """
splits = [1, 1, 1, 1]
expected = [2, 1, 1, 0] if rank == {who} else splits
dist.all_to_all_single(torch.ones(4), torch.ones(4), expected, splits)
"""
    checked.cell(source.format(who=None))
    error = mismatch(checked, source.format(who=2))
    assert "rank 0 sends float32[1] to rank 2, which receives float32[2]" in str(error)


MATCHING = """
x = torch.ones(4) * rank
work = dist.all_reduce(x, async_op=True)
work.wait()
parts = [torch.empty(4) for _ in range(4)]
dist.all_gather(parts, x)
dist.barrier()
pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
dist.all_reduce(torch.ones(2 + rank // 2), group=pair)
received = torch.empty(4)
ring = [dist.P2POp(dist.isend, x + rank, (rank + 1) % 4),
        dist.P2POp(dist.irecv, received, (rank - 1) % 4)]
for work in dist.batch_isend_irecv(ring):
    work.wait()
dist.all_gather_object(objects := [None] * 4, rank)
(x[0].item(), received[0].item(), objects)
"""


def test_matching_calls_give_what_they_give_without_the_check(checked):
    results = checked.cell(MATCHING)
    assert results == [(6.0, 6.0 + (rank - 1) % 4, [0, 1, 2, 3]) for rank in range(4)]
    with launch(4) as unchecked:
        assert unchecked.cell(MATCHING) == results


def test_without_debug_nothing_is_compared():
    """gloo itself adds floats to integers and says nothing."""
    with launch(4) as ranks:
        assert ranks.cell(DISAGREEMENTS["dtypes"][0]) == [None] * 4


def test_after_a_debug_launch_the_functions_of_torch_are_the_original_ones(checked):
    where = "dist.all_reduce.__code__.co_filename, dist.isend.__code__.co_filename"
    ours = checked.cell(where)[0]
    assert all(file.endswith("fingerprint.py") for file in ours)
    with launch(4) as ranks:
        theirs = ranks.cell(where)[0]
    assert not any(file.endswith("fingerprint.py") for file in theirs)


def test_a_rank_that_makes_one_call_less_is_found_by_the_timeout(checked):
    with pytest.raises(RankTimeout, match=r"ranks 0-2 are at\n.*\n *if rank < 3: dist.barrier"):
        checked.cell("if rank < 3: dist.barrier()", timeout=1)


def test_compare_accepts_equal_fingerprints_only():
    sent = Fingerprint("all_to_all()", sends=("a", "b"), receives=("a", "c"))
    fits = Fingerprint("all_to_all()", sends=("c", "d"), receives=("b", "d"))
    compare([4, 7], [sent, fits])
    with pytest.raises(CollectiveMismatch, match="rank 4 sends b to rank 7, which receives x"):
        compare([4, 7], [sent, fits._replace(receives=("x", "d"))])
    with pytest.raises(CollectiveMismatch, match="rank 7 calls barrier"):
        compare([4, 7], [sent, Fingerprint("barrier()")])
