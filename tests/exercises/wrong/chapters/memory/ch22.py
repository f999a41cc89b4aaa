"""Wrong answers of chapter 22 that no slip derives: (exercise, answer, what it must be told)."""

import numpy as np

from dtlib.exercises.chapters.memory import ch22


def swap_with(use_of=lambda x: x, back_of=lambda x: x):
    def swap(store, x, use):
        store.put("x", x).wait()
        use(use_of(x))
        store.get("x", into=x).wait()
        return back_of(x)

    return swap


def swap_without_use(store, x, use):
    return swap_with()(store, x, lambda x: None)


def swap_without_waiting(store, x, use):
    store.put("x", x)
    use(x)
    store.get("x", into=x)
    return x


def swap_beside(store, x, use):
    store.put("x", x).wait()
    use(x)
    return x.copy_(store.get("x").wait())


def swap_by_hand(store, x, use):
    kept = x.clone()
    use(x)
    return x.copy_(kept)


def victim(here, coming):
    return max(here, key=lambda i: coming.index(i) if i in coming else len(coming))


def least(compute, fetch, latency):
    return -(-(latency + fetch + compute) // max(compute, fetch)) - 1


def stream(store, keys, work, lookahead, first=None, eager=False):
    """Right but that it works on the key ``first`` first, waits too early, and never sends."""
    coming = {key: store.get(key) for key in keys[: lookahead + 1]}
    if eager and keys[1:2]:
        coming.get(keys[1], coming[keys[0]]).wait()
    for i, key in enumerate(keys):
        work(coming.pop(keys[first] if first else key).wait())
        coming.update((later, store.get(later)) for later in keys[i + lookahead + 1 :][:1])


def flushed(store, keys, work, lookahead):
    ch22.the_loop.solution()(store, keys, work, lookahead, ends=False)
    store.flush()


SWAP, LEAST, LEAVES, LOOP = "ex-two-waits", "ex-least-lookahead", "ex-farthest-use", "ex-the-loop"
HIDDEN, PLAN = "ex-what-is-left-to-hide", {"a": 8e12, "c": 428.57, "d": 3.90625, "e": 7.8125}

# fmt: off
WRONG = [
    (HIDDEN, (100 / 185, 100 / 105, 100 / 101, "none"), r'\(d\), a number in s: what is "none"'),
    (HIDDEN, (100 / 185, 100 / 105, 100 / 101, 0.01), r"\(d\)"),
    ("ex-half-a-trillion", PLAN | {"b": 0}, "must be one of"),
    ("ex-half-a-trillion", {"a": 8e12}, "keys a, b, c, d, e"),
    ("ex-third-buffer", lambda c, t, a, b: max(c, (t + a) / (b - 1)), "ZeroDivisionError"),
    ("ex-third-buffer", lambda c, t, a, b: 80, "the result"),
    (SWAP, swap_without_waiting, "before its contents were back|on its way"),
    (SWAP, swap_without_use, "called 0 times"),
    (SWAP, swap_with(use_of=lambda x: x.clone()), "given x itself"),
    (SWAP, swap_with(back_of=lambda x: x.clone()), "in the memory in which it was"),
    (SWAP, swap_beside, "into x itself"),
    (SWAP, swap_by_hand, "nothing was sent"),
    (LEAST, lambda c, t, a: least(c, t, a) + (a > 50), "less would do"),
    (LEAST, lambda c, t, a: least(c, t, a) - (a > 50), "more would be faster"),
    (LEAST, lambda c, t, a: 1.5, "whole number"),
    (LEAVES, lambda here, coming: here[-1], "fewer would do"),
    (LEAVES, lambda here, coming: min(here, key=lambda i: [*coming, i].index(i)), "would do"),
    (LEAVES, lambda here, coming: victim(here, coming) if len(coming) > 9 else here[0], "would do"),
    (LOOP, stream, "not on its way back"),
    (LOOP, lambda *given: stream(*given, eager=True), "before its turn"),
    (LOOP, lambda *given: stream(*given, first=1), "something else"),
]

RIGHT = [
    ("ex-half-a-trillion", ch22.half_a_trillion.right() | {"b": np.bool_(False)}),
    (HIDDEN, (100 / 185, 100 / 105, 100 / 101, np.int64(0))),
    (HIDDEN, ("100 / 185", "95.24 %", "100/101", "0")),
    (LOOP, flushed),
]
