"""On tensor-parallel ranks: running a block again sends its sums again, unless they are kept."""

import pytest
import torch

from dtlib.runtime import launch

NAMES = ("plain", "again", "sums kept")


@pytest.fixture(scope="module")
def ranks():
    with launch(2, timeout=60) as ranks:
        yield ranks


def job():
    import torch
    import torch.distributed as dist

    from dtlib.foundations import TransformerSpec
    from dtlib.memory import Meter
    from dtlib.memory.recompute.tensor import RecomputedTensorBlock
    from dtlib.models import Block
    from dtlib.parallelism import TensorParallelBlock, counted

    spec = TransformerSpec("small", layers=1, hidden=16, heads=4, vocab=29)
    found = {}
    for name in ("plain", "again", "sums kept"):
        torch.manual_seed(0)
        block = TensorParallelBlock(Block(spec, dtype=torch.float64), dist.group.WORLD)
        run = block if name == "plain" else RecomputedTensorBlock(block, name == "sums kept")
        x = torch.randn(2, 6, 16, dtype=torch.float64, requires_grad=True)
        with counted() as log, Meter(block) as meter:
            y = run(x, torch.arange(6))
            kept = meter.kept_bytes
            y.square().sum().backward()
        grads = [x.grad, *(p.grad for p in block.parameters())]
        found[name] = (log.calls["all_reduce"], kept, y.detach(), grads)
    return found


def test_the_sums_are_repeated_unless_they_are_kept_and_every_bit_is_the_same(ranks):
    for found in ranks.run(job):
        assert [found[name][0] for name in NAMES] == [4, 6, 4]
        for name in NAMES[1:]:
            assert torch.equal(found[name][2], found["plain"][2])
            assert all(map(torch.equal, found[name][3], found["plain"][3]))


def test_the_price_of_a_kept_sum_is_one_tensor_of_the_stream(ranks):
    stream = 2 * 6 * 16 * 8
    for found in ranks.run(job):
        assert found["sums kept"][1] - found["again"][1] == stream


def test_what_it_refuses():
    from dtlib.memory.recompute.tensor import RecomputedTensorBlock

    with pytest.raises(ValueError, match="block is 'Linear', but must be a TensorParallelBlock"):
        RecomputedTensorBlock(torch.nn.Linear(2, 2), keep_sums=True)
