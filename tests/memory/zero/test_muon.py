"""Muon on sharded matrices: what the iteration is, where it may be cut, three ways on ranks."""

import pytest
import torch

from dtlib.foundations import longest_first
from dtlib.memory.zero.cost import newton_schulz_flops, owner_sent_bytes
from dtlib.memory.zero.muon import (
    CUBIC,
    QUINTIC,
    exchanged_update,
    gathered_update,
    newton_schulz,
    owned_update,
)
from dtlib.runtime import launch

SHAPES = [(8, 8), (4, 12), (12, 4), (8, 4), (8, 16)]


def drawn(shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("abc", [QUINTIC, CUBIC])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 5), (5, 1)])
def test_it_moves_the_singular_values_and_turns_no_singular_vector(shape, abc):
    """Against the polynomial of each singular value, from a decomposition."""
    u, s, v = torch.linalg.svd(drawn(shape), full_matrices=False)
    s = s / s.norm()
    a, b, c = abc
    for _ in range(5):
        s = a * s + b * s**3 + c * s**5
    assert torch.allclose(newton_schulz(drawn(shape), 5, abc), u * s @ v, atol=1e-10)


def test_the_cubic_ends_at_the_orthogonal_factor_and_zeros_stay_zeros():
    u, _, v = torch.linalg.svd(drawn((4, 12)), full_matrices=False)
    assert torch.allclose(newton_schulz(drawn((4, 12)), 40, CUBIC), u @ v, atol=1e-12)
    assert newton_schulz(torch.zeros(3, 4)).equal(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="steps is 0"):
        newton_schulz(torch.ones(2, 2), 0)


def factor_of_blocks(matrix):
    return torch.cat([newton_schulz(rows, 60, CUBIC) for rows in matrix.chunk(2)])


def test_blocks_of_rows_may_be_updated_apart_exactly_if_they_are_orthogonal():
    matrix = drawn((4, 12))
    orthogonal = matrix.clone()
    basis = torch.linalg.qr(matrix[:2].mT)[0]
    orthogonal[2:] -= orthogonal[2:] @ basis @ basis.mT
    for rows, close in ((orthogonal, True), (matrix, False)):
        assert torch.allclose(factor_of_blocks(rows), newton_schulz(rows, 60, CUBIC)) is close


def test_rotations_of_rows_and_of_columns_pass_through():
    left, right = (torch.linalg.qr(drawn((n, n), seed=n))[0] for n in (4, 12))
    turned = newton_schulz(left @ drawn((4, 12)) @ right)
    assert torch.allclose(turned, left @ newton_schulz(drawn((4, 12))) @ right, atol=1e-12)


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    """FLOPs of the products, by their shapes."""

    flops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.mm.default:
            self.flops += 2 * args[0].shape[0] * args[0].shape[1] * args[1].shape[1]
        return func(*args, **(kwargs or {}))


def test_its_work_is_that_of_its_products():
    for rows, columns in ((8, 8), (4, 12)):
        with Counting() as counting:
            newton_schulz(drawn((rows, columns)))
        assert counting.flops == newton_schulz_flops(rows, columns)


def on_ranks(way, forget=False):
    """What a rank finds of one process' updates in its rows, and what it calls and sends."""
    import torch.distributed as dist

    from dtlib.parallelism import counted

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    wholes = [drawn(shape, seed) for seed, shape in enumerate(SHAPES)]
    shards = [whole.chunk(P)[rank].clone() for whole in wholes]
    owners = longest_first([whole.numel() for whole in wholes], P)
    with counted(group) as log:
        if way == "gathered":
            found = gathered_update(newton_schulz, shards, group)
        elif way == "owned":
            found = owned_update(newton_schulz, shards, owners, group)
        else:
            found = exchanged_update(newton_schulz, shards, group)
    if forget:
        found = [newton_schulz(shard) for shard in shards]
    right = [newton_schulz(whole).chunk(P)[rank] for whole in wholes]
    same = all(map(torch.equal, found, right))
    dealt = owners if way == "owned" else [i % P for i in range(len(wholes))]
    own = sum(whole.numel() for whole, owner in zip(wholes, dealt, strict=True) if owner == rank)
    return same, log.total_bytes, own, log.calls


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as started:
        yield request.param, started.run


def test_three_placements_equal_one_process_bit_for_bit_and_send_the_formulas_bytes(ranks):
    P, run = ranks
    params, n = sum(a * b for a, b in SHAPES), len(SHAPES)
    calls = {
        "gathered": {"all_gather": n},
        "owned": {"gather": n, "scatter": n},
        "exchanged": {"all_to_all": 2 * -(-n // P)},
    }
    for way, called in calls.items():
        for same, sent, own, counts in run(on_ranks, way):
            assert same
            assert counts == called
            everything = (P - 1) / P * 8 * params
            assert sent == (
                everything if way == "gathered" else owner_sent_bytes(params, own, P, 8)
            )


def test_sabotage_orthogonal_shards_are_not_shards_of_the_orthogonal(ranks):
    _, run = ranks
    assert not any(same for same, *_ in run(on_ranks, "gathered", True))


def test_no_matrices_are_no_updates(ranks):
    def none():
        import torch.distributed as dist

        return exchanged_update(newton_schulz, [], dist.group.WORLD)

    P, run = ranks
    assert run(none) == [[]] * P
