"""Graders of chapter 17, Sequence Parallelism."""

import math
import random
from typing import Any

import numpy as np

from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.engine import declare, grader
from dtlib.exercises.judge import call, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet

GB, MB, us, ms = 10**9, 10**6, 1e-6, 1e-3


@grader("ex-never-there")
def never_there(answer: Any) -> str:
    every, block, pairs = items(answer, "(all_scores, one_block, two_pairs)", 3)
    scores = 2 * 32 * 2**36
    number(
        every,
        scores,
        "(a)",
        "bytes",
        mistakes={
            scores / 32: "every head has scores of its own",
            scores / 2: "a number has two bytes",
            scores / 8: "all of them, not one rank's",
        },
    )
    number(
        block,
        scores / 64,
        "(b)",
        "bytes",
        mistakes={
            scores / 8: "in one step a rank sees the keys of one rank only",
            scores / 64 / 32: "every head has scores of its own",
        },
    )
    tensor = 2 * 2**15 * 4096
    number(
        pairs,
        4 * tensor,
        "(c)",
        "bytes",
        mistakes={
            2 * tensor: "that is one pair; another one arrives",
            8 * tensor: "a number has two bytes, and there are four tensors",
            4 * 8 * tensor: "a rank has an eighth of the tokens",
        },
    )
    return "terabytes that nobody keeps, a gigabyte that is kept"


@grader("ex-ring-or-ulysses")
def ring_or_ulysses(answer: Any) -> str:
    ring, ulysses, ratio = items(answer, "(ring, ulysses, ratio)", 3)
    share = 2**20 // 16 * 8192 * 2
    number(
        ring,
        30 * share,
        "(a)",
        "bytes",
        mistakes={
            32 * share: "step 0 needs no hop",
            15 * share: "keys and values",
            15 * 1.5 * share: "keys and values, and bytes, not numbers",
        },
    )
    number(
        ulysses,
        4 * share * 15 / 16,
        "(b)",
        "bytes",
        mistakes={
            3 * share * 15 / 16: "the result must come back too",
            4 * share: "a rank keeps what is for itself",
            4 * 16 * share * 15 / 16: "a rank sends its own share only",
        },
    )
    number(
        ratio,
        16 / 9,
        "(c)",
        mistakes={
            8: "that is without grouped heads",
            1: "Ulysses' queries and results are as large as before",
            9 / 16: "the ring's volume over Ulysses', not the other way round",
        },
    )
    return "both volumes, and what grouped heads do to their ratio"


@grader("ex-eight-steps-seven-hops")
def eight_steps_seven_hops(answer: Any) -> str:
    a, b, c = items(answer, "(a, b, c)", 3)
    first = "step 0 uses the rank's own keys: there is no first transfer to wait for"
    after = "after the last step nothing has to be sent"
    number(a, 80 * ms, "(a)", "s", mistakes={82 * ms: first, 94 * ms: "they run side by side"})
    number(b, 94 * ms, "(b)", "s", mistakes={96 * ms: after, 80 * ms: "they run in turns"})
    number(
        c,
        108 * ms,
        "(c)",
        "s",
        mistakes={
            112 * ms: "the last step has no hop beside it",
            122 * ms: first,
            178 * ms: "they run side by side",
            80 * ms: "of a step and the hop beside it the longer one counts",
        },
    )
    return "seven hops beside eight steps"


_MEAN = "that is the mean over the ranks: in which step does nobody have a whole block?"

who_waits = declare(
    Numbers(
        "ex-who-waits",
        Asked(
            "skipped",
            7.5,
            slips={8: "a rank's own block is skipped by nobody", 15: "that is rank 0 alone"},
        ),
        Asked(
            "contiguous",
            15.5,
            slips={8.5: _MEAN, 8: _MEAN, 16: "the first step is a triangle for everybody"},
        ),
        Asked(
            "zigzag",
            8,
            slips={7.5: "half a block in each step, the first one too", 16: "that is no mask"},
        ),
        verified="the work of the mean and the time of the slowest",
    )
)


@grader("ex-tiles-inside")
def tiles_inside(answer: Any) -> str:
    matrix, factor, qkv = items(answer, "(matrix_bytes, factor, qkv_bytes)", 3)
    number(
        matrix,
        2**35,
        "(a)",
        "bytes",
        mistakes={2**34: "a number has two bytes", 2**35 / 1024: "the whole matrix"},
    )
    number(factor, 1024, "(b)", mistakes={32: "both sides of the block are shorter"})
    tensor = 4096 * 4096 * 2
    number(
        qkv,
        3 * tensor,
        "(c)",
        "bytes",
        mistakes={4 * tensor: "three tensors: the result is not asked for", tensor: "that is one"},
    )
    return "what is never held, and what is"


def _state_of(keys: list[tuple[float, float]]) -> tuple[float, float, float]:
    m = max((score for score, _ in keys), default=-math.inf)
    weights = [math.exp(score - m) for score, _ in keys]
    return m, sum(weights), sum(w * value for w, (_, value) in zip(weights, keys, strict=True))


@grader("ex-repair-the-merge")
def repair_the_merge(answer: Any) -> str:
    function(answer, "my_merge(a, b)")
    draw = random.Random(17)
    nothing = (-math.inf, 0.0, 0.0)

    def keys(count, scale):
        return [(scale * draw.gauss(0, 1), draw.uniform(-3, 3)) for _ in range(count)]

    for scale, where in (
        (0.0, "equal scores"),
        (1.0, "ordinary scores"),
        (10.0, "scores some tens apart"),
        (1e4, "large scores"),
    ):
        for _ in range(20):
            left, right = keys(draw.randint(1, 4), scale), keys(draw.randint(1, 4), scale)
            merged = _merged(answer, _state_of(left), _state_of(right), where)
            _same_meaning(merged, _state_of(left + right), where)
    state = _state_of(keys(3, 1.0))
    for a, b, where in (
        (nothing, state, "no key on the left"),
        (state, nothing, "no key on the right"),
        (nothing, nothing, "no key on either side"),
    ):
        merged = _merged(answer, a, b, where)
        _same_meaning(merged, state if state in (a, b) else nothing, where)
    return "for equal, ordinary and large scores, and where there is no key at all"


def _merged(answer, a, b, where) -> tuple:
    try:
        merged = tuple(call(answer, a, b, passing=(OverflowError,)))
    except OverflowError:
        raise NotYet(f"{where}: overflow; convert to the larger of the two units") from None
    except TypeError:
        raise NotYet(f"{where}: return a state, a tuple (m, s, o)") from None
    if len(merged) != 3:
        raise NotYet(f"{where}: return a state, a tuple (m, s, o), got {len(merged)} items")
    if any(isinstance(part, float) and math.isnan(part) for part in merged):
        raise NotYet(f"{where}: nan; what is -inf minus -inf?")
    return merged


def _same_meaning(found, right, where) -> None:
    m, s, o = found
    if right[0] == -math.inf:
        if m != -math.inf or s != 0 or o != 0:
            raise NotYet(f"{where}: the result has still seen no key, and must be the identity")
        return
    if not math.isfinite(m):
        raise NotYet(f"{where}: m is {m}, but somebody has seen a key")
    s, o = real(s, f"{where}: s"), real(o, f"{where}: o")
    if not math.isclose(m, right[0], rel_tol=1e-12, abs_tol=1e-12):
        raise NotYet(f"{where}: m is not the larger of the two maxima")
    if not math.isclose(s, right[1], rel_tol=1e-11):
        side = "large" if s > right[1] else "small"
        raise NotYet(f"{where}: s is too {side}: in which unit is each of the two sums counted?")
    if not math.isclose(o, right[2], rel_tol=1e-9, abs_tol=1e-9):
        raise NotYet(f"{where}: s is right and o is not; it has the same unit as s")


@grader("ex-repair-the-mask")
def repair_the_mask(answer: Any) -> str:
    function(answer, "my_seen(q_positions, k_positions)")
    pieces = np.arange(16).reshape(8, 2)
    deals = {
        "contiguous": np.arange(16).reshape(4, 4),
        "zigzag": np.concatenate([pieces[:4], pieces[:3:-1]], axis=1),
        "striped": np.arange(16).reshape(4, 4).T.copy(),
        "shuffled": np.random.default_rng(17).permutation(16).reshape(4, 4),
    }
    for name, table in deals.items():
        for r, queries in enumerate(table):
            for c, keys in enumerate(table):
                where = f"{name}, queries of rank {r}, keys of rank {c}"
                _judge_mask(call(answer, queries, keys), queries, keys, where)
    _judge_mask(call(answer, deals["shuffled"][0][:2], pieces[3]), deals["shuffled"][0][:2],
                pieces[3], "blocks of other sizes")  # fmt: skip
    return "every pair of four layouts, one of them shuffled"


def _judge_mask(given, queries, keys, where) -> None:
    table, right = np.asarray(given), queries[:, None] >= keys[None, :]
    if table.shape != right.shape:
        raise NotYet(f"{where}: the table has shape {table.shape}, one row for each query, please")
    if table.dtype != bool:
        raise NotYet(f"{where}: a table of booleans, please, not of {table.dtype}")
    if not np.array_equal(table, right):
        i, j = np.argwhere(table != right)[0]
        pair = f"the query at {queries[i]} and the key at {keys[j]}"
        verb = "must not see" if table[i, j] else "should see"
        if queries[i] == keys[j]:
            raise NotYet(f"{where}: a token sees itself")
        raise NotYet(f"{where}: {pair}: it {verb} it")


@grader("ex-heads-come-home")
def heads_come_home(answer: Any) -> str:
    function(answer, "bring_home(held)")
    for P, heads, cut, width in ((2, 1, 3, 2), (2, 2, 3, 2), (4, 2, 2, 3), (3, 4, 5, 1)):
        tokens = cut * P
        everything = np.arange(P * heads * tokens * width).reshape(P * heads, tokens, width)
        held = [everything[r * heads : (r + 1) * heads].copy() for r in range(P)]
        where = f"P = {P}, {heads} heads a rank"
        given = items(call(answer, held), f"{where}: the result", P)
        for r, got in enumerate(given):
            right = everything[:, r * cut : (r + 1) * cut]
            got = np.asarray(got)
            if got.shape != right.shape:
                raise NotYet(f"{where}: rank {r} gets shape {got.shape}; heads, its tokens, width")
            if not np.array_equal(got, right):
                h, t, _ = np.argwhere(got != right)[0]
                number = int(got[h, t, 0]) // width
                raise NotYet(
                    f"{where}: rank {r}: in the row of head {h}, at its token {t}, stands a "
                    f"number of head {number // tokens}, token {number % tokens}"
                )
    return "on 2, 3 and 4 ranks every head has its own numbers, in order"


@grader("ex-two-million-tokens")
def two_million_tokens(answer: Any) -> str:
    asked = ("tokens", "all_to_all_bytes", "hop_bytes", "step_seconds", "hop_seconds")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    tokens, row = 2**15, 8192 * 2
    number(answer["tokens"], tokens, "tokens", mistakes={8 * tokens: "all 64 share the sequence"})
    moved = 4 * tokens * row * 7 / 8
    number(
        answer["all_to_all_bytes"],
        moved,
        "all_to_all_bytes",
        "bytes",
        mistakes={
            moved * 3 / 4: "the result must come back too",
            moved * 8 / 7: "a GPU keeps what is for itself",
        },
    )
    hop = 2 * 2**18 * 1024 * 2
    number(
        answer["hop_bytes"],
        hop,
        "hop_bytes",
        "bytes",
        mistakes={
            hop * 8: "inside its node the GPU has an eighth of the heads",
            hop / 2: "keys and values",
        },
    )
    step = 4 * 2.0**36 * 1024 / 989e12
    number(
        answer["step_seconds"],
        step,
        "step_seconds",
        "s",
        mistakes={
            step / 2: "scores and weighted values: both cost arithmetic",
            step / 8: "how many tokens do its queries have after the all-to-all?",
            step * 8: "inside its node the GPU has an eighth of the heads",
        },
    )
    number(
        answer["hop_seconds"],
        hop / (50 * GB),
        "hop_seconds",
        "s",
        mistakes={7 * hop / (50 * GB): "one hop", hop * 8 / (50 * GB): "one GPU has its own port"},
    )
    return "a hop hides many times over"


@grader("ex-sliding-window")
def sliding_window(answer: Any) -> str:
    function(answer, "hops(seq, P, w)")
    for P, n in ((1, 4), (2, 4), (4, 4), (8, 3), (4, 1)):
        for w in (1, 2, n, n + 1, n + 2, 2 * n, 2 * n + 1, 2 * n + 2, P * n, P * n + 5):
            where = f"seq = {P * n}, P = {P}, w = {w}"
            given, right = whole(call(answer, P * n, P, w), where), _hops(P, n, w)
            if given > P - 1:
                raise NotYet(f"{where}: after P - 1 hops everybody has met everybody")
            if given < right:
                raise NotYet(f"{where}: too few hops: the first query of a share looks back w - 1")
            if given > right:
                raise NotYet(f"{where}: too many hops: the keys of the last one are seen by nobody")
    return "counted pair by pair for 50 windows"


def _hops(P: int, n: int, w: int) -> int:
    pairs = ((q // n, k // n) for q in range(P * n) for k in range(max(0, q - w + 1), q + 1))
    return max(q - k for q, k in pairs)


@grader("ex-gradients-of-a-block")
def gradients_of_a_block(answer: Any) -> str:
    function(answer, "my_block_gradients(q, k, v, g, log_sum, c)")
    rng = np.random.default_rng(17)
    for queries, keys, d in ((3, 5, 4), (4, 4, 4), (1, 2, 9), (6, 1, 2)):
        q, g = rng.normal(size=(2, queries, d))
        k, v = rng.normal(size=(2, keys + 3, d))  # three keys lie in another block
        scores = q @ k.T / math.sqrt(d)
        log_sum = np.log(np.exp(scores).sum(1))
        p = np.exp(scores - log_sum[:, None])
        c = (g * (p @ v)).sum(1)
        raw = p * (g @ v.T - c[:, None])
        own, scale = slice(0, keys), 1 / math.sqrt(d)
        right = {
            "dq": scale * raw[:, own] @ k[own],
            "dk": scale * raw[:, own].T @ q,
            "dv": p[:, own].T @ g,
        }
        given = call(answer, q, k[own], v[own], g, log_sum, c)
        given = dict(zip(right, items(given, "(dq, dk, dv)", 3), strict=True))
        where = f"{queries} queries, {keys} keys, d = {d}"
        for name in ("dv", "dk", "dq"):
            got, expected = np.asarray(given[name], dtype=float), right[name]
            if got.shape != expected.shape:
                raise NotYet(f"{where}: {name} has shape {got.shape}, not {expected.shape}")
            if np.allclose(got, expected, rtol=1e-9, atol=1e-12):
                continue
            block = {"p": p[:, own], "g": g, "v": v[own], "q": q, "k": k[own], "scale": scale}
            raise NotYet(f"{where}: {_what_is_wrong(name, got, expected, **block)}")
    return "dq, dk and dv of blocks that see a part of the keys"


def _what_is_wrong(name, got, expected, p, g, v, q, k, scale) -> str:
    if name == "dv":
        local = p / p.sum(1, keepdims=True)
        if np.allclose(got, local.T @ g):
            return "dv: these weights add up to 1 in this block; use log_sum, which has seen all"
        return "dv is wrong: it is the weights, turned round, times g"
    if np.allclose(got * scale, expected):
        return f"{name} lacks the factor that the scores have, 1 / sqrt(d)"
    without = scale * p * (g @ v.T)
    if np.allclose(got, without.T @ q if name == "dk" else without @ k):
        return f"{name} forgets that raising one weight lowers all others: what is c for?"
    return f"dv is right, {name} is not: what is the gradient of a score?"
