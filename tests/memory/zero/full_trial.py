"""Random models in FullySharded, and the same in one process that adds up every rank's rows."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from hypothesis import strategies as st
from torch import nn

from dtlib.memory import FullySharded

GROUPS = ((0, 1, 2, 3), (1, 2, 3), (2, 3))
STEPS, ROWS = 3, 2

some = st.frozensets(st.integers(0, 3), max_size=2)
trials = st.fixed_dictionaries(
    {
        "width": st.integers(1, 7),
        "layers": st.integers(1, 4),
        "frozen": some,
        "idle": some,
        "tied": st.sampled_from(["", "inside", "across"]),
        "skip": st.lists(some, min_size=STEPS, max_size=STEPS),
        "units": st.sampled_from(["lists", "none", "all", "nested"]),
        "members": st.sampled_from(GROUPS),
        "micro_batches": st.integers(1, 3),
        "hold": st.booleans(),
        "average": st.booleans(),
        "autocast": st.booleans(),
        "adam": st.booleans(),
        "options": st.fixed_dictionaries(
            {
                "prefetch": st.integers(0, 2),
                "reshard": st.booleans(),
                "reshard_root": st.sampled_from([None, True, False]),
            }
        ),
    }
)


class Layer(nn.Module):
    """Matrices, a norm, and a scalar."""

    def __init__(self, width, tied):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.scale = nn.LayerNorm(width, eps=0.1), nn.Parameter(torch.tensor(0.7))
        if tied:
            self.second.weight = self.first.weight

    def forward(self, x):
        return x + self.scale * self.second(self.norm(self.first(x)).tanh())


class Model(nn.Module):
    """A stack of layers, of which some are skipped."""

    def __init__(self, width, layers, tied=""):
        super().__init__()
        self.embedding, self.head = nn.Linear(3, width), nn.Linear(width, 2)
        self.layers = nn.ModuleList(Layer(width, tied == "inside") for _ in range(layers))
        if tied == "across":
            self.layers[-1].second.weight = self.layers[0].first.weight

    def forward(self, x, skip=()):
        x = self.embedding(x)
        for i, layer in enumerate(self.layers):
            x = x if i in skip else layer(x)
        return self.head(x).sin()


def made(trial):
    torch.manual_seed(1)
    model = Model(trial["width"], trial["layers"], trial["tied"])
    for i in trial["frozen"]:
        if i < trial["layers"]:
            model.layers[i].requires_grad_(False)
    return model if trial["autocast"] else model.double()


def units_of(model, how):
    layers = list(model.layers)
    return {
        "lists": None,
        "none": [],
        "all": [model.embedding, *layers, model.head],
        "nested": layers + [layer.first for layer in layers],
    }[how]


def optimizer_of(model, adam):
    """Matrices decay, the rest does not; the head has a rate of its own."""
    named = dict(model.named_parameters())
    head = [p for name, p in named.items() if name.startswith("head")]
    decays = [p for name, p in named.items() if p.dim() > 1 and not name.startswith("head")]
    rest = [p for name, p in named.items() if p.dim() <= 1 and not name.startswith("head")]
    groups = [
        {"params": head, "lr": 0.01},
        {"params": decays, "weight_decay": 0.3},
        {"params": rest, "weight_decay": 0.0},
    ]
    if adam:
        return torch.optim.AdamW(groups, lr=0.1, eps=1e-2)
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def rows(step, piece, rank, trial):
    draw = torch.Generator().manual_seed(1000 * step + 10 * piece + rank)
    return torch.randn(ROWS, 3, generator=draw).to(
        torch.float if trial["autocast"] else torch.double
    )


def loss(model, x, skip, trial):
    with torch.autocast("cpu", torch.bfloat16) if trial["autocast"] else nullcontext():
        return model(x, skip).float().mean() if trial["autocast"] else model(x, skip).mean()


def in_one_process(trial):
    """(gradients of the last step, weights, optimizer state) of the plain model."""
    model, P = made(trial), len(trial["members"])
    optimizer, m = optimizer_of(model, trial["adam"]), trial["micro_batches"]
    for step in range(1 if trial["autocast"] else STEPS):
        model.zero_grad()
        for piece in range(m):
            for rank in range(P):
                x = rows(step, piece, rank, trial)
                (loss(model, x, trial["idle"] | trial["skip"][step], trial) / m).backward()
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        for p in trained.values():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            p.grad /= P if trial["average"] else 1
        gradients = {name: p.grad.clone() for name, p in trained.items()}
        optimizer.step()
    return gradients, model.state_dict(), optimizer.state_dict()


def sharded(trial, group):
    """The same three of FullySharded."""
    model, rank = made(trial), dist.get_rank(group)
    net = FullySharded(
        model,
        group,
        units=units_of(model, trial["units"]),
        average=trial["average"],
        **trial["options"],
    )
    optimizer, m = optimizer_of(net, trial["adam"]), trial["micro_batches"]
    for step in range(1 if trial["autocast"] else STEPS):
        net.zero_grad()
        for piece in range(m):
            with net.no_sync() if trial["hold"] and piece < m - 1 else nullcontext():
                x = rows(step, piece, rank, trial)
                (loss(net, x, trial["idle"] | trial["skip"][step], trial) / m).backward()
        gradients = net.gradients()
        optimizer.step()
    return gradients, net.state_dict(), net.optimizer_state_dict(optimizer)


def gap(found, expected):
    """The largest difference of nested dicts of tensors; infinite where they have other names."""
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            return float("inf")
        return max((gap(found[key], expected[key]) for key in expected), default=0.0)
    if torch.is_tensor(expected):
        if found.shape != expected.shape or found.dtype != expected.dtype:
            return float("inf")
        return (found - expected).abs().max().item()
    return 0.0 if found == expected else float("inf")


_groups: dict = {}


def judge(many):
    """Of each trial: the gaps of gradients, weights and optimizer state; None outside its group."""
    found = []
    for trial in many:
        members = trial["members"]
        if members not in _groups:
            _groups[members] = dist.new_group(list(members))
        if dist.get_rank() not in members:
            found.append(None)
            continue
        pairs = zip(sharded(trial, _groups[members]), in_one_process(trial), strict=True)
        found.append(tuple(gap(mine, other) for mine, other in pairs))
    return found
