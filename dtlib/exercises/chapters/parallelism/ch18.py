"""The exercises of chapter 18, Expert Parallelism, in the order of its page."""

import math
from collections.abc import Collection, Iterator
from itertools import pairwise
from math import comb, exp, log
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import items, real, whole
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.judges.experts import same_experts
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
_ALL, _HOT = 1024 * 4096 * 2, 512 * 4096 * 2


def _bytes(name: str, value: float, slips: dict[float, str]) -> Asked:
    return Asked(name, value, "bytes", {
        value / 2: "a number in bf16 has two bytes", value / 1e6: "in bytes, please"} | slips)


bytes_of_a_moe_layer = Numbers(
    "ex-bytes-of-a-moe-layer",
    About("Bytes of a layer", "compute", 1, 10,
          "count what each rank of an all-to-all sends and receives", ("x18.1",)),
    [
        _bytes("dispatch", _ALL * 7 / 8, {_ALL: "one token of eight is at home already"}),
        _bytes("round_trip", _ALL * 7 / 4, {_ALL * 7 / 8: "the results come back, too"}),
        _bytes("sent_0", _HOT, {_ALL: "what wants expert 0 is at home on GPU 0"}),
        _bytes("sent_1", _ALL * 13 / 14, {_ALL: "some of its tokens want its own expert"}),
        _bytes("received_0", 7 * _HOT, {8 * _HOT: "its own tokens need not travel",
               _HOT: "from how many GPUs?"}),
        _bytes("received_1", _HOT, {7 * _HOT: "that is what the popular expert receives"}),
    ],
    "who has the popular expert sends least and receives most",
    keyed=True,
)

_LOADS = [comb(64, x) * 0.25**x * 0.75 ** (64 - x) for x in range(65)]
_CHANCE, _OVER = sum(_LOADS[21:]), sum((x - 20) * _LOADS[x] for x in range(21, 65))

chance_and_share = Numbers(
    "ex-chance-and-share",
    About("A chance is no share", "compute", 1, 12,
          "tell the chance of an overflow from the share that is dropped", ("x18.2",)),
    [
        Asked("the chance", _CHANCE, slips={
              _CHANCE + _LOADS[20]: "a load equal to the capacity does not overflow",
              100 * _CHANCE: "a chance lies between 0 and 1"}),
        Asked("the share", _OVER / 16, slips={
              _CHANCE: "that is the chance again: how many copies are over, on average?",
              _OVER: "divide by the copies that an expert gets on average",
              _OVER / 64: "an expert gets a quarter of 64 copies on average"}),
        Asked("smallest_capacity", 21, slips={20: "too small: more than 1 % are dropped"}),
    ],
    "an expert overflows often, and by little",
)


def _gradient(g, f):
    tokens, experts = g.shape
    return experts / tokens * g * (f - (g @ f)[:, None])


def _routers() -> Iterator[tuple[str, tuple]]:
    for seed, (tokens, experts) in enumerate(((1, 2), (5, 3), (8, 6))):
        rng = np.random.default_rng(seed)
        g = np.exp(rng.normal(size=(tokens, experts)))
        f = rng.dirichlet(np.ones(experts))
        yield f"{tokens} tokens, {experts} experts", (g / g.sum(axis=1, keepdims=True), f)


gradient_of_balance = Function(
    "ex-gradient-of-balance",
    About("The gradient of balance", "derive", 2, 20,
          "differentiate a loss of which one factor is counted", ("x18.3",)),
    "gradient(g, f)", _gradient, _routers,
    lambda given, right, *router: same_array(given, right, "the gradient", 1e-6),
    "the gradient of three random routers",
    {
        "twice too large: f is a count and has no derivative": lambda g, f: 2 * _gradient(g, f),
        "p is a mean over the tokens: a factor of T is missing":
            lambda g, f: len(g) * _gradient(g, f),
        "the loss has a factor E in front": lambda g, f: _gradient(g, f) / len(f),
        "raising one logit lowers the probabilities of the others":
            lambda g, f: len(f) / len(g) * g * f,
        "that is the step, not the gradient: the sign": lambda g, f: -_gradient(g, f),
    },
)


def _balance(most: int, factor: float = 1.0) -> tuple[float, int]:
    """The larger probability after at most so many steps, and the steps until it is even."""
    gap = log(1.5)
    for t in range(most):
        p = 1 / (1 + exp(-gap))
        if p < 0.51:
            return p, t
        gap -= factor * 0.02 * 2 * p * (1 - p) * (2 * p - 1)
    return 1 / (1 + exp(-gap)), most


steps_to_balance = Numbers(
    "ex-steps-to-balance",
    About("Steps to balance", "compute", 1, 12,
          "run an iteration instead of believing a printed result", ("x18.8",)),
    [
        Asked("p_after_100", _balance(100)[0], "", {
              0.5: "run it: the probability falls by less than a thousandth a step",
              _balance(100, 2)[0]: "f is a count and has no derivative: the step is half as large",
              _balance(100, 0.5)[0]: "the loss has a factor E in front"}, tolerance=1e-3),
        Asked("steps", _balance(10**5)[1], "", {
              _balance(10**5, 2)[1]: "f is a count and has no derivative"}, tolerance=5e-3),
    ],
    "hundreds of steps for what looks like a nudge",
)

when_experts_choose = Numbers(
    "ex-when-experts-choose",
    About("When experts choose", "compute", 1, 8,
          "tell full experts from served tokens", ("x18.4",)),
    [
        Asked("places", 6, slips={3: "two copies of each token", 2: "per expert, not token"}),
        Asked("unchosen_at_most", 6, slips={0: "what if all experts take the same?"}),
        Asked("places_for_certainty", 12, slips={6: "all experts may still take the same",
              11: "all experts may skip the same token"}),
    ],
    "full experts do not mean that every token is served",
)


def _keys(answer: Any, names: Collection[str]) -> None:
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")


_LASTS = {"attention": 1.0, "dispatch": 0.75, "experts": 1.0, "combine": 0.75}
_LANES = {"GPU": ("attention", "experts"), "network": ("dispatch", "combine")}


def _plan_law(answer: Any) -> None:
    _keys(answer, _LASTS)
    start = {name: [real(v, name) for v in items(answer[name], name, 2)] for name in _LASTS}
    for before, after in pairwise(_LASTS):
        for half in (0, 1):
            if start[after][half] < start[before][half] + _LASTS[before] - 1e-9:
                raise NotYet(f"half {half + 1}: {after} starts before its {before} is done")
    if min(start["attention"]) < 0:
        raise NotYet("nothing starts before 0")
    for lane, names in _LANES.items():
        spans = sorted((s, s + _LASTS[name], name) for name in names for s in start[name])
        for (_, end, one), (begin, _, other) in pairwise(spans):
            if begin < end - 1e-9:
                raise NotYet(f"the {lane} has two things to do at once: {one} and {other}")
    if max(start["combine"]) > 4 + 1e-9:
        raise NotYet("a valid plan, but the GPU waits: what could it do while tokens travel?")


_PLAN = {"attention": (0, 1), "dispatch": (1, 2), "experts": (2, 3), "combine": (3, 4)}

two_half_batches = Made(
    "ex-two-half-batches",
    About("Two half batches", "design", 2, 15,
          "overlap communication without changing the model", ("x18.5",)),
    _plan_law, lambda: _PLAN,
    "the GPU never waits, and the last combine has nothing to hide behind",
    {
        "the GPU waits": lambda: _PLAN | {"combine": (3, 5)},
        "the GPU has two things to do": lambda: _PLAN | {"attention": (0, 0.5)},
        "half 1: dispatch starts before": lambda: _PLAN | {"dispatch": (0.5, 2)},
        "the network has two things": lambda: _PLAN | {"combine": (3.5, 4)},
    },
)

_GROUPS = {"tp": [12, 13, 14, 15], "ep": [*range(1, 32, 4)], "dp": [13, 45]}


def _groups_law(answer: Any) -> None:
    _keys(answer, [*_GROUPS, "expert_gradients"])
    for name, group in _GROUPS.items():
        ranks = [*answer[name]] if isinstance(answer[name], set) else answer[name]
        given = {whole(rank, name) for rank in items(ranks, name, len(group))}
        if 13 not in given:
            raise NotYet(f"{name}: rank 13 is in its own group")
        if given != set(group):
            raise NotYet(f"{name}: {len(group)} ranks, but the two other coordinates must agree")
    if answer["expert_gradients"] != "dp":
        raise NotYet("expert_gradients: which ranks hold the very same pieces of the same experts?")


_WITH_13 = _GROUPS | {"expert_gradients": "dp"}

groups_of_rank_13 = Made(
    "ex-groups-of-rank-13",
    About("Who is with rank 13?", "compute", 1, 8,
          "find a rank's groups along the axes of a grid", ("x18.6", "Ex.12")),
    _groups_law, lambda: _WITH_13,
    "three groups, each along one coordinate",
    {
        "tp: 4 ranks, but": lambda: _WITH_13 | {"tp": [13, 14, 15, 16]},
        "in its own group": lambda: _WITH_13 | {"ep": [*range(8)]},
        "other coordinates must agree": lambda: _WITH_13 | {"dp": [13, 14]},
        "the very same pieces": lambda: _WITH_13 | {"expert_gradients": "ep"},
    },
)


def _counts(chosen, experts, ranks, *, stable=True, by_rank=True, all_there=True):
    order = np.argsort(chosen if stable else -chosen, kind="stable")[:: 1 if stable else -1]
    places, owner = (ranks, chosen * ranks // experts) if by_rank else (experts, chosen)
    return order, np.bincount(owner, minlength=places if all_there else 0)


def _choices() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(18)
    for experts, ranks, most in ((8, 4, 3), (8, 2, 8), (6, 3, 4), (4, 4, 4), (16, 4, 16)):
        chosen = rng.integers(0, most, 40).astype(np.intp)
        yield f"{experts} experts on {ranks} ranks", (chosen, experts, ranks)


def _same_counts(given: Any, right: tuple, chosen, experts, ranks) -> None:
    order, counts = items(given, "(order, counts)", 2)
    same_array(counts, right[1], "counts", place=lambda r, _: f"which experts live on rank {r}?")
    order = [whole(copy, "order") for copy in items(order, "order", len(chosen))]
    if sorted(order) != [*range(len(chosen))]:
        raise NotYet("order must name every copy once")
    if (np.diff(chosen[order]) < 0).any():
        raise NotYet("the copies are not sorted by expert")
    same_array(order, right[0], "order", place=lambda *_: "copies of one expert must stay in order")


repair_the_counts = Function(
    "ex-repair-the-counts",
    About("Repair the counts", "repair", 2, 20,
          "count rows for ranks, also for experts that get nothing", ("C.12",)),
    "my_counts(chosen, experts, ranks)", _counts, _choices, _same_counts,
    "right on five layouts, also when the last experts get nothing",
    {
        "copies of one expert must stay in their order": {"stable": False},
        "one count for each rank, not for each expert": {"by_rank": False},
        "experts that nobody chose are there, too": {"all_there": False},
    },
)


def _monitor(counts, capacity, *, mean=True, share=True, even=True, empty=False):
    load = counts[(counts > 0) | empty] / counts.sum()
    with np.errstate(all="ignore"):
        entropy = -(load * np.log(load)).sum() / (log(len(counts)) if even else 1)
    dropped = np.maximum(counts - capacity, 0).sum() / (counts.sum() if share else 1)
    return counts.max() / (counts.mean() if mean else 1), dropped, entropy


def _loads() -> Iterator[tuple[str, tuple]]:
    for counts, places in (([5, 5, 5, 5], 5), ([9, 0, 3, 0], 4), ([20, 0, 0], 7), ([1, 2], 9)):
        yield f"{counts} with {places} places", (np.array(counts), places)


def _same_monitor(given: Any, right: tuple, *loads: Any) -> None:
    names = "busiest", "dropped", "entropy"
    for name, value, wanted in zip(names, items(given, "the result", 3), right, strict=True):
        if isinstance(value, float) and math.isnan(value):
            raise NotYet(f"{name} is not a number: a load of zero has no logarithm")
        if abs(real(value, name) - wanted) > 1e-9:
            raise NotYet(f"{name} is wrong")


collapse_monitor = Function(
    "ex-collapse-monitor",
    About("A monitor of collapse", "design", 2, 20,
          "measure imbalance, drops and entropy of loads", ("x18.7", "C.12")),
    "monitor(counts, capacity)", _monitor, _loads, _same_monitor,
    "right for even loads, for a collapse, and for experts that get nothing",
    {
        "a load of zero has no logarithm": lambda *loads: _monitor(*loads, empty=True),
        "the busiest load is over the mean": {"mean": False},
        "what is dropped is a share of all copies": {"share": False},
        "the entropy is over that of even loads": {"even": False},
    },
)

bound_of_an_all_to_all = Numbers(
    "ex-bound-of-an-all-to-all",
    About("The bound of an all-to-all", "derive", 2, 15,
          "say what a lower bound is a bound on", ("B.19",)),
    [
        Asked("sent_by_one", 4096, "", {64 * 4096: "it has d tokens"}, 1e-3),
        Asked("sent_by_all", 64 * 4096, "", {64**2 * 4096: "every token moves once"}, 1e-3),
        Asked("received_by_one", 63 * 4096, "", {
              64 * 4096: "its own tokens are there already"}, 1e-3),
        Asked("received_even", 63 * 64, "", {4096: "one in n is at home",
              63 * 4096: "that is when all want its expert"}, 1e-3),
    ],
    "only a popular expert's port sees a number of tokens that grows with n",
)


def _limited(score, k, nodes, most, *, width=None):
    by_node = np.sort(score.reshape(nodes, -1), axis=1)[:, ::-1]
    kept = np.argsort(-by_node[:, : width or k // most].sum(axis=1))[:most]
    on = np.repeat(np.isin(np.arange(nodes), kept), len(score) // nodes)
    return np.argsort(-np.where(on, score, -np.inf))[:k]


def _scores() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(5)
    for experts, k, nodes, most in ((16, 4, 4, 2), (64, 8, 8, 4), (12, 2, 3, 1), (16, 4, 4, 4)):
        where = f"{experts} experts, k = {k}, {most} of {nodes} nodes"
        yield from ((where, (rng.random(experts), k, nodes, most)) for _ in range(8))


at_most_m_nodes = Function(
    "ex-at-most-m-nodes",
    About("At most M nodes", "design", 3, 30,
          "choose experts on a limited number of nodes", ("Def.5",)),
    "limited(score, k, nodes, most)", _limited, _scores, same_experts,
    "right for 32 tokens, also where no node is left out",
    {
        "a node counts by the sum of its k / most best, not by its best one": {"width": 1},
        "visits too many nodes": lambda score, k, nodes, most: np.argsort(-score)[:k],
        "the best must stand first": lambda *token: _limited(*token)[::-1],
    },
)

gather_in_one_node = Numbers(
    "ex-gather-in-one-node",
    About("A gather in one node", "derive", 2, 12,
          "weigh starts against bytes in two ways of dispatch"),
    [
        Asked("(a)", 1, slips={8: "an all-to-all sends a copy for each expert, a gather one a rank",
              7 / 8: "one copy in eight stays at home"}),
        Asked("(b)", 4, slips={1: "now a token has two copies, not eight", 0.25: "upside down",
              3.5: "one copy in eight stays at home"}),
        Asked("(c)", 23, "tokens", {
              24: "whole tokens: with one more the gather is already slower",
              25: "one copy in eight stays at home",
              17: "the all-to-all has bytes to send as well"}, tolerance=1e-6),
    ],
    "four starts saved, for five and a quarter rows of every token",
)
