"""The tasks of the micro-lab: predictions, functions that read logs, a hook, logs of one's own."""

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import takewhile
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import items, real, whole
from dtlib.exercises.labs.micro_lab.hook_trial import averaging_hook, hook_law
from dtlib.exercises.labs.micro_lab.own_logs import MINI, as_if_run, logs_law, without
from dtlib.exercises.practice.logs import (
    BUCKETS,
    OTHER_MODEL,
    edited_logs,
    practice_logs,
    replica_log,
    sharded_log,
)
from dtlib.exercises.verdict import NotYet
from dtlib.micro_lab.step_log import of_step
from dtlib.parallelism.data.overlap import overlapped_steps

# fmt: off
_BASE = 66_955_010
_PHASES = "count the phases: gather, gather, scatter, each sends (P - 1)/P of the model"
_FOUR = "weights, gradients and two moments: that is four numbers"

predict = Numbers(
    "ex-micro-predict",
    About("Predict the bytes", "compute", 1, 8,
          "count what a rank sends and keeps under DDP and ZeRO-3 before running them"),
    [
        Asked(name, right, unit, slips, tolerance=1e-6) for name, right, unit, slips in (
            ("gradient_bytes", 4 * _BASE, "bytes", {
                _BASE: "bytes, please: how large is a float32?"}),
            ("ddp_sent_bytes", 4 * _BASE, "bytes", {
                2 * _BASE: "that is one phase of the ring, and there are two",
                8 * _BASE: "a rank sends all parts but its own: (P - 1)/P of the whole in each "
                           "phase"}),
            ("sharded_sent_bytes", 6 * _BASE, "bytes",
                {4 * _BASE: _PHASES, 12 * _BASE: _PHASES, 8 * _BASE: _PHASES}),
            ("kept_sent_bytes", 4 * _BASE, "bytes", {
                6 * _BASE: "what is kept need not be gathered a second time"}),
            ("ddp_state_bytes", 16 * _BASE, "bytes", {12 * _BASE: _FOUR, 8 * _BASE: _FOUR}),
            ("sharded_state_bytes", 8 * _BASE, "bytes", {
                16 * _BASE: "that is a whole replica, and a rank has one of P parts"}),
            ("ddp_optimizer_numbers", 2 * MINI, "", {
                MINI: "Adam keeps two moments of every number"}),
            ("sharded_optimizer_numbers", MINI, "", {
                2 * MINI: "that is what a replica keeps"}),
        )
    ],
    "bytes and numbers of one rank; the logs will be held to them",
    keyed=True,
)


def _closed_at(sizes: Sequence[int], limits: Sequence[int]) -> list[int]:
    found, filled = [], 0
    for size in sizes:
        filled += size
        if filled >= limits[min(len(found), len(limits) - 1)]:
            found.append(filled)
            filled = 0
    return found + [filled] * bool(filled)


def _closed_before(sizes: Sequence[int], limits: Sequence[int]) -> list[int]:
    found: list[int] = []
    for size in sizes:
        limit = limits[min(max(len(found) - 1, 0), len(limits) - 1)]
        if found and found[-1] + size <= limit:
            found[-1] += size
        else:
            found.append(size)
    return found


def _bucket_cases() -> Iterator[tuple[str, tuple[list[int], list[int]]]]:
    draw = random.Random(5)
    cases = [([8, 4, 8, 4, 8], [8, 12]), ([100], [8, 8]), ([4] * 9, [4, 12]), ([8, 8, 4], [4, 400])]
    for limits in ([60, 60], [60, 500], [60, 900], [500], [60, 300, 900]):
        cases += [([draw.randrange(4, 400, 4) for _ in range(40)], limits)]
    for sizes, limits in cases:
        said = f"sizes {sizes}" if len(sizes) < 10 else f"{len(sizes)} sizes"
        yield f"{said}, limits {limits}", (sizes, list(limits))


def _bucket_law(given: Any, right: list[int], sizes: list[int], limits: list[int]) -> None:
    if not isinstance(given, list | tuple):
        raise NotYet(f"return a list of sizes, got {type(given).__name__}")
    found = [whole(size, "a bucket's size") for size in given]
    if sum(found) < sum(right):
        raise NotYet("some gradients are in no bucket: what happens to the last one?")
    if sum(found) > sum(right):
        raise NotYet("some gradients are in two buckets, or a bucket was not emptied")
    if 0 in found:
        raise NotYet("a bucket is empty")
    if found != right:
        same = [*takewhile(lambda pair: pair[0] == pair[1], zip(found, right, strict=False))]
        raise NotYet(f"every gradient is in a bucket, but bucket {len(same)} has another size")


buckets = Function(
    "ex-micro-buckets",
    About("Fill the buckets as torch does", "design", 2, 10,
          "predict how a wrapper cuts gradients into messages"),
    "bucket_bytes(sizes, limits)", _closed_at, _bucket_cases, _bucket_law,
    "a bucket is closed by the gradient that fills it, and the last limit holds for the rest",
    {
        "torch does not look ahead: a bucket closes once it has its limit": _closed_before,
        "a bucket that has just reached its limit is closed, too":
            lambda sizes, limits: _closed_at(sizes, [limit + 1 for limit in limits]),
        "one limit for all; the first is for bucket 0, the other after":
            lambda sizes, limits: _closed_at(sizes, limits[:1]),
        "bucket 0 has a limit of its own, the first":
            lambda sizes, limits: _closed_at(sizes, limits[1:] or limits),
        "the sizes come in the order in which the gradients get ready":
            lambda sizes, limits: _closed_at(sizes[::-1], limits),
        "what happens to the last one":
            lambda sizes, limits: _closed_at([*sizes, 10**9], limits)[:-1],
    },
)

hook = Made(
    "ex-micro-hook",
    About("A hook that writes a log", "design", 3, 18,
          "take the place of a wrapper's all-reduce, and see what it sends", needs="torch"),
    hook_law, lambda: averaging_hook,
    "the mean of all ranks, not waited for, and a line for every bucket",
    {
        "looks the arguments up by their names": lambda: lambda log, gradients: None,
        "must return a future, got NoneType": lambda: lambda state, bucket: None,
    },
)


def _exposed_cases() -> Iterator[tuple[str, tuple[list[dict]]]]:
    for seed in range(6):
        lines = of_step(replica_log(seed=seed, buckets=BUCKETS[: 3 + seed % 5]), 1 + seed % 2)
        if seed == 2:  # a bucket is launched by the last gradient itself
            lines[-1]["launch_ms"] = lines[-1]["bwd_done_ms"]
        if seed == 4:  # a slow bucket in the middle ends last
            lines[1]["done_ms"] = lines[-1]["done_ms"] + 3
        if seed == 5:  # all is over before backward is
            for line in lines:
                line["bwd_done_ms"] = lines[-1]["done_ms"] + 2
        random.Random(seed).shuffle(lines)
        yield f"practice log {seed}", (lines,)


def _late(lines: list[dict], strictly: bool = False) -> list[dict]:
    end = lines[0]["bwd_done_ms"]
    return [n for n in lines if n["launch_ms"] > end or (n["launch_ms"] == end and not strictly)]


def _exposed(lines: list[dict], *, weight: Callable = lambda line: line["bytes"],
             strictly: bool = False, last: Callable = lambda ends: max(ends),
             least: float = 0.0) -> tuple[float, float]:
    late = sum(map(weight, _late(lines, strictly)))
    end = last([line["done_ms"] for line in lines]) - lines[0]["bwd_done_ms"]
    return late / sum(map(weight, lines)), max(least, end)


def _own_time(lines: list[dict]) -> float:
    return sum(line["done_ms"] - line["launch_ms"] for line in _late(lines))


def _exposed_law(given: Any, right: tuple[float, float], lines: list[dict]) -> None:
    share, ms = items(given, "a pair (share, milliseconds)", 2)
    if abs(real(share, "the share") - right[0]) > 1e-6:
        raise NotYet("the share of bytes launched at or after bwd_done_ms is another")
    if abs(real(ms, "the time", "ms") - right[1]) > 1e-3:
        raise NotYet("from the last gradient to the last sum it is another time")


exposed = Function(
    "ex-micro-exposed",
    About("What backward cannot hide", "design", 2, 10, "read exposed communication off a log"),
    "after_backward(lines)", _exposed, _exposed_cases, _exposed_law,
    "the share of bytes that set out too late, and how long the step waits for them",
    {
        "that is a share of the buckets; bytes are asked for": {"weight": lambda line: 1},
        "what is launched exactly at bwd_done_ms is late, too": {"strictly": True},
        "the last line is not always the last to end": {"last": lambda ends: ends[-1]},
        "a time cannot be negative: all was over before backward was": {"least": float("-inf")},
        "earlier buckets may still be on their way after backward":
            lambda lines: (_exposed(lines)[0], _own_time(lines)),
        "a share is at most 1, not a percentage":
            lambda lines: (100 * _exposed(lines)[0], _exposed(lines)[1]),
        "that is what sets out in time":
            lambda lines: (1 - _exposed(lines)[0], _exposed(lines)[1]),
    },
)


def _sent(lines: list[dict], P: int, *, phases: int = 2, gathers: int = 1, kept: int = 1,
          parts: bool = False) -> float:
    counts = {"all_reduce": phases, "all_gather": gathers, "reduce_scatter": gathers}
    total = sum(counts[line["op"]] * line["bytes"] for line in lines)
    return total * (P - kept) / P * (P if parts else 1)


def _volume_cases() -> Iterator[tuple[str, tuple[list[dict], int]]]:
    lines = [*of_step(replica_log(), 1), *of_step(sharded_log(), 1)]
    for P in (4, 8, 2):
        for op in ("all_reduce", "all_gather", "reduce_scatter"):
            yield f"{op}, P = {P}", ([dict(line) for line in lines if line["op"] == op], P)
    yield "a log with both kinds of lines", (deepcopy(lines), 4)


volume = Function(
    "ex-micro-volume",
    About("From lines to bytes sent", "design", 2, 8,
          "turn a log of collectives into the bytes that a rank sends"),
    "sent_bytes(lines, P)", _sent, _volume_cases, same_number,
    "two phases in an all-reduce, one in a gather or a scatter, all parts but one",
    {
        "how many phases has a ring's all-reduce?": {"phases": 1},
        "how many phases has a gather or a scatter?": {"gathers": 2},
        "a rank keeps a part, which it need not send": {"kept": 0},
        "`bytes` is the whole tensor, not a part of it": {"parts": True},
    },
)


def _audit(records: list[dict], params: int, count: int, *, first: int | None = 1,
           ranks: Sequence[int] = range(99), steps: Sequence[int] = range(99),
           silent: bool = True) -> set[str]:
    """The claims that a log breaks: (a) buckets, (b) all but the last in time, (c) all bytes."""
    broken = set()
    for rank, step in dict.fromkeys((r["rank"], r["step"]) for r in records if r["step"] >= 0):
        lines = of_step(records, step, rank)
        if rank not in ranks or step not in steps or not (lines or silent):
            continue
        if len(lines) != ((first or count) if step == 0 else count):
            broken.add("a")
        if any(line["launch_ms"] >= line["bwd_done_ms"] for line in lines[:-1]):
            broken.add("b")
        if sum(line["bytes"] for line in lines) != 4 * params:
            broken.add("c")
    return broken


def _audit_cases() -> Iterator[tuple[str, tuple[list[dict], int, int]]]:
    for name, (records, _) in edited_logs().items():
        model = BUCKETS[:5] if name == OTHER_MODEL else BUCKETS
        yield name, (records, sum(model) // 4, len(model))


def _audit_law(given: Any, right: set[str], records: list[dict], params: int, count: int) -> None:
    try:
        letters = set(given)
    except TypeError:
        raise NotYet(f"return the letters of the broken claims, got {given!r:.60}") from None
    if extra := letters - {"a", "b", "c"}:
        raise NotYet(f"return letters of a, b, c; got {sorted(map(str, extra))[0]:.40}")
    if missed := sorted(right - letters):
        raise NotYet(f"you do not see that claim {missed[0]} is broken")
    if false := sorted(letters - right):
        raise NotYet(f"claim {false[0]} holds, but you say that it does not")


audit = Function(
    "ex-micro-audit",
    About("Find the edited log", "repair", 3, 15,
          "hold a run to claims, on every rank and in every step"),
    "audit(records, params, count)", _audit, _audit_cases, _audit_law,
    "honest logs pass, and each edit is found, on whichever rank and in whichever step",
    {
        "every rank's lines are held to the claims, not rank 0's alone": partial(_audit, ranks=[0]),
        "every step is held to the claims, not the first ones alone": partial(_audit, steps=[0, 1]),
        "the first step of torch's wrapper has one bucket": partial(_audit, first=None),
        "bytes or numbers? `params` counts numbers":
            lambda records, params, count: _audit(records, 4 * params, count),
        "a step in which a rank sends nothing breaks claims, too": partial(_audit, silent=False),
    },
)


logs = Made(
    "ex-micro-logs",
    About("Your own logs", "compute", 2, 8,
          "run the engines and show that their logs hold six claims"),
    logs_law, as_if_run, "all claims hold",
    {
        "there is no log of zero3":
            lambda: {name: log for name, log in as_if_run().items() if name != "zero3"},
        "a: torch-ddp, rank 0, step 3 has 6 buckets":
            lambda: without("torch-ddp", "all_reduce", 3),
        "c: ddp, rank 0, step 3 reduces": lambda: without("ddp", "all_reduce", 3),
        "d: zero3, rank 0, step 2": lambda: without("zero3", "all_gather", 2),
        "is called ddp was written by torch-ddp":
            lambda: {**as_if_run(), "ddp": as_if_run()["torch-ddp"]},
        "made up for the checks": lambda: practice_logs(steps=6),
        "3 steps are too few": lambda: as_if_run(steps=3),
        "pass the dict of your logs": lambda: as_if_run()["ddp"],
    },
)


def _last_end(ready: Sequence[float], sizes: Sequence[float], alpha: float, beta: float) -> float:
    return overlapped_steps(ready, [alpha + n / beta for n in sizes])[-1]


def _wire(sizes: Sequence[float], alpha: float, beta: float) -> float:
    return sum(alpha + n / beta for n in sizes)


def _time_cases() -> Iterator[tuple[str, tuple[list[float], list[float], float, float]]]:
    draw = random.Random(8)
    yield "2 buckets", ([1.0, 2.0], [1e9, 1e9], 0.25, 1e9)
    yield "2 buckets", ([1.0, 9.0], [1e9, 1e9], 0.0, 1e9)
    for _ in range(8):
        ready = sorted(draw.uniform(0, 0.3) for _ in range(7))
        yield "7 buckets", (ready, list(BUCKETS), draw.uniform(0, 0.01), draw.uniform(1e7, 1e9))


time = Function(
    "ex-micro-time",
    About("Predict the last sum", "design", 3, 12,
          "predict the end of a step from bytes, ready times, alpha and beta"),
    "last_end(ready, sizes, alpha, beta)", _last_end, _time_cases, same_number,
    "each bucket waits for its gradients and for the wire",
    {
        "every bucket pays alpha": lambda r, n, a, b: _last_end(r, n, 0.0, b),
        "the last bucket may have to wait for those before it":
            lambda r, n, a, b: r[-1] + a + n[-1] / b,
        "nothing overlaps here: the first ones set out earlier":
            lambda r, n, a, b: r[-1] + _wire(n, a, b),
        "a bucket cannot leave before its gradients are there":
            lambda r, n, a, b: r[0] + _wire(n, a, b),
        "when are the gradients there?": lambda r, n, a, b: _wire(n, a, b),
    },
)
