"""Graders of chapter 18, Expert Parallelism."""

from itertools import pairwise
from math import comb, log
from typing import Any

import numpy as np

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet

TOKEN, T = 4096 * 2, 1024


@grader("ex-bytes-of-a-moe-layer")
def bytes_of_a_moe_layer(answer: Any) -> str:
    even, hot = T * 7 / 8 * TOKEN, T / 2 * TOKEN
    expected = {
        "dispatch": even,
        "round_trip": 2 * even,
        "sent_0": hot,
        "sent_1": (T - T / 14) * TOKEN,
        "received_0": 7 * hot,
        "received_1": hot,
    }
    hints = {
        "dispatch": {T * TOKEN: "one token of eight is at home already"},
        "round_trip": {even: "the results come back, too"},
        "sent_0": {T * TOKEN: "what wants expert 0 is at home on GPU 0"},
        "sent_1": {T * TOKEN: "some of its tokens want its own expert"},
        "received_0": {8 * hot: "its own tokens need not travel", hot: "from how many GPUs?"},
        "received_1": {7 * hot: "that is what the popular expert receives"},
    }
    _keys(answer, expected)
    for name, value in expected.items():
        mistakes = {value / 2: "a number in bf16 has two bytes", value / 1e6: "in bytes, please"}
        number(answer[name], value, name, "bytes", mistakes=mistakes | hints[name])
    return "who has the popular expert sends least and receives most"


@grader("ex-chance-and-share")
def chance_and_share(answer: Any) -> str:
    chance, share, capacity = items(answer, "(chance, share, smallest_capacity)", 3)
    law = [comb(64, x) * 0.25**x * 0.75 ** (64 - x) for x in range(65)]
    over = sum((x - 20) * law[x] for x in range(21, 65)) / 16
    at_least = sum(law[20:])
    beyond = {
        at_least: "a load equal to the capacity does not overflow",
        100 * sum(law[21:]): "a chance lies between 0 and 1",
    }
    number(chance, sum(law[21:]), "the chance", mistakes=beyond)
    mistakes = {
        sum(law[21:]): "that is the chance again: how many copies are over, on average?",
        16 * over: "divide by the copies that an expert gets on average",
        over / 4: "an expert gets 16 copies on average, not 64",
    }
    number(share, over, "the share", mistakes=mistakes)
    if whole(capacity, "smallest_capacity") != 21:
        side = "small: more than 1 % are dropped" if capacity < 21 else "large"
        raise NotYet(f"smallest_capacity is too {side}")
    return "an expert overflows often, and by little"


@grader("ex-gradient-of-balance")
def gradient_of_balance(answer: Any) -> str:
    function(answer, "gradient(g, f)")
    for seed, (tokens, experts) in enumerate(((1, 2), (5, 3), (8, 6))):
        rng = np.random.default_rng(seed)
        g = np.exp(rng.normal(size=(tokens, experts)))
        g /= g.sum(axis=1, keepdims=True)
        f = rng.dirichlet(np.ones(experts))
        given = _array(call(answer, g.copy(), f.copy()), (tokens, experts), "gradient(g, f)")
        right = experts / tokens * g * (f - (g @ f)[:, None])
        if np.allclose(given, right):
            continue
        if np.allclose(given, 2 * right):
            raise NotYet("twice too large: f is a count and has no derivative")
        if np.allclose(given, right * tokens):
            raise NotYet("p is a mean over the tokens: a factor of T is missing")
        if np.allclose(given, right / experts):
            raise NotYet("the loss has a factor E in front")
        if np.allclose(given, experts / tokens * g * f):
            raise NotYet("raising one logit lowers the probabilities of the others")
        if np.allclose(given, -right):
            raise NotYet("that is the step, not the gradient: the sign")
        raise NotYet(f"differs for {tokens} tokens and {experts} experts")
    return "the gradient of three random routers"


@grader("ex-steps-to-balance")
def steps_to_balance(answer: Any) -> str:
    after, steps = items(answer, "(p_after_100, steps)", 2)

    def gap_after(count, factor=1.0):
        gap, found = log(1.5), None
        for t in range(count):
            p = 1 / (1 + np.exp(-gap))
            if p < 0.51:
                return p, t
            gap -= factor * 0.02 * 2 * p * (1 - p) * (2 * p - 1)
        return 1 / (1 + np.exp(-gap)), found

    mistakes = {
        0.5: "run it: the probability falls by less than a thousandth a step",
        gap_after(100, 2)[0]: "f is a count and has no derivative: the step is half as large",
        gap_after(100, 0.5)[0]: "the loss has a factor E in front",
    }
    number(after, gap_after(100)[0], "p_after_100", tolerance=0.001, mistakes=mistakes)
    right = gap_after(100_000)[1]
    twice = {gap_after(100_000, 2)[1]: "f is a count and has no derivative"}
    number(whole(steps, "steps"), right, "steps", tolerance=0.005, mistakes=twice)
    return "hundreds of steps for what looks like a nudge"


@grader("ex-when-experts-choose")
def when_experts_choose(answer: Any) -> str:
    each, nobody, certain = items(answer, "(places, unchosen_at_most, places_for_certainty)", 3)
    number(each, 6, "places", mistakes={3: "two copies of each token", 2: "per expert, not token"})
    number(nobody, 6, "unchosen_at_most", mistakes={0: "what if all experts take the same?"})
    hints = {6: "all experts may still take the same", 11: "all experts may skip the same token"}
    number(certain, 12, "places_for_certainty", mistakes=hints)
    return "full experts do not mean that every token is served"


@grader("ex-two-half-batches")
def two_half_batches(answer: Any) -> str:
    lasts = {"attention": 1.0, "dispatch": 0.75, "experts": 1.0, "combine": 0.75}
    _keys(answer, lasts)
    start = {name: [real(v, name) for v in items(answer[name], name, 2)] for name in lasts}
    for before, after in zip(list(lasts), list(lasts)[1:], strict=False):
        for half in (0, 1):
            if start[after][half] < start[before][half] + lasts[before] - 1e-9:
                raise NotYet(f"half {half + 1}: {after} starts before its {before} is done")
    for lane, names in (("GPU", ("attention", "experts")), ("network", ("dispatch", "combine"))):
        spans = sorted((start[n][h], start[n][h] + lasts[n], n) for n in names for h in (0, 1))
        if spans[0][0] < 0:
            raise NotYet("nothing starts before 0")
        for (_, end, one), (begin, _, other) in pairwise(spans):
            if begin < end - 1e-9:
                raise NotYet(f"the {lane} has two things to do at once: {one} and {other}")
    if max(start["combine"]) > 4 + 1e-9:
        raise NotYet("a valid plan, but the GPU waits: what could it do while tokens travel?")
    return "the GPU never waits, and the last combine has nothing to hide behind"


@grader("ex-groups-of-rank-13")
def groups_of_rank_13(answer: Any) -> str:
    expected = {"tp": [12, 13, 14, 15], "ep": list(range(1, 32, 4)), "dp": [13, 45]}
    _keys(answer, [*expected, "expert_gradients"])
    for name, group in expected.items():
        members = answer[name]
        members = sorted(members) if isinstance(members, set) else members
        given = [whole(v, name) for v in items(members, name, len(group))]
        if 13 not in given:
            raise NotYet(f"{name}: rank 13 is in its own group")
        if sorted(given) != group:
            raise NotYet(f"{name}: {len(group)} ranks, but the two other coordinates must agree")
    if answer["expert_gradients"] != "dp":
        raise NotYet("expert_gradients: which ranks hold the very same pieces of the same experts?")
    return "three groups, each along one coordinate"


@grader("ex-repair-the-counts")
def repair_the_counts(answer: Any) -> str:
    function(answer, "my_counts(chosen, experts, ranks)")
    rng = np.random.default_rng(18)
    for experts, ranks, most in ((8, 4, 3), (8, 2, 8), (6, 3, 4), (4, 4, 4), (16, 4, 16)):
        chosen = rng.integers(0, most, size=40)
        where = f"{experts} experts on {ranks} ranks"
        order, counts = items(call(answer, chosen.copy(), experts, ranks), "(order, counts)", 2)
        given = _array(counts, None, f"{where}: counts")
        if given.shape != (ranks,):
            raise NotYet(f"{where}: one count for each rank, got {given.size} counts")
        if given.sum() != 40:
            raise NotYet(f"{where}: the counts must add up to all copies")
        if given.tolist() != np.bincount(chosen * ranks // experts, minlength=ranks).tolist():
            raise NotYet(f"{where}: which experts live on which rank?")
        given = _array(order, (40,), f"{where}: order").astype(int)
        if sorted(given.tolist()) != list(range(40)):
            raise NotYet(f"{where}: order must name every copy once")
        if (np.diff(chosen[given]) < 0).any():
            raise NotYet(f"{where}: the copies are not sorted by expert")
        if given.tolist() != np.argsort(chosen, kind="stable").tolist():
            raise NotYet(f"{where}: copies of one expert must stay in their order")
    return "right on five layouts, also when the last experts get nothing"


@grader("ex-collapse-monitor")
def collapse_monitor(answer: Any) -> str:
    function(answer, "monitor(counts, capacity)")
    for counts, capacity in (([5, 5, 5, 5], 5), ([9, 0, 3, 0], 4), ([20, 0, 0], 7), ([1, 2], 9)):
        load = np.array(counts, dtype=float)
        share = load[load > 0] / load.sum()
        right = (
            load.max() / load.mean(),
            np.maximum(load - capacity, 0).sum() / load.sum(),
            -(share * np.log(share)).sum() / log(len(load)),
        )
        given = items(call(answer, np.array(counts), capacity), "(busiest, dropped, entropy)", 3)
        for name, value, wanted in zip(
            ("busiest", "dropped", "entropy"), given, right, strict=True
        ):
            value = getattr(value, "item", lambda value=value: value)()
            if isinstance(value, float) and value != value:
                raise NotYet(f"{counts}: {name} is not a number: a load of zero has no logarithm")
            value = real(value, name)
            if abs(value - wanted) > 1e-9:
                raise NotYet(f"{counts} with {capacity} places: {name} is wrong")
    return "right for even loads, for a collapse, and for experts that get nothing"


@grader("ex-bound-of-an-all-to-all")
def bound_of_an_all_to_all(answer: Any) -> str:
    given = items(answer, "(sent_by_one, sent_by_all, received_by_one, received_even)", 4)
    n, d = 64, 4096
    names = ("sent_by_one", "sent_by_all", "received_by_one", "received_even")
    right = (d, n * d, (n - 1) * d, (n - 1) * d / n)
    hints = (
        {n * d: "it has d tokens"},
        {n * n * d: "every token moves once"},
        {n * d: "its own tokens are there already"},
        {d: "one in n is at home", (n - 1) * d: "that is when all want its expert"},
    )
    for name, value, wanted, mistakes in zip(names, given, right, hints, strict=True):
        number(value, wanted, name, tolerance=0.001, mistakes=mistakes)
    return "only a popular expert's port sees a number of tokens that grows with n"


@grader("ex-at-most-m-nodes")
def at_most_m_nodes(answer: Any) -> str:
    function(answer, "limited(score, k, nodes, most)")
    rng = np.random.default_rng(5)
    for experts, k, nodes, most in ((16, 4, 4, 2), (64, 8, 8, 4), (12, 2, 3, 1), (16, 4, 4, 4)):
        for _ in range(8):
            score = rng.random(experts)
            where = f"{experts} experts, k = {k}, {most} of {nodes} nodes"
            given = items(call(answer, score.copy(), k, nodes, most), where, k)
            given = [whole(e, "an expert") for e in given]
            if len(set(given)) != k or not set(given) <= set(range(experts)):
                raise NotYet(f"{where}: name {k} different experts")
            size = experts // nodes
            if len({e // size for e in given}) > most:
                raise NotYet(f"{where}: the token visits too many nodes")
            best = np.sort(score.reshape(nodes, -1), axis=1)[:, ::-1][:, : k // most].sum(axis=1)
            kept = set(np.argsort(-best)[:most].tolist())
            allowed = [e for e in range(experts) if e // size in kept]
            right = sorted(allowed, key=lambda e: -score[e])[:k]
            if set(given) != set(right):
                if {e // size for e in given} <= kept:
                    raise NotYet(f"{where}: the nodes are right, better experts lie on them")
                raise NotYet(f"{where}: other nodes have the larger sum of k / most scores")
            if given != right:
                raise NotYet(f"{where}: the right experts; the best must stand first")
    return "right for 32 tokens, also where no node is left out"


def _keys(answer: Any, expected) -> None:
    if not isinstance(answer, dict) or set(answer) != set(expected):
        raise NotYet(f"pass a dict with the keys {', '.join(expected)}")


def _array(given: Any, shape, what: str) -> np.ndarray:
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise NotYet(f"{what} must be an array of numbers, got {type(given).__name__}") from None
    if shape is not None and array.shape != shape:
        raise NotYet(f"{what} has the shape {array.shape}, and must have {shape}")
    return array
