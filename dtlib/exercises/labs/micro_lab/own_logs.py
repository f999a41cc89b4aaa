"""The logs that a reader's own engines have written, held to the claims."""

from typing import Any

from dtlib.exercises.practice.logs import BUCKETS, practice_logs
from dtlib.exercises.verdict import NotYet

MINI = 677_762


def logs_law(answer: Any) -> str:
    """Which claims the logs of a reader's engines hold; `NotYet` with one that they break."""
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


def as_if_run(steps: int = 6) -> dict[str, list[dict]]:
    """Logs that are not those of the checks, record for record."""
    made_up = practice_logs(steps=steps)
    return {name: [{**r, "t": r["t"] + 0.002} for r in log] for name, log in made_up.items()}


def without(engine: str, op: str, step: int) -> dict[str, list[dict]]:
    """Such logs, of which one lacks its first line about an operation in a step."""
    logs = as_if_run()
    logs[engine].remove(next(r for r in logs[engine] if (r["op"], r["step"]) == (op, step)))
    return logs
