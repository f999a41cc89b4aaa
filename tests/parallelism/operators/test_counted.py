"""What `counted` counts equals the formulas, byte for byte; and what it does not see."""

from fractions import Fraction

import pytest

from dtlib.mesh import Shard
from dtlib.parallelism import ADJOINTS
from dtlib.runtime import RanksError, launch

FP64 = 8


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def forwards_and_backwards(name, shape, **arguments):
    import torch
    import torch.distributed as dist

    from dtlib.parallelism import counted
    from dtlib.parallelism.operators.transposes import ADJOINTS

    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    with counted(dist.group.WORLD) as forwards:
        out = ADJOINTS[name](x, dist.group.WORLD, **arguments)
    with counted(dist.group.WORLD) as backwards:
        out.sum().backward()
    return [(log.calls, log.bytes) for log in (forwards, backwards)]


def expected(words, n, P):
    """Calls and bytes by hand: n bytes of the whole tensor, P ranks."""
    return {
        "nothing": ({}, {}),
        "all-reduce": ({"all_reduce": 1}, {"all_reduce": 2 * (P - 1) * n // P}),
        "all-gather": ({"all_gather": 1}, {"all_gather": (P - 1) * n // P}),
        "reduce-scatter": ({"reduce_scatter": 1}, {"reduce_scatter": (P - 1) * n // P}),
        "all-to-all": ({"all_to_all": 1}, {"all_to_all": (P - 1) * n // P}),
        "send on": ({"send": 1}, {"send": n}),
        "send back": ({"send": 1}, {"send": n}),
    }[words]


@pytest.mark.parametrize("name", ADJOINTS)
def test_every_operator_sends_what_its_line_says_forwards_and_backwards(ranks, name):
    P, line = ranks.n, ADJOINTS[name]
    whole = (6 * P, 5)
    part_goes_in = line.before == Shard() and line.forward == "all-gather"
    shape = (6, 5) if part_goes_in else whole
    arguments = {"dim": 0} if name in ("own_slice", "gather_slices") else {}
    for there, back in ranks.run(forwards_and_backwards, name, shape, **arguments):
        assert there == expected(line.forward, 6 * P * 5 * FP64, P)
        assert back == expected(line.backward, 6 * P * 5 * FP64, P)


def test_uneven_counts_send_all_rows_but_the_own(ranks):
    def on_this_rank():
        import torch
        import torch.distributed as dist

        from dtlib.parallelism import all_to_all, counted

        rank, P = dist.get_rank(), dist.get_world_size()
        send = [(rank + 2 * to) % 3 for to in range(P)]
        receive = [(source + 2 * rank) % 3 for source in range(P)]
        x = torch.ones(sum(send), 7, dtype=torch.float64, requires_grad=True)
        with counted(dist.group.WORLD) as log:
            all_to_all(x, dist.group.WORLD, send, receive).sum().backward()
        rows = sum(send) - send[rank] + sum(receive) - receive[rank]
        return log.calls, log.bytes["all_to_all"], rows * 7 * 8

    for calls, found, by_hand in ranks.run(on_this_rank):
        assert calls == {"all_to_all": 2} and found == by_hand


def every_call():
    """Each of torch's calls once on a rank; how often each was counted, and its bytes."""
    import torch
    import torch.distributed as dist
    import torch.distributed.nn.functional as nnf

    from dtlib.parallelism import counted
    from dtlib.runtime.names import all_gather_single, reduce_scatter_single

    rank, P = dist.get_rank(), dist.get_world_size()
    x = torch.ones(4 * P)  # fp32
    parts = list(torch.ones(P, 3))
    with counted() as log:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, src=1)
        dist.reduce(x, dst=1)
        dist.all_gather([torch.empty(3) for _ in range(P)], parts[0])
        all_gather_single(torch.empty(3 * P), parts[0])
        dist.reduce_scatter(torch.empty(3), parts)
        reduce_scatter_single(torch.empty(4), x)
        dist.all_to_all([torch.empty(3) for _ in range(P)], parts)
        dist.all_to_all_single(torch.empty_like(x), x)
        dist.gather(parts[0], [torch.empty(3) for _ in range(P)] if rank == 1 else None, dst=1)
        dist.scatter(torch.empty(3), parts if rank == 1 else None, src=1)
        nnf.all_reduce(x)
        dist.barrier()
        if rank == 0:
            dist.send(x, 1)
        if rank == 1:
            dist.recv(x, 0)
        neighbours = [
            dist.P2POp(dist.isend, x, (rank + 1) % P),
            dist.P2POp(dist.irecv, torch.empty_like(x), (rank - 1) % P),
        ]
        for work in dist.batch_isend_irecv(neighbours):
            work.wait()
    dist.all_reduce(x)  # after the block: not counted
    return log.calls, log.bytes


def test_torchs_own_collectives_and_messages_count(ranks):
    P = ranks.n
    n, part = 16 * P, 12
    for rank, (calls, found) in enumerate(ranks.run(every_call)):
        others = (P - 1) * part
        assert calls == {
            "all_reduce": 3,
            "broadcast": 1,
            "reduce": 1,
            "all_gather": 2,
            "reduce_scatter": 2,
            "all_to_all": 2,
            "gather": 1,
            "scatter": 1,
            "barrier": 1,
            "send": 2 if rank == 0 else 1,
        }
        assert found == {
            "all_reduce": 3 * 2 * (P - 1) * 16,
            "broadcast": n if rank != 0 else 0,  # rank 0 is the last of the chain 1, 2, ..., 0
            "reduce": n if rank != 1 else 0,
            "all_gather": 2 * others,
            "reduce_scatter": others + (P - 1) * 16,
            "all_to_all": others + (P - 1) * 16,
            "gather": part if rank != 1 else 0,
            "scatter": others if rank == 1 else 0,
            "barrier": 0,
            "send": 2 * n if rank == 0 else n,
        }


def test_only_the_group_that_is_asked_for_counts(ranks):
    def on_this_rank():
        import torch
        import torch.distributed as dist

        from dtlib.parallelism import counted

        rank = dist.get_rank()
        pairs = [dist.new_group([i, i + 1]) for i in range(0, dist.get_world_size(), 2)]
        mine, x = pairs[rank // 2], torch.ones(8)
        with counted(mine) as inner, counted() as every:
            dist.all_reduce(x, group=mine)
            dist.all_reduce(x)
        return inner.calls, inner.total_bytes, every.calls

    for inner, sent, every in ranks.run(on_this_rank):
        assert (inner, every) == ({"all_reduce": 1}, {"all_reduce": 2})
        assert sent == 32


def test_a_fraction_where_p_does_not_divide():
    def on_this_rank():
        import torch
        import torch.distributed as dist

        from dtlib.parallelism import counted

        with counted() as log:
            dist.all_reduce(torch.ones(1))
        return log.bytes["all_reduce"], str(log)

    with launch(3, timeout=60) as three:
        for found, text in three.run(on_this_rank):
            assert found == Fraction(16, 3)
            assert text == "all_reduce: 1 call, 5.33333 B sent"


def test_a_ddp_hook_in_python_is_seen_and_its_own_buckets_are_not(ranks):
    def on_this_rank(with_hook):
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        from dtlib.parallelism import counted

        model = DistributedDataParallel(torch.nn.Linear(6, 2, bias=False))
        if with_hook:

            def hook(_, bucket):
                work = dist.all_reduce(bucket.buffer(), async_op=True)
                return work.get_future().then(lambda done: done.value()[0])

            model.register_comm_hook(None, hook)
        with counted() as log:
            model(torch.ones(3, 6)).sum().backward()
        return log.calls, log.total_bytes

    assert ranks.run(on_this_rank, False) == [({}, 0)] * ranks.n
    sent = 2 * (ranks.n - 1) * 48 // ranks.n
    assert ranks.run(on_this_rank, True) == [({"all_reduce": 1}, sent)] * ranks.n


def test_after_an_error_nothing_is_counted_any_more(ranks):
    def fails():
        import torch.distributed as dist

        from dtlib.parallelism import counted

        with counted(), counted():
            dist.all_reduce("no tensor")

    def still_patched():
        import torch.distributed as dist

        return hasattr(dist.all_reduce, "__wrapped__"), dist.all_reduce.__name__

    before = ranks.run(still_patched)
    with pytest.raises(RanksError):
        ranks.run(fails)
    assert ranks.run(still_patched) == before
