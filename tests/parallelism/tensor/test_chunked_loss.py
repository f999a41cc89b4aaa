"""The loss in pieces equals the whole in value and gradient, and holds what the account says."""

import pytest
import torch

from dtlib.parallelism import loss_pieces_bytes
from dtlib.runtime import RanksError, launch

V, H, T = 24, 6, 20


@pytest.fixture(scope="module", params=[1, 2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def results(size, wrong=None, dtype=torch.float64, words=V, width=H, tokens=T):
    """On a rank: loss, both gradients and the peak, of the whole (size None) or in pieces."""
    import torch.distributed as dist

    from dtlib.memory import PeakMeter
    from dtlib.parallelism import (
        chunked_cross_entropy,
        copy_to_ranks,
        vocab_parallel_cross_entropy,
    )
    from dtlib.parallelism.tensor import chunked_loss

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, tokens // 2, width, generator=draw, dtype=torch.float64).to(dtype)
    head = torch.randn(words, width, generator=draw, dtype=torch.float64).to(dtype)
    targets = torch.randint(words, (2, tokens // 2), generator=draw)
    targets[0, :5] = -100
    x, own = x.requires_grad_(), head.chunk(P)[rank].clone().requires_grad_()
    reduce = chunked_loss.messages.all_reduce
    if wrong == "no sum":
        chunked_loss.messages.all_reduce = lambda x, group: x
    try:
        with PeakMeter() as meter:
            if size is None:
                logits = copy_to_ranks(x, group) @ own.T
                loss = vocab_parallel_cross_entropy(logits, targets, group)
                del logits
            elif wrong == "mean of means":
                pieces = zip(
                    x.flatten(0, 1).split(size), targets.flatten().split(size), strict=True
                )
                means = [chunked_cross_entropy(a, own, b, size, group) for a, b in pieces]
                loss = sum(means) / len(means)
            else:
                loss = chunked_cross_entropy(x, own, targets, size, group)
            (3 * loss).backward()
    finally:
        chunked_loss.messages.all_reduce = reduce
    return loss.detach(), x.grad, own.grad, meter.peak_bytes


def close(found, right, rtol):
    scales = [r.abs().max() for r in right]
    return all(
        (f - r).abs().max() <= rtol * s for f, r, s in zip(found, right, scales, strict=True)
    )


@pytest.mark.parametrize("size", [1, 3, 8, 20, 100])
def test_any_pieces_give_the_loss_and_the_gradients_of_the_whole(ranks, size):
    for found, right in zip(ranks.run(results, size), ranks.run(results, None), strict=True):
        assert close(found[:3], right[:3], 1e-13)


def test_gradients_of_the_head_add_up_in_32_bits(ranks):
    """Pieces of one token in 16 bits: no worse than the whole in 16 bits."""
    exact = ranks.run(results, None)
    for size in (None, 1):
        found = ranks.run(results, size, None, torch.bfloat16)
        assert all(close(f[2:3], e[2:3], 0.02) for f, e in zip(found, exact, strict=True))


@pytest.mark.parametrize("wrong", ["mean of means", "no sum"])
def test_sabotage_a_mean_of_means_or_a_forgotten_sum_is_another_gradient(wrong):
    with launch(2, timeout=60) as two:
        right = two.run(results, None)
        for found, whole in zip(two.run(results, 3, wrong), right, strict=True):
            assert not close(found[1:2], whole[1:2], 1e-3)


def test_a_piece_holds_five_copies_of_its_logits_besides_the_two_gradients(ranks):
    """And the whole holds four, with the gradient of x; to a per cent, for a large vocabulary."""
    words, width, tokens = 2048, 16, 256
    own, stream = words // ranks.n, tokens * width
    for size in (None, 32, 64):
        account = loss_pieces_bytes(size or 0, 2, tokens // 2, width, words, ranks.n, 8)
        if size is None:
            account = 8 * (4 * tokens * own + stream)
        for *_, peak in ranks.run(results, size, words=words, width=width, tokens=tokens):
            assert peak == pytest.approx(account, rel=0.01)


def test_what_cannot_be_done_is_refused():
    def twice(size):
        import torch.distributed as dist

        from dtlib.parallelism import chunked_cross_entropy

        x, head = torch.ones(4, 2, requires_grad=True), torch.ones(3, 2)
        loss = chunked_cross_entropy(x, head, torch.zeros(4, dtype=int), size, dist.group.WORLD)
        loss.backward(retain_graph=True)
        loss.backward()

    with launch(1, timeout=60) as one:
        with pytest.raises(RanksError, match="size is 0"):
            one.run(twice, 0)
        with pytest.raises(RanksError, match="backward ran before"):
            one.run(twice, 2)
