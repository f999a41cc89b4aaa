"""On ranks: collective products are plain ones, puts are messages, DDP sends what we predict."""

import pytest

from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def ranks():
    with launch(4, timeout=120) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=120) as ranks:
        yield ranks


def products(break_it=False):
    """Both products against the plain ones, and against each other as transposes; all exact."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency.overlap.matmul import gathered_matmul, matmul_scattered

    group = dist.group.WORLD
    rank, P = group.rank(), group.size()
    draw = torch.Generator().manual_seed(rank)

    def whole(*shape):
        return torch.randint(-9, 9, shape, generator=draw).double()

    x, y, w = whole(3, 4), whole(3 * P, 5), whole(4, 5)
    rows = [torch.empty_like(x) for _ in range(P)]
    dist.all_gather(rows, x)
    ahead = gathered_matmul(x, w, group)
    equal = torch.equal(ahead, torch.cat(rows) @ w)
    summed = y @ w.T
    dist.all_reduce(summed)
    back = matmul_scattered(y, w.T.contiguous(), group)
    equal &= torch.equal(back, summed[3 * rank : 3 * rank + 3])
    if break_it:
        back = back.roll(1, 0)
    sides = torch.stack([(ahead * y).sum(), (x * back).sum()])
    dist.all_reduce(sides)
    return equal, bool(sides[0] == sides[1])


def test_collective_products_are_the_plain_ones_and_each_others_transposes(ranks, pair):
    assert ranks.run(products) == [(True, True)] * 4
    assert pair.run(products) == [(True, True)] * 2


def test_sabotage_rows_in_another_order_are_no_transpose(pair):
    assert pair.run(products, True) == [(True, False)] * 2


def test_one_rank_alone_multiplies():
    import torch

    from dtlib.collectives.transport import Mailboxes
    from dtlib.efficiency.overlap.matmul import gathered_matmul, matmul_scattered

    x, w, alone = torch.ones(2, 3), torch.ones(3, 2), Mailboxes(1).of(0)
    assert torch.equal(gathered_matmul(x, w, transport=alone), x @ w)
    assert torch.equal(matmul_scattered(x, w, transport=alone), x @ w)
    with pytest.raises(ValueError, match="the shapes of x and w"):
        gathered_matmul(x, x, transport=alone)


def by_puts(numel, without_waiting=False):
    """For each schedule: whether puts gave the bits of messages, three times in one window."""
    import torch
    import torch.distributed as dist

    from dtlib.collectives import (
        double_binary_tree_all_reduce,
        execute,
        halving_doubling_all_reduce,
        pairwise_all_to_all,
        ring_all_gather,
        ring_all_reduce,
        tree_all_reduce,
    )
    from dtlib.efficiency.overlap import one_sided
    from dtlib.parallelism import counted

    group = dist.group.WORLD
    rank, P = group.rank(), group.size()
    if without_waiting:
        one_sided.Window.wait_for_messages = lambda *_: None
    found = {}
    for build in (
        ring_all_reduce, ring_all_gather, tree_all_reduce, halving_doubling_all_reduce,
        pairwise_all_to_all, double_binary_tree_all_reduce,
    ):  # fmt: skip
        schedule, window = build(P), one_sided.Window(group, numel, torch.float32, patience=30)
        draw = torch.Generator().manual_seed(rank)
        same = []
        for _ in range(3):
            given = torch.randn(numel, generator=draw)
            window.data.copy_(given)
            with counted(group) as log:
                one_sided.execute_by_puts(schedule, window)
            if without_waiting:
                dist.barrier()
            same.append(torch.equal(window.data, execute(schedule, given.clone(), group)))
            assert not log.calls
        found[schedule.name] = all(same)
    return found


@pytest.mark.parametrize("numel", [1000, 5])
def test_puts_and_signals_give_the_bits_of_messages(ranks, numel):
    for found in ranks.run(by_puts, numel):
        assert len(found) == 6
        assert all(found.values()), found


def test_sabotage_who_does_not_wait_for_signals_gets_other_numbers():
    with launch(4, timeout=120) as ranks:
        found = ranks.run(by_puts, 1000, True)
    assert not all(same for by_rank in found for same in by_rank.values())


def a_rank_that_never_comes():
    import torch.distributed as dist

    from dtlib.collectives import ring_all_reduce
    from dtlib.efficiency.overlap.one_sided import Window, execute_by_puts

    window = Window(dist.group.WORLD, 4, patience=0.2)
    if dist.get_rank():
        execute_by_puts(ring_all_reduce(2), window)


def test_a_rank_that_never_comes_is_named(pair):
    with pytest.raises(RanksError, match=r"waited 0\.2 s for rank 0 to begin round 1"):
        pair.run(a_rank_that_never_comes)


def ddp_buckets(tied, bytes_of_a_bucket, reverse=False):
    """What torch's DDP sends in each of three steps, and what was predicted from the graph."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from dtlib.efficiency.overlap.buckets import cut_by_size
    from dtlib.efficiency.overlap.readiness import ready_order, seen_order
    from dtlib.foundations import MiB, TransformerSpec
    from dtlib.models import GPT, next_token_loss

    spec = TransformerSpec("small", layers=2, hidden=16, heads=4, vocab=29, positions=8, tied=tied)
    model = GPT(spec, seed=3)
    names = {parameter: name for name, parameter in model.named_parameters()}
    text = torch.randint(29, (2, 9), generator=torch.Generator().manual_seed(1))

    def loss_of(net):
        return next_token_loss(net(text[:, :-1]), text[:, 1:])

    loss = loss_of(model)
    order = ready_order(loss)
    with seen_order(model) as seen:
        loss.backward()
    assert seen == [names[parameter] for parameter in order]
    model.zero_grad()
    order = order[::-1] if reverse else order
    cut = cut_by_size([p.nbytes for p in order], bytes_of_a_bucket, bytes_of_a_bucket)
    left = iter([names[parameter] for parameter in order])
    predicted = [[next(left) for _ in range(count)] for count in cut]
    ddp = DistributedDataParallel(model, bucket_cap_mb=bytes_of_a_bucket / MiB)
    sent = []

    def hook(state, bucket):
        sent.append([names[parameter] for parameter in bucket.parameters()])
        work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    ddp.register_comm_hook(None, hook)
    steps = []
    for _ in range(3):
        sent.clear()
        loss_of(ddp).backward()
        steps.append(list(sent))
    return len(steps[0]), steps[1] == predicted, steps[2] == predicted


@pytest.mark.parametrize("tied", [True, False])
def test_torchs_ddp_sends_the_predicted_buckets_in_the_predicted_order(pair, tied):
    for size in (1000, 8192):
        assert pair.run(ddp_buckets, tied, size) == [(1, True, True)] * 2


def test_sabotage_the_order_of_the_forward_pass_is_another(pair):
    assert pair.run(ddp_buckets, True, 8192, True) == [(1, False, False)] * 2


def test_a_compiled_backward_pass_gives_all_gradients_of_a_graph_at_once():
    from dtlib.efficiency.overlap.readiness import compiled_order

    whole, broken = compiled_order(4, breaks=0), compiled_order(4, breaks=1)
    assert whole[0] == "graph"
    assert len(whole) == 9
    assert [at for at, what in enumerate(broken) if what == "graph"] == [0, 5]
    assert {name.split(".")[0] for name in broken[1:5]} == {"2", "3"}
