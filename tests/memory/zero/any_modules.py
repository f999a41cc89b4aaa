"""Modules that share, nest, repeat and recompute what they compute, of six numbers each."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Twice(nn.Module):
    """The same layer twice, and one that shares its matrix."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.c.weight = self.b.weight

    def forward(self, x):
        return self.c(self.a(self.b(self.a(x)).tanh()).tanh())


class Nested(nn.Module):
    """A unit within a unit, with weights of its own and a scalar; results in a dict."""

    def __init__(self):
        super().__init__()
        self.inner, self.scale = nn.Linear(6, 6), nn.Parameter(torch.tensor(0.7))
        self.outer = nn.ModuleDict({"lone": nn.Linear(6, 6), "unused": nn.Linear(6, 6)})

    def forward(self, x, *, shift=None):
        y = self.inner(x).tanh() * self.scale
        return {"y": self.outer["lone"](y) + shift, "aside": [y, 3]}


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Nested(), Nested()

    def forward(self, x):
        first = self.first(x, shift=x)
        return self.second(first["y"], shift=first["aside"][0])["y"]


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)) for _ in range(3)
        )

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        one = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        self.stack = nn.TransformerEncoder(one, 2)

    def forward(self, x):
        return self.stack(x[:, None])[:, 0]


def made(kind):
    """A module in 64 bits, and the units to cut it into; None leaves that to the library."""
    torch.manual_seed(0)
    module = {
        "twice": Twice, "nested": Whole, "recomputed": Recomputed, "encoder": Encoder,
        "one linear": lambda: nn.Linear(6, 6),
    }[kind]().double()  # fmt: skip
    if kind == "twice":
        return module, [module.a, module.b, module.c]
    if kind == "nested":
        return module, [module.first, module.first.inner, module.second]
    return module, None
