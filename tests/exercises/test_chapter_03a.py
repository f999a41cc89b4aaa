"""Every check of chapter 3a: the solution passes; the stub, wrong answers and dtlib's own fail."""

from math import ceil

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check
from dtlib.foundations import fetch_times, global_batch, mixed, prefetch

TOKENS, NEED = 730_338.5, 1.42416e9
FETCHES = {"fetch_60": 1.375, "flight_60": 5.5, "fetch_90": 6.25, "flight_90": 25.0}


def starves(params, P, peak, mfu, token_bytes, storage):
    return 6 * params / token_bytes < P * peak * mfu / storage


def reading_time(data, epochs, cache, storage, local):
    kept = min(cache, data)
    return data / storage + (epochs - 1) * (kept / local + (data - kept) / storage)


def takes(fetches, step, depth):
    taken = []
    for i, fetch in enumerate(fetches):
        ready = fetch + (taken[i - depth] if i >= depth else 0)
        taken.append(max(ready, taken[-1] + step) if taken else ready)
    return taken


def waiting_time(fetches, step, depth):
    taken = takes(fetches, step, depth)
    return taken[-1] - taken[0] - (len(taken) - 1) * step


def share(batch, rank, P):
    size = len(batch) // P
    return batch[rank * size : (rank + 1) * size].tolist()


def my_share(step, rank, P, samples, batch, seed):
    epoch, place = divmod(step, samples // batch)
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    return share(order[place * batch : (place + 1) * batch], rank, P)


def share_as_printed(step, rank, P, samples, batch, seed):
    order = np.random.default_rng(seed + rank).permutation(samples)
    size = batch // P
    start = (step * size) % (samples // P)
    return order[start : start + size].tolist()


def share_then_cut(step, rank, P, samples, batch, seed):
    epoch, place = divmod(step, samples // batch)
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    size = batch // P
    mine = order[rank * (samples // P) : (rank + 1) * (samples // P)]
    return mine[place * size : (place + 1) * size].tolist()


def same_epochs(step, rank, P, samples, batch, seed):
    return my_share(step % (samples // batch), rank, P, samples, batch, seed)


def unshuffled(step, rank, P, samples, batch, seed):
    start = step * batch % samples
    return share(np.arange(start, start + batch), rank, P)


def interleaved(step, rank, P, samples, batch, seed):
    return global_batch(step, samples, batch, seed)[rank::P].tolist()


def rotated(step, rank, P, samples, batch, seed):
    epoch, place = divmod(step, samples // batch)
    order = np.roll(np.random.default_rng(seed).permutation(samples), epoch)
    return share(order[place * batch : (place + 1) * batch], rank, P)


def shuffled_twice(step, rank, P, samples, batch, seed):
    if step >= 2 * (samples // batch):
        return unshuffled(step, rank, P, samples, batch, seed)
    return my_share(step, rank, P, samples, batch, seed)


def enough(fetches, step, workers, depth):
    return prefetch(fetches, step, workers, depth).busy_fraction >= 0.95


def size(fetches, step):
    least = ceil(0.95 * sum(fetches) / len(fetches) / step)
    for workers in range(max(1, least - 1), 17):
        if enough(fetches, step, workers, 64):
            return next((workers, d) for d in range(1, 65) if enough(fetches, step, workers, d))


def pack(documents, length, state=None):
    document, place = state or (0, 0)
    held = []
    while document < len(documents):
        part = documents[document][place : place + length - len(held)]
        held += part
        place += len(part)
        if place == len(documents[document]):
            document, place = document + 1, 0
        if len(held) == length:
            yield held, [document, place]
            held = []


def pack_with_remainder(documents, length, state=None):
    """Another right state: the next document, and the tokens that are left over."""
    read, held = state or (0, [])
    held = list(held)
    while True:
        while len(held) < length and read < len(documents):
            held, read = held + documents[read], read + 1
        if len(held) < length:
            return
        sequence, held = held[:length], held[length:]
        yield sequence, [read, held]


def pack_and_forget(documents, length, state=None):
    for sequence, (read, _) in pack_with_remainder(documents, length, state and [state, []]):
        yield sequence, read


def pack_each_alone(documents, length, state=None):
    for document in documents:
        for i in range(0, len(document) - length + 1, length):
            yield document[i : i + length], None


def pack_with_history(documents, length, state=None):
    seen = list(state or [])
    flat = [token for document in documents for token in document][len(seen) :]
    for i in range(0, len(flat) - length + 1, length):
        seen = seen + flat[i : i + length]
        yield flat[i : i + length], seen


def source(n, a, b):
    return 0 if (n + 1) * a // (a + b) - n * a // (a + b) else 1


class Greedy:
    """The library's rule, called for one sample after another: it remembers."""

    def __init__(self):
        self.calls = 0

    def __call__(self, n, a, b):
        self.calls += 1
        return mixed([a, b], self.calls)[-1]


CASES = {
    "ex-bytes-per-second": Case(
        solution=(TOKENS, NEED),
        wrong=[
            ((73_033.85, NEED), "published"),
            ((TOKENS, NEED / 10), "published"),
            ((TOKENS / 0.45, NEED), "45 %"),
            ((TOKENS, NEED / 1.3), "moves more than you want"),
            ((TOKENS, NEED / 1e9), "in bytes/s"),
            ((TOKENS / 128, NEED), "one GPU"),
            (TOKENS, "2 items"),
        ],
        secret=[NEED],
    ),
    "ex-hide-the-decoding": Case(
        solution=(0.6, 0.3, 0.4),
        wrong=[
            ((0.3, 0.3, 0.4), r"\(a\): one after another"),
            ((0.6, 0.55, 0.4), "copy"),
            ((0.6, 0.3, 0.3), "slowest now"),
            ((0.6, 0.3, 0.75), "same time"),
        ],
    ),
    "ex-buffer-reach": Case(
        solution=(9_999, 80e6, 0.36786),
        wrong=[
            ((10_000, 80e6, 0.368), "off by one"),
            ((20_000, 80e6, 0.368), "how much of the stream"),
            ((9_999, 81.92e6, 0.368), "KiB"),
            ((9_999, 80e6, 0.632), "has left"),
            ((9_999, 80e6, 1e-4), "one draw"),
        ],
    ),
    "ex-second-job": Case(
        solution=FETCHES,
        wrong=[
            (FETCHES | {"fetch_60": 1.375 / 50}, "one read of fifty"),
            (FETCHES | {"fetch_60": 0.975}, "after the wait"),
            (FETCHES | {"fetch_90": 50 * 0.008 * (1 + 9 * 1.25)}, "squared"),
            (FETCHES | {"fetch_90": 50 * 0.008 * (1 + 9 * 3.25)}, "the mean of the two"),
            (FETCHES | {"flight_90": 6.25 / 4}, "rate times time"),
            ({"fetch_60": 1.375}, "keys"),
        ],
        secret=[6.25],
    ),
    "ex-repair-whose-ridge": Case(
        solution=starves,
        wrong=[
            (lambda n, P, F, u, b, s: 6 * n / b < F / s, "number of ranks changes nothing"),
            (lambda n, P, F, u, b, s: 6 * n / b < P * F / s, "the MFU changes nothing"),
            (lambda n, P, F, u, b, s: not starves(n, P, F, u, b, s), "says that a run"),
            (lambda n, P, F, u, b, s: 2 * n / b < P * F * u / s, "says that a run starves"),
            (lambda n, P, F, u, b, s: 6 * n / b, "True or False"),
        ],
    ),
    "ex-cache-worth-it": Case(
        solution=reading_time,
        wrong=[
            (lambda d, e, c, s, x: e * d / s, "changes nothing"),
            (lambda d, e, c, s, x: d / s + (e - 1) * d / x, "do not fit"),
            (lambda d, e, c, s, x: d / s + (e - 1) * (c / x + (d - c) / s), "no more than the"),
            (
                lambda d, e, c, s, x: e * (min(c, d) / x + (d - min(c, d)) / s),
                "nothing has been kept yet",
            ),
            (lambda d, e, c, s, x: reading_time(d, e, c, s, max(s, x)), "is too small"),
        ],
    ),
    "ex-gpu-waits": Case(
        solution=waiting_time,
        wrong=[
            (lambda f, s, d: waiting_time(f, s, d) + takes(f, s, d)[0], "before the first step"),
            (lambda f, s, d: takes(f, s, d)[-1] - takes(f, s, d)[0] + s, "steps included"),
            (lambda f, s, d: waiting_time(f, s, d + 1), "too short|already with one"),
            (lambda f, s, d: sum(max(0, x - d * s) for x in f), "too (short|long)|already with"),
        ],
    ),
    "ex-repair-sampler": Case(
        solution=my_share,
        also_right=[lambda *a: share(global_batch(a[0], a[3], a[4], a[5]), a[1], a[2])],
        wrong=[
            (share_as_printed, "samples are repeats"),
            (share_then_cut, "other batches than 4"),
            (same_epochs, "first one again"),
            (unshuffled, "unshuffled"),
            (interleaved, "joined rank by rank"),
            (rotated, "neighbours"),
            (shuffled_twice, "third epoch"),
            (lambda step, *rest: my_share(step, *rest[:-1], 0), "another seed"),
            (lambda *a: my_share(*a)[:-1], "must have 2 items"),
        ],
    ),
    "ex-size-a-loader": Case(
        solution=size,
        wrong=[
            (lambda f, s: (4, 4), "busy for only"),
            (lambda f, s: (16, 64), "fewer workers"),
            (lambda f, s: (size(f, s)[0], 64), "less room"),
            (lambda f, s: (17, 8), "from 1 to 16"),
            (lambda f, s: 4, "2 items"),
        ],
    ),
    "ex-pack-and-resume": Case(
        solution=pack,
        also_right=[pack_with_remainder],
        wrong=[
            (pack_and_forget, "does not begin where"),
            (pack_each_alone, "is off|does not begin|are whole"),
            (pack_with_history, "it grows"),
            (lambda d, n, s=None: ((q, {1, 2}) for q, _ in pack(d, n)), "json"),
            (lambda d, n, s=None: pack(d, n), "resumed after sequence 0"),
            (lambda d, n, s=None: 3, "must yield"),
        ],
    ),
    "ex-mix-without-memory": Case(
        solution=source,
        also_right=[lambda n, a, b: 1 - source(n, b, a)],
        wrong=[
            (lambda n, a, b: 0 if n % (a + b) < a else 1, "whole sample ahead"),
            (lambda n, a, b: n % 2, "whole sample behind"),
            (lambda n, a, b: 1 - source(n, a, b), "a whole sample"),
            (lambda n, a, b: 2, "0 or 1"),
            (Greedy(), "two sources|whole sample"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("own", [prefetch, global_batch, mixed, fetch_times])
def test_the_librarys_own_functions_are_no_answer(own):
    for slug, case in CASES.items():
        if callable(case.solution):
            with pytest.raises(NotYet):
                check(slug, own)
