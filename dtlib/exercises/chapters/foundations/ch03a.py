"""The exercises of chapter 3a, Feeding the data, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, items, whole
from dtlib.exercises.judges import orders
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
MB, GB, ms = 10**6, 10**9, 1e-3

_RATE = 128 * 989e12 * 0.45 / (6 * 13e9)
_NEED = _RATE * 1500 * 1.3

bytes_per_second = Numbers(
    "ex-bytes-per-second",
    About("Bytes per second", "compute", 1, 5,
          "turn tokens per second into bytes per second of a whole cluster", ("x3a.1",)),
    [
        Asked("tokens per second", _RATE, "", {
              _RATE / 10: "that is the published number; count the zeros of the peak",
              _RATE / 0.45: "the GPUs reach 45 % of their peak", _RATE / 128: "that is one GPU",
              _RATE * 6: "a token costs six FLOP for each parameter"}),
        Asked("bytes per second", _NEED, "bytes/s", {
              _NEED / 10: "that is the published number, ten times too small",
              _NEED / 1.3: "storage moves more than you want", _NEED / GB: "in bytes/s, please"}),
    ],
    "tokens and bytes of the whole cluster, and the published ones are off by ten",
)

hide_the_decoding = Numbers(
    "ex-hide-the-decoding",
    About("Hide the decoding", "compute", 1, 5,
          "replace a sum of stages by their maximum", ("x3a.2",)),
    [
        Asked("(a)", 0.6, "s", {0.3: "one after another, please"}),
        Asked("(b)", 0.3, "s", {0.6: "the three run at once", 0.55: "the copy runs at once, too"}),
        Asked("(c)", 0.4, "s", {0.3: "who is the slowest now?", 0.75: "they run at the same time"}),
    ],
    "a sum, a maximum, and another stage's maximum",
)

_STAYS = (1 - 1e-4) ** 10_000

buffer_reach = Numbers(
    "ex-buffer-reach",
    About("The reach of a buffer", "compute", 1, 8,
          "say what a shuffle buffer can and cannot move"),
    [
        Asked("(a)", 9_999, "", {
              10_000: "off by one: with one slot nothing comes too early at all",
              20_000: "how much of the stream has been read when j samples are given out?"}, 1e-9),
        Asked("(b)", 80 * MB, "bytes", {81.92 * MB: "KB, not KiB", 80_000: "in bytes"}, 1e-3),
        Asked("(c)", _STAYS, "", {1 - _STAYS: "that is the probability that it has left",
              1e-4: "that is the probability to leave in one draw"}),
    ],
    "early by less than a buffer, late by any number of places",
)


def _under_load(percent: int) -> list[Asked]:
    u = percent / 100

    def fetch(spreads=(1 + 1.5**2) / 2, factor=u / (1 - u), service=8 * ms):
        return 50 * (service + factor * spreads * 8 * ms)

    return [
        Asked(f"fetch_{percent}", fetch(), "s", {
              fetch() / 50: "that is one read of fifty", fetch(service=0): "it waits and is served",
              fetch((1 + 1.5) / 2): "the spreads are squared",
              fetch(1.5**2 / 2): "arrivals have a spread, too",
              fetch(1 + 1.5**2): "the mean of the two squared spreads",
              fetch(factor=1 / (1 - u)): "the load stands above the fraction bar, too",
              fetch() / ms: "in seconds, please"}),
        Asked(f"flight_{percent}", fetch() / 0.25, "", {
              fetch() * 0.25: "rate times time: a batch is used in every step of 0.25 s"}),
    ]


second_job = Numbers(
    "ex-second-job",
    About("The second job", "compute", 2, 10,
          "price load and spread of a shared server by Kingman's formula"),
    _under_load(60) + _under_load(90),
    "two fetches and their flights, on a storage that is busy and on one that is busier",
    keyed=True,
)


def _starves(params, P, peak, mfu, token_bytes, storage, *, every=True, reached=True) -> bool:
    computing = peak * (P if every else 1) * (mfu if reached else 1)
    return 6 * params / token_bytes < computing / storage


def _stores() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(3)
    for _ in range(40):
        params, P = 10 ** draw.uniform(7, 12), draw.choice([8, 64, 256, 4096])
        mfu, token_bytes = draw.uniform(0.1, 0.6), draw.choice([2, 4, 600, 2048])
        need = P * 989e12 * mfu * token_bytes / (6 * params)
        for gets in (0.5, 0.97, 1.03, 2):
            yield f"given {gets} of the need", (params, P, 989e12, mfu, token_bytes, gets * need)


def _same_verdict(given: Any, right: bool, *args: float) -> None:
    if given not in (True, False):
        raise NotYet(f"return True or False, got {given!r}")
    if given != right:
        raise NotYet(f"you say that it {'starves' if given else 'does not starve'}")


repair_whose_ridge = Function(
    "ex-repair-whose-ridge",
    About("Whose ridge?", "repair", 2, 10,
          "compare a whole cluster with the storage that it shares", ("x3a.1",)),
    "starves(params, P, peak, mfu, token_bytes, storage)", _starves, _stores, _same_verdict,
    "forty clusters, each with storage just below and just above what it needs",
    {
        "the number of ranks changes nothing: whose peak stands there?": {"every": False},
        "the MFU changes nothing: do the GPUs compute at their peak?": {"reached": False},
    },
)


def _reading_time(data, epochs, cache, storage, local, *, kept_at_once=False):
    kept = min(cache, data)
    later = kept / local + (data - kept) / storage
    return (later if kept_at_once else data / storage) + (epochs - 1) * later


cache_worth_it = Formula(
    "ex-cache-worth-it",
    About("Is the cache worth it?", "derive", 2, 10,
          "say when a cache helps: only for bytes that are read again", ("x3a.3",)),
    "reading_time(data, epochs, cache, storage, local)", _reading_time,
    lambda: [("", (1e12, 1, 1e12, 3e8, 9e8)), ("", (1e12, 3, 1e12, 3e8, 9e8)),
             ("", (2e12, 5, 5e11, 2e8, 4e9)), ("", (5e11, 2, 3e12, 3e8, 2e9)),
             ("", (1e12, 4, 6e11, 9e8, 3e8))],
    same_number, "one epoch, several, data that fit and data that do not",
    {
        "in the first epoch nothing has been kept yet": {"kept_at_once": True},
        "data that do not fit come as before": lambda d, e, c, s, x: d / s + (e - 1) * d / x,
        "a cache that is larger than the data holds no more than the data":
            lambda d, e, c, s, x: d / s + (e - 1) * (c / x + (d - c) / s),
        "the cache changes nothing: what is kept is read": lambda d, e, c, s, x: e * d / s,
    },
)


def _waiting_time(fetches: list, step: float, depth: int, *, first=False, steps=False) -> float:
    taken = []
    for i, fetch in enumerate(fetches):
        ready = fetch + (taken[i - depth] if i >= depth else 0)
        taken.append(max(ready, taken[-1] + step) if taken else ready)
    waited = taken[-1] - taken[0] - (len(taken) - 1) * step
    return waited + first * taken[0] + steps * len(taken) * step


def _traces() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(7)
    for _ in range(30):
        depth, step = draw.randint(1, 6), draw.randint(1, 4)
        fetches = [draw.choice([0, 1, 2, 3, 5, 9, 14]) for _ in range(draw.randint(1, 25))]
        yield f"fetches {fetches}, step {step}, depth {depth}", (fetches, step, depth)


gpu_waits = Function(
    "ex-gpu-waits",
    About("How long does the GPU wait?", "derive", 2, 15,
          "write the recursion of a loader that keeps the order", ("x3a.2",)),
    "waiting_time(fetches, step, depth)", _waiting_time, _traces, same_number,
    "thirty traces, to the last second",
    {
        "do not count the time before the first step": {"first": True},
        "that is the time from first to last step, steps included": {"steps": True},
        "batch i is asked for when batch i - depth is taken":
            lambda fetches, step, depth: _waiting_time(fetches, step, depth + 1),
    },
)


def _my_share(step, rank, P, samples, batch, seed, *, epochs=True, ranks=False) -> list[int]:
    epoch, place = divmod(step, samples // batch)
    order = np.random.default_rng([seed, epoch * epochs, rank * ranks]).permutation(samples)
    start = place * batch + rank * (batch // P)
    return order[start : start + batch // P].tolist()


def _sampler_law(answer: Callable) -> None:
    function(answer, "my_share(step, rank, P, samples, batch, seed)")
    for samples, batch, seed in ((24, 8, 0), (40, 4, 7), (48, 16, 3)):
        def joined(P, steps, seed=seed, samples=samples, batch=batch):
            what = f"a share of {batch} samples among {P} ranks"
            shares = (items(call(answer, step, rank, P, samples, batch, seed), what, batch // P)
                      for step in range(steps) for rank in range(P))
            return [whole(sample, "a sample") for share in shares for sample in share]

        run = joined(4, 3 * samples // batch)
        orders.shuffled_anew(run, samples)
        for P in (1, 2):
            orders.same_batches(joined(P, 3 * samples // batch), run, batch, P)
        if joined(4, 1, seed + 1) == run[:batch]:
            raise NotYet("another seed gives the same order")


repair_sampler = Made(
    "ex-repair-sampler",
    About("A sampler that repeats itself", "repair", 2, 15,
          "make samples a function of the step alone"),
    _sampler_law, lambda: _my_share,
    "three data sets: every sample once an epoch, and the same for 1, 2 and 4 ranks",
    {
        "samples are repeats": lambda: lambda *step: _my_share(*step, ranks=True),
        "is not shuffled anew": lambda: lambda *step: _my_share(*step, epochs=False),
        "another seed": lambda: lambda *step: _my_share(*step[:-1], 0),
    },
)


def _busy(fetches: list, step: float, workers: int, depth: int) -> float:
    from dtlib.foundations.data.prefetcher import prefetch

    return prefetch(fetches, step, workers, depth).busy_fraction


def _size(fetches: list, step: float) -> tuple[int, int]:
    least = max(1, math.ceil(0.94 * sum(fetches) / len(fetches) / step))
    sizes = ((workers, depth) for workers in range(least, 17) for depth in range(1, 65))
    return next(size for size in sizes if _busy(fetches, step, *size) >= 0.95)


def _fetches() -> Iterator[tuple[str, tuple]]:
    from dtlib.foundations.data.prefetcher import fetch_times

    traces = ((2, 0.5, 0.5), (2, 1, 0.5), (0.4, 0, 0.1), (1, 1, 0.4))
    for seed, (mean, cv, step) in enumerate(traces, 1):
        fetches = fetch_times(mean, cv, 200, seed).tolist()
        yield f"mean {mean} s, spread {cv}, step {step} s", (fetches, step)


def _least_size(given: Any, right: tuple, fetches: list, step: float) -> None:
    pair = items(given, "(workers, depth)", 2)
    workers, depth = whole(pair[0], "workers"), whole(pair[1], "depth")
    if not (1 <= workers <= 16 and 1 <= depth <= 64):
        raise NotYet(f"from 1 to 16 workers, from 1 to 64 ahead, got {pair}")
    share = _busy(fetches, step, workers, depth)
    if share < 0.95:
        raise NotYet(f"{workers} workers, {depth} ahead, in order: busy for only {share:.0%}")
    if (workers, depth) != right:
        less = "fewer workers can do it" if workers > right[0] else "less room is enough"
        raise NotYet(f"{workers} workers, {depth} ahead: {less}")


size_a_loader = Function(
    "ex-size-a-loader",
    About("Size a loader", "design", 3, 20, "choose workers by the mean and room by the tail"),
    "size(fetches, step)", _size, _fetches, _least_size,
    "four traces, none with a worker or a batch more than it takes",
    {"how much room do the fewest workers need?": lambda *trace: (_size(*trace)[0], 64)},
)


def _pack(documents: list, length: int, state: Any = None) -> Iterator[tuple[list, list]]:
    document, place = state or (0, 0)
    held = []
    while document < len(documents):
        part = documents[document][place : place + length - len(held)]
        held, place = held + part, place + len(part)
        if place == len(documents[document]):
            document, place = document + 1, 0
        if len(held) == length:
            yield held, [document, place]
            held = []


pack_and_resume = Made(
    "ex-pack-and-resume",
    About("Pack and resume", "design", 3, 25,
          "name and store everything that was read and not trained on"),
    orders.packs_and_resumes, lambda: _pack, "three lengths, resumed after every sequence",
    {
        "does not begin where": lambda: lambda documents, n, state=None: (
            (sequence, [at[0], 0]) for sequence, at in _pack(documents, n, state)),
        "resumed after sequence 0": lambda: lambda documents, n, state=None: _pack(documents, n),
        "JSON": lambda: lambda documents, n, state=None: ((s, {1}) for s, _ in _pack(documents, n)),
    },
)


def _source(n: int, a: int, b: int) -> int:
    return 0 if (n + 1) * a // (a + b) - n * a // (a + b) else 1


mix_without_memory = Made(
    "ex-mix-without-memory",
    About("Mix without a memory", "derive", 3, 20,
          "mix two sources exactly, as a function of the sample's number"),
    orders.mixes, lambda: _source,
    "six proportions, asked in random order, never off by a whole sample",
    {
        "whole sample ahead": lambda: lambda n, a, b: 0 if n % (a + b) < a else 1,
        "whole sample behind": lambda: lambda n, a, b: n % 2, "0 or 1": lambda: lambda n, a, b: 2,
    },
)


def _deal(costs, ranks, most, *, sort=1, limited=True):
    owners = [0] * len(costs)
    loads, counts = [0] * ranks, [0] * ranks
    for pack in sorted(range(len(costs)), key=lambda pack: -sort * costs[pack]):
        free = [rank for rank in range(ranks) if counts[rank] < most or not limited]
        owners[pack] = owner = min(free, key=lambda rank: loads[rank])
        loads[owner] += costs[pack]
        counts[owner] += 1
    return owners


def _packs() -> Iterator[tuple[str, tuple]]:
    dice = random.Random(12)
    for ranks, most in ((2, 2), (3, 4), (4, 8), (1, 3), (2, 5)):
        costs = [dice.randint(1, 9) for _ in range(ranks * most - ranks // 2)]
        yield f"{ranks} ranks", (costs, ranks, most)
    yield "four packs", ([9, 1, 1, 1], 2, 2)


deal_the_packs = Function(
    "ex-deal-the-packs",
    About("Deal the packs", "design", 2, 15, "even out sums of squares over ranks with room"),
    "deal(costs, ranks, most)", _deal, _packs, orders.same_owners,
    "the heaviest first, also where a rank is full",
    {
        "the heaviest first: what comes last must fit between the others": partial(_deal, sort=0),
        "the heaviest first, not the lightest": partial(_deal, sort=-1),
        "has more than": partial(_deal, limited=False),
    },
)
