"""Wrong answers of chapter 3a that no slip derives: (exercise, answer, what it must be told)."""

import numpy as np

from dtlib.exercises.chapters.foundations.ch03a import (
    _my_share,
    _reading_time,
    _size,
    _source,
    _starves,
)
from dtlib.foundations import global_batch, mixed

RIDGE, SAMPLER, LOADER = "ex-repair-whose-ridge", "ex-repair-sampler", "ex-size-a-loader"
PACK, MIX = "ex-pack-and-resume", "ex-mix-without-memory"


def share_as_printed(step, rank, P, samples, batch, seed):
    order = np.random.default_rng(seed + rank).permutation(samples)
    start = (step * (batch // P)) % (samples // P)
    return order[start : start + batch // P].tolist()


def share_then_cut(step, rank, P, samples, batch, seed):
    epoch, place = divmod(step, samples // batch)
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    mine = order[rank * (samples // P) : (rank + 1) * (samples // P)]
    return mine[place * (batch // P) : (place + 1) * (batch // P)].tolist()


def unshuffled(step, rank, P, samples, batch, seed):
    start = step * batch % samples + rank * (batch // P)
    return list(range(start, start + batch // P))


def interleaved(step, rank, P, samples, batch, seed):
    return global_batch(step, samples, batch, seed)[rank::P].tolist()


def rotated(step, rank, P, samples, batch, seed):
    epoch, place = divmod(step, samples // batch)
    order = np.roll(np.random.default_rng(seed).permutation(samples), epoch)
    start = place * batch + rank * (batch // P)
    return order[start : start + batch // P].tolist()


def shuffled_twice(step, rank, P, samples, batch, seed):
    share = _my_share if step < 2 * (samples // batch) else unshuffled
    return share(step, rank, P, samples, batch, seed)


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


class Greedy:
    """The library's rule, called for one sample after another: it remembers."""

    calls = 0

    def __call__(self, n, a, b):
        self.calls += 1
        return mixed([a, b], self.calls)[-1]


# fmt: off
WRONG = [
    ("ex-buffer-reach", (15_000, 80e6, 0.368), r"\(a\) has the right order"),
    (RIDGE, lambda *run: not _starves(*run), "you say that it"),
    (RIDGE, lambda n, *run: _starves(n / 3, *run), "you say that it starves"),
    (RIDGE, lambda n, P, F, u, b, s: 6 * n / b, "True or False"),
    ("ex-cache-worth-it", lambda d, e, c, s, x: _reading_time(d, e, c, s, max(s, x)), "too small"),
    ("ex-gpu-waits", lambda f, s, d: sum(max(0, x - d * s) for x in f), "the result"),
    (SAMPLER, share_as_printed, "in the first epoch on 4 ranks 5 samples are repeats"),
    (SAMPLER, share_then_cut, "other batches than 4"),
    (SAMPLER, unshuffled, "the first epoch is not shuffled anew"),
    (SAMPLER, interleaved, "joined rank by rank"),
    (SAMPLER, rotated, "the second epoch is not shuffled anew"),
    (SAMPLER, shuffled_twice, "the third epoch is not shuffled anew"),
    (SAMPLER, lambda *step: _my_share(*step)[:-1], "must have 2 items"),
    (LOADER, lambda f, s: (4, 4), "busy for only"),
    (LOADER, lambda f, s: (16, 64), "fewer workers"),
    (LOADER, lambda f, s: (_size(f, s)[0], _size(f, s)[1] + 1), "less room"),
    (LOADER, lambda f, s: (17, 8), "from 1 to 16"),
    (LOADER, lambda f, s: 4, "2 items"),
    (PACK, pack_each_alone, "is off|does not begin|are whole"),
    (PACK, pack_with_history, "it grows"),
    (PACK, lambda documents, n, state=None: 3, "not iterable"),
    (MIX, lambda n, a, b: 1 - _source(n, a, b), "a whole sample"),
    (MIX, Greedy(), "two sources|whole sample"),
]
