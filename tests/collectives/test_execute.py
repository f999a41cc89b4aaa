"""What real ranks compute: the same bits as the emulation, and no byte more than the schedule says.

The functions that run on the ranks import what they need themselves.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from every_algorithm import (
    ALL_REDUCES,
    CHECKS,
    chain_all_reduce_in_three_segments,
    chain_broadcast_in_three_segments,
    hierarchical_in_pairs,
    multi_rail_in_pairs,
    name,
    sizes,
    two_level_in_pairs,
)

from dtlib import collectives as c
from dtlib.collectives import (
    Clocked,
    Counting,
    Schedule,
    Send,
    emulate,
    execute,
    ring_all_reduce,
)
from dtlib.collectives.on_ranks import Worker, messages_for
from dtlib.collectives.transport import Mailboxes
from dtlib.runtime import launch
from dtlib.timeline import Timeline

NUMEL = 1001  # does not divide into chunks of one size
RUN_BY_ALL = (
    c.ring_all_reduce,
    c.tree_all_reduce,
    c.flat_all_reduce,
    c.double_binary_tree_all_reduce,
    c.folded_halving_doubling_all_reduce,
    c.two_way_ring_all_reduce,
    c.half_ring_all_reduce,
    chain_all_reduce_in_three_segments,
    hierarchical_in_pairs,
    multi_rail_in_pairs,
)
HANDING_ON = (
    c.flat_scatter,
    c.flat_gather,
    c.tree_scatter,
    c.tree_gather,
    c.tree_broadcast,
    chain_broadcast_in_three_segments,
    c.scatter_all_gather_broadcast,
    c.half_ring_all_gather,
    c.bruck_all_to_all,
    two_level_in_pairs,
)
PROMISES = {
    c.check_broadcast: c.PRIMITIVES["broadcast"],
    c.check_scatter: c.PRIMITIVES["scatter"],
    c.check_gather: c.PRIMITIVES["gather"],
    c.check_all_gather: c.PRIMITIVES["all-gather"],
    c.check_all_to_all: c.PRIMITIVES["all-to-all"],
}
POWERS = (c.recursive_doubling_all_reduce, c.halving_doubling_all_reduce)


@pytest.fixture(scope="module", params=[2, 3, 4])
def ranks(request):
    with launch(request.param) as ranks:
        yield ranks


def all_reduces(P):
    return [build(P) for build in RUN_BY_ALL + (POWERS if P & (P - 1) == 0 else ())]


def noise(rank, dtype, numel=NUMEL):
    generator = torch.Generator().manual_seed(rank)
    return (torch.randn(numel, generator=generator) * 100).to(dtype)


def run_all(schedules, dtype, noise):
    """On one rank: each schedule's result and messages; and torch's own all-reduce."""
    import torch.distributed as dist

    from dtlib.collectives import Counting, execute
    from dtlib.collectives.transport import PointToPoint

    results = []
    for schedule in schedules:
        tensor = noise(dist.get_rank(), dtype)
        counting = Counting(PointToPoint(dist.group.WORLD))
        execute(schedule, tensor, transport=counting)
        results.append((tensor, counting.sent_messages))
    native = noise(dist.get_rank(), dtype)
    dist.all_reduce(native)
    return results, native


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str
)
def test_real_ranks_agree_bit_for_bit_with_each_other_and_with_the_emulation(ranks, dtype):
    schedules = all_reduces(ranks.n)
    by_rank = ranks.run(run_all, schedules, dtype, noise)
    addends = [noise(rank, dtype) for rank in range(ranks.n)]
    tolerance = {torch.int32: 0, torch.bfloat16: 0.05}.get(dtype, 1e-5)
    for i, schedule in enumerate(schedules):
        expected = emulate(schedule, addends)
        for rank, (results, native) in enumerate(by_rank):
            tensor, sent_messages = results[i]
            assert torch.equal(tensor, expected[rank])
            assert torch.equal(tensor, expected[0]), "ranks differ"
            scale = native.abs().max().item()
            assert (tensor - native).abs().max().item() <= tolerance * scale
            assert sent_messages == sum(send.src == rank for send in schedule.sends())


def sent(schedule, numel):
    import torch
    import torch.distributed as dist

    from dtlib.collectives import Counting, execute
    from dtlib.collectives.transport import PointToPoint

    counting = Counting(PointToPoint(dist.group.WORLD))
    execute(schedule, torch.ones(numel), transport=counting)
    return counting.sent_bytes


def test_real_ranks_send_exactly_the_bytes_of_the_schedule(ranks):
    numel = 120
    for schedule in all_reduces(ranks.n):
        assert ranks.run(sent, schedule, numel) == schedule.sent_bytes(4 * numel)


def scatter_gather_and_exchange(P):
    """On one rank: what ours and torch's reduce-scatter, all-gather and all-to-all give."""
    import torch
    import torch.distributed as dist

    from dtlib.collectives import (
        execute,
        pairwise_all_to_all,
        ring_all_gather,
        ring_reduce_scatter,
    )

    rank, width = dist.get_rank(), 5
    mine = torch.arange(P * width, dtype=torch.float64).reshape(P, width) + 1000 * rank
    native = torch.empty(width, dtype=torch.float64)
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(native, mine.flatten())
    scattered = execute(ring_reduce_scatter(P), mine.clone())[rank]

    gathered = torch.full((P, width), torch.nan, dtype=torch.float64)
    gathered[rank] = native
    execute(ring_all_gather(P), gathered)
    native_gathered = torch.empty_like(mine)
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(native_gathered.flatten(), native)

    blocks = torch.full((P, P, width), torch.nan, dtype=torch.float64)
    blocks[rank] = mine
    exchanged = execute(pairwise_all_to_all(P), blocks)[:, rank]
    native_exchanged = torch.empty_like(mine)
    dist.all_to_all_single(native_exchanged, mine)
    return [(scattered, native), (gathered, native_gathered), (exchanged, native_exchanged)]


def test_reduce_scatter_all_gather_and_all_to_all_leave_chunks_where_torch_does(ranks):
    for pairs in ranks.run(scatter_gather_and_exchange, ranks.n):
        for ours, native in pairs:
            assert torch.equal(ours, native)


def handed_on(schedules, dtypes):
    """On one rank: what each schedule leaves of recognisable numbers, and the bytes it sent."""
    import torch
    import torch.distributed as dist

    from dtlib.collectives import Counting, execute
    from dtlib.collectives.transport import PointToPoint

    results = []
    for schedule in schedules:
        for dtype in dtypes:
            mine = (torch.arange(4 * schedule.chunks) + 50 * dist.get_rank()).to(dtype)
            counting = Counting(PointToPoint(dist.group.WORLD))
            execute(schedule, mine, transport=counting)
            results.append((mine, counting.sent_bytes))
    return results


def test_broadcasts_scatters_gathers_and_exchanges_run_on_real_ranks_in_every_dtype(ranks):
    """Nothing is added, so every dtype that gloo sends will do."""
    dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8)
    schedules = [build(ranks.n) for build in HANDING_ON]
    by_rank = ranks.run(handed_on, schedules, dtypes)
    runs = iter(zip(*by_rank, strict=True))
    for build, schedule in zip(HANDING_ON, schedules, strict=True):
        for dtype in dtypes:
            P, size = ranks.n, torch.empty(0, dtype=dtype).element_size()
            start = [(torch.arange(4 * schedule.chunks) + 50 * r).to(dtype) for r in range(P)]
            primitive = PROMISES[CHECKS[build]]
            held = primitive.before.table(P, schedule.chunks)
            wanted = primitive.after.table(P, schedule.chunks)
            for rank, (result, sent_bytes) in enumerate(next(runs)):
                for chunk in np.flatnonzero(wanted[rank]):
                    part, (holder,) = (
                        slice(4 * chunk, 4 * chunk + 4),
                        np.flatnonzero(held[:, chunk]),
                    )
                    assert torch.equal(result[part], start[holder][part])
                assert sent_bytes == schedule.sent_bytes(4 * size * schedule.parts)[rank]


def all_reduce_in_halves(P, noise):
    import torch
    import torch.distributed as dist

    from dtlib.collectives import execute, ring_all_gather, ring_all_reduce, ring_reduce_scatter

    halves, whole = (noise(dist.get_rank(), torch.float32) for _ in range(2))
    execute(ring_all_gather(P), execute(ring_reduce_scatter(P), halves))
    return torch.equal(halves, execute(ring_all_reduce(P), whole))


def test_an_all_reduce_is_an_all_gather_after_a_reduce_scatter_on_real_ranks_too(ranks):
    assert ranks.run(all_reduce_in_halves, ranks.n, noise) == [True] * ranks.n


def in_a_batch(schedule, noise):
    import torch
    import torch.distributed as dist

    from dtlib.collectives import execute
    from dtlib.collectives.transport import Batched

    tensor = noise(dist.get_rank(), torch.float32)
    return execute(schedule, tensor, transport=Batched(dist.group.WORLD))


def test_messages_in_batches_give_the_same_bits(ranks):
    for schedule in all_reduces(ranks.n):
        addends = [noise(rank, torch.float32) for rank in range(ranks.n)]
        results = ranks.run(in_a_batch, schedule, noise)
        for ours, expected in zip(results, emulate(schedule, addends), strict=True):
            assert torch.equal(ours, expected)


def on_a_subgroup():
    import torch
    import torch.distributed as dist

    from dtlib.collectives import execute, ring_all_reduce
    from dtlib.collectives.transport import Batched

    members = [1, 3]
    group = dist.new_group(members)
    x = torch.tensor([float(dist.get_rank())] * 3)
    y = x.clone()
    if dist.get_rank() in members:
        execute(ring_all_reduce(2), x, group)
        execute(ring_all_reduce(2), y, transport=Batched(group))
    return x.tolist(), y.tolist()


def test_a_subgroup_counts_its_own_ranks():
    with launch(4) as ranks:
        results = ranks.run(on_a_subgroup)
    for rank, expected in enumerate([0.0, 4.0, 2.0, 4.0]):
        assert results[rank] == ([expected] * 3, [expected] * 3)


@pytest.mark.parametrize("build", ALL_REDUCES, ids=name)
@pytest.mark.parametrize("numel", [0, 1, 3, 64, 101])
def test_any_length_is_reduced_also_when_it_has_fewer_elements_than_chunks(build, numel):
    for P in sizes(build, 8):
        addends = [np.arange(numel) * 10**rank for rank in range(P)]
        for result in emulate(build(P), addends):
            assert result.tolist() == sum(addends).tolist()


def test_a_ring_adds_a_chunk_in_the_order_of_the_ring_from_its_owner_on():
    letters = [np.array([letter] * 4, dtype=object) for letter in "abcd"]
    (first, *others) = emulate(c.ring_all_reduce(4), letters)
    assert first.tolist() == ["adcb", "badc", "cbad", "dcba"]
    assert all(other.tolist() == first.tolist() for other in others)


def test_emulation_leaves_the_addends_alone():
    addends = [np.ones(4), np.ones(4)]
    emulate(c.ring_all_reduce(2), addends)
    assert all((addend == 1).all() for addend in addends)


def test_neighbouring_chunks_for_the_same_rank_travel_in_one_message():
    both = [Send(0, 1, chunk, True) for chunk in (1, 0, 3)]
    out, _ = messages_for(Schedule(2, 4, [both]), rank=0, numel=8).rounds[0]
    assert [message.part for message in out] == [slice(0, 4), slice(6, 8)]


def test_a_plan_is_made_once():
    first = messages_for(c.ring_all_reduce(4), 1, 100)
    assert messages_for(c.ring_all_reduce(4), 1, 100) is first
    assert messages_for(c.ring_all_reduce(4), 2, 100) is not first


def test_a_tensor_that_needs_its_gradient_is_reduced_in_place():
    weights = [torch.ones(3, requires_grad=True) for _ in range(2)]
    assert emulate(c.ring_all_reduce(2), weights)[0].tolist() == [2, 2, 2]


def test_sabotage_a_schedule_that_lacks_a_message_gives_other_numbers():
    ring = c.ring_all_reduce(3)
    broken = Schedule(3, 3, [list(ring.rounds[0])[1:], *ring.rounds[1:]])
    addends = [np.ones(6), np.ones(6), np.ones(6)]
    assert not (emulate(broken, addends)[0] == 3).all()


@pytest.mark.parametrize("make", [torch.ones, np.ones])
def test_what_cannot_be_executed_is_refused(make):
    transport = Mailboxes(2).of(0)
    with pytest.raises(ValueError, match="tensor must be contiguous"):
        execute(c.ring_all_reduce(2), make((4, 4)).T, transport=transport)
    with pytest.raises(ValueError, match="is for P = 3 ranks; the group has 2"):
        execute(c.ring_all_reduce(3), make(4), transport=transport)
    with pytest.raises(ValueError, match="is for P = 3 ranks; got 2"):
        emulate(c.ring_all_reduce(3), [make(4)] * 2)


def test_without_a_process_group_the_error_says_so():
    with pytest.raises(ValueError, match="has no process group yet"):
        execute(c.ring_all_reduce(1), torch.ones(1))


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_the_emulation_sends_what_the_schedule_counts(build):
    P = 4
    schedule, mailboxes = build(P), Mailboxes(P)
    numel = 12 * schedule.chunks
    counted = []
    for rank in range(P):
        counting = Counting(mailboxes.of(rank))
        for out, _ in messages_for(schedule, rank, numel).rounds:
            for message in out:
                counting.isend(np.zeros(numel)[message.part], message.peer)
        counted.append(counting.sent_bytes)
    assert counted == schedule.sent_bytes(8 * 12 * schedule.parts)


def test_the_spans_of_a_run_are_its_messages_and_a_receive_ends_after_its_send_began():
    schedule, clock = ring_all_reduce(4), itertools.count()
    mailboxes = Mailboxes(4)
    wires = [Clocked(mailboxes.of(rank), clock=clock.__next__) for rank in range(4)]
    workers = [Worker(schedule, np.ones(8), wire) for wire in wires]
    for t in range(len(schedule)):
        for worker in workers:
            worker.start(t)
        for worker in workers:
            worker.finish(t)
    timeline = Timeline(span for wire in wires for span in wire.spans)
    named = Counter((span.rank, span.name) for span in timeline.spans)
    sends = Counter((send.src, f"→{send.dst}") for send in schedule.sends())
    receives = Counter((send.dst, f"←{send.src}") for send in schedule.sends())
    assert named == sends + receives
    for rank in range(4):
        left = (rank - 1) % 4
        outs = [s for s in timeline.of(left) if s.lane == "out"]
        ins = [s for s in timeline.of(rank) if s.lane == "in"]
        assert all(out.start < into.stop for out, into in zip(outs, ins, strict=True))
    late = [into._replace(stop=out.start) for out, into in zip(outs, ins, strict=True)]
    assert not all(out.start < into.stop for out, into in zip(outs, late, strict=True))
