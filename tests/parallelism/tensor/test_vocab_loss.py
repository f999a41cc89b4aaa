"""Cross-entropy of divided logits equals that of whole ones, in value and gradient."""

import pytest
import torch

from dtlib.runtime import RanksError, launch

WORDS = 12


@pytest.fixture(scope="module", params=[1, 2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def losses(logits, targets, reduction="mean", sum_again=False):
    """On a rank: (loss, its gradient) of this rank's words, the same of whole logits, the log."""
    import torch.distributed as dist

    from dtlib.models import next_token_loss
    from dtlib.parallelism import counted, vocab_parallel_cross_entropy
    from dtlib.parallelism.tensor import vocab_loss

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    whole = logits.clone().requires_grad_()
    expected = next_token_loss(whole, targets, reduction)
    expected.backward()
    own = logits.chunk(P, -1)[rank].clone().requires_grad_()
    if sum_again:
        from dtlib.parallelism import all_reduce

        vocab_loss.sum_over_ranks, right = all_reduce, vocab_loss.sum_over_ranks
    try:
        with counted(group) as log:
            loss = vocab_parallel_cross_entropy(own, targets, group, reduction)
            loss.backward()
    finally:
        if sum_again:
            vocab_loss.sum_over_ranks = right
    return (loss.detach(), own.grad), (expected.detach(), whole.grad.chunk(P, -1)[rank]), log


def batch(scale=1.0, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(2, 12, WORDS, generator=generator, dtype=torch.float64)
    targets = torch.arange(24).reshape(2, 12) % WORDS  # every word, so every border of a shard
    return logits.to(dtype), targets


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("scale", [1.0, 1e4], ids=["ordinary", "plus and minus 1e4"])
def test_loss_and_gradient_are_those_of_whole_logits(ranks, scale, reduction):
    logits, targets = batch(scale)
    targets[0, 3] = targets[1, 0] = -100
    for (loss, grad), (expected, whole), _ in ranks.run(losses, logits, targets, reduction):
        assert torch.allclose(loss, expected, rtol=1e-14, atol=0)
        assert torch.allclose(grad, whole, rtol=1e-12, atol=1e-16)
        assert torch.isfinite(grad).all()


def test_single_precision(ranks):
    logits, targets = batch(dtype=torch.float32)
    for (loss, grad), (expected, whole), _ in ranks.run(losses, logits, targets):
        assert torch.allclose(loss, expected, rtol=1e-6)
        assert torch.allclose(grad, whole, rtol=1e-5, atol=1e-6 * whole.abs().max().item())


def test_the_largest_and_the_target_may_lie_on_any_border(ranks):
    """One logit towers over all others, in each place in turn, and so does the target's place."""
    targets = torch.arange(WORDS).repeat(WORDS, 1)
    logits = 1e4 * torch.eye(WORDS, dtype=torch.float64)[:, None].repeat(1, WORDS, 1)
    for (loss, grad), (expected, whole), _ in ranks.run(losses, logits, targets):
        assert torch.equal(loss, expected)
        assert torch.equal(grad, whole)


def test_three_reductions_of_one_number_per_token_and_none_backward(ranks):
    from dtlib.parallelism import vocab_loss_bytes

    logits, targets = batch()
    for *_, log in ranks.run(losses, logits, targets):
        assert log.calls == {"all_reduce": 3}
        expected = vocab_loss_bytes(micro_batch=2, seq=12, tp=ranks.n, element_bytes=8)
        assert log.total_bytes == expected


def test_sabotage_a_sum_that_is_its_own_transpose_gives_p_times_the_gradient():
    logits, targets = batch()
    with launch(4, timeout=60) as four:
        for (loss, grad), (expected, whole), _ in four.run(losses, logits, targets, sum_again=True):
            assert torch.allclose(loss, expected, rtol=1e-14)
            assert torch.allclose(grad, 4 * whole, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize(
    ("targets", "options", "said"),
    [
        ([[0, WORDS]], {}, "a target is 12, but must be from 0 to 11, or -100"),
        ([[0, -1]], {}, "a target is -1"),
        ([[0, 1, 2]], {}, r"the shape of targets is \(1, 3\), but must be \(1, 2\)"),
        ([[0, 1]], {"reduction": "none"}, "reduction is 'none'"),
    ],
    ids=["too large", "negative", "shape", "reduction"],
)
def test_what_would_be_counted_wrong_is_refused(targets, options, said):
    def run(targets, options):
        import torch.distributed as dist

        from dtlib.parallelism import vocab_parallel_cross_entropy

        own = torch.zeros(1, 2, WORDS // dist.get_world_size())
        vocab_parallel_cross_entropy(own, torch.tensor(targets), dist.group.WORLD, **options)

    with launch(2, timeout=60) as two, pytest.raises(RanksError, match=said):
        two.run(run, targets, options)


def test_logits_of_16_bits_give_a_loss_of_32(ranks):
    """As if they had 32 bits from the start; the gradient is rounded to 16 bits at the end."""
    logits, targets = batch(dtype=torch.bfloat16)
    exact = logits.float().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact.flatten(0, 1), targets.flatten())
    expected.backward()
    for rank, ((loss, grad), _, _) in enumerate(ranks.run(losses, logits, targets)):
        assert (loss.dtype, grad.dtype) == (torch.float32, torch.bfloat16)
        assert torch.allclose(loss, expected, rtol=1e-6, atol=0)  # 16 bits are good for 4e-3
        own = exact.grad.chunk(ranks.n, -1)[rank]
        assert torch.allclose(grad.float(), own, rtol=2**-8, atol=0)


def test_without_a_target_that_counts_the_mean_is_none_and_the_sum_is_nothing(ranks):
    logits, targets = batch()
    targets[:] = -100
    for reduction, expected in (("mean", float("nan")), ("sum", 0.0)):
        for (loss, _), (whole, _), _ in ranks.run(losses, logits, targets, reduction):
            assert torch.equal(loss.isnan(), whole.isnan())
            assert torch.allclose(loss, torch.tensor(expected, dtype=loss.dtype), equal_nan=True)
