"""A ShardedOptimizer is a torch optimizer: what torch's tools do to a plain one, they do to it."""

import pytest

from dtlib.runtime import RankError, RanksError, launch

STAGES = (1, 2)


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=60) as ranks:
        yield ranks


def scheduled(zero, inner=False):
    """For each schedule: how far from one process, and whether the settings are the same."""
    import torch
    from torch.optim import lr_scheduler as made
    from zero_trial import gap, net, sharded, train

    schedules = {
        "LambdaLR": lambda opt: made.LambdaLR(opt, lambda step: 1 / (1 + step)),
        "CosineAnnealingLR": lambda opt: made.CosineAnnealingLR(opt, 5),
        "OneCycleLR": lambda opt: made.OneCycleLR(opt, 0.3, total_steps=6),
        "SequentialLR": lambda opt: made.SequentialLR(
            opt, [made.LinearLR(opt), made.ExponentialLR(opt, 0.9)], [3]
        ),
    }
    found = {}
    for name, schedule in schedules.items():
        one, mine = net(), net()
        plain = torch.optim.AdamW(one.parameters(), lr=0.1)
        parts = sharded(mine.parameters(), zero=zero)
        rates = schedule(plain), schedule(parts.optimizer if inner else parts)
        train(one, plain, range(5), alone=True, between=lambda _, rate=rates[0]: rate.step())
        train(mine, parts, range(5), between=lambda _, rate=rates[1]: rate.step())
        settings = [
            {k: v for k, v in opt.param_groups[0].items() if k != "params"}
            for opt in (plain, parts)
        ]
        found[name] = gap(one, mine), settings[0] == settings[1]
    return found


@pytest.mark.parametrize("zero", STAGES)
def test_schedules_take_it_as_they_take_a_plain_optimizer(pair, zero):
    for inner in (False, True):
        for found in pair.run(scheduled, zero, inner):
            for name, (error, same) in found.items():
                assert error <= 1e-12, name
                assert same, name


def listed(zero, form):
    """Pairs, groups and groups added later: the gap to one process, and the two state dicts."""
    import torch
    from zero_trial import gap, net, sharded, train

    def made(model, kind):
        weights = [p for p in model.parameters() if p.dim() > 1]
        biases = [p for p in model.parameters() if p.dim() == 1]
        if form == "pairs":
            return kind(model.named_parameters())
        if form == "groups of pairs":
            named = list(model.named_parameters())
            return kind([{"params": named[:3]}, {"params": named[3:], "lr": 0.05}])
        if form == "one tensor":
            return kind([{"params": p, "weight_decay": 0.1 * i} for i, p in enumerate(weights)])
        optimizer = kind([{"params": weights, "weight_decay": 0.3}])
        if form == "added later":
            train(model, optimizer, range(2), alone=kind is plain)
            model.zero_grad()  # those that are not listed yet have gradients, too
        optimizer.add_param_group({"params": biases, "lr": 0.02})
        return optimizer

    def plain(parameters):
        return torch.optim.AdamW(parameters, lr=0.1)

    def parts(parameters):
        return sharded(parameters, zero=zero, bucket_bytes=60)

    one, mine = net(), net()
    first, second = made(one, plain), made(mine, parts)
    train(one, first, range(2, 5), alone=True)
    train(mine, second, range(2, 5))
    a, b = first.state_dict(), second.state_dict()
    moments = max(
        (a["state"][i][name] - b["state"][i][name]).abs().max().item()
        for i in a["state"]
        for name in ("exp_avg", "exp_avg_sq")
    )
    again = plain(one.parameters()) if form == "pairs" else None
    if again:
        again.load_state_dict(b)
    return gap(one, mine), moments, a["param_groups"] == b["param_groups"]


@pytest.mark.parametrize("zero", STAGES)
def test_names_groups_and_groups_added_later_are_torchs(pair, zero):
    for form in ("pairs", "groups of pairs", "one tensor", "groups", "added later"):
        for error, moments, same in pair.run(listed, zero, form):
            assert error <= 1e-12, form
            assert moments <= 1e-12, form
            assert same, form


def hooked(zero):
    """What hooks and a closure see, and whether it is an Optimizer that cannot be copied."""
    import copy

    import torch
    from zero_trial import net, own, rows, sharded

    model, seen = net(), []
    optimizer = sharded(model.parameters(), zero=zero)
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.register_state_dict_pre_hook(lambda _: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda _, state: {**state, "note": 7})
    optimizer.register_load_state_dict_pre_hook(lambda _, state: seen.append("load"))
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))

    def closure():
        seen.append("closure")
        optimizer.zero_grad()
        loss = model(own(rows(0))).mean()
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    expected = net()(own(rows(0))).mean()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    try:
        copy.deepcopy(optimizer)
    except TypeError as error:
        said = str(error)
    return (
        seen,
        state["note"],
        torch.equal(loss, expected),
        isinstance(optimizer, torch.optim.Optimizer),
        said,
    )


@pytest.mark.parametrize("zero", STAGES)
def test_hooks_and_closures_are_called_once_and_it_is_not_copied_by_half(pair, zero):
    for seen, note, loss, torchs, said in pair.run(hooked, zero):
        assert seen == ["before", "closure", "after", "save", "load", "loaded"]
        assert (note, loss, torchs) == (7, True, True)
        assert "copy its state_dict()" in said


def overflowing(model, x, step, here):
    """A mean, of which in step 2 a single gradient overflows: the last one of the last part."""
    import torch

    return model(x).mean() + model[0].weight[-1, -1] * (torch.inf if step == 2 and here else 0)


def loss_scaled(zero, clip):
    """Scales and weights of five steps, of which one overflows on one rank, beside one process."""
    import torch
    import torch.distributed as dist
    from zero_trial import gap, net, own, rows, sharded

    from dtlib.memory import ShardedGradScaler

    one, mine = net(), net()
    plain = torch.optim.SGD(one.parameters(), lr=0.1)
    parts = sharded(mine.parameters(), torch.optim.SGD, zero=zero)
    options = {"init_scale": 1024.0, "growth_interval": 2}
    scalers = torch.amp.GradScaler("cpu", **options), ShardedGradScaler("cpu", **options)
    scales = []
    for step in range(5):
        x, first = rows(step), dist.get_rank() == 0
        for model, optimizer, scaler, batch, here in (
            (one, plain, scalers[0], x, True),
            (mine, parts, scalers[1], own(x), first),
        ):
            optimizer.zero_grad()
            scaler.scale(overflowing(model, batch, step, here)).backward()
            if clip:
                scaler.unscale_(optimizer)
                if model is one:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                else:
                    optimizer.clip_gradients(0.1)
            scaler.step(optimizer)
            scaler.update()
        scales.append([scaler.get_scale() for scaler in scalers])
    return gap(one, mine), scales


def meet_anew(ranks):
    """A failure on all ranks: they go on in another process group."""
    with pytest.raises(RankError):
        ranks.run(divmod, 1, 0)


def test_a_scaler_asks_the_ranks_of_now(pair):
    pair.run(loss_scaled, 1, False)
    meet_anew(pair)
    assert all(error <= 1e-12 for error, _ in pair.run(loss_scaled, 1, False))


@pytest.mark.parametrize("zero", STAGES)
def test_a_scaled_loss_skips_the_same_steps_as_in_one_process(pair, zero):
    for clip in (False, True):
        for error, scales in pair.run(loss_scaled, zero, clip):
            assert error <= 1e-12
            assert scales == [[1024.0] * 2, [2048.0] * 2, [1024.0] * 2, [1024.0] * 2, [2048.0] * 2]


def scale_by_one_part():
    import torch
    import torch.distributed as dist
    from zero_trial import net, own, rows, sharded

    model = net()
    parts, scaler = sharded(model.parameters(), zero=2), torch.amp.GradScaler("cpu", 1024.0)
    loss = overflowing(model, own(rows(2)), 2, here=dist.get_rank() == 0)
    scaler.scale(loss).backward()
    scaler.unscale_(parts)
    scaler.update()
    return scaler.get_scale()


def test_sabotage_scalers_that_do_not_ask_each_other_disagree(pair):
    assert pair.run(scale_by_one_part) == [1024.0, 512.0]


def scaled_by_torch(zero):
    import torch
    from zero_trial import net, own, rows, sharded

    model = net(torch.float32)
    optimizer = sharded(model.parameters(), zero=zero)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(own(rows(0, torch.float32))).mean()).backward()
    scaler.step(optimizer)


@pytest.mark.parametrize("zero", STAGES)
def test_a_scaler_that_judges_by_one_part_is_refused(pair, zero):
    with pytest.raises(RanksError, match=r"use dtlib\.memory\.ShardedGradScaler"):
        pair.run(scaled_by_torch, zero)


def loaded_weights(zero, keep=True, saved=False):
    """16-bit weights with masters, of which some are loaded or set between two steps.

    Returns the gap to one process that makes the masters of those weights anew.
    """
    import torch
    from zero_trial import gap, net, own, rows, sharded

    from dtlib.memory.zero.parts import PartedFlat

    def backward(model, x):
        model(x).float().mean().backward()

    half, kept = torch.bfloat16, PartedFlat.keep_changes
    PartedFlat.keep_changes = kept if keep else lambda self: None
    try:
        mine, masters = net(half), net(half).float()
        parts = sharded(mine.parameters(), zero=zero, master_dtype=torch.float32)
        plain = torch.optim.AdamW(masters.parameters(), lr=0.1)
        for step in range(6):
            if step == 2:  # some of the weights
                with torch.no_grad():
                    mine[0].weight[1:3] = 7
                    masters[0].weight[1:3] = 7
            if step == 4:  # all of them
                other = net(half, seed=5).state_dict()
                mine.load_state_dict(other)
                masters.load_state_dict({k: v.float() for k, v in other.items()})
                if saved:
                    parts.load_state_dict(parts.state_dict())
            low = net(half)
            low.load_state_dict(masters.state_dict())
            parts.zero_grad()
            x = own(rows(0, half))
            x = torch.cat([x[:1]] * 4)  # the same on all ranks and rows: sums are exact
            x = torch.ones_like(x) if step % 2 else -torch.ones_like(x)
            backward(mine, x)
            backward(low, x)
            for master, weight in zip(masters.parameters(), low.parameters(), strict=True):
                master.grad = weight.grad.float()
            parts.step()
            plain.step()
        own_parts = torch.cat([torch.zeros(0), *(f.own.detach() for f in parts.flats)])
        rounded = net(half)
        rounded.load_state_dict(masters.state_dict())
    finally:
        PartedFlat.keep_changes = kept
    return gap(mine, rounded), own_parts.dtype == torch.float32


@pytest.mark.parametrize("zero", STAGES)
def test_weights_that_are_loaded_or_set_between_steps_become_the_masters(pair, zero):
    for saved in (False, True):
        assert pair.run(loaded_weights, zero, saved=saved) == [(0.0, True)] * 2
    assert pair.run(loaded_weights, zero, keep=False)[0][0] > 0.1  # sabotage


def cleared_by_the_module(zero, used_up=True):
    """Gradients that the module clears, which cannot know of parts: the gap to one process."""
    import torch
    from zero_trial import gap, net, own, rows, sharded

    one, mine = net(), net()
    plain = torch.optim.AdamW(one.parameters(), lr=0.1)
    parts = sharded(mine.parameters(), zero=zero)
    if not used_up:  # sabotage
        parts.optimizer.zero_grad = lambda: None
    for step in range(4):
        for model, optimizer, x in ((one, plain, rows(step)), (mine, parts, own(rows(step)))):
            model.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    return gap(one, mine)


@pytest.mark.parametrize("zero", STAGES)
def test_a_step_uses_up_its_gradients(pair, zero):
    assert max(pair.run(cleared_by_the_module, zero)) <= 1e-12
    assert max(pair.run(cleared_by_the_module, zero, used_up=False)) > 1e-3


def failed(zero, forget=True, clear=True):
    """A backward pass that fails half way, then two good steps: the gap to one process."""
    import torch
    from zero_trial import gap, net, sharded, train

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no gradient today")

    one, mine = net(), net()
    plain = torch.optim.AdamW(one.parameters(), lr=0.1)
    parts = sharded(mine.parameters(), zero=zero, bucket_bytes=40)
    train(one, plain, range(3), alone=True)
    train(mine, parts, range(1))
    parts.zero_grad()
    try:
        mine[2](Fails.apply(mine[:2](torch.ones(4, 3, dtype=torch.float64)))).sum().backward()
    except ValueError as error:
        assert "today" in str(error)
    if not clear:
        mine.zero_grad()
        parts.step()
    if not forget:  # sabotage
        parts.zero_grad = lambda: None
    train(mine, parts, range(1, 3))
    return gap(one, mine)


@pytest.mark.parametrize("zero", STAGES)
def test_a_backward_pass_that_failed_leaves_nothing_behind(pair, zero):
    assert max(pair.run(failed, zero)) <= 1e-12


def test_sabotage_what_a_failed_pass_leaves_shows_and_in_stage_2_is_refused(pair):
    assert max(pair.run(failed, 1, forget=False)) > 1e-3
    with pytest.raises(RanksError, match="a backward pass has failed"):
        pair.run(failed, 2, clear=False)


def frozen_later(zero, trains):
    from zero_trial import net, own, rows, sharded

    model = net()
    model[2].bias.requires_grad_(not trains)
    optimizer = sharded(model.parameters(), zero=zero)
    model[2].bias.requires_grad_(trains)
    model(own(rows(0))).mean().backward()
    optimizer.step()


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("zero", STAGES)
def test_a_parameter_that_is_frozen_or_trained_later_is_named(pair, zero, trains):
    with pytest.raises(RanksError, match=r"shape \(1,\) (is frozen now|was frozen then)"):
        pair.run(frozen_later, zero, trains)


def passes(zero, how):
    """Gradients of several passes before a step, beside one process: the gap after two steps."""
    import torch
    import torch.distributed as dist
    from torch.utils.checkpoint import checkpoint
    from zero_trial import gap, net, own, rows, sharded

    one, mine = net(), net()
    average = how != "sum"
    plain = torch.optim.AdamW(one.parameters(), lr=0.1)
    parts = sharded(mine.parameters(), zero=zero, bucket_bytes=50, average=average)

    def run(model, alone, step):
        x = rows(step) if alone else own(rows(step))
        if how in ("reentrant", "sum"):
            x = x.requires_grad_()
            y = checkpoint(model[:2], x, use_reentrant=True)
            y = checkpoint(model[2:], y, use_reentrant=True)
            y.sum().backward() if how == "sum" else y.mean().backward()
        elif how == "one rank has no rows":
            if alone or dist.get_rank() == 0:
                (model(rows(step)[:4]).mean() / (2 if alone else 1)).backward()
        elif how == "twice through one graph":
            loss = model(x).mean()
            loss.backward(retain_graph=True)
            loss.backward()
        elif how == "two forward passes":
            (model(x).mean() - model(x.flip(1)).square().mean()).backward()
        elif how == "by hand":  # no hook sees it
            loss, weights = model(x).mean(), list(model.parameters())
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.grad = gradient

    for step in range(3):
        for model, optimizer, alone in ((one, plain, True), (mine, parts, False)):
            optimizer.zero_grad(set_to_none=step != 1)
            run(model, alone, step)
            if zero == 1 or how != "one rank has no rows":  # else its passes match other ones
                run(model, alone, step + 7)
            optimizer.step()
    return gap(one, mine)


@pytest.mark.parametrize("zero", STAGES)
def test_gradients_of_several_passes_add_up_as_in_one_process(pair, zero):
    for how in (
        "reentrant",
        "sum",
        "one rank has no rows",
        "twice through one graph",
        "two forward passes",
        "by hand",
    ):
        assert max(pair.run(passes, zero, how)) <= 1e-12, how
