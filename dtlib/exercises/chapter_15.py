"""Graders of chapter 15, Tensor Parallelism."""

import math
from typing import Any

import numpy as np

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet

GB, us = 1e9, 1e-6


@grader("ex-bytes-of-a-layer")
def bytes_of_a_layer(answer: Any) -> str:
    layer, model = items(answer, "(layer, model)", 2)
    n = 2 * 4 * 2048 * 4096
    mistakes = {
        2 * n: "that is what is all-reduced; a rank sends another amount for it",
        7 / 4 * n: "that is one of the two all-reduces",
        7 * n: "that is the forward and the backward pass",
        7 / 4 * n / 2: "a number has two bytes",
    }
    number(layer, 7 / 2 * n, "bytes of a layer", "bytes", mistakes=mistakes)
    wrong = {17.92 * GB: "MiB are not MB: keep bytes until the end"}
    number(model, 80 * 7 / 2 * n, "bytes of the model", "bytes", mistakes=wrong, tolerance=0.005)
    return "two all-reduces of the stream, in every layer"


@grader("ex-headroom-of-a-layer")
def headroom_of_a_layer(answer: Any) -> str:
    computing, sending, gain = items(answer, "(compute, communicate, gain)", 3)
    b, s, d = 4, 2048, 4096
    work = (24 * b * s * d**2 + 4 * b * s**2 * d) / 8
    matrices = 24 * b * s * d**2 / 8
    number(
        computing,
        work / 989e12,
        "seconds of arithmetic",
        "s",
        tolerance=0.005,
        mistakes={
            matrices / 989e12: "the scores and the sum of values multiply, too",
            8 * work / 989e12: "eight ranks share the work",
            (4 * b * s * d**2 + 2 * b * s**2 * d) / 8 / 989e12: "count the weights of a layer "
            "again: attention has four matrices of H x H, and the feed-forward block eight",
        },
    )
    n = 2 * b * s * d
    number(
        sending,
        7 / 2 * n / 450e9,
        "seconds of communication",
        "s",
        mistakes={
            7 / 4 * n / 450e9: "a layer has two all-reduces; and 900 GB/s would count both "
            "directions of the link",
        },
    )
    number(
        gain,
        7 / 3,
        "the gain from 8 to 4 ranks",
        mistakes={
            2: "the bytes a rank sends change as well as its work",
            3 / 7: "the ratio is larger with fewer ranks",
        },
    )
    return "arithmetic, communication, and a ratio that goes as 1 / (t - 1)"


MAPS = {
    "gelu": True,
    "dropout with a mask of its own for each column": True,
    "adding a bias, each rank its columns": True,
    "softmax of each head's scores": True,
    "layer norm over all columns": False,
    "softmax over all columns": False,
}


@grader("ex-what-may-stand-between")
def what_may_stand_between(answer: Any) -> str:
    if not isinstance(answer, dict) or set(answer) != set(MAPS):
        raise NotYet(f"pass a dict with the keys {', '.join(MAPS)}")
    for name, right in MAPS.items():
        if not isinstance(answer[name], bool):
            raise NotYet(f"{name}: True or False, got {answer[name]!r}")
        if answer[name] != right:
            raise NotYet(f"{name}: which numbers does one of its results depend on, and whose?")
    return "a map may stand there if no result needs another rank's columns"


@grader("ex-bias-of-a-row")
def bias_of_a_row(answer: Any) -> str:
    added, moved = items(answer, "(added, moved)", 2)
    number(added, 8, "how often the bias is added", mistakes={1: "that is the right layer"})
    number(
        moved,
        8,
        "how many times as far the sum of the parts moves",
        mistakes={
            1: "each part has its own gradient: how large is it, and how many parts are there?",
            1 / 8: "the forward pass is right; what is each rank's gradient, and what do the "
            "updates add up to?",
        },
    )
    return "eight times too much, at once or in the first update"


@grader("ex-heads-on-six-ranks")
def heads_on_six_ranks(answer: Any) -> str:
    uneven, padded, two_groups = items(answer, "(uneven, padded, two groups)", 3)
    for what, value, right in (
        ("uneven", uneven, 1 / 8),
        ("padded", padded, 1 / 8),
        ("two groups", two_groups, 1 / 2),
    ):
        number(
            value,
            right,
            what,
            mistakes={
                1 + right: "by how much more, so without the 1",
                1 / 9: "of the heads there are, not of those after padding",
            },
        )
    return "padding costs what the uneven deal costs, and two groups cost four times that"


@grader("ex-a-published-overhead")
def a_published_overhead(answer: Any) -> str:
    payload, sent, share = items(answer, "(payload, sent, share)", 3)
    n = 2 * 2048 * 12288
    number(
        payload,
        4 * 96 * n,
        "payload",
        "bytes",
        mistakes={
            4 * 96 * 12288 * 2: "that is one token; the sequence has 2,048",
            2 * 96 * n: "two all-reduces forward, and two backward",
        },
    )
    number(
        sent,
        7 / 4 * 4 * 96 * n,
        "sent",
        "bytes",
        mistakes={4 * 96 * n: "that is the payload; a rank sends another amount"},
    )
    computing = 6 * 12 * 96 * 12288**2 * 2048 / 8 / 156e12
    number(
        share,
        7 / 4 * 4 * 96 * n / 300e9 / computing,
        "communication over arithmetic",
        tolerance=0.02,
        mistakes={
            7 / 8 * 96 * 4 * n / 300e9 / computing: "an all-reduce is two trips of the bytes",
            7 / 4 * 4 * 96 * n / 300e9 / computing / 2: "half of the peak takes twice as long",
            7 / 4 * 4 * 96 * n / 300e9 / computing / 8: "eight ranks share the work",
        },
    )
    return "tokens counted, bytes sent, and what of a step is communication"


@grader("ex-statistics-of-a-norm")
def statistics_of_a_norm(answer: Any) -> str:
    statistics, ratio = items(answer, "(bytes, ratio)", 2)
    number(
        statistics,
        65536,
        "bytes of the statistics",
        "bytes",
        mistakes={
            32768: "a mean and a variance",
            131072: "two numbers of four bytes for each token",
        },
    )
    number(
        ratio,
        1024,
        "the ratio",
        mistakes={
            4096: "count both in the same way: one buffer each, and neither out and back",
            2048: "one of the two sums, and two bytes to a number",
            1 / 1024: "the sum over the statistics, not the other way round",
        },
    )
    return "two numbers a token against one row of the width"


@grader("ex-fused-projections")
def fused_projections(answer: Any) -> str:
    shard = function(answer, "my_shard(weight, heads, rank, P)")
    for heads, head_dim, P in ((4, 2, 2), (8, 3, 4), (6, 2, 3), (4, 2, 1)):
        hidden = heads * head_dim
        rows = np.arange(3 * hidden)
        weight = np.repeat(rows[:, None], 2, axis=1)
        for rank in range(P):
            found = np.asarray(call(shard, weight.copy(), heads, rank, P))
            where = f"{heads} heads, rank {rank} of {P}"
            expected = (3 * hidden // P, 2)
            if found.shape != expected:
                raise NotYet(f"{where}: the shape must be {expected}, got {found.shape}")
            local = rows.reshape(3, P, -1)[:, rank].ravel()
            if not np.array_equal(found, weight[local]):
                kinds = [
                    ["query", "key", "value"][int(k) // hidden] if 0 <= k < 3 * hidden else "none"
                    for k in found[:, 0]
                ]
                of = {kind: kinds.count(kind) for kind in ("query", "key", "value")}
                if len(set(of.values())) > 1:
                    told = ", ".join(f"{n} rows of {kind}s" for kind, n in of.items())
                    raise NotYet(f"{where}: the part has {told}; a head needs all three")
                if sorted(found[:, 0]) == sorted(local):
                    raise NotYet(f"{where}: the right rows in another order; queries come first")
                raise NotYet(f"{where}: as many rows of each kind, but not of this rank's heads")
    return "each rank has its heads' queries, keys and values, in the order of the whole"


@grader("ex-backward-of-columns")
def backward_of_columns(answer: Any) -> str:
    backward = function(answer, "my_backward(x, w, dy, sum_over_ranks)")
    generator = np.random.default_rng(15)
    for P in (2, 3, 4):
        x = generator.normal(size=(5, 6))
        w = np.split(generator.normal(size=(6, 2 * P)), P, axis=1)
        dy = np.split(generator.normal(size=(5, 2 * P)), P, axis=1)
        right_dx = sum(d @ m.T for d, m in zip(dy, w, strict=True))
        results, sums = _run_together(backward, [(x, w[r], dy[r]) for r in range(P)])
        for rank, result in enumerate(results):
            dx, dw = items(result, "(dx, dw)", 2)
            where = f"P = {P}, rank {rank}"
            _same(dw, x.T @ dy[rank], f"{where}: dw", {"P times": P * (x.T @ dy[rank])})
            _same(dx, right_dx, f"{where}: dx", {"only this rank's summand": dy[rank] @ w[rank].T})
        if sums != 1:
            raise NotYet(f"P = {P}: {sums} sums over the ranks, where one is enough")
    return "dw at home, dx summed once over the ranks"


def _run_together(program, inputs) -> tuple[list, int]:
    """Every rank's result, and the sums each asked for: run again until all sums are known."""
    known: list[np.ndarray] = []
    while True:
        asked: list[list[np.ndarray]] = []
        results = []
        for given in inputs:
            mine: list[np.ndarray] = []

            def sum_over_ranks(values, mine=mine):
                mine.append(np.array(values, dtype=float))
                at = len(mine) - 1
                return known[at].copy() if at < len(known) else mine[at].copy()

            results.append(call(program, *(a.copy() for a in given), sum_over_ranks))
            asked.append(mine)
        counts = {len(mine) for mine in asked}
        if len(counts) > 1:
            raise NotYet("the ranks ask for different numbers of sums: real ones would hang")
        (count,) = counts
        if count == len(known):
            return results, count
        if len({mine[len(known)].shape for mine in asked}) > 1:
            raise NotYet("the ranks add up arrays of different shapes")
        known.append(sum(mine[len(known)] for mine in asked))
        if len(known) > 8:
            raise NotYet("more than eight sums over the ranks")


def _same(found, right, what: str, mistakes: dict) -> None:
    try:
        found = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        raise NotYet(f"{what} must be an array, got {type(found).__name__}") from None
    if found.shape != right.shape:
        raise NotYet(f"{what} must have the shape {right.shape}, got {found.shape}")
    if np.allclose(found, right, rtol=1e-9, atol=1e-9):
        return
    for told, wrong in mistakes.items():
        if np.allclose(found, wrong, rtol=1e-9, atol=1e-9):
            raise NotYet(f"{what} is {told}")
    raise NotYet(f"{what} has wrong values")


@grader("ex-how-many-ranks")
def how_many_ranks(answer: Any) -> str:
    choose = function(answer, "my_ranks(heads, hidden, rho)")
    for heads, hidden, rho in (
        (64, 8192, 2198),
        (64, 8192, 19780),
        (96, 12288, 2198),
        (40, 5120, 700),
        (32, 4096, 1),
        (32, 4096, 4096 * 3),
        (12, 768, 60),
    ):
        fits = [t for t in range(1, heads + 1) if heads % t == 0 and hidden >= (t - 1) * rho / 3]
        given = whole(call(choose, heads, hidden, rho), "the number of ranks")
        where = f"{heads} heads, width {hidden}, rho = {rho}"
        if given < 1 or heads % given:
            raise NotYet(f"{where}: {given} ranks cannot share the heads equally")
        if given not in fits:
            raise NotYet(f"{where}: with {given} ranks the forward pass cannot hide what it sends")
        if given != max(fits):
            raise NotYet(f"{where}: {given} ranks would do, but more would, too")
    return "a divisor of the heads, on this side of the border"


@grader("ex-three-numbers")
def three_numbers(answer: Any) -> str:
    part, merge = items(answer, "(part, merge)", 2)
    part = function(part, "part(logits, target)")
    merge = function(merge, "merge(parts)")
    generator = np.random.default_rng(3)
    for scale in (1.0, 1e4):
        for P in (1, 2, 4):
            logits = scale * generator.normal(size=12)
            for target in range(12):
                shards = np.split(logits, P)
                places = [target - r * 12 // P for r in range(P)]
                owned = [p if 0 <= p < 12 // P else None for p in places]
                parts = [
                    items(call(part, shard.copy(), own), "what part returns", 3)
                    for shard, own in zip(shards, owned, strict=True)
                ]
                parts = [tuple(real(v, "what part returns") for v in p) for p in parts]
                loss = real(call(merge, parts), "the loss")
                top = logits.max()
                right = top + math.log(np.exp(logits - top).sum()) - logits[target]
                if not math.isclose(loss, right, rel_tol=1e-9, abs_tol=1e-9):
                    where = f"logits of size {scale:g}, P = {P}, target {target}"
                    if P > 1 and scale == 1.0:
                        raise NotYet(f"{where}: the loss is wrong; on what scale are the sums?")
                    raise NotYet(f"{where}: the loss is wrong")
    return "a maximum, a sum and a logit from each rank, and no number too large"
