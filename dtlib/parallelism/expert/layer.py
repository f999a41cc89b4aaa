"""Expert parallelism: each rank keeps some of the experts, and tokens travel to theirs and back.

A token's copies are sorted by expert: a permutation. They cross by one all-to-all, and come back by
the same one with the counts swapped, into the inverse permutation. `Routes` is that permutation
with its counts, `dispatch` and `combine` are the operator and its transpose, `MoELayer` the layer.

The loss is partitioned: each rank adds the losses of its own tokens. So an expert's gradient is
complete where the expert lives, and the gradients of what every rank has are summed at the end.
Shapes: t tokens of this rank, k copies of each, h numbers wide; c rows that are sent.
"""

from dataclasses import dataclass
from functools import partial
from math import ceil

import torch
import torch.distributed as dist
from torch import nn

from dtlib.formulas.require import require, require_count, require_divisor
from dtlib.models.protocols import ExpertMixture, parts_of, require_parts
from dtlib.parallelism.expert.routing import (
    BiasBalancer,
    choice_order,
    require_chosen,
    require_gate,
    route,
)
from dtlib.parallelism.operators.adjoint import all_to_all
from dtlib.parallelism.operators.keeper import KeepsGroups
from dtlib.runtime.process_group import ranks_of


@dataclass(frozen=True)
class Routes:
    """Where every copy goes: a permutation of rows, or one with gaps, and who gets how many.

    `token_c` is the token in each row that is sent (t for padding), `row_tk` the row of each copy
    (c for a dropped one); `sent` and `received` count the rows for and from each rank; `by_expert`
    sorts what arrives, and `loads` are the rows of each expert of this rank.
    """

    token_c: torch.Tensor
    row_tk: torch.Tensor
    sent: list[int]
    received: list[int]
    by_expert: torch.Tensor
    loads: list[int]

    @property
    def dropped(self) -> int:
        """How many copies of this rank's tokens have no place."""
        return int((self.row_tk == len(self.token_c)).sum())


def dropless_routes(expert_tk: torch.Tensor, experts: int, group) -> Routes:
    """Every copy travels: rank r sends to rank q what its router chose there, however much that is.

    The ranks first tell each other how many rows will come, which is an all-to-all of its own.
    Raises ValueError when the ranks of the group do not divide the experts.
    """
    own = experts_per_rank(experts, group)
    chosen_c = expert_tk.flatten()
    order_c = chosen_c.argsort(stable=True)
    sent_pe = torch.bincount(chosen_c, minlength=experts).view(-1, own)
    received_pe = exchange_counts(sent_pe, group)
    return _routes(order_c, expert_tk.shape, order_c // expert_tk.shape[1], sent_pe, received_pe)


def capacity_routes(expert_tk: torch.Tensor, experts: int, capacity: int, group) -> Routes:
    """Every rank has `capacity` places at every expert: beyond is dropped, below is padding.

    All messages have the same size and no counts are exchanged: ranks need equally many tokens.
    Raises ValueError for a capacity below 1, and as `dropless_routes`.
    """
    own = experts_per_rank(experts, group)
    require_count("capacity_routes", capacity=capacity)
    tokens, k = expert_tk.shape
    place_tk = choice_order(expert_tk, experts)
    rows = experts * capacity
    row_tk = torch.where(place_tk < capacity, expert_tk * capacity + place_tk, rows)
    token_c = expert_tk.new_full((rows + 1,), tokens)
    numbers = torch.arange(tokens, device=expert_tk.device)
    token_c[row_tk.flatten()] = numbers.repeat_interleave(k)
    each_pe = expert_tk.new_full((experts // own, own), capacity)
    return _finished(token_c[:rows], row_tk, each_pe, each_pe)


def dispatch(x_th: torch.Tensor, routes: Routes, group) -> torch.Tensor:
    """The copies for this rank's experts, sorted by expert: Pi, then an all-to-all, then a sort."""
    rows_ch = with_zero_row(x_th)[routes.token_c]
    arrived = all_to_all(rows_ch, group, routes.sent, routes.received)
    return arrived[routes.by_expert]


def combine(done: torch.Tensor, gate_tk: torch.Tensor, routes: Routes, group) -> torch.Tensor:
    """Each token's sum of gate times result: the way of `dispatch` back, every step transposed."""
    as_arrived = done[routes.by_expert.argsort()]
    rows_ch = all_to_all(as_arrived, group, routes.received, routes.sent)
    copies_tkh = with_zero_row(rows_ch)[routes.row_tk]
    return (gate_tk[..., None] * copies_tkh).sum(dim=1)


class MoELayer(KeepsGroups):
    """A mixture of experts, spread over a group: every rank has the router and E/P of the experts.

    Equation: y = sum over the chosen of g_i E_i(x), by `dispatch`, this rank's experts, `combine`.
    Arguments: `mixture`, an `ExpertMixture` with all experts, of which this rank keeps its own;
    `group`; `capacity_factor`, places for each copy that is due to an expert, None to drop nothing
    (with places, ranks need equally many tokens, and `launch(debug=True)` says who has not);
    `gate` and `renormalise` as of `route`; `balancer`, a `BiasBalancer`.
    Parameters have the names that they have in `mixture`. After a forward pass `routing` and
    `routes` say what was decided; a copy has decided nothing yet. Raises TypeError for what is no
    mixture, ValueError for experts that the ranks do not divide, another gate, more active experts
    than there are, and a capacity factor that is not positive.
    Source: Lepikhin et al. 2021 (GShard); Gale et al. 2023 for dropping nothing.
    """

    def __init__(self, mixture: nn.Module, group, *, capacity_factor: float | None = None,
                 gate: str = "softmax", renormalise: bool | None = None,
                 balancer: BiasBalancer | None = None):  # fmt: skip
        super().__init__()
        require_parts("MoELayer", ExpertMixture, mixture, "mixture")
        self.group, self.total = group, len(mixture.experts)
        own = experts_per_rank(self.total, self.group)
        require_chosen("MoELayer", mixture.active, self.total)
        require_gate("MoELayer", gate)
        require(capacity_factor is None or capacity_factor > 0, "MoELayer", "capacity_factor",
                capacity_factor, "positive, or None to drop nothing")  # fmt: skip
        self.capacity_factor, self.balancer = capacity_factor, balancer
        self.choose = partial(route, k=mixture.active, gate=gate, renormalise=renormalise)
        self.routing = self.routes = None
        first = dist.get_rank(self.group) * own
        self.router, self.shared = mixture.router, mixture.shared
        self.experts = nn.ModuleDict(
            {str(e): mixture.experts[e] for e in range(first, first + own)}
        )

    @property
    def pieces(self) -> dict[str, int]:
        """Among how many ranks each parameter is divided that not every rank has, by name."""
        _, P = ranks_of(self.group)
        return {f"experts.{name}": P for name, _ in self.experts.named_parameters()}

    def forward(self, x: torch.Tensor, scores: torch.Tensor | None = None) -> torch.Tensor:
        """`scores` of the router for each token and expert, where a caller has them already."""
        x_th = x.flatten(0, -2)
        scores_te = self.router(x_th) if scores is None else scores.flatten(0, -2)
        bias_e = self.balancer.bias_e if self.balancer else None
        self.routing = self.choose(scores_te, bias_e=bias_e)
        self.routes = self._routes(self.routing.expert_tk)
        arrived = dispatch(x_th, self.routes, self.group)
        parts = arrived.split(self.routes.loads)
        done = torch.cat(
            [run(rows) for run, rows in zip(self.experts.values(), parts, strict=True)]
        )
        out_th = combine(with_gradient(done), self.routing.gate_tk, self.routes, self.group)
        return sum((expert(x_th) for expert in self.shared), out_th).view_as(x)

    def __deepcopy__(self, memo: dict):
        memo |= dict.fromkeys(map(id, (self.routing, self.routes)))
        return super().__deepcopy__(memo)

    def _routes(self, expert_tk) -> Routes:
        if self.capacity_factor is None:
            return dropless_routes(expert_tk, self.total, self.group)
        capacity = ceil(self.capacity_factor * expert_tk.numel() / self.total)
        return capacity_routes(expert_tk, self.total, capacity, self.group)


def expert_parallel(model: nn.Module, group, **options) -> nn.Module:
    """Replace every mixture of experts in the model by a `MoELayer` of the group, in place.

    A mixture is a module with the parts of an `ExpertMixture`. `options` are those of `MoELayer`.
    Returns the model. Raises TypeError for a model that has no mixture, or is one itself;
    ValueError as `MoELayer`.
    """
    mixtures = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, ExpertMixture)
    ]
    if not mixtures:
        kind = type(model).__name__
        parts = ", ".join(f".{part}" for part in parts_of(ExpertMixture))
        itself = "; it is one itself: MoELayer takes it" if isinstance(model, ExpertMixture) else ""
        raise TypeError(
            f"expert_parallel: nothing in {kind} has {parts} (an ExpertMixture){itself}"
        )
    for parent, name, child in mixtures:
        setattr(parent, name, MoELayer(child, group, **options))
    return model


def sum_gradients(model: nn.Module, everyone, expert_data=None) -> None:
    """Finish the backward pass: add what replicas have, each over the ranks that hold a copy of it.

    Equation: the router and all else that every rank has is summed over `everyone`; an expert over
    `expert_data`, the ranks that have the same experts (None: it lives once and is complete).
    Once a step, after its last backward pass: a second time adds up what was added up already.
    What is frozen is left alone; else a parameter without a gradient counts as 0.
    Raises TypeError without `everyone`.
    """
    ranks_of(everyone)
    for parameter, is_expert in parameters_by_kind(model):
        group = expert_data if is_expert else everyone
        if group is None or not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=group)


def parameters_by_kind(model: nn.Module) -> list[tuple[nn.Parameter, bool]]:
    """Every parameter, and whether it belongs to an expert that not every rank has."""
    layers = [m for m in model.modules() if isinstance(m, MoELayer)]
    of_experts = {id(p) for layer in layers for p in layer.experts.parameters()}
    return [(p, id(p) in of_experts) for p in model.parameters()]


def experts_per_rank(experts: int, group) -> int:
    """How many experts each rank keeps. Raises ValueError unless it is a whole number."""
    P = dist.get_world_size(group)
    require_divisor("experts_per_rank", "the number of ranks", P, "experts", experts)
    return experts // P


def exchange_counts(sent_pe: torch.Tensor, group) -> torch.Tensor:
    """Row q: how many rows rank q sends to each expert of this rank."""
    received_pe = torch.empty_like(sent_pe)
    dist.all_to_all_single(received_pe, sent_pe.contiguous(), group=group)
    return received_pe


def with_gradient(done: torch.Tensor) -> torch.Tensor:
    """Results that go backwards: that all-to-all is a call of all ranks, of frozen experts, too."""
    return done if done.requires_grad else done.detach().requires_grad_()


def with_zero_row(x: torch.Tensor) -> torch.Tensor:
    """One more row, of zeros: what an index beyond the end reads, and what padding is made of."""
    return torch.cat([x, x.new_zeros(1, *x.shape[1:])])


def _routes(order_c, shape, token_c, sent_pe, received_pe) -> Routes:
    row_tk = order_c.argsort().view(shape)
    return _finished(token_c, row_tk, sent_pe, received_pe)


def _finished(token_c, row_tk, sent_pe, received_pe) -> Routes:
    ranks, own = received_pe.shape
    own_experts = torch.arange(own, device=received_pe.device)
    expert_of_row = own_experts.repeat(ranks).repeat_interleave(received_pe.flatten())
    return Routes(
        token_c,
        row_tk,
        sent_pe.sum(dim=1).tolist(),
        received_pe.sum(dim=1).tolist(),
        expert_of_row.argsort(stable=True),
        received_pe.sum(dim=0).tolist(),
    )
