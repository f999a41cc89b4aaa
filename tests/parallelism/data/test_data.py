"""Data parallelism equals one process and torch's own, sends what its formula says, and each check
has a twin that fails."""

import pytest

from dtlib.foundations import data_parallel_bytes
from dtlib.runtime import RanksError, launch

SEQUENCES, TOKENS, VOCAB = 8, 8, 29


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=60) as ranks:
        yield ranks


def shared():
    """What every function on the ranks needs: a model, tokens, and one process as reference."""
    import torch

    from dtlib.foundations import TransformerSpec
    from dtlib.models import GPT, gradients, next_token_loss

    class Shared:
        def model(self, dtype="float64", tied=True):
            spec = TransformerSpec(
                "small", layers=2, hidden=16, heads=4, vocab=VOCAB, positions=TOKENS, tied=tied
            )
            return GPT(spec, seed=3, dtype=getattr(torch, dtype))

        def batch(self, sequences=SEQUENCES):
            tokens = torch.randint(
                VOCAB, (sequences, TOKENS + 1), generator=torch.Generator().manual_seed(1)
            )
            return tokens[:, :-1], tokens[:, 1:]

        def passes(self, model, wrapped, tokens, targets, loss=next_token_loss):
            """Loss, gradients, and the gradient of the embedded input (dX)."""
            inner = {}

            def keep(module, args, out):
                out.retain_grad()
                inner["x"] = out

            hook = model.embedding.register_forward_hook(keep)
            value = loss(wrapped(tokens), targets)
            value.backward()
            hook.remove()
            return value.detach(), gradients(model), inner["x"].grad.detach()

    return Shared()


def equality(dtype, options, frozen=()):
    """On each rank: the largest relative error of loss, dX and every gradient."""
    import torch
    import torch.distributed as dist

    from dtlib.models import relative_errors, worst
    from dtlib.parallelism import DataParallel

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    reference, replica = of.model(dtype), of.model(dtype)
    for model in (reference, replica):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in frozen)
    loss, grads, dx = of.passes(reference, reference, tokens, targets)
    if rank:  # rank 0's weights are handed out
        with torch.no_grad():
            for parameter in replica.parameters():
                parameter.add_(1)
    wrapped = DataParallel(replica, dist.group.WORLD, **options)
    steps = 2 if options.get("order") == "observed" else 1
    for _ in range(steps):
        replica.zero_grad()
        mine = slice(rank * SEQUENCES // P, (rank + 1) * SEQUENCES // P)
        own = of.passes(replica, wrapped, tokens[mine], targets[mine])
    total = own[0].clone()
    dist.all_reduce(total)
    errors = {
        "loss": abs(total.item() / P / loss.item() - 1),
        "dX": relative_errors({"dX": own[2] / P}, {"dX": dx[mine]})["dX"],
        "gradient": worst(relative_errors(own[1], grads))[1],
    }
    return errors, len(wrapped.buckets)


OPTIONS = {
    "one bucket": {"first_bucket_bytes": 2**30, "bucket_bytes": 2**30},
    "many buckets": {"first_bucket_bytes": 1000, "bucket_bytes": 4000},
    "one for each parameter": {"first_bucket_bytes": 1, "bucket_bytes": 1},
    "observed": {"bucket_bytes": 4000, "order": "observed"},
    "no overlap": {"bucket_bytes": 4000, "overlap": False},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_gradient_equals_that_of_one_process_on_the_whole_batch(ranks, options):
    for errors, _ in ranks.run(equality, "float64", options):
        assert max(errors.values()) <= 1e-12, errors


def test_in_32_bits_too(ranks):
    for errors, buckets in ranks.run(equality, "float32", OPTIONS["many buckets"]):
        assert errors.pop("loss") <= 1e-6
        assert max(errors.values()) <= 1e-5, errors
        assert buckets > 3


def test_frozen_parameters_are_left_alone(ranks):
    frozen = ("blocks.0.attention.query.weight", "blocks.1.feed_forward.up.bias")
    for errors, _ in ranks.run(equality, "float64", OPTIONS["many buckets"], frozen):
        assert max(errors.values()) <= 1e-12, errors


def plain_ways(dtype):
    import torch.distributed as dist

    from dtlib.models import relative_errors, worst
    from dtlib.parallelism import average_each, average_flat

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    reference = of.model(dtype)
    _, grads, _ = of.passes(reference, reference, tokens, targets)
    found = []
    for average in (average_each, average_flat):
        model = of.model(dtype)
        mine = slice(rank, SEQUENCES, P)
        of.passes(model, model, tokens[mine], targets[mine])
        average(model, dist.group.WORLD)
        own = {name: p.grad for name, p in model.named_parameters()}
        found.append(worst(relative_errors(own, grads))[1])
    return found


def test_the_plain_ways_equal_one_process(ranks):
    for errors in ranks.run(plain_ways, "float64"):
        assert max(errors) <= 1e-12


def beside_torch(accumulate, frozen):
    """The gradients of torch's DistributedDataParallel and of ours, from the same micro-batches."""
    import warnings

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from dtlib.models import gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import DataParallel

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    tokens, targets = tokens[rank::P].chunk(accumulate), targets[rank::P].chunk(accumulate)
    found = []
    for wrap in (
        lambda m: DataParallel(m, dist.group.WORLD, bucket_bytes=4000),
        lambda m: DistributedDataParallel(m, bucket_cap_mb=0.004),
    ):
        model = of.model()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in frozen)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            wrapped = wrap(model)
            for x, y in zip(tokens[:-1], targets[:-1], strict=True):
                with wrapped.no_sync():
                    next_token_loss(wrapped(x), y).backward()
            next_token_loss(wrapped(tokens[-1]), targets[-1]).backward()
        found.append(gradients(model))
    return worst(relative_errors(*found))[1]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("frozen", [(), ("blocks.0.attention.out.weight",)])
def test_it_does_what_torchs_own_does(ranks, accumulate, frozen):
    assert max(ranks.run(beside_torch, accumulate, frozen)) <= 1e-12


def bits(order):
    """P = 2, 32 bits: ours and sequential accumulation; and whether both ranks have the same."""
    import torch
    import torch.distributed as dist

    from dtlib.models import gradients, next_token_loss
    from dtlib.parallelism import DataParallel

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    reference, model = of.model("float32"), of.model("float32")
    for part in range(P):
        (next_token_loss(reference(tokens[part::P]), targets[part::P]) / P).backward()
    wrapped = DataParallel(model, dist.group.WORLD, bucket_bytes=4000, order=order)
    next_token_loss(wrapped(tokens[rank::P]), targets[rank::P]).backward()
    mine = torch.cat([g.flatten() for g in gradients(model).values()])
    theirs = torch.cat([g.flatten() for g in gradients(reference).values()])
    return torch.equal(mine, theirs), mine


@pytest.mark.parametrize("order", ["reverse", "observed"])
def test_two_ranks_are_bitwise_sequential_accumulation(pair, order):
    assert all(same for same, _ in pair.run(bits, order))


def test_all_ranks_have_the_same_bits(ranks):
    import torch

    _, first = (results := ranks.run(bits, "reverse"))[0]
    assert all(torch.equal(first, other) for _, other in results)


def all_reduce_in_two_halves(seed):
    import torch
    import torch.distributed as dist

    from dtlib.parallelism.operators.messages import all_gather, all_reduce, reduce_scatter

    rank, P = dist.get_rank(), dist.get_world_size()
    x = torch.randn(1024 * P, generator=torch.Generator().manual_seed(10 * seed + rank))
    whole = all_reduce(x, dist.group.WORLD)
    halves = all_gather(reduce_scatter(x, dist.group.WORLD), dist.group.WORLD)
    return torch.equal(whole, halves)


def test_an_all_reduce_is_bitwise_a_reduce_scatter_and_an_all_gather(ranks):
    assert all(all(ranks.run(all_reduce_in_two_halves, seed)) for seed in range(3))


def traffic(bucket_bytes, accumulate, sync_every):
    """Calls and bytes of one step, after a first one has gone by; and the gradients' bytes."""
    import contextlib

    import torch.distributed as dist

    from dtlib.models import next_token_loss
    from dtlib.parallelism import DataParallel, counted

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch(16)
    parts = list(
        zip(tokens[rank::P].chunk(accumulate), targets[rank::P].chunk(accumulate), strict=True)
    )
    model = of.model()
    wrapped = DataParallel(
        model, dist.group.WORLD, bucket_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes
    )
    with counted(dist.group.WORLD) as log:
        for i, (x, y) in enumerate(parts):
            last = i == len(parts) - 1
            with contextlib.nullcontext() if last or sync_every else wrapped.no_sync():
                next_token_loss(wrapped(x), y).backward()
    n = sum(p.numel() * p.element_size() for p in model.parameters())
    return log.calls, log.bytes, n, len(wrapped.buckets)


@pytest.mark.parametrize("bucket_bytes", [1, 4000, 2**30])
def test_a_step_reduces_each_bucket_once_and_sends_the_formulas_bytes(ranks, bucket_bytes):
    found = ranks.run(traffic, bucket_bytes, 1, True)
    for calls, sent, n, buckets in found:
        assert calls == {"all_reduce": buckets}
        assert sent["all_reduce"] == data_parallel_bytes(n, len(found), 1)


def test_accumulation_communicates_once_and_without_no_sync_every_time(ranks):
    for (once, sent, *_), (always, too_much, *_) in zip(
        ranks.run(traffic, 4000, 4, False), ranks.run(traffic, 4000, 4, True), strict=True
    ):
        assert always["all_reduce"] == 4 * once["all_reduce"]
        assert too_much["all_reduce"] == 4 * sent["all_reduce"]


def uneven(weighted):
    """Ranks hold 8 and 1,016 valid tokens; the worst error of a gradient, and rank 0's weight."""
    import torch.distributed as dist

    from dtlib.models import gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import DataParallel, token_mean_loss

    of, rank = shared(), dist.get_rank()
    tokens, targets = of.batch(256)
    targets = targets.clone()
    targets[:128].view(-1)[8:] = -100
    targets[128:].view(-1)[1016:] = -100
    reference, model = of.model(), of.model()
    next_token_loss(reference(tokens), targets).backward()
    wrapped = DataParallel(model, dist.group.WORLD)
    mine = slice(128 * rank, 128 * (rank + 1))
    valid = int((targets[mine] != -100).sum())
    if weighted:
        total = next_token_loss(wrapped(tokens[mine]), targets[mine], reduction="sum")
        token_mean_loss(total, valid, dist.group.WORLD).backward()
    else:
        next_token_loss(wrapped(tokens[mine]), targets[mine]).backward()
    return worst(relative_errors(gradients(model), gradients(reference)))[1], valid


def test_ranks_with_8_and_1016_tokens_need_the_weighted_loss(pair):
    found = pair.run(uneven, True)
    assert [valid for _, valid in found] == [8, 1016]
    assert max(error for error, _ in found) <= 1e-12
    assert min(error for error, _ in pair.run(uneven, False)) > 0.1  # a mean of two means


def odd_shares():
    """8 sequences on ranks in shares of other sizes, one of them empty on four ranks."""
    import torch.distributed as dist

    from dtlib.models import gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import DataParallel, token_mean_loss

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    sizes = [3, 5] if P == 2 else [4, 1, 0, 3]
    begin = sum(sizes[:rank])
    mine = slice(begin, begin + sizes[rank])
    reference, model = of.model(), of.model()
    next_token_loss(reference(tokens), targets).backward()
    wrapped = DataParallel(model, dist.group.WORLD)
    total = next_token_loss(wrapped(tokens[mine]), targets[mine], reduction="sum")
    token_mean_loss(total, sizes[rank] * TOKENS, dist.group.WORLD).backward()
    return worst(relative_errors(gradients(model), gradients(reference)))[1]


def test_shares_may_differ_and_even_be_empty(ranks):
    assert max(ranks.run(odd_shares)) <= 1e-12


def summed_twice(clears):
    """Two sums of a gradient of 1 on each rank, over its number: how often the first one counts."""
    import torch
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    model = DataParallel(torch.nn.Linear(1, 1, bias=False), dist.group.WORLD, average=False)
    for _ in range(2):
        model(torch.ones(1, 1)).sum().backward()
        found = next(model.parameters()).grad.item() / dist.get_world_size()
        if clears:
            model.zero_grad()
    return found


def test_a_sum_is_added_once_if_gradients_are_cleared_and_else_p_times(ranks):
    assert ranks.run(summed_twice, True) == [1] * ranks.n
    assert ranks.run(summed_twice, False) == [1 + ranks.n] * ranks.n


def no_tokens():
    import torch
    import torch.distributed as dist

    from dtlib.parallelism import token_mean_loss

    token_mean_loss(torch.tensor(1.0), 0, dist.group.WORLD)


def test_a_mean_over_nothing_is_refused(pair):
    with pytest.raises(RanksError, match="tokens = 0 on every rank"):
        pair.run(no_tokens)


def branches(find_unused):
    """Rank 0 takes branch a, the others b; nobody takes c. The three gradients, and one buffer."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.parallelism import DataParallel

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(2, 1, bias=False) for _ in range(3))
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x, first):
            self.seen += 1 + dist.get_rank()
            return (self.a if first else self.b)(x).sum()

    model = Branches()
    wrapped = DataParallel(model, dist.group.WORLD, find_unused=find_unused)
    for _ in range(2):
        model.zero_grad()
        wrapped(torch.ones(1, 2), first=dist.get_rank() == 0).backward()
    wrapped.eval()
    grads = [p.grad if p.grad is None else p.grad.flatten().tolist() for p in model.parameters()]
    return grads, model.seen.item()


def test_a_parameter_without_a_gradient_counts_as_zero_or_is_left_alone(ranks):
    found = ranks.run(branches, False)
    P = len(found)
    for rank, (grads, seen) in enumerate(found):
        assert grads == [[1 / P] * 2, [1 - 1 / P] * 2, [0.0, 0.0]]
        assert seen == 1 + 1 + rank  # rank 0's buffer after one step, and this rank's own addition
    for grads, _ in ranks.run(branches, True):
        assert grads == [[1 / P] * 2, [1 - 1 / P] * 2, None]


def repeated(zero_to_none):
    """Three steps; the gradients live in the buckets, and the weights stay those of one process."""
    import torch
    import torch.distributed as dist

    from dtlib.models import next_token_loss
    from dtlib.parallelism import DataParallel

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    reference, model = of.model(), of.model()
    wrapped = DataParallel(model, dist.group.WORLD, bucket_bytes=4000, order="observed")
    for net, x, y in (
        (reference, tokens, targets),
        (wrapped, tokens[rank::P], targets[rank::P]),
    ):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=zero_to_none)
            next_token_loss(net(x), y).backward()
            optimizer.step()
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)


@pytest.mark.parametrize("zero_to_none", [True, False])
def test_many_steps_stay_those_of_one_process(ranks, zero_to_none):
    assert max(ranks.run(repeated, zero_to_none)) <= 1e-11


def sabotaged(damage):
    """Loss after five steps, relative to one process; and the worst gradient of the first step."""
    import torch
    import torch.distributed as dist

    from dtlib.models import gradients, next_token_loss, relative_errors, worst

    of, rank, P = shared(), dist.get_rank(), dist.get_world_size()
    tokens, targets = of.batch()
    runs = []
    for alone in (True, False):
        model = of.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        x, y = (tokens, targets) if alone else (tokens[rank::P], targets[rank::P])
        for step in range(5):
            optimizer.zero_grad()
            next_token_loss(model(x), y).backward()
            for name, parameter in [] if alone else model.named_parameters():
                if damage != name:
                    dist.all_reduce(parameter.grad)
                    parameter.grad.div_(1 if damage == "division" else P)
            if not step:
                first = gradients(model)
            optimizer.step()
        with torch.no_grad():
            loss = next_token_loss(model(x), y)
            if not alone:
                dist.all_reduce(loss)
                loss /= P
        runs.append((loss.item(), first))
    (loss, grads), (found, mine) = runs
    return abs(found / loss - 1), worst(relative_errors(mine, grads))


def test_sabotage_the_division_is_missed_by_a_factor(ranks):
    found = ranks.run(sabotaged, "division")
    for _, (_, error) in found:
        assert error == pytest.approx(len(found) - 1)


def test_sabotage_one_bias_that_is_not_synchronised_hardly_moves_the_loss(ranks):
    bias = "blocks.0.feed_forward.up.bias"
    found = ranks.run(sabotaged, bias)
    for loss, (name, error) in found:
        assert name == bias and error > 0.1  # the gradients say which one
        assert 1e-7 < loss < 1e-4  # the loss would pass a careless tolerance
    assert max(loss for loss, _ in ranks.run(sabotaged, "none")) <= 1e-12


def dropout_masks(seed_by_rank):
    import torch
    import torch.distributed as dist

    torch.manual_seed(5 + (dist.get_rank() if seed_by_rank else 0))
    return torch.nn.functional.dropout(torch.ones(64)).tolist()


def test_sabotage_one_dropout_seed_gives_every_rank_the_same_mask(ranks):
    masks = ranks.run(dropout_masks, False)
    assert all(mask == masks[0] for mask in masks)
    masks = ranks.run(dropout_masks, True)
    assert all(a != b for i, a in enumerate(masks) for b in masks[:i])


def refused(options, grads=True):
    import torch.distributed as dist
    from torch import nn

    from dtlib.parallelism import DataParallel

    module = nn.Linear(2, 2).requires_grad_(grads)
    group = options.pop("group", dist.group.WORLD)
    DataParallel(module, group, **options)


@pytest.mark.parametrize(
    ("options", "grads", "said"),
    [
        ({"order": "random"}, True, "order = 'random'; allowed are 'reverse' and 'observed'"),
        ({"bucket_bytes": 0}, True, "bucket_bytes = 0; a bucket needs a positive number"),
        ({"first_bucket_bytes": -1}, True, "first_bucket_bytes = -1"),
        ({"group": None}, True, "group = None; a process group is given explicitly"),
        ({}, False, "no parameter requires a gradient"),
    ],
)
def test_what_cannot_work_is_refused(pair, options, grads, said):
    with pytest.raises(RanksError, match=said):
        pair.run(refused, options, grads)


def order_learned():
    """A module that lists its layers in another order than it uses them."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.parallelism import DataParallel

    class Shuffled(nn.Module):
        def __init__(self):
            super().__init__()
            self.second, self.first = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)

        def forward(self, x):
            return self.second(self.first(x)).sum()

    found = {}
    for order in ("reverse", "observed"):
        model = Shuffled()
        wrapped = DataParallel(
            model, dist.group.WORLD, bucket_bytes=1, first_bucket_bytes=1, order=order
        )
        wrapped(torch.ones(1, 4)).backward()
        names = {p: name for name, p in model.named_parameters()}
        found[order] = [names[p] for b in wrapped.buckets for p in b.parameters]
    return found


def test_observed_buckets_are_in_the_order_of_the_backward_pass(pair):
    for found in pair.run(order_learned):
        assert found["reverse"] == ["first.weight", "second.weight"]
        assert found["observed"] == ["second.weight", "first.weight"]
