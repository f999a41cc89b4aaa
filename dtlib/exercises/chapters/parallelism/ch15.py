"""The exercises of chapter 15, Tensor Parallelism, in the order of its page."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import call, function, functions, items, real, whole
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.judges.pieces import same_pieces, texts
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
GB = 10**9

_STREAM = 2 * 4 * 2048 * 4096

bytes_of_a_layer = Numbers(
    "ex-bytes-of-a-layer",
    About("Bytes of a layer", "compute", 1, 8, "count what tensor parallelism sends", ("x15.2",)),
    [
        Asked("bytes of a layer", 7 / 2 * _STREAM, "bytes", {
              2 * _STREAM: "that is what is all-reduced; a rank sends another amount for it",
              7 / 4 * _STREAM: "that is one of the two all-reduces",
              7 * _STREAM: "that is the forward and the backward pass",
              7 / 8 * _STREAM: "a number has two bytes"}),
        Asked("bytes of the model", 280 * _STREAM, "bytes", {
              17.92 * GB: "MiB are not MB: keep bytes until the end"}, tolerance=0.005),
    ],
    "two all-reduces of the stream, in every layer",
)

_MATRICES, _SCORES = 24 * 4 * 2048 * 4096**2, 4 * 4 * 2048**2 * 4096
_COMPUTING, _SENDING = (_MATRICES + _SCORES) / 8 / 989e12, 7 / 2 * _STREAM / 450e9

headroom_of_a_layer = Numbers(
    "ex-headroom-of-a-layer",
    About("Headroom of a layer", "compute", 1, 12,
          "set a layer's arithmetic against its communication", ("x15.3",)),
    [
        Asked("seconds of arithmetic", _COMPUTING, "s", {
              _MATRICES / 8 / 989e12: "the scores and the sum of values multiply, too",
              8 * _COMPUTING: "eight ranks share the work",
              (_MATRICES / 6 + _SCORES / 2) / 8 / 989e12:
                  "count the weights of a layer again: attention has four matrices of H x H, "
                  "and the feed-forward block eight"}, tolerance=0.005),
        Asked("seconds of communication", _SENDING, "s", {
              _SENDING / 2: "a layer has two all-reduces; and 900 GB/s would count both "
                            "directions of the link"}),
        Asked("the gain from 8 to 4 ranks", 7 / 3, slips={
              2: "the bytes a rank sends change as well as its work",
              3 / 7: "the ratio is larger with fewer ranks"}),
    ],
    "arithmetic, communication, and a ratio that goes as 1 / (t - 1)",
)


def _may_stand(name: str, right: bool) -> Chosen:
    asks = "which numbers does one of its results depend on, and whose?"
    return Chosen(name, right, {not right: asks})


what_may_stand_between = Numbers(
    "ex-what-may-stand-between",
    About("What may stand between", "compute", 1, 8,
          "tell maps that commute with concatenation from those that do not", ("x15.5",)),
    [
        _may_stand("gelu", True),
        _may_stand("dropout with a mask of its own for each column", True),
        _may_stand("adding a bias, each rank its columns", True),
        _may_stand("softmax of each head's scores", True),
        _may_stand("layer norm over all columns", False),
        _may_stand("softmax over all columns", False),
    ],
    "a map may stand there if no result needs another rank's columns",
    keyed=True,
)

bias_of_a_row = Numbers(
    "ex-bias-of-a-row",
    About("A bias on every rank", "compute", 1, 8,
          "follow a bias through a sum over ranks and its gradient", ("x15.1",)),
    [
        Asked("how often the bias is added", 8, slips={1: "that is the right layer"}),
        Asked("how many times as far the sum of the parts moves", 8, slips={
              1: "each part has its own gradient: how large is it, and how many parts are there?",
              1 / 8: "the forward pass is right; what is each rank's gradient, and what do the "
                     "updates add up to?"}),
    ],
    "eight times too much, at once or in the first update",
)


def _more(name: str, share: float) -> Asked:
    return Asked(name, share, slips={
        1 + share: "by how much more, so without the 1",
        1 / 9: "of the heads there are, not of those after padding"})


heads_on_six_ranks = Numbers(
    "ex-heads-on-six-ranks",
    About("Heads on six ranks", "compute", 1, 8, "price an uneven deal of heads", ("x15.6",)),
    [_more("uneven", 1 / 8), _more("padded", 1 / 8), _more("two groups", 1 / 2)],
    "padding costs what the uneven deal costs, and two groups cost four times that",
)

_PAYLOAD = 4 * 96 * 2 * 2048 * 12288
_SHARE = 7 / 4 * _PAYLOAD / 300e9 / (6 * 12 * 96 * 12288**2 * 2048 / 8 / 156e12)

a_published_overhead = Numbers(
    "ex-a-published-overhead",
    About("An overhead", "compute", 1, 12, "keep tokens and units in an estimate",
          ("C.17", "Ex.2", "A.13")),
    [
        Asked("payload", _PAYLOAD, "bytes", {
              _PAYLOAD / 2048: "that is one token; the sequence has 2,048",
              _PAYLOAD / 2: "two all-reduces forward, and two backward"}),
        Asked("sent", 7 / 4 * _PAYLOAD, "bytes", {
              _PAYLOAD: "that is the payload; a rank sends another amount"}),
        Asked("communication over arithmetic", _SHARE, slips={
              _SHARE / 2: "an all-reduce is two trips; and half of the peak takes twice as long",
              _SHARE / 8: "eight ranks share the work"}, tolerance=0.02),
    ],
    "tokens counted, bytes sent, and what of a step is communication",
)

statistics_of_a_norm = Numbers(
    "ex-statistics-of-a-norm",
    About("The statistics of a norm", "compute", 1, 8,
          "compare summing statistics with summing activations", ("x15.4",)),
    [
        Asked("bytes of the statistics", 65536, "bytes", {
              32768: "a mean and a variance", 131072: "two numbers of four bytes for each token"}),
        Asked("the ratio", 1024, slips={
              4096: "count both in the same way: one buffer each, and neither out and back",
              2048: "one of the two sums, and two bytes to a number",
              1 / 1024: "the sum over the statistics, not the other way round"}),
    ],
    "two numbers a token against one row of the width",
)


def _shard(weight, heads, rank, P):
    return np.concatenate([np.split(part, P)[rank] for part in np.split(weight, 3)])


def _by_head(weight, heads, rank, P):
    part = _shard(weight, heads, rank, P)
    return part.reshape(3, heads // P, -1, part.shape[1]).swapaxes(0, 1).reshape(part.shape)


def _weights() -> Iterator[tuple[str, tuple]]:
    for heads, head_dim, P in ((4, 2, 2), (8, 3, 4), (6, 2, 3), (4, 2, 1)):
        for rank in range(P):
            weight = np.repeat(np.arange(3 * heads * head_dim)[:, None], 2, axis=1)
            yield f"{heads} heads, rank {rank} of {P}", (weight, heads, rank, P)


def _same_rows(given: Any, right: Any, *args: Any) -> None:
    same_array(given, right, "the part", place=lambda row, _, entry:
               f"row {row} should be row {right[row, 0]} of the whole, and is {entry}")


fused_projections = Function(
    "ex-fused-projections",
    About("A fused projection", "repair", 2, 15, "divide a fused weight by heads", ("Def.3",)),
    "my_shard(weight, heads, rank, P)", _shard, _weights, _same_rows,
    "each rank has its heads' queries, keys and values, in the order of the whole",
    {
        "as on the page: a rank's heads need queries, keys and values, all three":
            lambda weight, heads, rank, P: np.split(weight, P)[rank],
        "the right rows in another order; queries come first": _by_head,
        "as many rows of each kind, but not of this rank's heads":
            lambda weight, heads, rank, P: _shard(weight, heads, (rank + 1) % P, P),
    },
)


def _together(program: Callable, inputs: list[tuple]) -> list:
    """Every rank's result; the first run finds what they add up, the second knows the sum."""
    total = None
    for _ in range(2):
        asked, results = [], []

        def sum_over_ranks(values: Any, asked=asked, total=total):
            asked.append(np.array(values, dtype=float))
            return (asked[-1] if total is None else total).copy()

        for given in inputs:
            results.append(call(program, *(x.copy() for x in given), sum_over_ranks))
            if len(asked) not in (0, len(results)):
                raise NotYet("each rank may ask for one sum over the ranks, and all alike")
        total = sum(asked)
    return results


def _backward_law(answer: Callable) -> None:
    function(answer, "my_backward(x, w, dy, sum_over_ranks)")
    rng = np.random.default_rng(15)
    for P in (2, 3, 4):
        x, w, dy = rng.normal(size=(5, 6)), rng.normal(size=(P, 6, 2)), rng.normal(size=(P, 5, 2))
        parts = dy @ w.swapaxes(1, 2)
        for r, result in enumerate(_together(answer, [(x, w[r], dy[r]) for r in range(P)])):
            dx, dw = items(result, "(dx, dw)", 2)

            def place(i, j, entry, own=parts[r]):
                alone = math.isclose(entry, own[i, j], rel_tol=1e-9)
                return "only this rank's summand" if alone else f"differs at ({i}, {j})"

            same_array(dw, x.T @ dy[r], f"P = {P}, rank {r}: dw", 1e-9)
            same_array(dx, parts.sum(0), f"P = {P}, rank {r}: dx", 1e-9, place)


backward_of_columns = Made(
    "ex-backward-of-columns",
    About("The backward pass of columns", "repair", 2, 15,
          "put the sum where the transpose needs it", ("x15.7",)),
    _backward_law, lambda: lambda x, w, dy, add: (add(dy @ w.T), x.T @ dy),
    "dw at home, dx summed once over the ranks",
    {
        "dx: only this rank's summand": lambda: lambda x, w, dy, add: (dy @ w.T, x.T @ dy),
        "dw differs at": lambda: lambda x, w, dy, add: (dy @ w.T, add(x.T @ dy)),
        "one sum over the ranks":
            lambda: lambda x, w, dy, add: (add(dy @ w.T), add(x.T @ dy)),
    },
)


def _ranks(heads, hidden, rho, *, work=3):
    fits = (t for t in range(1, heads + 1) if heads % t == 0 and hidden >= (t - 1) * rho / work)
    return max(fits)


def _layers() -> Iterator[tuple[str, tuple]]:
    for layer in ((64, 8192, 2198), (64, 8192, 19780), (96, 12288, 2198), (40, 5120, 700),
                  (32, 4096, 1), (32, 4096, 4096 * 3), (12, 768, 60)):
        yield "", layer


def _same_ranks(given: Any, right: int, heads: int, *args: float) -> None:
    given = whole(given, "the number of ranks")
    if given < 1 or heads % given:
        raise NotYet(f"{given} ranks cannot share the heads equally")
    if given > right:
        raise NotYet(f"with {given} ranks the forward pass cannot hide what it sends")
    if given < right:
        raise NotYet(f"{given} ranks would do, but more would, too")


how_many_ranks = Function(
    "ex-how-many-ranks",
    About("How many ranks?", "design", 2, 15, "choose a number of ranks from the border",
          ("B.10",)),
    "my_ranks(heads, hidden, rho)", _ranks, _layers, _same_ranks,
    "a divisor of the heads, on this side of the border",
    {"the forward pass cannot hide that: its own work is all it has": {"work": 4.5}},
)


def _part(logits, target):
    top = logits.max()
    return top, np.exp(logits - top).sum(), 0.0 if target is None else logits[target]


def _merge(parts, scaled=True):
    top = max(m for m, _, _ in parts)
    total = sum(s * math.exp(m - top if scaled else 0) for m, s, _ in parts)
    return top + math.log(total) - sum(own for _, _, own in parts)


def _unscaled_part(logits, target):
    with np.errstate(over="ignore"):
        return 0.0, np.exp(logits).sum(), 0.0 if target is None else logits[target]


def _loss_law(answer: Any) -> None:
    part, merge = functions(answer, "part(logits, target)", "merge(parts)")
    rng = np.random.default_rng(3)
    for scale, P in ((1.0, 1), (1.0, 2), (1.0, 4), (1e4, 1), (1e4, 2), (1e4, 4)):
        logits = scale * rng.normal(size=12)
        top, width = logits.max(), 12 // P
        for target in range(12):
            owned = [target - r * width if r == target // width else None for r in range(P)]
            parts = [tuple(real(v, "what part returns") for v in
                           items(call(part, shard.copy(), own), "what part returns", 3))
                     for shard, own in zip(np.split(logits, P), owned, strict=True)]
            loss = real(call(merge, parts), "the loss")
            right = top + math.log(np.exp(logits - top).sum()) - logits[target]
            if not math.isclose(loss, right, rel_tol=1e-9, abs_tol=1e-9):
                asks = "; on what scale are the sums?" if P > 1 and scale == 1 else ""
                where = f"logits of size {scale:g}, P = {P}, target {target}"
                raise NotYet(f"{where}: the loss is wrong{asks}")


three_numbers = Made(
    "ex-three-numbers",
    About("Three numbers a token", "design", 3, 25, "merge a softmax from the parts of its words"),
    _loss_law, lambda: (_part, _merge),
    "a maximum, a sum and a logit from each rank, and no number too large",
    {
        "on what scale": lambda: (_part, lambda parts: _merge(parts, scaled=False)),
        "must be a finite number": lambda: (_unscaled_part, _merge),
        "(part, merge)": lambda: _part,
    },
)


def _pieces(x, weight, targets, size, *, weigh=True, short=True, adds=True, mean=True):
    count = (targets != -100).sum()
    loss, dx, dweight = 0.0, np.zeros_like(x), np.zeros_like(weight)
    for first in range(0, len(x) if short else len(x) // size * size, size):
        piece = slice(first, first + size)
        rows = np.flatnonzero(targets[piece] != -100)
        own = max(1, len(rows)) * -(-len(x) // size)  # for a mean of means
        share = (1 / count if weigh else 1 / own) * (1 if mean else count)
        logits = x[piece] @ weight.T
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        p = np.exp(logits)
        chosen, slope = targets[piece][rows], np.zeros_like(p)
        loss -= logits[rows, chosen].sum() * share
        slope[rows] = p[rows] * share
        slope[rows, chosen] -= share
        dx[piece] = slope @ weight
        dweight = adds * dweight + slope.T @ x[piece]
    return loss, dx, dweight


loss_in_pieces = Function(
    "ex-loss-in-pieces",
    About("A loss in pieces", "design", 2, 15, "add up a loss and its gradients piece by piece"),
    "pieces(x, weight, targets, size)", _pieces, texts, same_pieces,
    "no more logits than a piece has, and the gradients of the whole",
    {
        "a mean of means weighs a target more where its piece has few": {"weigh": False},
        "the last piece may be short": {"short": False},
        "every piece adds to the gradient of weight": {"adds": False},
        "the mean, please": {"mean": False},
    },
)
