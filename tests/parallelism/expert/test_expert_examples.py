"""Any mixture of experts, however many tokens each rank has, is the one of a single process.

The reference loops over tokens, choices and experts, and knows nothing of ranks or of permutations.
The functions that run on the ranks import what they need themselves.
"""

import copy
from math import ceil

import pytest
import torch
from groups_tried import GROUPS
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from dtlib.models import relative_errors, worst
from dtlib.runtime import RanksError, launch

H = 3


class Mixture(nn.Module):
    """Experts of one matrix; a router with a bias, one that is no single layer, or a plain one."""

    def __init__(self, case):
        super().__init__()
        experts, drawn = len(case["members"]) * case["own"], torch.Generator()
        self.router = {
            "plain": lambda: nn.Linear(H, experts, bias=False),
            "biased": lambda: nn.Linear(H, experts),
            "low rank": lambda: nn.Sequential(nn.Linear(H, 2), nn.Tanh(), nn.Linear(2, experts)),
        }[case["router"]]()
        self.experts = nn.ModuleList(nn.Linear(H, H) for _ in range(experts))
        self.shared = nn.ModuleList(nn.Linear(H, H) for _ in range(case["shared"]))
        self.active = min(case["k"], experts)
        self.double()
        drawn.manual_seed(case["seed"])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=drawn, dtype=torch.float64))
                if case["autocast"]:
                    parameter.round_()
        for name, parameter in self.named_parameters():
            frozen = any(name.startswith(start) for start in case["frozen"])
            parameter.requires_grad_(not frozen)


class OnlyTheMatrix(nn.Module):
    """A router that takes the matrix of a layer, and leaves its bias behind."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return x @ self.weight.T


@st.composite
def cases(draw):
    """One layer and batch: who takes part, what is frozen, how many tokens and places."""
    members = draw(st.sampled_from(GROUPS))
    capacity = draw(st.none() | st.sampled_from([0.5, 1.0, 20.0]))
    P, count = len(members), st.integers(0 if capacity is None else 1, 7)
    tokens = draw(st.lists(count, min_size=P, max_size=P).filter(any))
    frozen = st.sampled_from(["router", "shared", "experts", "experts.0", "experts.1"])
    return {
        "members": members, "own": draw(st.integers(1, 3)), "k": draw(st.integers(1, 3)),
        "tokens": tokens if capacity is None else tokens[:1] * P, "capacity": capacity,
        "router": draw(st.sampled_from(["plain", "biased", "low rank"])),
        "shared": draw(st.integers(0, 2)), "seed": draw(st.integers(0, 9)),
        "gate": draw(st.sampled_from(["softmax", "sigmoid"])),
        "renormalise": draw(st.sampled_from([None, True, False])),
        "balanced": draw(st.booleans()), "autocast": draw(st.sampled_from([False, False, True])),
        "frozen": draw(st.lists(frozen, max_size=2)), "leaf": draw(st.booleans()),
        "recompute": draw(st.sampled_from([None, None, "reentrant", "not reentrant"])),
    }  # fmt: skip


def case(**other):
    """A plain one, with what differs."""
    return {
        "members": [0, 1, 2, 3], "own": 2, "k": 2, "tokens": [5, 0, 3, 1], "capacity": None,
        "router": "plain", "shared": 1, "seed": 1, "gate": "softmax", "renormalise": None,
        "balanced": False, "autocast": False, "frozen": [], "leaf": True, "recompute": None,
        **other,
    }  # fmt: skip


def batch(case):
    """All tokens and the gradients of their results; whole numbers where bf16 must be exact."""
    drawn = torch.Generator().manual_seed(100 + case["seed"])
    x, y = torch.randn(2, sum(case["tokens"]), H, generator=drawn, dtype=torch.float64)
    return (x.round().float(), y.float()) if case["autocast"] else (x, y)


def bias_of(case, experts):
    return torch.linspace(-1, 1, experts, dtype=torch.float64) if case["balanced"] else None


def one_process(case):
    """Result, dX and every gradient, by a loop; None where a parameter has none."""
    mixture, (x, y) = Mixture(case), batch(case)
    mixture = mixture.float() if case["autocast"] else mixture
    x.requires_grad_(case["leaf"])
    with torch.autocast("cpu", torch.bfloat16, enabled=case["autocast"]):
        logits = mixture.router(x)
        score = logits.softmax(-1) if case["gate"] == "softmax" else logits.sigmoid()
        bias = bias_of(case, score.shape[1])
        chosen = (score if bias is None else score + bias).topk(mixture.active).indices
        gate = score.gather(1, chosen)
        if case["renormalise"] or (case["renormalise"] is None and mixture.active > 1):
            gate = gate / gate.sum(-1, keepdim=True)
        out = [sum((expert(row[None])[0] for expert in mixture.shared), 0 * row) for row in x]
        first = 0
        for tokens in case["tokens"]:
            for t, j in places(case, chosen[first : first + tokens]):
                t += first
                out[t] = out[t] + gate[t, j] * mixture.experts[int(chosen[t, j])](x[t : t + 1])[0]
            first += tokens
        out = torch.stack(out)
    if out.requires_grad:
        (out * y).sum().backward()
    named = {name: p.grad for name, p in mixture.named_parameters()}
    return {"out": out.detach(), "dX": x.grad, **named}


def places(case, chosen):
    """The copies of one rank's tokens that travel: all, or as many as each expert has places."""
    tokens, k = chosen.shape
    queue = [(t, j) for j in range(k) for t in range(tokens)]
    if case["capacity"] is None:
        return queue
    experts = len(case["members"]) * case["own"]
    capacity, taken, kept = ceil(case["capacity"] * tokens * k / experts), [0] * experts, []
    for t, j in queue:
        taken[chosen[t, j]] += 1
        if taken[chosen[t, j]] <= capacity:
            kept.append((t, j))
    return kept


def on_ranks(listed, spoil=None):
    """On a rank, for each case: this rank's rows, and its gradients after the sum."""
    from dtlib.parallelism.expert import layer as expert

    before = expert.with_gradient
    if spoil == "frozen results":
        expert.with_gradient = lambda done: done
    try:
        return found_on_ranks(listed, spoil)
    finally:
        expert.with_gradient = before


def found_on_ranks(listed, spoil):
    """The same, with the library as it is at the moment."""
    import torch.distributed as dist

    from dtlib.parallelism import BiasBalancer
    from dtlib.parallelism.expert import layer as expert

    groups = {tuple(members): dist.new_group(members) for members in GROUPS}
    found = []
    for case in listed:
        if dist.get_rank() not in case["members"]:
            found.append(None)
            continue
        group, mixture = groups[tuple(case["members"])], Mixture(case)
        mixture = mixture.float() if case["autocast"] else mixture
        experts, balancer = len(mixture.experts), None
        if case["balanced"]:
            balancer = BiasBalancer(experts)
            balancer.bias_e = bias_of(case, experts)
        layer = expert.MoELayer(
            mixture, group, capacity_factor=case["capacity"], gate=case["gate"],
            renormalise=case["renormalise"], balancer=balancer,
        )  # fmt: skip
        if spoil == "only the router's matrix":
            layer.router = OnlyTheMatrix(mixture.router.weight)
        place = case["members"].index(dist.get_rank())
        x, y = (part.split(case["tokens"])[place].clone() for part in batch(case))
        x.requires_grad_(case["leaf"])
        with torch.autocast("cpu", torch.bfloat16, enabled=case["autocast"]):
            how = {"use_reentrant": case["recompute"] == "reentrant" and case["leaf"]}
            out = checkpoint(layer, x, **how) if case["recompute"] else layer(x)
        if out.requires_grad:
            (out * y).sum().backward()
        if spoil == "frozen alike":
            for parameter in layer.parameters():
                parameter.requires_grad_()
        expert.sum_gradients(layer, group)
        named = {name: p.grad for name, p in layer.named_parameters()}
        found.append({"out": out.detach(), "dX": x.grad, **named})
    return found


def whole(parts):
    """What the ranks have of one case, put together; replicas must agree."""
    parts, found = [part for part in parts if part is not None], {}
    for part in parts:
        for name, value in part.items():
            if name in ("out", "dX"):
                continue
            if name in found and found[name] is not None:
                assert torch.equal(value, found[name]), name
            found[name] = value
    rows = {name: [part[name] for part in parts] for name in ("out", "dX")}
    return found | {n: None if r[0] is None else torch.cat(r) for n, r in rows.items()}


def wrong(results, listed):
    """The cases that differ from one process, with where and how much."""
    found = []
    for case, *parts in zip(listed, *results, strict=True):
        ours, right = whole(parts), one_process(case)
        none = {name for name in right if right[name] is None}
        # what no token reached has no gradient here and a gradient of 0 there: both stand still
        unlike = {n for n in none if ours[n] is not None and ours[n].abs().max() > 0}
        unlike |= {n for n in right if ours.get(n) is None} - none
        unlike |= {n for n in none if n.startswith(tuple(case["frozen"])) and ours[n] is not None}
        both = right.keys() - none - unlike
        errors = relative_errors({n: ours[n] for n in both}, {n: right[n] for n in both})
        name, error = worst(errors)
        if unlike or error > (5e-2 if case["autocast"] else 1e-12):
            found.append((case, unlike, name, error))
    return found


def test_any_mixture_over_ranks_equals_a_loop_in_output_dx_and_every_gradient(four, examples):
    listed = examples(cases(), 30)
    assert not wrong(four.run(on_ranks, listed), listed)


OPTIONS = [
    {}, {"router": "biased"}, {"router": "low rank"}, {"gate": "sigmoid"}, {"renormalise": False},
    {"k": 1, "renormalise": True}, {"balanced": True}, {"autocast": True}, {"shared": 0},
    {"tokens": [3, 3, 3, 3], "capacity": 0.5}, {"tokens": [0, 0, 0, 4]},
    {"members": [1, 2, 3], "tokens": [4, 1, 2]}, {"frozen": ["router"]}, {"frozen": ["experts"]},
    {"frozen": ["experts.0", "experts.1"], "leaf": False},
    {"recompute": "reentrant"}, {"recompute": "not reentrant"},
]  # fmt: skip


def test_every_option_is_that_of_the_reference_and_has_an_effect(four):
    listed = [case(**option) for option in OPTIONS]
    assert not wrong(four.run(on_ranks, listed), listed)
    plain = one_process(case())["out"]
    for option in OPTIONS[1:7]:
        assert (one_process(case(**option))["out"] - plain).abs().max() > 1e-2, option


@pytest.mark.parametrize(
    ("spoil", "option", "names"),
    [
        ("only the router's matrix", {"router": "biased"}, {"router.bias"}),
        ("frozen alike", {"frozen": ["shared"]}, {"shared.0.weight", "shared.0.bias"}),
    ],
)
def test_sabotage_a_lost_bias_and_zeros_for_what_is_frozen_are_found(four, spoil, option, names):
    listed = [case(**option)]
    ((_, unlike, _, error),) = wrong(four.run(on_ranks, listed, spoil), listed)
    assert unlike >= names
    assert (error > 1e-2) == (spoil == "only the router's matrix")


def test_sabotage_a_rank_of_frozen_experts_that_sends_nothing_back_leaves_the_others_waiting():
    listed = [case(frozen=["experts.0", "experts.1"], leaf=False)]
    with launch(4, timeout=3) as doomed, pytest.raises(RanksError):
        doomed.run(on_ranks, listed, "frozen results")


def copied(case):
    """A copy after a pass: what it gives, whether it shares anything, and what saving says."""
    import io

    import torch.distributed as dist

    from dtlib.parallelism import MoELayer

    x, _ = (part.split(case["tokens"])[dist.get_rank()] for part in batch(case))
    layer = MoELayer(Mixture(case), dist.group.WORLD)
    out = layer(x)
    other = copy.deepcopy(layer)
    try:
        torch.save(layer, io.BytesIO())
    except TypeError as error:
        said = str(error)
    shared = {p.data_ptr() for p in layer.parameters()} & {p.data_ptr() for p in other.parameters()}
    return torch.equal(other(x), out), other.routing is not layer.routing, shared, said


def test_a_copy_sends_over_the_same_group_and_saving_says_what_to_save(four):
    for same, fresh, shared, said in four.run(copied, case()):
        assert same and fresh and not shared
        assert "save its state_dict()" in said


class Holder(nn.Module):
    """A model of somebody else with a mixture in it."""

    def __init__(self, case):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(H, H).double(), Mixture(case)])


def foreign(case):
    """What `expert_parallel` makes of such a model, and says to one without a mixture."""
    import torch.distributed as dist

    from dtlib.parallelism import MoELayer, expert_parallel, sum_gradients

    model, greedy, said = Holder(case), Mixture(case), []
    greedy.active = 9
    expert_parallel(model, dist.group.WORLD, capacity_factor=2.0)
    for wrong in (
        lambda: expert_parallel(nn.Linear(2, 2), dist.group.WORLD),
        lambda: expert_parallel(model, dist.group.WORLD),
        lambda: expert_parallel(Mixture(case), dist.group.WORLD),
        lambda: MoELayer(nn.Linear(2, 2), dist.group.WORLD),
        lambda: MoELayer(Mixture(case), dist.group.WORLD, gate="relu"),
        lambda: MoELayer(Mixture(case), dist.group.WORLD, capacity_factor=-1),
        lambda: MoELayer(greedy, dist.group.WORLD),
        lambda: sum_gradients(model, None),
    ):
        try:
            wrong()
        except (TypeError, ValueError) as error:
            said.append(str(error))
    return type(model.layers[1]).__name__, model.layers[1].capacity_factor, said


def test_a_mixture_in_any_model_is_spread_and_a_model_without_one_is_refused(four):
    for kind, capacity_factor, said in four.run(foreign, case()):
        assert (kind, capacity_factor) == ("MoELayer", 2.0)
        parts = ".router, .experts, .active, .shared (an ExpertMixture)"
        for message, expected in zip(said, [
            f"expert_parallel: nothing in Linear has {parts}",
            f"expert_parallel: nothing in Holder has {parts}",
            f"nothing in Mixture has {parts}; it is one itself: MoELayer takes it",
            "MoELayer: mixture must have .router, .experts, .active and .shared",
            "MoELayer: gate is 'relu', but must be 'softmax' or 'sigmoid'",
            "MoELayer: capacity_factor is -1, but must be positive, or None to drop nothing",
            "MoELayer: k is 9, but must be at most the number of experts, 8",
            "group = None; a process group is given explicitly",
        ], strict=True):  # fmt: skip
            assert expected in message
