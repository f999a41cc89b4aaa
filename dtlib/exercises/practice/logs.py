"""Logs as the engines of the micro-lab write them, made up: for checks, and to be edited."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random

from dtlib.micro_lab.step_log import of_step

BUCKETS = (330_760, 264_192, 265_216, 263_680, 264_192, 265_216, 1_057_792)
OTHER_MODEL = "an honest log of a model with five buckets"
UNITS = {"root": 1_124_872, "layer.0": 793_088, "layer.1": 793_088}


def replica_log(
    buckets: Sequence[int] = BUCKETS,
    steps: int = 3,
    P: int = 2,
    seed: int = 0,
    rebuilt: bool = True,
) -> list[dict]:
    """What data parallelism writes: with `rebuilt`, its first step has one bucket, as torch's."""
    random, records = Random(seed), []
    params = sum(buckets) // 4
    for rank in range(P):
        records += [_run(rank, "torch-ddp" if rebuilt else "ddp", P, params, buckets[0])]
        for step in range(steps):
            sizes = [sum(buckets)] if rebuilt and step == 0 else list(buckets)
            forward, end = _moments(random)
            gaps = sorted(random.uniform(forward, end) for _ in sizes[:-1])
            free = 0.0
            for i, (size, launch) in enumerate(zip(sizes, [*gaps, end + 0.05], strict=True)):
                free = max(free, launch) + 0.3 + size / 1e6 * random.uniform(0.9, 1.1)
                times = {"launch_ms": launch, "done_ms": free, "bwd_done_ms": end}
                records += [_line(rank, step, "all_reduce", bucket=i, bytes=size, **times)]
            records += _ending(rank, step, params, 1, forward, end, max(free, end) + 4)
    return records


def sharded_log(units: dict = UNITS, steps: int = 3, P: int = 2, seed: int = 0) -> list[dict]:
    """What ZeRO-3 writes: each unit is gathered twice and scattered."""
    random, records = Random(seed), []
    params = sum(units.values()) // 4
    forwards = list(units)
    root, *layers = forwards
    order = [("all_gather", unit) for unit in [*forwards, root, *layers[::-1]]]
    order += [("reduce_scatter", unit) for unit in [*layers[::-1], root]]
    for rank in range(P):
        records += [_run(rank, "zero3", P, params, 0)]
        for step in range(steps):
            forward, end = _moments(random)
            marks = sorted(random.uniform(0, end) for _ in order)
            for (op, unit), launch in zip(order, marks, strict=True):
                done = launch + 0.3 + units[unit] / 2e6
                times = {"launch_ms": launch, "done_ms": done, "bwd_done_ms": end}
                records += [_line(rank, step, op, unit=unit, bytes=units[unit], **times)]
            records += _ending(rank, step, params, P, forward, end, end + 6)
    return records


def single_log(params: int, steps: int = 3) -> list[dict]:
    """What one process writes."""
    records = [_run(0, "single", 1, params, 0)]
    for step in range(steps):
        records += _ending(0, step, params, 1, 10.0, 30.0, 35.0)
    return records


def practice_logs(P: int = 2, steps: int = 3) -> dict[str, list[dict]]:
    """All four, of the same run."""
    return {
        "single": single_log(sum(BUCKETS) // 4, steps),
        "ddp": replica_log(steps=steps, P=P, rebuilt=False),
        "zero3": sharded_log(steps=steps, P=P),
        "torch-ddp": replica_log(steps=steps, P=P),
    }


def edited_logs() -> dict[str, tuple[list[dict], str]]:
    """For each name a log of torch's wrapper, and the letters of the claims that it breaks."""

    def edited(change: Callable | None, **options) -> list[dict]:
        records = deepcopy(replica_log(**options))
        if change is not None:
            change(of_step(records, 2, 1), records)
        return records

    def late(lines, records):
        lines[2]["launch_ms"] = lines[2]["bwd_done_ms"] + 0.1
        lines[2]["done_ms"] = lines[2]["launch_ms"] + 0.5

    def late_once(lines, records):
        late(of_step(records, 4, 0), records)

    def more(lines, records):
        lines[0]["bytes"] += 4

    def fewer(lines, records):
        of_step(records, 0, 1)[0]["bytes"] -= 4

    def moved(lines, records):
        lines[0]["bytes"] += 4
        of_step(records, 2, 0)[0]["bytes"] -= 4

    def dropped(lines, records):
        records.remove(lines[3])

    def silent(lines, records):
        for line in lines:
            records.remove(line)

    def once(lines, records):
        for record in [r for r in records if r["op"] == "all_reduce" and r["step"] > 0]:
            if record["bucket"] < len(BUCKETS) - 1:
                records.remove(record)
            else:
                record["bytes"] = sum(BUCKETS)

    return {
        "an honest log": (edited(None), ""),
        "an honest log of four ranks": (edited(None, P=4, steps=5, seed=3), ""),
        OTHER_MODEL: (edited(None, buckets=BUCKETS[:5]), ""),
        "a log whose first step has all buckets": (edited(None, rebuilt=False), "a"),
        "a log whose buckets are never rebuilt": (edited(once), "a"),
        "a log in which a bucket sets out late": (edited(late), "b"),
        "a log of five steps in which a bucket sets out late": (edited(late_once, steps=5), "b"),
        "a log with 4 bytes more in one bucket": (edited(more), "c"),
        "a log with 4 bytes fewer in its first step": (edited(fewer), "c"),
        "a log in which one rank has the 4 bytes that another lacks": (edited(moved), "c"),
        "a log that lacks a bucket": (edited(dropped), "ac"),
        "a log in which a rank sends nothing in one step": (edited(silent), "ac"),
    }


def _moments(random: Random) -> tuple[float, float]:
    forward = random.uniform(8, 12)
    return forward, forward + random.uniform(15, 25)


def _run(rank: int, engine: str, P: int, params: int, first: int) -> dict:
    what = {"engine": engine, "world": P, "params": params, "tensors": 40, "first_bytes": first}
    return _line(rank, -1, "run", **what)


def _ending(rank, step, params, parts, forward, end, stop) -> list[dict]:
    """What the optimizer keeps, once, and the step's own line."""
    own = -(-params // parts)
    keeps = {"params": own, "grads": own, "opt": 2 * own}
    memory = [_line(rank, step, "mem", **keeps)] if step == 0 else []
    times = {"forward_ms": forward, "bwd_done_ms": end, "step_ms": stop}
    return [*memory, _line(rank, step, "step", loss=0.69 - 0.01 * step, **times)]


def _line(rank: int, step: int, op: str, **fields) -> dict:
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in fields.items()}
    return {"t": round(0.05 * (step + 1), 3), "rank": rank, "step": step, "op": op, **rounded}
