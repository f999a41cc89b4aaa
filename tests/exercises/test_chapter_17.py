"""Every check of chapter 17: the solution passes; the stub and wrong answers fail."""

import math

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import check

GB = 10**9


def hasty_merge(a, b):
    """The page's broken merge: sums in different units are added."""
    (ma, sa, oa), (mb, sb, ob) = a, b
    return max(ma, mb), sa + sb, oa + ob


def my_merge(a, b):
    (ma, sa, oa), (mb, sb, ob) = a, b
    m = max(ma, mb)
    if m == -math.inf:
        return a
    wa, wb = math.exp(ma - m), math.exp(mb - m)
    return m, wa * sa + wb * sb, wa * oa + wb * ob


def merge_without_the_empty(a, b):
    (ma, sa, oa), (mb, sb, ob) = a, b
    m = max(ma, mb)
    wa, wb = np.exp(np.subtract(ma, m)), np.exp(np.subtract(mb, m))
    return m, float(wa * sa + wb * sb), float(wa * oa + wb * ob)


def merge_to_the_smaller(a, b):
    (ma, sa, oa), (mb, sb, ob) = a, b
    m = min(ma, mb)
    wa, wb = math.exp(ma - m), math.exp(mb - m)
    return m, wa * sa + wb * sb, wa * oa + wb * ob


def merge_that_drops_the_smaller(a, b):
    a, b = sorted((a, b), reverse=True)
    return a if a[0] - b[0] > 18 else my_merge(a, b)


def merge_that_forgets_o(a, b):
    m, s, _ = my_merge(a, b)
    return m, s, a[2] + b[2]


def my_seen(q_positions, k_positions):
    return q_positions[:, None] >= k_positions[None, :]


def seen_by_offset(q_positions, k_positions):
    return np.full((len(q_positions), len(k_positions)), k_positions[0] == 0)


def bring_home(held, axis=0):
    cut = held[0].shape[1] // len(held)
    return [
        np.concatenate([x[:, r * cut : (r + 1) * cut] for x in held], axis=axis)
        for r in range(len(held))
    ]


def homeless(held):
    P, (heads, tokens, width) = len(held), held[0].shape
    return [x.reshape(P * heads, tokens // P, width) for x in bring_home(held, axis=1)]


def my_hops(seq, P, w):
    return min(P - 1, -(-(w - 1) // (seq // P)))


def my_block_gradients(q, k, v, g, log_sum, c, without=""):
    scale = 1 / math.sqrt(q.shape[1])
    p = np.exp(scale * q @ k.T - log_sum[:, None])
    if without == "log_sum":
        p = p / p.sum(1, keepdims=True)
    dscores = scale * p * (g @ v.T - (0 if without == "c" else c[:, None]))
    if without == "scale":
        dscores = dscores / scale
    return dscores @ k, dscores.T @ q, p.T @ g


def without(what):
    return lambda q, k, v, g, log_sum, c: my_block_gradients(q, k, v, g, log_sum, c, what)


SCORES, TENSOR, SHARE = 2 * 32 * 2**36, 2 * 2**15 * 4096, 2**16 * 8192 * 2
STEP = 4 * 2.0**36 * 1024 / 989e12


def two_million(**changes):
    right = {
        "tokens": 2**15,
        "all_to_all_bytes": 4 * 2**15 * 16384 * 7 / 8,
        "hop_bytes": 2**30,
        "step_seconds": STEP,
        "hop_seconds": 2**30 / (50 * GB),
    }
    return right | changes


CASES = {
    "ex-never-there": Case(
        solution=(SCORES, SCORES / 64, 4 * TENSOR),
        wrong=[
            ((SCORES / 2, SCORES / 64, 4 * TENSOR), r"\(a\): a number has two bytes"),
            ((SCORES / 32, SCORES / 64, 4 * TENSOR), r"\(a\): every head"),
            ((SCORES, SCORES / 8, 4 * TENSOR), r"\(b\): in one step"),
            ((SCORES, SCORES / 64, 2 * TENSOR), r"\(c\): that is one pair"),
            ((SCORES, SCORES / 64, 8 * TENSOR), r"\(c\): a number has two bytes"),
        ],
        secret=[4.398e12, 68.7e9, 1.07e9],
    ),
    "ex-ring-or-ulysses": Case(
        solution=(30 * SHARE, 3.75 * SHARE, 16 / 9),
        wrong=[
            ((32 * SHARE, 3.75 * SHARE, 16 / 9), "step 0 needs no hop"),
            ((15 * SHARE, 3.75 * SHARE, 16 / 9), "keys and values"),
            ((30 * SHARE, 4 * SHARE, 16 / 9), "keeps what is for itself"),
            ((30 * SHARE, 3 * SHARE * 15 / 16, 16 / 9), "result must come back"),
            ((30 * SHARE, 3.75 * SHARE, 8), "without grouped heads"),
            ((30 * SHARE, 3.75 * SHARE, 1), "as large as before"),
        ],
        secret=[32.2e9, 4.03e9, 1.78],
    ),
    "ex-eight-steps-seven-hops": Case(
        solution=(0.080, 0.094, 0.108),
        wrong=[
            ((0.082, 0.094, 0.108), r"\(a\): step 0 uses"),
            ((0.080, 0.096, 0.108), r"\(b\): after the last step"),
            ((0.080, 0.094, 0.112), r"\(c\): the last step has no hop"),
            ((0.080, 0.094, 0.080), r"\(c\): of a step and the hop"),
        ],
        secret=[0.094, 0.108],
    ),
    "ex-who-waits": Case(
        solution=(7.5, 15.5, 8),
        wrong=[
            ((8, 15.5, 8), "skipped by nobody"),
            ((7.5, 8.5, 8), "mean over the ranks"),
            ((7.5, 16, 8), "triangle for everybody"),
            ((7.5, 15.5, 7.5), "the first one too"),
        ],
        secret=[15.5],
    ),
    "ex-tiles-inside": Case(
        solution=(2**35, 1024, 3 * 2**25),
        wrong=[
            ((2**34, 1024, 3 * 2**25), "two bytes"),
            ((2**35, 32, 3 * 2**25), "both sides"),
            ((2**35, 1024, 4 * 2**25), "three tensors"),
        ],
        secret=[34.36e9, 1024, 100.7e6],
    ),
    "ex-repair-the-merge": Case(
        solution=my_merge,
        wrong=[
            (hasty_merge, "ordinary scores: s is too large"),
            (merge_without_the_empty, "no key on either side: nan"),
            (merge_to_the_smaller, "m is not the larger|overflow"),
            (merge_that_forgets_o, "s is right and o is not"),
            (merge_that_drops_the_smaller, "some tens apart: s is too small"),
            (lambda a, b: 3.0, "return a state"),
            (lambda a, b: a, "m is not the larger|s is too small"),
        ],
    ),
    "ex-repair-the-mask": Case(
        solution=my_seen,
        wrong=[
            (seen_by_offset, "contiguous, queries of rank 0, keys of rank 0: .* must not see"),
            (lambda q, k: q[:, None] > k[None, :], "a token sees itself"),
            (lambda q, k: my_seen(q, k).T, "must not see|should see"),
            (lambda q, k: np.tril(np.ones((len(q), len(k)), bool)), "must not see|should see"),
            (lambda q, k: my_seen(q, k).astype(float), "booleans"),
            (lambda q, k: my_seen(np.sort(q), np.sort(k)), "zigzag|shuffled"),
        ],
    ),
    "ex-heads-come-home": Case(
        solution=bring_home,
        wrong=[
            (homeless, "P = 2, 2 heads a rank: rank 0: in the row of head"),
            (lambda held: bring_home(held, axis=1), "gets shape"),
            (lambda held: held, "gets shape"),
            (lambda held: bring_home(held)[::-1], "rank 0"),
        ],
    ),
    "ex-two-million-tokens": Case(
        solution=two_million(),
        wrong=[
            (two_million(tokens=2**18), "all 64"),
            (two_million(all_to_all_bytes=3 * 2**15 * 16384 * 7 / 8), "result must come back"),
            (two_million(hop_bytes=2**33), "eighth of the heads"),
            (two_million(hop_bytes=2**29), "keys and values"),
            (two_million(step_seconds=STEP / 2), "both cost arithmetic"),
            (two_million(hop_seconds=7 * 2**30 / (50 * GB)), "one hop"),
            ({"tokens": 2**15}, "keys tokens, all_to_all_bytes"),
        ],
        secret=[1.88e9, 1.07e9, 0.2846, 0.02147],
    ),
    "ex-sliding-window": Case(
        solution=my_hops,
        wrong=[
            (lambda seq, P, w: -(-(w - 1) // (seq // P)), "everybody has met everybody"),
            (lambda seq, P, w: min(P - 1, -(-w // (seq // P))), "too many hops"),
            (lambda seq, P, w: min(P - 1, (w - 1) // (seq // P)), "too few hops"),
            (lambda seq, P, w: P - 1, "too many hops"),
        ],
    ),
    "ex-gradients-of-a-block": Case(
        solution=my_block_gradients,
        wrong=[
            (without("c"), "what is c for"),
            (without("scale"), r"1 / sqrt\(d\)"),
            (without("log_sum"), "use log_sum"),
            (lambda *a: my_block_gradients(*a)[::-1], "has shape|is wrong"),
            (lambda *a: my_block_gradients(*a)[0], "3 items|has shape"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_grader_of_block_gradients_agrees_with_autograd():
    """An independent reference: torch's own backward pass through softmax."""
    import torch

    q, k, v, g = torch.randn(4, 6, 4, dtype=torch.float64, generator=torch.manual_seed(17))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    scores = q @ k.T / 2
    out = scores.softmax(-1) @ v
    expected = torch.autograd.grad(out, (q, k, v), g)
    args = (q, k, v, g, scores.logsumexp(-1), (g * out).sum(-1))
    found = my_block_gradients(*(x.detach().numpy() for x in args))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("label", ["17.6", "17.8"])
def test_the_library_under_another_name_is_no_answer(label):
    """The exercises ask for tuples and arrays; the library's own functions take neither."""
    from dtlib.exercises import NotYet
    from dtlib.parallelism import SoftmaxState, heads_to_sequence

    own = {"17.6": SoftmaxState.merge, "17.8": heads_to_sequence}
    with pytest.raises(NotYet):
        check(label, own[label])
