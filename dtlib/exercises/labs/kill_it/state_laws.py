"""Twenty steps are k, a stop and the rest, to the bit; or it is said what was not as before."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import call, functions, perform
from dtlib.exercises.labs.kill_it.run import Run, differing, packed, things, unpacked
from dtlib.exercises.verdict import NotYet
from dtlib.later import torch

STEPS, STOPS = 20, (10, 3, 14)


def state_law(answer: Any) -> None:
    state_of, restore = functions(answer, "state_of(run)", "restore(run, state)")
    with torch.random.fork_rng(devices=[]):
        whole = Run()
        losses = whole.train(STEPS)
        due = losses, things(whole)
        for stop in STOPS:
            _judge_stop(state_of, restore, stop, due)


def _judge_stop(state_of: Callable, restore: Callable, stop: int, due: tuple) -> None:
    """Stop once, go on in the same process, then in another one, and there a second time."""
    after = f"stopped after {stop} of {STEPS} steps: "
    run = Run()
    run.train(stop)
    then = things(run)
    state = call(state_of, run)
    _refuse(differing(then, things(run)), f"{after}state_of has changed the run: ")
    file = packed(state)
    run.train(STEPS - stop)
    if packed(state) != file:
        changed = differing(then, _restored(restore, unpacked(packed(state))))
        raise NotYet(
            f"{after}the state has changed while the run went on{_listed(changed)}: it is the "
            "run's own memory, no copy"
        )
    kept = unpacked(file)
    for where in (after, f"{after}a second resume from one state: "):
        _judge_resumed(restore, kept, STEPS - stop, then, due, where)


def _judge_resumed(
    restore: Callable, state: Any, left: int, then: dict, due: tuple, where: str
) -> None:
    losses, end = due
    run = Run(seed=7)
    run.train(2)
    perform(restore, run, state)
    found = things(run)
    resumed = run.train(left)
    if resumed == losses[-left:] and not differing(end, _without_rows(end, things(run))):
        return
    wrong = differing(then, found) or differing(end, things(run))
    raise NotYet(f"{where}the run goes on with other bits{_listed(wrong)}")


def _without_rows(end: dict, found: dict) -> dict:
    """How the rest of an epoch is kept is the reader's affair, where the same rows came."""
    return found | {name: end[name] for name in ("the order of the rows", "the cursor")}


def _restored(restore: Callable, state: Any) -> dict:
    run = Run(seed=7)
    perform(restore, run, state)
    return things(run)


def _refuse(wrong: list[str], says: str) -> None:
    if wrong:
        raise NotYet(says + ", ".join(wrong))


def _listed(wrong: list[str]) -> str:
    return f" ({', '.join(wrong)})" if wrong else ""
