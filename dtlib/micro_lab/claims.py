"""Six claims about data parallelism and ZeRO-3, held against the logs of real runs.

A log is the list of records of all ranks of one run (`dtlib.micro_lab.step_log`). Each check raises
`ClaimError`, which names the engine, the step, the line and what it should have been:

a. the first step has one bucket; then they are rebuilt, and stay those that were predicted;
b. every bucket but the last is launched before the last gradient is there;
c. the bytes of a step are those of the gradients: nothing twice, nothing forgotten;
d. each unit is gathered, gathered again and scattered: 1.5 times what data parallelism sends;
e. a rank keeps 1/P of the weights, the gradients and the optimizer's numbers;
f. the losses of all engines are the same.

Before all: a log is whole, and of the engine whose name it bears (`check_whole`).
"""

import math
from collections.abc import Mapping, Sequence

from dtlib.errors import DtlibError
from dtlib.micro_lab.step_log import COLLECTIVES, check_record, of_step

NEAR, FAR = 1e-6, 5e-4  # between two engines on the same ranks; between ranks and one process
FILLED = 0.01  # at most this share of a part is there to make parts equal


class ClaimError(DtlibError, AssertionError):
    """A log that says otherwise."""


def check_claims(logs: Mapping[str, list[dict]], predicted: Sequence[int]) -> dict[str, str]:
    """Hold the logs of four engines to all six claims.

    Arguments: `logs`, for "single", "ddp", "zero3" and "torch-ddp" the records of all their ranks,
    and "fsdp" if there is one; `predicted`, the bytes of torch's buckets after they are rebuilt.
    Returns for each claim what was seen, in a sentence. Raises ClaimError for the first that fails,
    LogError for a record that follows no schema.
    """
    wanted = ("single", "ddp", "zero3", "torch-ddp")
    if missing := [name for name in wanted if not logs.get(name)]:
        raise ClaimError(f"there is no log of {' and of '.join(missing)}")
    for name, records in logs.items():
        for number, record in enumerate(records, start=1):
            check_record(record, f"{name}, record {number}")
    sharded = [name for name in ("zero3", "fsdp") if name in logs]
    seen = {
        "a": check_rebuilt(logs["torch-ddp"], predicted),
        "b": " ".join(check_overlap(name, logs[name]) for name in ("torch-ddp", "ddp")),
        "c": " ".join(check_bytes(name, logs[name]) for name in ("torch-ddp", "ddp")),
        "d": " ".join(check_gathers(name, logs[name]) for name in sharded),
        "e": " ".join(check_parts(name, logs[name], logs["ddp"]) for name in sharded),
        "f": check_losses(logs),
    }
    counts = {name: check_whole(name, records) for name, records in logs.items()}
    for name, steps in counts.items():
        if steps != counts["ddp"]:
            raise ClaimError(f"{name} has {steps} steps, but ddp has {counts['ddp']}")
    return seen


def check_whole(name: str, records: list[dict]) -> int:
    """Every rank's log has every step and says one thing about each; returns how many steps.

    Raises ClaimError also for the log of another engine.
    """
    world = _only(name, records, "run")["world"]
    steps = sum(r["op"] == "step" and r["rank"] == 0 for r in records)
    for rank in range(world):
        own = [r for r in records if r["rank"] == rank]
        engine = _only(name, own, "run")["engine"]
        if engine != name:
            raise ClaimError(f"the log that is called {name} was written by {engine}")
        _only(f"{name}, rank {rank}", own, "mem")
        ends = {r["step"]: r["bwd_done_ms"] for r in own if r["op"] == "step"}
        if sorted(ends) != list(range(steps)):
            raise ClaimError(f"{name}, rank {rank}: the log does not have each of {steps} steps")
        for line in own:
            if line["op"] in COLLECTIVES and line["bwd_done_ms"] != ends.get(line["step"]):
                raise ClaimError(
                    f"{name}, rank {rank}, step {line['step']}: a line of {line['op']} has another "
                    "bwd_done_ms than the step"
                )
    return steps


def check_rebuilt(records: list[dict], predicted: Sequence[int]) -> str:
    """Claim a, of torch's wrapper."""
    total = sum(predicted)
    for rank, step in _rank_steps("torch-ddp", records):
        found = [line["bytes"] for line in of_step(records, step, rank)]
        expected = [total] if step == 0 else list(predicted)
        if found != expected:
            what = (
                f"{len(found)} buckets" if len(found) != len(expected) else "buckets of other sizes"
            )
            raise ClaimError(
                f"a: torch-ddp, rank {rank}, step {step} has {what}, "
                f"but {len(expected)} were predicted{_first_difference(found, expected)}"
            )
    return f"1 bucket in step 0, then {len(predicted)}, of the predicted bytes."


def check_overlap(name: str, records: list[dict]) -> str:
    """Claim b, of every step but the first."""
    share = 0.0
    for rank, step in _rank_steps(name, records):
        lines = of_step(records, step, rank)
        if step == 0 or len(lines) < 2:
            continue
        *early, last = lines
        late = [line["bucket"] for line in early if line["launch_ms"] > line["bwd_done_ms"]]
        if late:
            raise ClaimError(
                f"b: {name}, rank {rank}, step {step}: bucket {late[0]} is not the last one, "
                "but it is launched after the last gradient"
            )
        if last["launch_ms"] < last["bwd_done_ms"]:
            raise ClaimError(
                f"b: {name}, rank {rank}, step {step}: the last bucket is launched before the "
                "last gradient, which it holds"
            )
        share = last["bytes"] / sum(line["bytes"] for line in lines)
    return f"{name}: only the last bucket, with {share:.0%} of the bytes, waits for backward's end."


def check_bytes(name: str, records: list[dict]) -> str:
    """Claim c: all gradients travel once, 4 bytes each."""
    params = _only(name, records, "run")["params"]
    for rank, step in _rank_steps(name, records):
        total = sum(line["bytes"] for line in of_step(records, step, rank))
        if total != 4 * params:
            raise ClaimError(
                f"c: {name}, rank {rank}, step {step} reduces {total:,} bytes; the gradients of "
                f"{params:,} parameters have {'fewer' if total > 4 * params else 'more'}"
            )
    return f"{name}: {4 * params:,} bytes in every step."


def check_gathers(name: str, records: list[dict]) -> str:
    """Claim d: gather, gather, scatter for each unit, so 3 phases where an all-reduce has 2."""
    params = _only(name, records, "run")["params"]
    ratio = 0.0
    for rank, step in _rank_steps(name, records):
        lines = of_step(records, step, rank)
        where = f"d: {name}, rank {rank}, step {step}"
        for unit in dict.fromkeys(line["unit"] for line in lines):
            ops = [line["op"] for line in lines if line["unit"] == unit]
            if ops != ["all_gather", "all_gather", "reduce_scatter"]:
                said = ", ".join(ops)
                raise ClaimError(f"{where}: {unit} has {said}; expected: gather, gather, scatter")
        ratio = sum(line["bytes"] for line in lines) / (2 * 4 * params)
        if not 1.5 <= ratio <= 1.5 * (1 + FILLED):
            raise ClaimError(f"{where}: {ratio:.3f} times the volume of data parallelism, not 1.5")
        if len({(line["unit"], line["bytes"]) for line in lines}) > len({n["unit"] for n in lines}):
            raise ClaimError(f"{where}: a unit is not gathered and scattered whole")
    return f"{name}: gather, gather, scatter for each unit; {ratio:.2f} times the volume of ddp."


def check_parts(name: str, records: list[dict], replicas: list[dict]) -> str:
    """Claim e: what a rank keeps, against what a replica keeps."""
    whole, P = _only("ddp", replicas, "mem"), _only(name, records, "run")["world"]
    params = _only("ddp", replicas, "run")["params"]
    for what, numbers in [("params", params), ("grads", params), ("opt", 2 * params)]:
        if whole[what] != numbers:
            raise ClaimError(f"e: ddp keeps {whole[what]:,} numbers of {what}, not {numbers:,}")
    for record in (r for r in records if r["op"] == "mem"):
        for what in ("params", "grads", "opt"):
            if abs(record[what] * P - whole[what]) > FILLED * whole[what]:
                raise ClaimError(
                    f"e: {name}, rank {record['rank']} keeps {record[what]:,} numbers of {what}, "
                    f"which is not one of {P} parts of {whole[what]:,}"
                )
    own = _only(name, records, "mem")["opt"]
    return f"{name}: {whole['opt']:,} numbers of the optimizer become {own:,} on a rank."


def check_losses(logs: Mapping[str, list[dict]]) -> str:
    """Claim f: the mean loss of the ranks, step by step."""
    curves = {name: _curve(name, records) for name, records in logs.items()}
    gaps = {}
    for name in [name for name in curves if name != "ddp"]:
        common = range(min(len(curves[name]), len(curves["ddp"])))
        gap, step = max((abs(curves[name][s] - curves["ddp"][s]), s) for s in common)
        limit = FAR if name == "single" else NEAR
        if not gap <= limit:
            raise ClaimError(
                f"f: in step {step} the loss of {name} is {gap:.1g} away from that of ddp; "
                f"{limit:g} is allowed"
            )
        gaps[name] = gap
    near = max(gap for name, gap in gaps.items() if name != "single")
    return (
        f"on the same ranks within {NEAR:g}{' (in every bit)' if near == 0 else ''}, "
        f"and {FAR:g} of one process."
    )


def _curve(name: str, records: list[dict]) -> list[float]:
    steps: dict[int, list[float]] = {}
    for record in records:
        if record["op"] == "step":
            steps.setdefault(record["step"], []).append(record["loss"])
    world = _only(name, records, "run")["world"]
    if not steps:
        raise ClaimError(f"f: the log of {name} has no losses")
    for step, losses in steps.items():
        if not all(map(math.isfinite, losses)):
            raise ClaimError(f"f: {name}, step {step} has a loss that is no number")
        if len(losses) != world:
            raise ClaimError(f"f: {name}, step {step} has {len(losses)} losses of {world} ranks")
    return [sum(steps[step]) / world for step in sorted(steps)]


def _rank_steps(name: str, records: list[dict]) -> list[tuple[int, int]]:
    """Every step of every rank that has a collective, and those that should have one."""
    pairs = {(r["rank"], r["step"]) for r in records if r["op"] in ("step", *COLLECTIVES)}
    if not any(r["op"] in COLLECTIVES for r in records):
        raise ClaimError(f"{name} has sent nothing")
    return sorted(pairs)


def _only(name: str, records: list[dict], op: str) -> dict:
    found = [record for record in records if record["op"] == op]
    if not found:
        raise ClaimError(f"the log of {name} has no line {op!r}")
    return found[0]


def _first_difference(found: Sequence[int], expected: Sequence[int]) -> str:
    if len(found) != len(expected):
        return ""
    i = next(i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    return f": bucket {i} has {found[i]:,} bytes"
