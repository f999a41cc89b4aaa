"""What collectives promise, and what they leave out: adjoints on real ranks, order, halves."""

from functools import reduce as fold

import numpy as np
import pytest

from dtlib import launch
from dtlib.collectives import (
    PRIMITIVES,
    Primitive,
    as_matrix,
    check_primitive,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    tree_all_reduce,
    tree_broadcast,
    tree_reduce,
)

P = 4


def forward_and_backward(name):
    """Torch's differentiable collective on one rank: input, result, its weights, gradient."""
    import warnings

    import torch
    import torch.distributed as dist
    import torch.distributed.nn.functional as nn

    warnings.simplefilter("ignore")
    rank, size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(17 + rank)

    def whole(n):
        return torch.randint(-9, 10, (n,), generator=generator).float()

    x = whole(size).requires_grad_()
    parts = [part.contiguous() for part in x.chunk(size)]
    empty = [torch.empty_like(part) for part in parts]
    y = {
        "broadcast": lambda: nn.broadcast(x, 0),
        "reduce": lambda: nn.reduce(x, 0),
        "scatter": lambda: nn.scatter(parts, 0),
        "gather": lambda: torch.cat(nn.gather(parts[rank], 0)),
        "all-gather": lambda: torch.cat(nn.all_gather(parts[rank])),
        "reduce-scatter": lambda: nn.reduce_scatter(empty[0], parts),
        "all-reduce": lambda: nn.all_reduce(x),
        "all-to-all": lambda: torch.cat(list(nn.all_to_all(empty, parts))),
    }[name]()
    w = whole(len(y)) * (rank == 0 or name not in ("reduce", "gather"))
    (y * w).sum().backward()
    grad = torch.zeros(size) if x.grad is None else x.grad
    return w.numpy(), grad.numpy()


def backward_by_hand(name, ws):
    """Each transpose, written out: what rank r gets from everybody's weights of the results."""
    total = np.sum(ws, axis=0)
    zeros = np.zeros((P, P))
    if name == "broadcast":
        zeros[0] = total
    elif name == "reduce":
        zeros[:] = ws[0]
    elif name == "scatter":
        zeros[0] = np.concatenate(ws)
    elif name == "gather":
        zeros[np.arange(P), np.arange(P)] = ws[0]
    elif name == "all-gather":
        zeros[np.arange(P), np.arange(P)] = total
    elif name == "reduce-scatter":
        zeros[:] = np.concatenate(ws)
    elif name == "all-reduce":
        zeros[:] = total
    else:
        zeros[:] = np.array(ws).T
    return zeros


def test_torch_sends_the_transpose_backward():
    with launch(P) as ranks:
        for name in PRIMITIVES:
            ws, grads = zip(*ranks.run(forward_and_backward, name), strict=True)
            assert np.array_equal(np.array(grads), backward_by_hand(name, ws)), name
            if name != "all-to-all":  # the twin: another collective's transpose differs
                other = "all-reduce" if name == "broadcast" else "broadcast"
                if len(ws[0]) == P:
                    assert not np.array_equal(np.array(grads), backward_by_hand(other, ws)), name


HOLDERS = {"at rank 0": lambda ranks: 1, "at its owner": lambda ranks: 1, "everywhere": int}


@pytest.mark.parametrize("ranks", range(1, 7))
def test_two_that_fit_are_an_arrow_times_the_holders_in_between(ranks):
    fits = 0
    for name, first in PRIMITIVES.items():
        for other, then in PRIMITIVES.items():
            if first.after != then.before or "all-to-all" in (name, other):
                continue
            fits += 1
            times = HOLDERS[first.after.name](ranks)
            ends = Primitive("together", first.before, then.after)
            both = as_matrix(then, ranks, ranks) @ as_matrix(first, ranks, ranks)
            assert np.array_equal(both, times * as_matrix(ends, ranks, ranks)), (name, other)
            if times > 1:  # the twin: the arrow once is not enough
                assert not np.array_equal(both, as_matrix(ends, ranks, ranks))
    assert fits == 17


PAIRS = [
    ("broadcast", tree_broadcast),
    ("reduce", tree_reduce),
    ("all-gather", ring_all_gather),
    ("reduce-scatter", ring_reduce_scatter),
    ("all-reduce", ring_all_reduce),
    ("all-reduce", tree_all_reduce),
]


@pytest.mark.parametrize(("name", "build"), PAIRS)
def test_a_schedule_backwards_does_the_adjoint_at_the_same_cost(name, build):
    for ranks in range(2, 20):
        schedule = build(ranks)
        backwards = schedule.reversed()
        check_primitive(backwards, PRIMITIVES[name].adjoint())
        assert backwards.sent_bytes(1) == schedule.received_bytes(1)
        assert len(backwards) == len(schedule)


def test_a_million_contributions_are_lost_one_at_a_time():
    numbers = np.full(1_000_001, 1e-8, dtype=np.float32)
    numbers[0] = 1
    assert np.cumsum(numbers, dtype=np.float32)[-1] == 1
    assert np.cumsum(numbers[::-1], dtype=np.float32)[-1] == np.float32(1.0099673)
    while len(numbers) > 1:
        numbers = np.append(numbers, np.float32(0)) if len(numbers) % 2 else numbers
        numbers = numbers[0::2] + numbers[1::2]
    assert numbers[0] == np.float32(1.01)


def by_halves(op, vectors):
    width = vectors.shape[1]
    return np.concatenate([fold(op, vectors[:, [j]]) for j in range(width)])


def test_the_two_halves_need_elementwise_and_not_commutative():
    words = np.array([[letter] * P for letter in "abcd"], dtype=object)
    assert list(by_halves(np.add, words)) == list(fold(np.add, words)) == ["abcd"] * P
    numbers = np.arange(16).reshape(P, P)

    def largest(x, y):
        return np.sort(np.concatenate([x, y]))[-len(x) :]

    assert np.array_equal(by_halves(np.maximum, numbers), fold(np.maximum, numbers))
    assert not np.array_equal(by_halves(largest, numbers[:, ::-1]), fold(largest, numbers[:, ::-1]))


def sums_in_order(names):
    """What each of two ranks gets for its a and its b, when it calls them in its own order."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    values = {"a": torch.tensor(1.0 + rank), "b": torch.tensor(10.0 + 10 * rank)}
    for name in names[rank]:
        dist.all_reduce(values[name])
    return values["a"].item(), values["b"].item()


def test_calls_match_by_their_place_in_the_sequence():
    with launch(2) as ranks:
        assert ranks.run(sums_in_order, ["ab", "ab"]) == [(3, 30), (3, 30)]
        assert ranks.run(sums_in_order, ["ab", "ba"]) == [(21, 12), (12, 21)]


def group_names(use_local_synchronization):
    """The number of the next group, after the members of one pair have made theirs alone."""
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _world

    before = _world.group_count
    if dist.get_rank() < 2:
        dist.new_group([0, 1], use_local_synchronization=use_local_synchronization)
    return _world.group_count - before


def next_group():
    import torch.distributed as dist

    return dist.new_group([0, 1, 2]).size()


def test_a_group_made_by_its_members_only_puts_the_ranks_out_of_step():
    with launch(3) as ranks:
        assert ranks.run(group_names, True) == [0, 0, 0]
        assert ranks.run(group_names, False) == [1, 1, 0]
    with launch(3) as ranks:  # the same processes, whose next group has one number again
        assert ranks.run(next_group) == [3, 3, 3]
