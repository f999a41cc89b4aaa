"""Experts of a few nodes: a token's copies that cross the network, counted and limited.

A node holds equally many experts, in their order; how many nodes a free router reaches on average
is `expected_nodes` of chapter 18. Shapes: t tokens, k chosen experts, e experts, p
nodes, h numbers wide.
"""

from collections.abc import Callable

import torch

from dtlib.formulas.require import require, require_count, require_divisor
from dtlib.parallelism.expert.layer import exchange_counts, experts_per_rank
from dtlib.parallelism.expert.routing import Routing, route, scores
from dtlib.parallelism.operators.adjoint import all_to_all
from dtlib.runtime.process_group import ranks_of


def node_limited_route(logit_te, k: int, nodes: int, most_nodes: int, gate: str = "sigmoid"):
    """The k best experts of a token, from the `most_nodes` nodes that promise most.

    A node promises the sum of its k / most_nodes largest scores. Returns a `Routing`, with gates
    that add up to 1 (for k = 1 the score itself). Raises ValueError for nodes that do not divide
    the experts, a limit that does not divide k or exceeds the nodes, and nodes with fewer experts
    than their part of k. Source: DeepSeek-AI 2024.

    >>> logits = torch.tensor([[3.0, 0.0, 2.0, 2.0, 1.0, 0.0]])
    >>> node_limited_route(logits, k=2, nodes=3, most_nodes=1).expert_tk.tolist()
    [[2, 3]]
    """
    owner, experts = "node_limited_route", logit_te.shape[1]
    require_divisor(owner, "nodes", nodes, "experts", experts)
    require_count(owner, most_nodes=most_nodes)
    require(most_nodes <= nodes, owner, "most_nodes", most_nodes, f"at most nodes, {nodes}")
    require_divisor(owner, "most_nodes", most_nodes, "k", k)
    each, own = k // most_nodes, experts // nodes
    require(each <= own, owner, "k", k, f"at most {own * most_nodes}: {own} experts on each node")
    score_tpe = scores(logit_te, gate).detach().unflatten(1, (nodes, own))
    promise_tp = score_tpe.topk(each, dim=-1).values.sum(dim=-1)
    allowed_tp = torch.zeros_like(promise_tp, dtype=torch.bool)
    allowed_tp.scatter_(1, promise_tp.topk(most_nodes, dim=-1).indices, True)
    elsewhere_te = ~allowed_tp.repeat_interleave(own, dim=1)
    routing = route(logit_te.masked_fill(elsewhere_te, float("-inf")), k, gate=gate)
    return routing._replace(logit_te=logit_te)


def reached_nodes(expert_tk, experts: int, nodes: int) -> torch.Tensor:
    """Which nodes each token is sent to, as booleans (t, p).

    >>> reached_nodes(torch.tensor([[0, 1], [1, 2]]), experts=4, nodes=2).int().tolist()
    [[1, 0], [1, 1]]
    """
    require_divisor("reached_nodes", "nodes", nodes, "experts", experts)
    node_tk = expert_tk // (experts // nodes)
    reached_tp = torch.zeros(len(expert_tk), nodes, dtype=torch.bool, device=expert_tk.device)
    return reached_tp.scatter_(1, node_tk, True)


def once_per_node(x_th, routing: Routing, run: Callable, group) -> torch.Tensor:
    """A mixture of experts in which a token travels once to each rank that has experts for it.

    Equation: y = sum over the ranks of what `run` makes there of x and the gates of its experts.
    Arguments: this rank's tokens; their `routing`; `run(x_ch, gate_ce)`, this rank's experts on
    some rows, weighted and added up; `group`, whose ranks are the nodes. Returns (t, h).
    Gates travel with the token, and one row comes back for each that went. Raises ValueError when
    the ranks do not divide the experts. Source: DeepSeek-AI 2024 for one copy a node.
    """
    _, P = ranks_of(group)
    tokens, experts = routing.logit_te.shape
    own = experts_per_rank(experts, group)
    reached_tp = reached_nodes(routing.expert_tk, experts, P)
    rank_c, token_c = reached_tp.T.nonzero(as_tuple=True)
    sent = reached_tp.sum(dim=0)
    there = exchange_counts(sent[:, None], group).flatten().tolist()
    counts = sent.tolist(), there
    gate_te = torch.zeros_like(routing.logit_te).scatter(1, routing.expert_tk, routing.gate_tk)
    gate_ce = gate_te.view(tokens, P, own)[token_c, rank_c]
    arrived = all_to_all(x_th[token_c], group, *counts)
    done = run(arrived, all_to_all(gate_ce, group, *counts))
    back = all_to_all(done, group, *reversed(counts))
    return torch.zeros_like(x_th).index_add(0, token_c, back)
