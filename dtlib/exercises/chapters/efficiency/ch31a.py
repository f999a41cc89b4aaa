"""The exercises of chapter 31a, Architectures that move less, in the order of its page."""

import random
from collections.abc import Iterator
from math import comb
from typing import Any

from dtlib.efficiency.architecture.cost import (
    absorbed_latent_flops,
    absorbing_queries,
    decoding_step_time,
    explicit_latent_flops,
)
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers, one_of
from dtlib.exercises.judge import Limit
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
_LLAMA = 2 * 80 * 8 * 128 * 131072 * 2
from_heads_to_bytes = Numbers(
    "ex-from-heads-to-bytes",
    About("From heads to bytes", "compute", 1, 8, "read a cache from a configuration", ("x31a.1",)),
    [
        Asked("(a)", 65536, "B", {
              32768: "a key and a value", 131072: "two bytes for a number"}),
        Asked("(b)", 4096, "B", {2048: "a key and a value", 65536: "only 8 heads have keys"}),
        Asked("(c)", 1152, "B", {
              1024: "and the rotary key, which must be kept as well?",
              2304: "a latent is key and value at once",
              1152 * 128: "all heads share the latent"}),
        Asked("(d)", _LLAMA, "B", {
              8 * _LLAMA: "64 heads ask, and how many have keys?",
              _LLAMA / 2: "a key and a value", _LLAMA / 80: "that is one layer"}, 0.005),
    ],
    "57 times and 3.6 times less than (a) and (b)",
)

on_how_many_ranks = Numbers(
    "ex-on-how-many-ranks",
    About("On how many ranks", "derive", 2, 10, "compare caches for a layout, not for a GPU"),
    [
        Asked("(a)", 576 / 2048, slips={2048 / 576: "the latent over the grouped heads",
              576 / 1024: "a key and a value", 0.25: "and the rotary key?"}),
        Asked("(b)", 4, slips={2: "how many key heads has a rank of two, and what do they weigh?",
              8: "is it so already on fewer?", 3: "ranks share heads equally"}),
        Asked("(c)", 576 / 256, slips={256 / 576: "the latent over the grouped heads",
              576 / 128: "a key and a value", 576 / 2048: "eight ranks"}),
        Asked("(d)", 1, slips={8: "can a rank keep half a key head?",
              2: "a rank needs a whole key head", 0.5: "a rank needs a whole key head"}),
    ],
    "more ranks divide key heads, down to one, and latents never",
)


def _kv(layers, kv_heads, head_dim, seq, window, full_layers, tp, *, both=True, least=True,
        mixed=True, capped=True):
    near = min(seq, window) if capped else window
    tokens = full_layers * seq + (layers - full_layers) * near if mixed else layers * near
    own = max(1, kv_heads // tp) if least else kv_heads / tp
    return (2 if both else 1) * 2 * own * head_dim * tokens


def _configurations() -> Iterator[tuple[str, tuple]]:
    yield "no window, one rank", (32, 8, 128, 4096, 10**9, 0, 1)
    yield "a window in all layers", (32, 8, 128, 32768, 4096, 0, 1)
    yield "a window in most layers", (48, 4, 256, 131072, 1024, 8, 1)
    yield "more ranks than key heads", (32, 2, 128, 4096, 10**9, 0, 8)
    yield "a short text, all of it", (61, 16, 64, 100, 512, 3, 4)
    draw = random.Random(31)
    for _ in range(12):
        layers = draw.randint(1, 60)
        yield "", (layers, 2 ** draw.randint(0, 5), 2 ** draw.randint(4, 8), draw.randint(1, 9999),
                   draw.randint(1, 9999), draw.randint(0, layers), 2 ** draw.randint(0, 4))


what_a_rank_keeps = Function(
    "ex-what-a-rank-keeps",
    About("What a rank keeps", "repair", 2, 15, "count a cache by layers and by ranks"),
    "rank_bytes(layers, kv_heads, head_dim, seq, window, full_layers, tp)",
    _kv, _configurations, same_number, "17 configurations",
    {
        "a token leaves a key and a value": {"both": False},
        "a rank has one key head at least": {"least": False},
        "some layers see all of the text": {"mixed": False},
        "a text may be shorter than the window": {"capped": False},
    },
)


def _absorbed(q, up, out, latents, *, scaled=True, expanded=True):
    scores = np.einsum("nd,ndc,tc->nt", q, up, latents)
    width = q.shape[1] if scaled else latents.shape[1]
    weights = np.exp(scores / width**0.5)
    weights = weights / weights.sum(1, keepdims=True)
    if not expanded:
        out = up
    return np.einsum("nt,tc,nvc->nv", weights, latents, out)


def _latents() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(31)
    for heads, width, latent, tokens in ((1, 2, 3, 4), (4, 6, 5, 7), (3, 4, 8, 1), (8, 3, 2, 30)):
        up, out = rng.normal(size=(2, heads, width, latent))
        yield f"{heads} heads, a latent of {latent}, {tokens} tokens", (
            rng.normal(size=(heads, width)), up, out, rng.normal(size=(tokens, latent)))


def _same_mixed(given: Any, right, q, up, out, latents) -> None:
    found = np.asarray(given, dtype=float)
    if found.shape != right.shape:
        raise NotYet(f"the result has the shape {found.shape}, not {right.shape}")
    if not np.allclose(found, right, rtol=0, atol=1e-9):
        explicit = np.einsum("tc,ndc->ntd", latents, up)
        bare = np.einsum("nd,ntd->nt", q, explicit)
        if np.allclose(found, np.einsum("nt,tc,nvc->nv", bare, latents, out)):
            raise NotYet("the weights are a softmax of the scores")
        raise NotYet("it is not what keys and values made from the latents would give")


absorbed_by_hand = Function(
    "ex-absorbed-by-hand",
    About("Absorbed by hand", "design", 3, 25, "reorder a product so that no key is ever made"),
    "my_attention(q, up, out, latents)", _absorbed, _latents, _same_mixed,
    "equal to attention with keys and values for four sizes",
    {
        "scores are divided by the root of a query's width, not of the latent's":
            {"scaled": False},
        "values have a matrix of their own": {"expanded": False},
    },
)

_V3 = {"heads": 128, "latent": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
_EXPLICIT, _ABSORBED = (count(1, 4096, **_V3) for count in
                        (explicit_latent_flops, absorbed_latent_flops))
how_many_may_ask = Numbers(
    "ex-how-many-may-ask",
    About("How many may ask", "derive", 2, 15, "choose the order of products by who asks"),
    [
        Asked("explicit", _EXPLICIT, "FLOP", {
              _EXPLICIT / 2: "a multiplication and an addition", _EXPLICIT / 128: "in all heads",
              2 * 128 * 4096 * 320: "and the expansion of what is kept?"}, 0.005),
        Asked("absorbed", _ABSORBED, "FLOP", {
              _ABSORBED / 2: "a multiplication and an addition", _ABSORBED / 128: "in all heads",
              2 * 128 * 4096 * 1088: "and the expansion of the query?"}, 0.002),
        Asked("border", absorbing_queries(4096, 512, 128, 128), slips={
              512 * 256 / 768: "that is for an endless text", 512: "set the two counts equal"},
              tolerance=0.005),
        Chosen("prompt", "explicit", {"absorbed": "how many new tokens ask?"}),
        Chosen("word", "absorbed", {"explicit": "how many new tokens ask?"}),
    ],
    "a prompt is expanded, a word absorbed",
    keyed=True,
)

_STEP = {"weight_bytes": 15e9, "cache_bytes": 1e9, "bandwidth": 3e12, "token_flops": 2e10,
         "peak": 1e15}
_RATES = {b: b / decoding_step_time(micro_batch=b, **_STEP) for b in (1, 15, 60)}
where_a_step_turns = Numbers(
    "ex-where-a-step-turns",
    About("Where a step turns", "compute", 1, 10, "read the roofline of decoding"),
    [
        Asked("turn", 15, slips={1 / 15: "weights over caches"}),
        Asked("one", _RATES[1], slips={200: "and the cache", 3000: "and the weights"},
              tolerance=0.005),
        Asked("many", _RATES[60], slips={
              60 * 200: "each sequence has a cache of its own", 60 / 0.02: "and the weights",
              60 * _RATES[1]: "weights are read once for all"}, tolerance=0.005),
        Asked("limit", 3000, slips={50000: "memory is slower than arithmetic here",
              2400: "with ever more sequences"}, tolerance=0.005),
        Asked("small", 6000, slips={1500: "half the bytes", 3000: "what is read for a word?"},
              tolerance=0.005),
    ],
    "from the turn on, words cost what is kept",
    keyed=True,
)

_SAME = ("less", "as much", "more")
what_does_not_shrink = Numbers(
    "ex-what-does-not-shrink",
    About("What does not shrink", "derive", 2, 12, "say whom a change of architecture helps"),
    [
        *one_of(
            _SAME,
            a=("as much", "what do the sums carry, keys or the stream?"),
            b=("less", "what goes round a ring?"),
            c=("as much", "what crosses the border of a stage?"),
            d=("more", "who has the gradient of a shared key head?"),
            e=("as much", "does a rank need one key head at least?"),
            f=("less", "which keys does a rank need of others?"),
        ),
    ],
    "keys travel where tokens are divided, and nowhere else",
    keyed=True,
)


def _borrowed(rank, P, seq, window, *, own=False, start=True):
    first = rank * seq // P
    begin = first - (window - 1 if not own else window)
    return list(range(max(0, begin) if start else begin, first))


def _shares() -> Iterator[tuple[str, tuple]]:
    for rank, P, seq, window in ((0, 4, 16, 3), (1, 4, 16, 3), (3, 4, 16, 1), (2, 4, 64, 17),
                                 (3, 8, 64, 20), (1, 2, 10, 6), (7, 8, 64, 64)):
        yield f"rank {rank} of {P}, {seq} tokens, window {window}", (rank, P, seq, window)


def _same_places(given: Any, right: list, *args) -> None:
    try:
        found = [int(place) for place in given]
    except (TypeError, ValueError):
        raise NotYet("return a list of positions") from None
    if sorted(found) != right:
        more = set(found) - set(right)
        raise NotYet("no token of the rank sees one of them" if more else "some are missing")


the_halo = Function(
    "ex-the-halo",
    About("The halo", "derive", 2, 12, "say what a rank needs of its neighbours"),
    "borrowed(rank, P, seq, window)", _borrowed, _shares, _same_places,
    "seven ranks, with one neighbour and with several",
    {
        "a token sees itself, too": {"own": True},
        "nothing stands before the text": {"start": False},
    },
)

_REACH = 32 * 4095 + 1
how_far_it_reaches = Numbers(
    "ex-how-far-it-reaches",
    About("How far it reaches", "compute", 1, 8, "take a bound for a bound", ("x36.1",)),
    [
        Asked("(a)", _REACH, slips={
              131072: "a token and those before it: how far back is the farthest?",
              4096: "that is one layer"}, tolerance=1e-5),
        Asked("(b)", 3126, slips={3125: "itself among them", 3200: "for how many layers?"},
              tolerance=1e-4),
        Asked("(c)", 2 * 8 * 128 * 4096 * 2, "B", {
              2 * 8 * 128 * 32768 * 2: "only the window is kept",
              8 * 128 * 4096 * 2: "a key and a value"}),
        Asked("(d)", 32, slips={8: "and the grouping", 4: "and the window",
              16: "both the heads and the tokens shrink: by how much each?"}),
    ],
    "no farther than (a), and how much of it arrives is another question",
)


def _then(first, second, *, order=True, product=True):
    (a, x), (b, y) = (first, second) if order else (second, first)
    return a * b if product else b, b * np.asarray(x) + np.asarray(y)


def _stretches() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(1)
    for a, b in ((0.5, 0.25), (1.0, 0.9), (0.0, 1.0), (0.3, 0.0)):
        yield f"factors {a} and {b}", ((a, rng.normal(size=(3, 2))), (b, rng.normal(size=(3, 2))))


def _same_map(given: Any, right, *args) -> None:
    try:
        kept, added = given
    except (TypeError, ValueError):
        raise NotYet("return a pair: the factor, and what is added") from None
    if abs(kept - right[0]) > 1e-12:
        raise NotYet("the factor is another one")
    if np.shape(added) != right[1].shape or not np.allclose(added, right[1], rtol=0, atol=1e-12):
        raise NotYet("what is added is something else")


one_stretch_after_another = Function(
    "ex-one-stretch-after-another",
    About("One stretch after another", "derive", 2, 12, "compose affine maps in order"),
    "then(first, second)", _then, _stretches, _same_map, "four pairs of stretches",
    {
        "the second stretch comes after the first": {"order": False},
        "what the first one added fades in the second":
            lambda first, second: (first[0] * second[0], first[1] + second[1]),
        "both stretches let the state fade": {"product": False},
    },
)

_FREE = 8 * (1 - comb(224, 8) / comb(256, 8))
journeys_of_a_token = Numbers(
    "ex-journeys-of-a-token",
    About("Journeys of a token", "compute", 2, 12, "count what leaves a node", ("x35.5",)),
    [
        Asked("copies", 7 * 14336, "B", {
              8 * 14336: "one of eight is at home, on average", 7 * 7168: "two bytes"}, 0.005),
        Asked("once", _FREE * 7 / 8 * 14336, "B", {
              _FREE * 14336: "one of eight is at home, on average",
              7 * 14336: "several experts may share a node"}, 0.01),
        Asked("limited", 3.5 * 14336, "B", {
              4 * 14336: "one of eight is at home, on average"}, 0.005),
        Asked("saved", 0.5, slips={1 - 4 / _FREE: "of a copy for each expert", 2: "as a share"},
              tolerance=0.01),
    ],
    "half of what a copy for each expert would send",
    keyed=True,
)


def _tokens(acceptance, guesses):
    return sum(acceptance**i for i in range(guesses + 1))


words_for_a_step = Formula(
    "ex-words-for-a-step",
    About("Words for a step", "derive", 2, 12, "say what a guess is worth", ("x36.6",)),
    "my_tokens(acceptance, guesses)", _tokens,
    lambda: (("", (a, k)) for a, k in ((0.9, 1), (0.85, 1), (0.5, 2), (0.8, 4), (0.6, 6), (0, 3))),
    same_number, "six pairs",
    {
        "the model's own token counts in any case": lambda a, k: _tokens(a, k) - 1,
        "a guess counts only if all before it were right": lambda a, k: 1 + k * a,
        "the first wrong guess ends it, the others still count": lambda a, k: 1 + a**k,
    },
    (Limit("acceptance = 0", {"acceptance": 0}, "without a right guess there is one token"),
     Limit("guesses = 1", {"guesses": 1}, "one guess adds its own chance")),
)

the_bill_of_dual_pipe = Numbers(
    "ex-the-bill-of-dual-pipe",
    About("The bill of DualPipe", "compute", 2, 15, "account for a schedule", ("x35.4",)),
    [
        Asked("plain", 15 / 47, slips={15 / 32: "of the step, not of the work",
              15 / 64: "that is the tempting formula of another schedule"}),
        Asked("zero", 15 / 111, slips={15 / 96: "of the step, not of the work",
              45 / 141: "W fills some of the wait"}),
        Asked("dual", 14 / 110, slips={15 / 64: "simulate it, or use its own wait",
              14 / 96: "of the step, not of the work"}),
        Asked("weights", 2, slips={1: "every rank has a stage of each way"}),
        Asked("held", 17, slips={32: "not all of them, and not twice as many",
              16: "one more than 1F1B's first rank"}),
    ],
    "twice the weights, one more micro-batch, and one turn less of waiting than ZB-H1",
    keyed=True,
)
