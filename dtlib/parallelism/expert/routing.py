"""Routing: which experts a token goes to, and how much each of them counts.

Shapes are in the names: t tokens, k chosen experts of a token, e experts, h numbers wide.
The nouns are `Routing`, what a router decides, and `Router`, the layer that decides it.
"""

from typing import NamedTuple

import torch
from torch import nn

from dtlib.formulas.require import require, require_count
from dtlib.parallelism.operators.adjoint import all_reduce

GATES = ("softmax", "sigmoid")


class Routing(NamedTuple):
    """What a router decides: `expert_tk` and the weights `gate_tk`, made of `logit_te`."""

    expert_tk: torch.Tensor
    gate_tk: torch.Tensor
    logit_te: torch.Tensor

    def counts(self) -> torch.Tensor:
        """How many copies each expert gets."""
        return torch.bincount(self.expert_tk.flatten(), minlength=self.logit_te.shape[1])


def route(logit_te, k, *, gate="softmax", renormalise=None, bias_e=None):
    """Choose the k experts with the largest scores; their scores are the gates.

    Equation: S = the k largest of g_i + b_i; gates g_i, or g_i / sum of g_j over S if renormalised.
    Arguments: `logit_te`, one logit for each token and expert; `gate`, how logits become scores,
    "softmax" or "sigmoid"; `renormalise`, by default for k > 1: for k = 1 every gate would be 1 and
    the router without a gradient; `bias_e` is added to choose, and to nothing else.
    Returns a `Routing`. Raises ValueError for a k that is not 1 to e, and for another gate.
    Source: Shazeer et al. 2017; Fedus et al. 2022 for k = 1; Wang et al. 2024 for the bias.

    >>> chosen = route(torch.tensor([[2.0, 1.0, 0.0]]), k=2)
    >>> chosen.expert_tk.tolist(), round(float(chosen.gate_tk.sum()), 6)
    ([[0, 1]], 1.0)
    """
    require_chosen("route", k, logit_te.shape[1])
    score_te = scores(logit_te, gate)
    selection = score_te if bias_e is None else score_te + bias_e.to(score_te.device)
    expert_tk = selection.detach().topk(k, dim=-1).indices
    gate_tk = score_te.gather(1, expert_tk)
    if renormalise is None:
        renormalise = k > 1
    if renormalise:
        gate_tk = gate_tk / gate_tk.sum(dim=-1, keepdim=True)
    return Routing(expert_tk, gate_tk, logit_te)


def scores(logit_te, gate: str) -> torch.Tensor:
    """Softmax over the experts of a token, or sigmoids. Raises ValueError for another gate."""
    require_gate("route", gate)
    return logit_te.softmax(dim=-1) if gate == "softmax" else logit_te.sigmoid()


def require_gate(owner: str, gate: str) -> None:
    """Raise ValueError for a gate that is not known."""
    require(gate in GATES, owner, "gate", gate, "'softmax' or 'sigmoid'")


def require_chosen(owner: str, k: int, experts: int) -> None:
    """Raise ValueError unless k of the experts can be chosen."""
    require_count(owner, k=k)
    require(k <= experts, owner, "k", k, f"at most the number of experts, {experts}")


class Router(nn.Module):
    """A linear layer that gives a token one logit for each expert, and `route`."""

    def __init__(self, hidden: int, experts: int, k: int, *, dtype=torch.float32, **options):
        super().__init__()
        require_count("Router", hidden=hidden, experts=experts)
        require_chosen("Router", k, experts)
        self.linear = nn.Linear(hidden, experts, bias=False, dtype=dtype)
        self.k, self.options = k, options

    @classmethod
    def sharing(cls, linear: nn.Linear, k: int, **options) -> "Router":
        """A router that asks an existing layer, whose bias, hooks and adapters count."""
        experts, hidden = linear.weight.shape
        with torch.random.fork_rng(devices=[]):
            router = cls(hidden, experts, k, **options)
        router.linear = linear
        return router

    @property
    def weight(self) -> torch.Tensor:
        """The matrix of the linear layer."""
        return self.linear.weight

    def forward(self, x_th, bias_e=None) -> Routing:
        return route(self.linear(x_th), self.k, bias_e=bias_e, **self.options)


def choice_order(expert_tk, experts: int) -> torch.Tensor:
    """The place of each copy in the queue of its expert: all first choices stand before all second.

    >>> choice_order(torch.tensor([[0, 1], [1, 0], [0, 1]]), experts=2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    queue = expert_tk.T.flatten()
    member = nn.functional.one_hot(queue, experts)
    place = (member.cumsum(dim=0) - member).gather(1, queue[:, None])[:, 0]
    return place.view(expert_tk.T.shape).T


def expert_choice(score_te, capacity: int):
    """Each expert chooses the `capacity` tokens with the largest scores for it.

    Returns (token_ec, gate_ec). Every expert is exactly full; a token may be chosen by many experts
    or by none. In a sequence a later token can push an earlier one out: it is not causal.
    Raises ValueError for a capacity that is not 1 to t. Source: Zhou et al. 2022.

    >>> expert_choice(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), capacity=1)[0].tolist()
    [[0], [2]]
    """
    tokens = score_te.shape[0]
    require_count("expert_choice", capacity=capacity)
    allowed = f"at most the number of tokens, {tokens}"
    require(capacity <= tokens, "expert_choice", "capacity", capacity, allowed)
    gate_ec, token_ec = score_te.T.topk(capacity, dim=-1)
    return token_ec, gate_ec


def balance_loss(routing: Routing, group=None) -> torch.Tensor:
    """E sum_i f_i p_i: f_i the share of the copies that expert i gets, p_i its mean probability.

    f comes from counting, so only p has a gradient; it is 1 when all experts get the same. With a
    `group`, both are over the tokens of all its ranks: the result is this rank's part, and parts
    add up to the loss of one process that has all tokens.
    Arguments: a `Routing`, a process group. Returns a scalar. Source: Fedus et al. 2022, with f
    divided by k for k experts.
    """
    tokens, experts = routing.logit_te.shape
    count_e = routing.counts().to(routing.logit_te.dtype)
    total = count_e.new_tensor(float(tokens))
    if group is not None:
        count_e, total = all_reduce(count_e, group), all_reduce(total, group)
    f_e = count_e / count_e.sum()
    p_e = routing.logit_te.softmax(dim=-1).sum(dim=0) / total
    return experts * (f_e * p_e).sum()


def z_loss(logit_te) -> torch.Tensor:
    """Mean over the tokens of log(sum of exp(logits))^2, which keeps logits small. Source: ST-MoE.

    >>> round(float(z_loss(torch.zeros(3, 8))), 3)  # log(8)^2
    4.324
    """
    return logit_te.logsumexp(dim=-1).square().mean()


class BiasBalancer:
    """A bias for each expert that is raised when it had too little, and lowered when too much.

    Equation: b_i <- b_i + gamma sign(mean count - count of i), after every step. The bias takes
    part in the choice and not in the gates, so it adds no gradient. It is no parameter of a layer:
    a checkpoint needs `bias_e` beside the layer's state. Source: Wang et al. 2024.

    >>> balancer = BiasBalancer(experts=3, gamma=0.5)
    >>> balancer.update(torch.tensor([6, 3, 0]))
    >>> balancer.bias_e.tolist()
    [-0.5, 0.0, 0.5]
    """

    def __init__(self, experts: int, gamma: float = 1e-3, dtype=torch.float32):
        require_count("BiasBalancer", experts=experts)
        require(gamma > 0, "BiasBalancer", "gamma", gamma, "positive")
        self.gamma, self.bias_e = gamma, torch.zeros(experts, dtype=dtype)

    def update(self, count_e: torch.Tensor) -> None:
        """Move every bias by gamma; `count_e` are the counts of all ranks."""
        load = count_e.to(self.bias_e)
        self.bias_e += self.gamma * torch.sign(load.mean() - load)
