"""On real ranks: equal to one process and under torch's wrapper; bytes counted."""

import pytest

from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def ranks():
    with launch(4, timeout=120) as ranks:
        yield ranks


def compressors():
    from dtlib.efficiency import (
        QSGD,
        Dense,
        ErrorFeedback,
        Levels,
        PowerSGD,
        RandK,
        SignSGD,
        TopK,
        TwoWay,
    )

    return {
        "dense": Dense(),
        "top": ErrorFeedback(TopK(0.1)),
        "random": ErrorFeedback(RandK(0.1)),
        "signs": ErrorFeedback(SignSGD()),
        "4 bits": QSGD(bits=4, bucket=64),
        "8 bits": ErrorFeedback(Levels(bits=8)),
        "rank 2": ErrorFeedback(PowerSGD(rank=2)),
        "signs both ways": TwoWay(SignSGD()),
    }


def gradient(rank, step):
    import torch

    draw = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(24, 18, generator=draw, dtype=torch.float64)


def across_a_group(P):
    """On each rank: the means of three steps by each compressor, and the bytes that it counted."""
    import torch.distributed as dist

    from dtlib.efficiency import WireMeter, mean_of

    found = {}
    for name, compressor in compressors().items():
        meter, means = WireMeter(P), []
        for step in range(3):
            g = gradient(dist.get_rank(), step)
            means.append(mean_of(compressor, g.view(-1), dist.group.WORLD, meter, (g.shape,)))
        found[name] = means, meter.bytes
    return found


def test_on_ranks_as_in_one_process(ranks):
    import torch

    from dtlib.efficiency import WireMeter, together

    found = ranks.run(across_a_group, 4)
    for name, compressor in compressors().items():
        copies, meter = [compressor.fresh() for _ in range(4)], WireMeter(4)
        for step in range(3):
            gs = [gradient(rank, step) for rank in range(4)]
            programs = [c.program(g.view(-1), (g.shape,)) for c, g in zip(copies, gs, strict=True)]
            due = together(programs, meter)[0].mean
            for of_rank in found:
                error = (of_rank[name][0][step] - due).abs().max() / due.abs().max()
                assert float(error) < 1e-13, name
                assert torch.equal(of_rank[name][0][step], found[0][name][0][step]), name
        assert {of_rank[name][1] for of_rank in found} == {meter.bytes}, name


def sent_by_the_schedules(kind):
    """What the book's own ring puts on the wire of this rank, counted message by message."""
    import torch
    import torch.distributed as dist

    from dtlib.collectives import Counting, execute, ring_all_gather, ring_all_reduce
    from dtlib.collectives.transport import PointToPoint

    P = dist.get_world_size()
    transport = Counting(PointToPoint(dist.group.WORLD))
    if kind == "Mean":
        execute(ring_all_reduce(P), torch.zeros(400), transport=transport)
    else:
        execute(ring_all_gather(P), torch.zeros(400 * P), transport=transport)
    return transport.sent_bytes


def hooked(wrapper, name, steps):
    """On each rank: the weights of a small net after so many steps, and what the meter says."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import (
        CompressedDataParallel,
        CompressionHook,
        Dense,
        compression_hook,
    )

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)
    ).double()
    compressor, group = compressors()[name], dist.group.WORLD
    if wrapper == "ours":
        wrapped = CompressedDataParallel(net, group, compressor=Dense())
        meter = wrapped.meter
    else:
        wrapped = torch.nn.parallel.DistributedDataParallel(net)
        hook = CompressionHook(compressor, group)
        wrapped.register_comm_hook(hook, compression_hook)
        meter = hook.meter
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        draw = torch.Generator().manual_seed(10 * step + dist.get_rank())
        x = torch.randn(5, 12, generator=draw, dtype=torch.float64)
        wrapped(x).square().mean().backward()
        optimizer.step()
        if wrapper == "ours" and not step:  # torch's hook sends the first pass whole
            wrapped.take(compressor)
    weights = torch.cat([p.detach().view(-1) for p in net.parameters()])
    return weights, meter.bytes


def test_a_hook_that_compresses_nothing_changes_nothing(ranks):
    import torch

    (ours, sent), *_ = ranks.run(hooked, "ours", "dense", 4)
    (torchs, also), *_ = ranks.run(hooked, "torch", "dense", 4)
    assert float((ours - torchs).abs().max()) < 1e-15
    numbers = 12 * 16 + 16 + 16 * 3 + 3
    assert sent == also == 4 * 2 * 3 / 4 * 8 * numbers
    assert torch.isfinite(ours).all()


@pytest.mark.parametrize("name", ["top", "random", "signs", "rank 2", "signs both ways"])
def test_our_wrapper_and_torchs_end_with_the_same_weights(ranks, name):
    results = ranks.run(hooked, "ours", name, 6)
    assert all(float((w - results[0][0]).abs().max()) == 0 for w, _ in results)
    assert len({sent for _, sent in results}) == 1
    if name not in ("random", "signs both ways"):  # which see the order of the parameters
        torchs = ranks.run(hooked, "torch", name, 6)
        assert float((results[0][0] - torchs[0][0]).abs().max()) < 1e-12
    dense = ranks.run(hooked, "ours", "dense", 6)
    assert float((results[0][0] - dense[0][0]).abs().max()) > 1e-6
    assert results[0][1] < dense[0][1]


def other_settings(what):
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import CompressedDataParallel, RandK

    odd = dist.get_rank() == 2
    compressor = RandK(0.1, seed=odd if what == "seed" else 0)
    net = torch.nn.Linear(6 if odd and what == "shape" else 5, 4)
    net = CompressedDataParallel(net, dist.group.WORLD, compressor=compressor)
    net(torch.ones(5)).sum().backward()


@pytest.mark.parametrize("what", ["seed", "shape"])
def test_ranks_that_differ_are_told_which(ranks, what):
    with pytest.raises(RanksError, match="rank 2"):
        ranks.run(other_settings, what)


def adam(kind, steps, poison=False):
    """On each rank: weights after so many steps of 1-bit Adam, or of torch's with the mean."""
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import OneBitAdam
    from dtlib.parallelism import average_each

    rank = dist.get_rank()
    draw = torch.Generator().manual_seed(rank)
    weight = torch.nn.Parameter(torch.zeros(40, dtype=torch.float64))
    goal = torch.linspace(-1, 1, 40, dtype=torch.float64)
    own = {"lr": 0.02, "warm_up": 10_000 if kind == "warm" else 20}
    optimizer = (
        torch.optim.Adam([weight], lr=0.02)
        if kind == "torch"
        else OneBitAdam([weight], dist.group.WORLD, **own)
    )
    taken = []
    for step in range(steps):
        noise = 0.1 * torch.randn(40, generator=draw, dtype=torch.float64)
        weight.grad = weight.detach() - goal + noise
        if poison and step == steps - 2 and rank == 1:
            weight.grad[3] = torch.nan
        if kind == "torch":
            holder = torch.nn.Module()
            holder.weight = weight
            average_each(holder, dist.group.WORLD)
        taken.append(optimizer.step())
    sent = optimizer.meter.bytes if kind != "torch" else None
    return weight.detach(), float((weight.detach() - goal).norm() / goal.norm()), sent, taken


def test_one_bit_adam_begins_as_adam_and_goes_on_with_a_bit(ranks):
    warm, torchs = ranks.run(adam, "warm", 60)[0], ranks.run(adam, "torch", 60)[0]
    assert float((warm[0] - torchs[0]).abs().max()) < 1e-12
    results = ranks.run(adam, "cold", 300)
    assert all(float((w - results[0][0]).abs().max()) == 0 for w, *_ in results)
    assert results[0][1] < 0.1
    # 40 numbers: parts of 10, each 2 bytes of signs and a size of 4; whole they are 320 bytes
    assert results[0][2] == 20 * 1.5 * 320 + 280 * (3 / 4 * 4 * 6 + 3 * 6)


def test_one_bit_adam_skips_what_is_no_number_on_all_ranks(ranks):
    for weight, *_, taken in ranks.run(adam, "cold", 30, True):
        assert taken == [True] * 28 + [False, True]
        assert weight.isfinite().all()


def test_zero_plus_plus_gathers(ranks):
    import torch

    from dtlib.efficiency import (
        Levels,
        WireMeter,
        quantised_all_gather,
        quantised_reduce_scatter,
        ring_of_rounded_sums,
        together,
    )

    def vectors(n):
        return [torch.randn(n, generator=torch.Generator().manual_seed(r)) for r in range(16)]

    meter, shards = WireMeter(16), vectors(512)
    found = together([quantised_all_gather(s, Levels(8, bucket=128)) for s in shards], meter)
    assert all(torch.equal(each, found[0]) for each in found)
    due = torch.cat(shards)
    assert float((found[0] - due).abs().max()) <= float(due.abs().max()) / 254 * 1.001
    assert meter.bytes == 15 * (512 + 4 * 4)
    wholes = vectors(16 * 64)
    mean = sum(wholes).view(16, -1) / 16
    once = together([quantised_reduce_scatter(w, Levels(4, bucket=64)) for w in wholes])
    at_every_hop = ring_of_rounded_sums(wholes, Levels(4, bucket=64))
    error = [float((torch.stack(got) - mean).norm()) for got in (once, at_every_hop)]
    assert error[1] > 2 * error[0]
    with pytest.raises(ValueError, match="share evenly"):
        together([quantised_reduce_scatter(torch.ones(5), Levels(4)) for _ in range(2)])


@pytest.mark.parametrize("kind", ["Mean", "Gather"])
def test_the_meter_counts_what_the_ring_sends(ranks, kind):
    import torch

    from dtlib.efficiency import Gather, Mean, WireMeter

    meter = WireMeter(4)
    meter.note(Mean(torch.zeros(400)) if kind == "Mean" else Gather((torch.zeros(400),)))
    assert ranks.run(sent_by_the_schedules, kind) == [meter.bytes] * 4
