"""Real processes: one of four is killed, and the losses are those that nobody disturbed."""

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from dtlib.exercises.judge import call, functions
from dtlib.exercises.labs.kill_it.real import Watch, undisturbed
from dtlib.exercises.verdict import NotYet

RANKS, VICTIM, KILLED, SAVED, UNTIL = 4, 2, 7, 6, 12  # saved after every third step


def elastic_law(answer: Any) -> None:
    go_on, supervise = functions(answer, "go_on(folder, until, watch)", "supervise(program, n)")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").mkdir()
        watch = Watch(folder, VICTIM, KILLED)
        program = partial(go_on, f"{folder}/checkpoints", UNTIL, watch)
        try:
            left = call(supervise, program, RANKS)
        except NotYet as wrong:
            if len({size for size, _, _ in watch.notes()}) > 1:
                _judge_start(watch.notes())
            raise NotYet(_brief(wrong.reason.replace(f"{folder}/", ""))) from None
        notes = watch.notes()
    later = _judge_start(notes)
    if later != list(range(SAVED, UNTIL)):
        raise NotYet("after the kill each step until the last is done once")
    if left != notes[-1][0]:
        raise NotYet("supervise returns the number of ranks that reached the end")
    _judge_losses(notes)


def _judge_start(notes: list) -> list[int]:
    """First four ranks until the kill, then three, from the newest checkpoint on: their steps."""
    first = [step for size, step, _ in notes if size == RANKS]
    if first[: KILLED + 1] != list(range(KILLED + 1)):
        raise NotYet("on four ranks each step calls watch(step, loss) once, from step 0 on")
    if first != list(range(KILLED + 1)):
        raise NotYet("after one of four has died, four ranks went on: the machine of one is gone")
    later = [(size, step) for size, step, _ in notes[len(first) :]]
    if not later:
        raise NotYet("nobody went on after the kill")
    size, step = later[0]
    if size != RANKS - 1:
        raise NotYet(f"{size} ranks went on, and more than that were left")
    if step != SAVED:
        less = "there is a newer checkpoint" if step < SAVED else "more has to be done again"
        raise NotYet(
            f"after the kill the run went on with step {step}: in a run that saves after every "
            f"third step {less}"
        )
    return [step for _, step in later]


def _judge_losses(notes: list) -> None:
    due = undisturbed(UNTIL)
    for size, step, loss in notes:
        if math.isclose(loss, due[step], rel_tol=1e-9):
            continue
        if size == RANKS:
            raise NotYet(f"on {size} ranks, before the kill, the loss of step {step} is wrong")
        if step == SAVED:
            raise NotYet(
                "the first loss after the kill is not that of the undisturbed run: other weights, "
                "or other rows?"
            )
        raise NotYet(
            f"after the kill the first loss is right, and that of step {step} is not: the update "
            "before it was another one"
        )


def _brief(reason: str) -> str:
    """The first line, without what was called with: that names folders of this machine."""
    if "NotImplementedError" in reason:
        return "there is nothing here yet: a function raises NotImplementedError"
    return reason.partition(") ")[2].partition("\n")[0][:280] or reason.partition("\n")[0][:280]
