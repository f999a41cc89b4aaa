"""The renamed collectives work under their new names, whichever of the two torch has."""

import pytest

SOURCE = """
from dtlib.runtime.names import all_gather_single, reduce_scatter_single

gathered = torch.empty(8)
all_gather_single(gathered, torch.arange(2.0) + 10 * rank)
part = torch.empty(2)
reduce_scatter_single(part, torch.arange(8.0))
largest = torch.empty(2)
work = reduce_scatter_single(
    largest, torch.arange(8.0) * rank, op=dist.ReduceOp.MAX, group=group, async_op=True
)
work.wait()
(gathered.tolist(), part.tolist(), largest.tolist())
"""
ONLY = """
import warnings
warnings.simplefilter("ignore", FutureWarning)
kept = {{name: getattr(dist, name) for name in {absent} if hasattr(dist, name)}}
for name in kept: delattr(dist, name)
"""
BACK = "for name, function in kept.items(): setattr(dist, name, function)"
NEW = ["all_gather_single", "reduce_scatter_single"]
OLD = ["all_gather_into_tensor", "reduce_scatter_tensor"]


@pytest.mark.parametrize("absent", [[], NEW, OLD])
def test_gather_and_reduce_scatter_in_rank_order(ranks, absent):
    ranks.cell(ONLY.format(absent=absent))
    if not all(ranks.cell(f"hasattr(dist, {NEW[0]!r}) or hasattr(dist, {OLD[0]!r})")):
        pytest.skip("this torch has only the names that are taken away here")
    try:
        results = ranks.cell(SOURCE)
    finally:
        ranks.cell(BACK)
    everyone = [0.0, 1, 10, 11, 20, 21, 30, 31]
    for rank, (gathered, part, largest) in enumerate(results):
        assert gathered == everyone
        assert part == [4 * 2.0 * rank, 4 * (2.0 * rank + 1)]
        assert largest == [3 * 2.0 * rank, 3 * (2.0 * rank + 1)]
