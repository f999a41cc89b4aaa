"""Graders of the micro-lab: predictions, functions that read logs, a hook, the logs themselves."""

import inspect
import random
from copy import deepcopy
from typing import Any
from unittest import mock

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, number, real, unaided, whole
from dtlib.exercises.practice_logs import (
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

BASE, MINI = 66_955_010, 677_762
PREDICTED = {
    "gradient_bytes": 4 * BASE,
    "ddp_sent_bytes": 4 * BASE,
    "sharded_sent_bytes": 6 * BASE,
    "kept_sent_bytes": 4 * BASE,
    "ddp_state_bytes": 16 * BASE,
    "sharded_state_bytes": 8 * BASE,
    "ddp_optimizer_numbers": 2 * MINI,
    "sharded_optimizer_numbers": MINI,
}


@grader("ex-micro-predict")
def predict(answer: Any) -> str:
    if not isinstance(answer, dict) or set(answer) != set(PREDICTED):
        raise NotYet(f"pass a dict with the keys {', '.join(PREDICTED)}")
    for name, right in PREDICTED.items():
        whole_numbers = name.endswith("numbers")
        value = whole(answer[name], name) if whole_numbers else answer[name]
        unit = "" if whole_numbers else "bytes"
        number(value, right, name, unit, mistakes=_slips(name), tolerance=1e-6)
    return "bytes and numbers of one rank; the logs will be held to them"


def _own(answer: Any, signature: str) -> None:
    """A function of the reader's with this signature; a formula might multiply a whole log."""
    function(answer, signature)
    if type(answer).__module__.startswith("dtlib."):
        raise NotYet(
            f"that is a {type(answer).__name__} of the library: write {signature} yourself"
        )


def _slips(name: str) -> dict[float, str]:
    right = PREDICTED[name]
    phases = "count the phases: gather, gather, scatter, each sends (P - 1)/P of the model"
    slips: dict[float, str] = {
        "gradient_bytes": {BASE: "bytes, please: how large is a float32?"},
        "ddp_sent_bytes": {
            2 * BASE: "that is one phase of the ring, and there are two",
            8 * BASE: "a rank sends all parts but its own: (P - 1)/P of the whole in each phase",
        },
        "sharded_sent_bytes": {4 * BASE: phases, 12 * BASE: phases, 8 * BASE: phases},
        "kept_sent_bytes": {6 * BASE: "what is kept need not be gathered a second time"},
        "ddp_state_bytes": {
            12 * BASE: "weights, gradients and two moments: that is four numbers",
            8 * BASE: "weights, gradients and two moments: that is four numbers",
        },
        "sharded_state_bytes": {
            16 * BASE: "that is a whole replica, and a rank has one of P parts"
        },
        "ddp_optimizer_numbers": {MINI: "Adam keeps two moments of every number"},
        "sharded_optimizer_numbers": {2 * MINI: "that is what a replica keeps"},
    }[name]
    return {value: hint for value, hint in slips.items() if value != right}


@grader("ex-micro-buckets")
def buckets(answer: Any) -> str:
    _own(answer, "bucket_bytes(sizes, limits)")
    draw = random.Random(5)
    cases = [([8, 4, 8, 4, 8], [8, 12]), ([100], [8, 8]), ([4] * 9, [4, 12]), ([8, 8, 4], [4, 400])]
    for limits in ([60, 60], [60, 500], [60, 900], [500], [60, 300, 900]):
        cases += [([draw.randrange(4, 400, 4) for _ in range(40)], limits)]
    for sizes, limits in cases:
        where = f"{f'sizes {sizes}' if len(sizes) < 10 else f'{len(sizes)} sizes'}, limits {limits}"
        with mock.patch("torch.distributed._compute_bucket_assignment_by_size", _torchs_own):
            found = _listed(call(answer, list(sizes), list(limits)), where)
        expected = _closed_at(sizes, limits)
        if found == expected:
            continue
        _explain_buckets(found, sizes, limits, where)
    return "a bucket is closed by the gradient that fills it, and the last limit holds for the rest"


def _torchs_own(*given: Any) -> None:
    raise NotYet("that is torch's own function, which comes afterwards: write the loop yourself")


def _listed(found: Any, where: str) -> list[int]:
    try:
        return [whole(size, "a bucket's size") for size in found]
    except TypeError:
        raise NotYet(f"{where}: return a list of sizes, got {type(found).__name__}") from None


def _closed_at(sizes: list[int], limits: list[int]) -> list[int]:
    found, filled = [], 0
    for size in sizes:
        filled += size
        if filled >= limits[min(len(found), len(limits) - 1)]:
            found.append(filled)
            filled = 0
    return found + [filled] * bool(filled)


def _closed_before(sizes: list[int], limits: list[int]) -> list[int]:
    found: list[int] = []
    for size in sizes:
        limit = limits[min(max(len(found) - 1, 0), len(limits) - 1)]
        if found and found[-1] + size <= limit:
            found[-1] += size
        else:
            found.append(size)
    return found


def _explain_buckets(found: list[int], sizes: list[int], limits: list[int], where: str) -> None:
    if sum(found) < sum(sizes):
        raise NotYet(f"{where}: some gradients are in no bucket: what happens to the last one?")
    if sum(found) > sum(sizes):
        raise NotYet(f"{where}: some gradients are in two buckets, or a bucket was not emptied")
    if found == _closed_before(sizes, limits):
        raise NotYet(f"{where}: torch does not look ahead: a bucket closes once it has its limit")
    if found == _closed_at(sizes, [limit + 1 for limit in limits]):
        raise NotYet(f"{where}: a bucket that has just reached its limit is closed, too")
    for same in (limits[:1], limits[1:]):
        if len(limits) > 1 and found == _closed_at(sizes, same):
            raise NotYet(f"{where}: one limit for all; the first is for bucket 0, the other after")
    if found == _closed_at(sizes[::-1], limits):
        raise NotYet(f"{where}: the sizes come in the order in which the gradients get ready")
    if 0 in found:
        raise NotYet(f"{where}: a bucket is empty")
    i = next(
        (
            i
            for i, pair in enumerate(zip(found, _closed_at(sizes, limits), strict=False))
            if pair[0] != pair[1]
        ),
        min(len(found), 1),
    )
    raise NotYet(f"{where}: every gradient is in a bucket, but bucket {i} has another size")


@grader("ex-micro-hook")
def hook(answer: Any) -> str:
    from dtlib.exercises.hook_trial import judge_hook

    function(answer, "my_hook(state, bucket)")
    if [*inspect.signature(answer).parameters][:2] != ["state", "bucket"]:
        raise NotYet("torch looks the arguments up by their names: call them state and bucket")
    if str(getattr(answer, "__module__", "")).startswith(("dtlib.", "torch.")):
        raise NotYet("that is a library's own hook: write yours")
    judge_hook(answer)
    return "the mean of all ranks, not waited for, and a line for every bucket"


@grader("ex-micro-exposed")
def exposed(answer: Any) -> str:
    _own(answer, "after_backward(lines)")
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
        _judge_exposed(call(answer, deepcopy(lines)), lines, f"practice log {seed}")
    return "the share of bytes that set out too late, and how long the step waits for them"


def _judge_exposed(found: Any, lines: list[dict], where: str) -> None:
    try:
        found = tuple(found)
    except TypeError:
        found = (found,)
    if len(found) != 2:
        raise NotYet(f"return a pair (share, milliseconds), got {found!r:.60}")
    end = lines[0]["bwd_done_ms"]
    late = [line for line in lines if line["launch_ms"] >= end]
    share_of = 1 / sum(line["bytes"] for line in lines)
    share = sum(line["bytes"] for line in late) * share_of
    last = max(line["done_ms"] for line in lines)
    value, ms = real(found[0], f"{where}: the share"), real(found[1], f"{where}: the time", "ms")
    if abs(value - share) > 1e-6:
        if abs(value - len(late) / len(lines)) < 1e-6:
            raise NotYet(f"{where}: that is a share of the buckets; bytes are asked for")
        if abs(value - 100 * share) < 1e-3:
            raise NotYet(f"{where}: a share is at most 1, not a percentage")
        if abs(value - (1 - share)) < 1e-6:
            raise NotYet(f"{where}: that is what sets out in time")
        if abs(value - sum(n["bytes"] for n in lines if n["launch_ms"] > end) * share_of) < 1e-6:
            raise NotYet(f"{where}: what is launched exactly at bwd_done_ms is late, too")
        raise NotYet(f"{where}: the share of bytes launched at or after bwd_done_ms is another")
    wanted = max(0.0, last - end)
    if abs(ms - wanted) > 1e-3:
        if ms < 0:
            raise NotYet(f"{where}: a time cannot be negative: all was over before backward was")
        if abs(ms - (lines[-1]["done_ms"] - end)) < 1e-3:
            raise NotYet(f"{where}: the last line is not always the last to end")
        if abs(ms - sum(line["done_ms"] - line["launch_ms"] for line in late)) < 1e-3:
            raise NotYet(f"{where}: earlier buckets may still be on their way after backward")
        raise NotYet(f"{where}: from the last gradient to the last sum it is another time")


@grader("ex-micro-volume")
def volume(answer: Any) -> str:
    _own(answer, "sent_bytes(lines, P)")
    replica, sharded = of_step(replica_log(), 1), of_step(sharded_log(), 1)
    gathers = [line for line in sharded if line["op"] == "all_gather"]
    scatters = [line for line in sharded if line["op"] == "reduce_scatter"]
    parts = {
        "all_reduce": (replica, 2),
        "all_gather": (gathers, 1),
        "reduce_scatter": (scatters, 1),
    }
    for P in (4, 8, 2):
        for op, (lines, phases) in parts.items():
            total = sum(line["bytes"] for line in lines)
            slips = {
                total: f"a rank keeps one of the {P} parts: it does not send all",
                (3 - phases) * (P - 1) / P * total: f"how many phases has a ring's {op}?",
                phases * total: "a rank keeps a part, which it need not send",
                phases * (P - 1) * total: "`bytes` is the whole tensor, not a part of it",
            }
            right = phases * (P - 1) / P * total
            slips.pop(right, None)
            number(call(answer, deepcopy(lines), P), right, f"{op}, P = {P}", "bytes",
                   mistakes=slips, tolerance=1e-9)  # fmt: skip
    both = call(answer, [*replica, *sharded], 4) / call(answer, replica, 4)
    number(both, 2.5, "a log with both kinds of lines, over one of all-reduces", tolerance=1e-6)
    return "two phases in an all-reduce, one in a gather or a scatter, all parts but one"


@grader("ex-micro-audit")
def audit(answer: Any) -> str:
    _own(answer, "audit(records, params, count)")
    for name, (records, broken) in edited_logs().items():
        buckets = BUCKETS[:5] if name == OTHER_MODEL else BUCKETS
        found = call(answer, deepcopy(records), sum(buckets) // 4, len(buckets))
        try:
            letters = set(found)
        except TypeError:
            raise NotYet(f"return the letters of the broken claims, got {found!r:.60}") from None
        if extra := letters - {"a", "b", "c"}:
            raise NotYet(f"return letters of a, b, c; got {sorted(map(str, extra))[0]:.40}")
        if missed := sorted(set(broken) - letters):
            raise NotYet(f"{name}: you do not see that claim {missed[0]} is broken")
        if false := sorted(letters - set(broken)):
            raise NotYet(f"{name}: claim {false[0]} holds, but you say that it does not")
    return "honest logs pass, and each edit is found, on whichever rank and in whichever step"


@grader("ex-micro-time")
def time(answer: Any) -> str:
    _own(answer, "last_end(ready, sizes, alpha, beta)")
    draw = random.Random(8)
    cases = [([1.0, 2.0], [1e9, 1e9], 0.25, 1e9), ([1.0, 9.0], [1e9, 1e9], 0.0, 1e9)]
    for _ in range(8):
        ready = sorted(draw.uniform(0, 0.3) for _ in range(7))
        cases.append((ready, list(BUCKETS), draw.uniform(0, 0.01), draw.uniform(1e7, 1e9)))
    for ready, sizes, alpha, beta in cases:
        with unaided(overlapped_steps, write="the recursion"):
            found = call(answer, list(ready), list(sizes), alpha, beta)
        costs = [alpha + n / beta for n in sizes]
        slips = {
            ready[0] + sum(n / beta for n in sizes): "every bucket pays alpha",
            ready[-1] + costs[-1]: "the last bucket may have to wait for those before it",
            ready[-1] + sum(costs): "nothing overlaps here: the first ones set out earlier",
            ready[0] + sum(costs): "a bucket cannot leave before its gradients are there",
            sum(costs): "when are the gradients there?",
        }
        right = overlapped_steps(ready, costs)[-1]
        slips = {value: hint for value, hint in slips.items() if abs(value / right - 1) > 0.004}
        what = f"{len(ready)} buckets: the last end"
        number(found, right, what, "s", mistakes=slips, tolerance=1e-6)
    return "each bucket waits for its gradients and for the wire"


@grader("ex-micro-logs")
def logs(answer: Any) -> str:
    from dtlib.micro_lab.claims import ClaimError, check_claims
    from dtlib.micro_lab.step_log import LogError

    if not isinstance(answer, dict) or not all(isinstance(v, list) for v in answer.values()):
        raise NotYet("pass the dict of your logs: for each engine the list of its records")
    try:
        seen = check_claims(answer, BUCKETS)
    except (ClaimError, LogError) as error:
        raise NotYet(str(error)) from None
    runs = [r for records in answer.values() for r in records if r["op"] == "run"]
    if any(run["params"] != MINI for run in runs):
        raise NotYet("these are logs of another model than mini")
    P = next(run["world"] for run in runs if run["engine"] == "ddp")
    if P < 2:
        raise NotYet("one rank has nobody to send to: run the engines on two")
    steps = 1 + max(r["step"] for r in answer["ddp"])
    if steps < 5:
        raise NotYet(f"{steps} steps are too few to see anything: let each engine do five at least")
    if any(answer[name] == made_up for name, made_up in practice_logs(P, steps).items()):
        raise NotYet("these logs were made up for the checks: run the engines")
    return f"all {len(seen)} claims hold, in {steps} steps of {len(answer)} engines"
