"""Wrong answers of chapter 17 that no slip derives: (exercise, answer, what it must be told)."""

import math

import numpy as np

from dtlib.exercises.chapters.parallelism.ch17 import _block_gradients as gradients
from dtlib.exercises.chapters.parallelism.ch17 import _bring_home, _merge, _seen


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
    return a if a[0] - b[0] > 18 else _merge(a, b)


MERGE, MASK, HEADS = "ex-repair-the-merge", "ex-repair-the-mask", "ex-heads-come-home"
HOPS, GRADIENTS = "ex-sliding-window", "ex-gradients-of-a-block"

# fmt: off
WRONG = [
    (MERGE, merge_without_the_empty, "no key on either side: nan"),
    (MERGE, merge_to_the_smaller, "m is not the larger|overflow"),
    (MERGE, lambda a, b: (*_merge(a, b)[:2], a[2] + b[2]), "s is right and o is not"),
    (MERGE, merge_that_drops_the_smaller, "some tens apart: s is too small"),
    (MERGE, lambda a, b: 3.0, "return a state"),
    (MERGE, lambda a, b: a, "m is not the larger|s is too small"),
    (MASK, lambda q, k: _seen(q, k).T, "must not see|should see"),
    (MASK, lambda q, k: np.tril(np.ones((len(q), len(k)), bool)), "must not see|should see"),
    (MASK, lambda q, k: _seen(q, k).astype(float), "booleans"),
    (MASK, lambda q, k: _seen(np.sort(q), np.sort(k)), "zigzag|shuffled"),
    (HEADS, lambda held: held, "has shape"),
    (HEADS, lambda held: _bring_home(held)[::-1], "rank 0: in row 0, at token 0, stands a number"),
    ("ex-two-million-tokens", {"tokens": 2**15}, "keys tokens, all_to_all_bytes"),
    (HOPS, lambda seq, P, w: min(P - 1, (w - 1) // (seq // P)), "too few hops"),
    (HOPS, lambda seq, P, w: P - 1, "too many hops"),
    (GRADIENTS, lambda *a: gradients(*a)[::-1], "has shape|differs"),
    (GRADIENTS, lambda *a: gradients(*a)[0], "3 items|has shape"),
]
