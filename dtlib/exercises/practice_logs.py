"""Logs as the engines of the micro-lab write them, made up: for graders, and to be edited."""

from collections.abc import Sequence
from random import Random

BUCKETS = (330_760, 264_192, 265_216, 263_680, 264_192, 265_216, 1_057_792)
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
