"""Optimizers of two levels: what each of them is a case of, on ranks as in one process."""

import pytest

from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def ranks():
    with launch(4, timeout=120) as ranks:
        yield ranks


def optimizer_of(kind, weight, group, every):
    import torch

    from dtlib.efficiency import SCAFFOLD, DiLoCo, LocalSGD, SlowMo

    if kind == "scaffold":
        return SCAFFOLD([weight], group, lr=0.1, every=every)
    if kind == "diloco":
        return DiLoCo(torch.optim.AdamW([weight], lr=0.02), group, every=every)
    inner = torch.optim.SGD([weight], lr=0.1)
    if kind == "slowmo":
        return SlowMo(inner, group, every=every, outer_lr=0.8, momentum=0.6)
    return LocalSGD(inner, group, every=every)


def weight_of(n=12):
    import torch

    return torch.nn.Parameter(torch.linspace(-1, 1, n, dtype=torch.float64))


def gradient(weight, rank, step):
    """Of a rank's own quadratic, with noise: curvature and minimum differ from rank to rank."""
    import torch

    draw = torch.Generator().manual_seed(1000 * step + rank)
    curved = torch.linspace(0.3, 1.0, weight.numel(), dtype=torch.float64) / (1 + rank)
    noise = 0.1 * torch.randn(weight.numel(), generator=draw, dtype=torch.float64)
    return curved * (weight.detach() - rank) + noise


def in_one_process(kind, every, steps, P=4):
    from dtlib.efficiency import WireMeter, meet

    weights, meter = [weight_of() for _ in range(P)], WireMeter(P)
    optimizers = [optimizer_of(kind, weight, None, every) for weight in weights]
    for step in range(steps):
        for rank, weight in enumerate(weights):
            weight.grad = gradient(weight, rank, step)
        meet(optimizers, meter)
    return [weight.detach() for weight in weights], meter.bytes


def on_a_rank(kind, every, steps):
    import torch.distributed as dist

    weight = weight_of()
    optimizer = optimizer_of(kind, weight, dist.group.WORLD, every)
    for step in range(steps):
        weight.grad = gradient(weight, dist.get_rank(), step)
        optimizer.step()
    return weight.detach(), optimizer.meter.bytes, optimizer.rounds


def off(a, b):
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("kind", ["local", "slowmo", "diloco", "scaffold"])
def test_on_ranks_as_in_one_process(ranks, kind):
    due, sent = in_one_process(kind, 5, 20)
    found = ranks.run(on_a_rank, kind, 5, 20)
    for rank, (weight, bytes_sent, rounds) in enumerate(found):
        assert off(weight, due[rank]) < 1e-13
        assert off(weight, found[0][0]) == 0  # after a meeting all are at one place
        assert bytes_sent == sent == 4 * 2 * 3 / 4 * 12 * 8
        assert rounds == 4
    assert off(in_one_process(kind, 4, 20)[0][0], due[0]) > 1e-3


def synchronous(steps, P=4, lr=0.1):
    weight = weight_of().detach()
    for step in range(steps):
        weight = weight - lr * sum(gradient(weight, rank, step) for rank in range(P)) / P
    return weight


def test_one_step_a_round_is_synchronous_sgd_and_two_are_not(ranks):
    assert off(ranks.run(on_a_rank, "local", 1, 30)[0][0], synchronous(30)) < 1e-15
    assert off(in_one_process("local", 1, 30)[0][0], synchronous(30)) < 1e-15
    assert off(in_one_process("local", 2, 30)[0][0], synchronous(30)) > 1e-3


def test_with_one_step_a_round_scaffold_is_synchronous_sgd_too():
    assert off(in_one_process("scaffold", 1, 30)[0][0], synchronous(30)) < 1e-13


def outer_of(lr, momentum, nesterov):
    """The anchors of six meetings, from ours and from torch's SGD on the pseudo-gradients."""
    import torch

    from dtlib.efficiency import TwoLevel, meet

    weight = weight_of()
    ours = TwoLevel(
        torch.optim.SGD([weight], lr=0.1), None, every=3,
        outer_lr=lr, momentum=momentum, nesterov=nesterov,
    )  # fmt: skip
    theirs = torch.nn.Parameter(weight.detach().clone())
    torchs = torch.optim.SGD([theirs], lr=lr, momentum=momentum, nesterov=nesterov)
    local = weight.detach().clone()
    for step in range(18):
        local = local - 0.1 * gradient(local, 0, step)
        weight.grad = gradient(weight, 0, step)
        meet([ours])
        if step % 3 == 2:
            theirs.grad = theirs.detach() - local
            torchs.step()
            local = theirs.detach().clone()
    return weight.detach(), theirs.detach()


@pytest.mark.parametrize(
    "settings", [(1.0, 0.0, False), (0.7, 0.9, True), (0.8, 0.6, False), (0.5, 0.0, False)]
)
def test_the_outer_step_is_torchs_sgd_on_pseudo_gradients(settings):
    ours, torchs = outer_of(*settings)
    assert off(ours, torchs) < 1e-14
    if settings[1]:
        lr, momentum, nesterov = settings
        assert off(outer_of(lr, momentum, not nesterov)[0], torchs) > 1e-3


def test_an_outer_step_of_length_one_is_the_mean_of_the_weights():
    import torch

    from dtlib.efficiency import LocalSGD, meet

    weights = [weight_of() for _ in range(3)]
    shares = [1.5, 1.0, 0.5]
    own = [
        LocalSGD(torch.optim.SGD([w], lr=0.1), None, every=2, share=share)
        for w, share in zip(weights, shares, strict=True)
    ]
    alone = [w.detach().clone() for w in weights]
    for step in range(2):
        for rank, weight in enumerate(weights):
            weight.grad = gradient(weight, rank, step)
            alone[rank] = alone[rank] - 0.1 * gradient(alone[rank], rank, step)
        meet(own)
    due = sum(share * weight for share, weight in zip(shares, alone, strict=True)) / 3
    assert off(weights[0].detach(), due) < 1e-15
    assert off(sum(alone) / 3, due) > 1e-3


def test_diloco_keeps_the_inner_state():
    import torch

    from dtlib.efficiency import DiLoCo, meet

    weight = weight_of()
    inner = torch.optim.AdamW([weight], lr=0.02)
    optimizer = DiLoCo(inner, None, every=4)
    for step in range(12):
        weight.grad = gradient(weight, 0, step)
        meet([optimizer])
    assert float(inner.state[weight]["step"]) == 12
    assert inner.param_groups[0]["params"][0] is weight


def two_curvatures(kind, H, rounds):
    """Losses a_w (x - b_w)^2 / 2 with a = (1, 0.1) and b = (1, -1): where rounds of H end."""
    import torch

    from dtlib.efficiency import SCAFFOLD, LocalSGD, meet

    weights = [torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(2)]
    make = {
        "local": lambda w: LocalSGD(torch.optim.SGD([w], lr=0.1), None, every=H),
        "scaffold": lambda w: SCAFFOLD([w], None, lr=0.1, every=H),
    }[kind]
    optimizers = [make(weight) for weight in weights]
    for _ in range(rounds * H):
        for weight, a, b in zip(weights, (1.0, 0.1), (1.0, -1.0), strict=True):
            weight.grad = a * (weight.detach() - b)
        meet(optimizers)
    return float(weights[0].detach())


@pytest.mark.parametrize("H", [1, 4, 16, 64])
def test_where_local_steps_end_and_that_scaffold_ends_at_the_minimum(H):
    from dtlib.efficiency import local_fixed_point

    minimum = (1.0 - 0.1) / 1.1
    due = local_fixed_point((1.0, 0.1), (1.0, -1.0), lr=0.1, H=H)
    assert abs(two_curvatures("local", H, 2000 // H + 60) - due) < 1e-12
    assert abs(two_curvatures("scaffold", H, 6000 // H + 200) - minimum) < 1e-9
    assert (abs(due - minimum) < 1e-12) == (H == 1)


def poisoned(kind):
    import torch
    import torch.distributed as dist

    weight = weight_of()
    optimizer = optimizer_of(kind, weight, dist.group.WORLD, 3)
    moved = []
    for step in range(9):
        weight.grad = gradient(weight, dist.get_rank(), step)
        if step == 4 and dist.get_rank() == 1:
            weight.grad[2] = torch.nan
        if step == 7 and dist.get_rank() == 2:
            with torch.no_grad():
                weight[0] = torch.inf
        moved.append(optimizer.step())
    return weight.detach(), moved, optimizer.skipped, optimizer.rounds


@pytest.mark.parametrize("kind", ["local", "diloco", "scaffold"])
def test_a_number_that_is_none_reaches_no_rank(ranks, kind):
    for rank, (weight, moved, skipped, rounds) in enumerate(ranks.run(poisoned, kind)):
        assert weight.isfinite().all()
        assert moved == [True] * 8 + [False]
        assert skipped == (rank in (1, 2))  # rank 2 sees what its weight became
        assert rounds == 2


def other_settings(what):
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import LocalSGD

    odd = dist.get_rank() == 2
    weight = weight_of(13 if odd and what == "shape" else 12)
    if odd and what == "start":
        weight.data[0] += 1e-12
    inner = torch.optim.SGD([weight], lr=0.1)
    LocalSGD(inner, dist.group.WORLD, every=5 if odd and what == "every" else 4)


@pytest.mark.parametrize("what", ["shape", "start", "every"])
def test_ranks_that_begin_apart_are_told_which(ranks, what):
    with pytest.raises(RanksError, match="rank 2"):
        ranks.run(other_settings, what)


def test_bad_settings_are_refused():
    import torch

    from dtlib.efficiency import SCAFFOLD, DiLoCo, LocalSGD

    def sgd():
        return torch.optim.SGD([weight_of()], lr=0.1)

    for every in (0, -3, 2.5):
        with pytest.raises(ValueError, match="every"):
            LocalSGD(sgd(), None, every=every)
    with pytest.raises(ValueError, match="momentum"):
        DiLoCo(sgd(), None, momentum=1.0)
    with pytest.raises(ValueError, match="lr"):
        DiLoCo(sgd(), None, outer_lr=0.0)
    with pytest.raises(ValueError, match="use meet"):
        LocalSGD(sgd(), None, every=2).step()
    with pytest.raises(ValueError, match="share"):
        LocalSGD(sgd(), None, every=2, share=-1.0)
    with pytest.raises(ValueError, match="lr"):
        SCAFFOLD([weight_of()], None, lr=0.0, every=2)
