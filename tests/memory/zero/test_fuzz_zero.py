"""Random models, groups and ways to train: ShardedOptimizer ends where a plain optimizer ends."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from dtlib.runtime import launch

STEPS = 3


@dataclass(frozen=True)
class Trial:
    """One random case: the model, how it is divided, and how it is trained."""

    widths: tuple[int, ...]
    frozen: frozenset[int]
    tied: bool
    unused: bool
    groups: int
    named: bool
    members: tuple[int, ...]
    zero: int
    bucket_bytes: int
    passes: int
    average: bool
    optimizer: str
    masters: bool
    clip: float | None
    load_at: int | None
    reload_at: int | None


def trials():
    numbers = st.integers(1, 7)
    return st.builds(
        Trial,
        widths=st.lists(numbers, min_size=2, max_size=5).map(tuple),
        frozen=st.frozensets(st.integers(0, 7), max_size=3),
        tied=st.booleans(),
        unused=st.booleans(),
        groups=st.integers(1, 3),
        named=st.booleans(),
        members=st.sampled_from([(0, 1), (1, 2), (2,), (0, 1, 2)]),
        zero=st.sampled_from([1, 2]),
        bucket_bytes=st.sampled_from([1, 100, 400, 10**6]),
        passes=st.integers(1, 3),
        average=st.booleans(),
        optimizer=st.sampled_from(["SGD", "AdamW", "Adagrad", "RMSprop"]),
        masters=st.booleans(),
        clip=st.sampled_from([None, None, 0.05]),
        load_at=st.sampled_from([None, 1, 2]),
        reload_at=st.sampled_from([None, 1, 2]),
    )


def model_of(trial, dtype, seed=0):
    """Layers of odd widths, one perhaps used twice, and one perhaps not at all."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    model = nn.ModuleList(nn.Linear(*pair) for pair in zip(trial.widths, trial.widths[1:]))  # noqa: B905
    model.append(nn.Linear(trial.widths[-1], trial.widths[-1]))
    if trial.unused:
        model.append(nn.Linear(3, 2))
    for i, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(i == 0 or i not in trial.frozen)
    return model.to(dtype)


def loss_of(trial, model, place, step, number):
    """The loss of one rank's rows in one pass."""
    import torch

    draw = torch.Generator().manual_seed(1000 * step + 10 * number + place)
    x = torch.randn(2, trial.widths[0], generator=draw).to(next(model.parameters()).dtype)
    layers = list(model)[: len(trial.widths)]
    for layer in layers + layers[-1:] * trial.tied:
        x = layer(x).tanh()
    return x.square().mean()


def groups_of(trial, model):
    """Parameters in up to three groups with settings of their own, perhaps by name."""
    listed = list(model.named_parameters()) if trial.named else list(model.parameters())
    count = min(trial.groups, len(listed))
    settings = [{"lr": 0.1 / (k + 1), "weight_decay": 0.1 * k} for k in range(count)]
    groups = [{"params": listed[k::count], **more} for k, more in enumerate(settings)]
    return groups if trial.groups > 1 else listed


def optimizer_of(trial):
    import torch

    kind = getattr(torch.optim, trial.optimizer)
    return kind, {"lr": 0.05} | ({"momentum": 0.9} if trial.optimizer == "SGD" else {})


def alone(trial):
    """The weights when one process adds up what the ranks would have, and a plain optimizer runs.

    Every rank's gradients are made and rounded as a rank does; a missing one counts as zero.
    """
    import torch

    dtype = torch.bfloat16 if trial.masters else torch.float64
    model, P = model_of(trial, dtype), len(trial.members)
    masters = model_of(trial, dtype).to(torch.float32 if trial.masters else dtype)
    kind, options = optimizer_of(trial)
    optimizer = kind(groups_of(trial, masters), **options)
    factor = 1 / P if trial.average else 1.0
    for step in range(STEPS):
        if step == trial.load_at:
            other = model_of(trial, dtype, seed=7)
            of_three = (each.parameters() for each in (model, masters, other))
            for now, master, loaded in zip(*of_three, strict=True):
                master.data = torch.where(now == loaded, master, loaded.to(master.dtype)).data
            model.load_state_dict(other.state_dict())
        optimizer.zero_grad()
        together = 1 if trial.zero == 2 else trial.passes
        for first in range(0, trial.passes, together):
            shares = []
            for place in range(P):
                model.zero_grad()
                for number in range(first, first + together):
                    loss_of(trial, model, place, step, number).backward()
                shares.append([p.grad for p in model.parameters()])
            for i, master in enumerate(masters.parameters()):
                if master.requires_grad:
                    found = [share[i] for share in shares]
                    found = [torch.zeros_like(master, dtype=dtype) if g is None else g * factor
                             for g in found]  # fmt: skip
                    mean = sum(found[1:], found[0]).to(master.dtype)
                    master.grad = mean if master.grad is None else master.grad + mean
        if trial.clip:
            torch.nn.utils.clip_grad_norm_(masters.parameters(), trial.clip)
        optimizer.step()
        for weight, master in zip(model.parameters(), masters.parameters(), strict=True):
            weight.data.copy_(master.data)
    return model


def on_a_rank(trial, group, damage=None):
    """The weights after the same steps with a ShardedOptimizer."""
    import torch
    import torch.distributed as dist

    from dtlib.memory import ShardedOptimizer

    dtype = torch.bfloat16 if trial.masters else torch.float64
    model, place = model_of(trial, dtype, seed=dist.get_rank(group)), dist.get_rank(group)
    kind, defaults = optimizer_of(trial)
    options = {"zero": trial.zero, "bucket_bytes": trial.bucket_bytes, "average": trial.average}
    options |= {"master_dtype": torch.float32 if trial.masters else None, "check": False}

    def made():
        return ShardedOptimizer(groups_of(trial, model), kind, group, **options, **defaults)

    optimizer = made()
    for step in range(STEPS):
        if step == trial.load_at:
            model.load_state_dict(model_of(trial, dtype, seed=7).state_dict())
        if step == trial.reload_at:
            state, optimizer = optimizer.state_dict(), None
            fresh = model_of(trial, dtype)
            fresh.load_state_dict(model.state_dict())
            model = fresh
            optimizer = made()
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
        for number in range(trial.passes):
            if damage != "a pass is left out" or number:
                loss_of(trial, model, place, step, number).backward()
        if trial.clip:
            optimizer.clip_gradients(trial.clip)
        if damage == "masters are stale":
            optimizer._keep_changes = lambda: None
        optimizer.step()
    return model


def judged(listed, damage=None):
    """For each trial, None where this rank is not of the group, else how far the weights are."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    groups = {m: dist.new_group(list(m)) for m in sorted({trial.members for trial in listed})}
    found = []
    for trial in listed:
        if dist.get_rank() not in trial.members:
            found.append(None)
            continue
        mine, expected = on_a_rank(trial, groups[trial.members], damage), alone(trial)
        errors = [
            float((a - b).detach().abs().max().double() / (1 + b.detach().abs().max().double()))
            for a, b in zip(mine.parameters(), expected.parameters(), strict=True)
        ]
        found.append(max(errors))
    dist.barrier()  # nobody leaves a group in which another still receives
    for group in groups.values():
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    return found


@pytest.fixture(scope="module")
def three():
    with launch(3, timeout=120) as ranks:
        yield ranks


def exact(trial):
    """Whether the sum of the ranks' gradients has one order only, so that bits can be compared."""
    return not trial.masters or (len(trial.members) < 3 and not trial.clip)


def test_random_ways_to_train_end_where_a_plain_optimizer_ends(three, examples):
    """With masters bit for bit; in 64 bits but for the last ones."""
    listed = [trial for trial in examples(trials(), 40) if exact(trial)]
    for answers in three.run(judged, listed):
        for trial, error in zip(listed, answers, strict=True):
            if error is not None:
                assert error <= (0.0 if trial.masters else 1e-12), trial


@pytest.mark.parametrize("damage", ["a pass is left out", "masters are stale"])
def test_sabotage_what_is_left_out_shows(three, examples, damage):
    stale = damage == "masters are stale"
    listed = [
        trial
        for trial in examples(trials(), 40)
        if exact(trial)
        and ((trial.masters and trial.load_at and trial.load_at != trial.reload_at) or not stale)
    ]
    answers = zip(*three.run(judged, listed, damage), strict=True)
    worst = [max(error for error in each if error is not None) for each in answers]
    assert sum(error > 1e-6 for error in worst) >= 0.8 * len(listed) > 0
