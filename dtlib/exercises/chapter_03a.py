"""Graders of chapter 3a, Feeding the data."""

import json
import math
import random
from itertools import pairwise
from typing import Any

import numpy as np

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, formula, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet
from dtlib.foundations.data.prefetcher import fetch_times, prefetch

KB, MB, GB, ms = 10**3, 10**6, 10**9, 1e-3


@grader("ex-bytes-per-second")
def bytes_per_second(answer: Any) -> str:
    tokens, need = items(answer, "(tokens_per_second, bytes_per_second)", 2)
    rate = 128 * 989e12 * 0.45 / (6 * 13e9)
    slips = {
        rate / 10: "that is the published number; count the zeros of the peak",
        rate / 0.45: "the GPUs reach 45 % of their peak",
        rate / 128: "that is one GPU",
        rate * 6: "a token costs six FLOP for each parameter",
    }
    number(tokens, rate, "tokens per second", mistakes=slips)
    bandwidth = rate * 1500 * 1.3
    slips = {
        bandwidth / 10: "that is the published number, ten times too small",
        bandwidth / 1.3: "storage moves more than you want",
        bandwidth / 1.3**2: "storage moves more than you want, not less",
        bandwidth / GB: "in bytes/s, please",
        bandwidth / MB: "in bytes/s, please",
    }
    number(need, bandwidth, "bytes per second", "bytes/s", mistakes=slips)
    return "tokens and bytes of the whole cluster, and the published ones are off by ten"


@grader("ex-hide-the-decoding")
def hide_the_decoding(answer: Any) -> str:
    a, b, c = items(answer, "(a, b, c)", 3)
    number(a, 0.6, "(a)", "s", mistakes={0.3: "one after another, please"})
    slips = {0.6: "the three run at the same time", 0.55: "the copy runs at the same time, too"}
    number(b, 0.3, "(b)", "s", mistakes=slips)
    slips = {0.3: "who is the slowest now?", 0.75: "they run at the same time"}
    number(c, 0.4, "(c)", "s", mistakes=slips)
    return "a sum, a maximum, and another stage's maximum"


@grader("ex-buffer-reach")
def buffer_reach(answer: Any) -> str:
    a, b, c = items(answer, "(a, b, c)", 3)
    K = 10_000
    places = whole(a, "(a)")
    if places == K:
        raise NotYet("(a): off by one: with one slot nothing comes too early at all")
    if places != K - 1:
        raise NotYet("(a): how much of the stream has been read when j samples are given out?")
    slips = {K * 8 * 1024: "KB, not KiB", K * 8: "in bytes, please"}
    number(b, K * 8 * KB, "(b)", "bytes", tolerance=1e-3, mistakes=slips)
    slips = {
        1 - (1 - 1 / K) ** K: "that is the probability that it has left",
        1 / K: "that is the probability to leave in one draw",
    }
    number(c, (1 - 1 / K) ** K, "(c)", mistakes=slips)
    return "early by less than a buffer, late by any number of places"


@grader("ex-second-job")
def second_job(answer: Any) -> str:
    names = ("fetch_60", "flight_60", "fetch_90", "flight_90")
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    for percent in (60, 90):
        u = percent / 100

        def fetch(spreads=(1 + 1.5**2) / 2, factor=u / (1 - u), service=8 * ms):
            return 50 * (service + factor * spreads * 8 * ms)

        slips = {
            fetch() / 50: "that is one read of fifty",
            fetch(service=0): "after the wait comes the service",
            fetch((1 + 1.5) / 2): "the spreads are squared",
            fetch(1.5**2 / 2): "arrivals have a spread, too",
            fetch(1 + 1.5**2): "the mean of the two squared spreads",
            fetch(factor=1 / (1 - u)): "the load stands above the fraction bar, too",
            fetch() / ms: "in seconds, please",
        }
        number(answer[f"fetch_{percent}"], fetch(), f"fetch_{percent}", "s", mistakes=slips)
        slips = {fetch() * 0.25: "rate times time: a batch is used in every step of 0.25 s"}
        number(answer[f"flight_{percent}"], fetch() / 0.25, f"flight_{percent}", mistakes=slips)
    return "two fetches and their flights, on a storage that is busy and on one that is busier"


@grader("ex-repair-whose-ridge")
def repair_whose_ridge(answer: Any) -> str:
    function(answer, "starves(params, P, peak, mfu, token_bytes, storage)")
    draw = random.Random(3)
    for _ in range(40):
        params, P, peak = 10 ** draw.uniform(7, 12), draw.choice([8, 64, 256, 4096]), 989e12
        mfu, token_bytes = draw.uniform(0.1, 0.6), draw.choice([2, 4, 600, 2048])
        critical = P * peak * mfu * token_bytes / (6 * params)
        for factor in (0.5, 0.97, 1.03, 2):
            storage = critical * factor
            given = call(answer, params, P, peak, mfu, token_bytes, storage)
            if not isinstance(given, bool | np.bool_):
                raise NotYet(f"return True or False, got {given!r}")
            if bool(given) != (factor < 1):
                raise NotYet(_ridge_mistake(answer, given, factor))
    return "forty clusters, each with storage just below and just above what it needs"


def _ridge_mistake(answer: Any, given: bool, factor: float) -> str:
    """Which quantity the answer does not look at, when it is wrong."""
    need = 64 * 1e15 * 0.5 * 100 / 6e9
    by_ranks = {bool(call(answer, 1e9, P, 1e15, 0.5, 100, need)) for P in (1, 4096)}
    by_mfu = {bool(call(answer, 1e9, 64, 1e15, mfu, 100, need)) for mfu in (1e-4, 1.0)}
    if len(by_ranks) == 1:
        return "the number of ranks changes nothing: whose peak stands against whose storage?"
    if len(by_mfu) == 1:
        return "the MFU changes nothing: do the GPUs compute at their peak?"
    said = "starves" if given else "does not starve"
    return f"says that a run {said} which gets {factor:.2f} times what it needs"


@grader("ex-cache-worth-it")
def cache_worth_it(answer: Any) -> str:
    def seconds(data, epochs, cache, storage, local):
        kept = min(cache, data)
        return data / storage + (epochs - 1) * (kept / local + (data - kept) / storage)

    def first_from_cache(data, epochs, cache, storage, local):
        kept = min(cache, data)
        return epochs * (kept / local + (data - kept) / storage)

    names = ("data", "epochs", "cache", "storage", "local")
    cases = [
        (1e12, 1, 1e12, 3e8, 9e8),
        (1e12, 3, 1e12, 3e8, 9e8),
        (2e12, 5, 5e11, 2e8, 4e9),
        (5e11, 2, 3e12, 3e8, 2e9),
        (1e12, 4, 6e11, 9e8, 3e8),
    ]
    formula(
        answer,
        seconds,
        "reading_time(data, epochs, cache, storage, local)",
        [dict(zip(names, case, strict=True)) for case in cases],
        wrong=[
            (first_from_cache, "in the first epoch nothing has been kept yet"),
            (lambda d, e, c, s, x: d / s + (e - 1) * d / x, "data that do not fit come as before"),
            (
                lambda d, e, c, s, x: d / s + (e - 1) * (c / x + (d - c) / s),
                "a cache that is larger than the data holds no more than the data",
            ),
            (lambda d, e, c, s, x: e * d / s, "the cache changes nothing: what is kept is read"),
        ],
    )
    return "one epoch, several, data that fit and data that do not"


@grader("ex-gpu-waits")
def gpu_waits(answer: Any) -> str:
    function(answer, "waiting_time(fetches, step, depth)")
    draw = random.Random(7)
    for _ in range(30):
        depth, step = draw.randint(1, 6), draw.randint(1, 4)
        fetches = [draw.choice([0, 1, 2, 3, 5, 9, 14]) for _ in range(draw.randint(1, 25))]
        run = prefetch(fetches, step, depth, depth)
        right = run.stopped - run.started - step * len(fetches)
        given = real(call(answer, list(fetches), step, depth), "the waiting time", "s")
        if math.isclose(given, right, abs_tol=1e-9):
            continue
        slips = {
            right + run.started: "do not count the time before the first step",
            run.stopped - run.started: "that is the time from first to last step, steps included",
        }
        for value, hint in slips.items():
            if math.isclose(given, value):
                raise NotYet(hint)
        if depth == 1 and len(fetches) > 1:
            raise NotYet("wrong already with one batch ahead: when is the next one asked for?")
        raise NotYet(
            f"fetches {fetches}, step {step}, depth {depth}: too {_more(given, right)}: batch i is "
            "asked for when batch i - depth is taken"
        )
    return "thirty traces, to the last second"


def _more(given: float, right: float) -> str:
    return "long" if given > right else "short"


@grader("ex-repair-sampler")
def repair_sampler(answer: Any) -> str:
    function(answer, "my_share(step, rank, P, samples, batch, seed)")
    for samples, batch, seed in ((24, 8, 0), (40, 4, 7), (48, 16, 3)):
        steps = samples // batch

        def joined(step, P, samples=samples, batch=batch, seed=seed):
            what = f"a share of {batch} samples among {P} ranks"
            shares = [call(answer, step, r, P, samples, batch, seed) for r in range(P)]
            parts = [items(share, what, batch // P) for share in shares]
            return [whole(i, "a sample") for part in parts for i in part]

        first = [joined(step, 4) for step in range(steps)]
        seen = [i for step in first for i in step]
        if sorted(seen) != list(range(samples)):
            again = len(seen) - len(set(seen))
            raise NotYet(f"in the first epoch on 4 ranks {again} samples are repeats")
        if seen == list(range(samples)):
            raise NotYet("the samples come unshuffled")
        second = [joined(step, 4) for step in range(steps, 2 * steps)]
        if second == first:
            raise NotYet("the second epoch is the first one again")
        again = [i for step in second for i in step]
        if sorted(again) != list(range(samples)):
            raise NotYet("in the second epoch samples repeat")
        if len(set(pairwise(seen)) & set(pairwise(again))) > samples / 2:
            raise NotYet(
                "the second epoch is hardly shuffled anew: most neighbours stay neighbours"
            )
        third = [i for step in range(2 * steps, 3 * steps) for i in joined(step, 4)]
        if sorted(third) != list(range(samples)) or third in (seen, again, sorted(third)):
            raise NotYet("the third epoch is not a new order of all samples")
        for P in (1, 2):
            other = [joined(step, P) for step in range(2 * steps)]
            if other == first + second:
                continue
            if [sorted(step) for step in other] == [sorted(step) for step in first + second]:
                raise NotYet(
                    "every step has the right samples, but joined rank by rank they come in "
                    f"another order on {'1 rank' if P == 1 else '2 ranks'} than on 4"
                )
            raise NotYet(f"{'1 rank sees' if P == 1 else '2 ranks see'} other batches than 4 ranks")
        if joined(0, 4, seed=seed + 1) == first[0]:
            raise NotYet("another seed gives the same order")
    return "three data sets: every sample once an epoch, and the same for 1, 2 and 4 ranks"


@grader("ex-size-a-loader")
def size_a_loader(answer: Any) -> str:
    function(answer, "size(fetches, step)")
    traces = [(2.0, 0.5, 0.5, 1), (2.0, 1, 0.5, 2), (0.4, 0, 0.1, 3), (1.0, 1, 0.4, 4)]
    for mean, cv, step, seed in traces:
        fetches = fetch_times(mean, cv, 200, seed).tolist()
        where = f"mean {mean:g} s, spread {cv:g}, step {step:g} s"
        pair = items(call(answer, list(fetches), step), f"{where}: (workers, depth)", 2)
        workers, depth = (
            whole(value, what) for value, what in zip(pair, ("workers", "depth"), strict=True)
        )
        if not (1 <= workers <= 16 and 1 <= depth <= 64):
            raise NotYet(f"{where}: from 1 to 16 workers, from 1 to 64 ahead, got {pair}")
        share = prefetch(fetches, step, workers, depth).busy_fraction
        if share < 0.95:
            raise NotYet(
                f"{where}: {workers} workers, {depth} ahead, in order: busy for only {share:.0%}"
            )
        if _can(fetches, step, workers - 1):
            raise NotYet(f"{where}: fewer workers can do it, with more room")
        if depth > next(d for d in range(1, 65) if _enough(fetches, step, workers, d)):
            raise NotYet(f"{where}: with {workers} workers less room is enough")
    return "four traces, none with a worker or a batch more than it takes"


def _enough(fetches: list, step: float, workers: int, depth: int) -> bool:
    return prefetch(fetches, step, workers, depth).busy_fraction >= 0.95


def _can(fetches: list, step: float, workers: int) -> bool:
    """Whether any depth is enough for so many workers."""
    if workers * step < 0.94 * sum(fetches) / len(fetches):
        return False
    return any(_enough(fetches, step, workers, depth) for depth in range(64, 0, -1))


@grader("ex-pack-and-resume")
def pack_and_resume(answer: Any) -> str:
    function(answer, "pack(documents, length, state)")
    draw = random.Random(10)
    for length in (1, 4, 7):
        tokens = iter(range(10_000))
        sizes = [draw.choice([0, 1, 2, 3, 5, 12, 20]) for _ in range(25)]
        documents = [[next(tokens) for _ in range(size)] for size in sizes]
        flat = [token for document in documents for token in document]
        right = [flat[i : i + length] for i in range(0, len(flat) - length + 1, length)]
        whole_run = _packed(answer, documents, length)
        _same([sequence for sequence, _ in whole_run], right, f"length {length}")
        for i, (_, state) in enumerate(whole_run):
            if len(state) > 20 * length + 400:
                raise NotYet(f"length {length}: a state has {len(state)} characters: it grows")
            rest = _packed(answer, documents, length, json.loads(state))
            where = f"length {length}, resumed after sequence {i}"
            _same([sequence for sequence, _ in rest], right[i + 1 :], where)
    return "three lengths, resumed after every sequence"


def _packed(answer: Any, documents: list, length: int, state: Any = None) -> list[tuple]:
    """All pairs of a run, each with its state as JSON, stored before the run goes on."""
    copies = [list(document) for document in documents]
    pairs = (
        call(answer, copies, length, state) if state is not None else call(answer, copies, length)
    )
    try:
        iterator = iter(pairs)
    except TypeError:
        raise NotYet(f"pack must yield pairs, got {type(pairs).__name__}") from None
    found = []
    while True:
        try:
            sequence, after = next(iterator)
            found.append((list(sequence), json.dumps(after)))
        except StopIteration:
            return found
        except NotImplementedError:
            raise NotYet("there is nothing here yet") from None
        except Exception as error:
            raise NotYet(
                f"after {len(found)} sequences: {type(error).__name__}: {error}; each item must be "
                "(sequence, state), and the state such that json.dumps takes it"
            ) from None


def _same(given: list, right: list, where: str) -> None:
    if given == right:
        return
    for i, (mine, wanted) in enumerate(zip(given, right, strict=False)):
        if mine != wanted:
            kind = (
                "does not begin where the one before ended" if mine[:1] != wanted[:1] else "is off"
            )
            raise NotYet(f"{where}: sequence {i} of that run {kind}")
    raise NotYet(f"{where}: {len(given)} sequences, but {len(right)} are whole")


@grader("ex-mix-without-memory")
def mix_without_memory(answer: Any) -> str:
    function(answer, "source(n, a, b)")
    draw = random.Random(11)
    for a, b in ((1, 1), (5, 3), (9, 1), (1, 99), (2, 1), (37, 13)):
        places = list(range(3 * (a + b)))
        draw.shuffle(places)
        chosen = {n: whole(call(answer, n, a, b), "the source") for n in places}
        if set(chosen.values()) - {0, 1}:
            raise NotYet("a source is 0 or 1")
        if any(call(answer, n, a, b) != chosen[n] for n in places[:50]):
            raise NotYet("asked twice for the same sample, it names two sources")
        count = 0
        for n in range(len(places)):
            count += chosen[n] == 0
            off = count * (a + b) - (n + 1) * a
            if abs(off) >= a + b:
                raise NotYet(
                    f"{a} to {b}: after {n + 1} samples source 0 is a whole sample "
                    f"{'ahead' if off > 0 else 'behind'}"
                )
    return "six proportions, asked in random order, never off by a whole sample"
