"""Wherever the machine stops, and whichever byte changes, a whole checkpoint is found."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dtlib.exercises.judge import functions, perform
from dtlib.exercises.labs.kill_it.disk import ByteDisk, damages
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.disk import disks_of

STEPS = (8, 20, 100)  # as texts they have another order
LEFT = ("all", "half", "nothing")


def parts_of(step: int, again: bool = False) -> list[bytes]:
    """The bytes that are saved after a step: any, none, and some that are no text."""
    word = b"again" if again else b"at"
    return [b"weights %s %d\n" % (word, step), b"", bytes([0, 255, 10, step]), b"momentum"]


def disk_law(answer: Any) -> None:
    save, newest = functions(answer, "save(disk, step, parts)", "newest(disk)")
    _judge(newest, ByteDisk({}), [], "on an empty disk")
    files: dict = {}
    for count in range(1, len(STEPS) + 1):
        files = _judge_save(save, newest, files, STEPS[:count])
    _judge_growth(save, files)


def _judge_save(save: Callable, newest: Callable, before: dict, steps: tuple) -> dict:
    """Save one more checkpoint, with a stop after each operation; the files in the end."""
    *old, step = steps
    last = _judge_whole(save, newest, before, step)
    for operations, disk, returned in disks_of(
        partial(perform, save), before, step, parts_of(step), kind=ByteDisk
    ):
        after = f"step {step} is saved, and the machine stops"
        if not returned:
            when = f"after operation {operations}" if operations else "before any operation"
            after = f"step {step} is being saved, and the machine stops {when}"
        allowed = [step] if returned else [*old[-1:], step]
        for left in LEFT:
            found = disk.after_stop(left)
            where = after if left == "all" else f"{after}, {left} of what was not synced is left"
            known = _judge(newest, found, allowed, where, none=not old and not returned)
            if known != step:
                _judge_retry(save, newest, found, step, where)
        if len(old) > 1 or (old and returned):
            for left in LEFT[::2]:
                _judge_damage(newest, disk.after_stop(left), before, steps, returned, after)
    return last


def _judge_whole(save: Callable, newest: Callable, before: dict, step: int) -> dict:
    """Save without any stop; the files in the end."""
    disk = ByteDisk(before)
    perform(save, disk, step, parts_of(step))
    _judge(newest, disk, [step], f"step {step} is saved, and nothing happens")
    return {name: disk.read(name) for name in disk.names()}


def _judge_retry(save: Callable, newest: Callable, disk: ByteDisk, step: int, where: str) -> None:
    """The run has gone back, and comes to this step once more, with other numbers."""
    again = ByteDisk({name: disk.read(name) for name in disk.names()})
    perform(save, again, step, parts_of(step, again=True))
    found = perform(newest, again)
    if not _is(found, step, again=True):
        raise NotYet(
            f"{where}; then step {step} is saved once more, and newest finds {_said(found)}"
        )


def _judge_damage(
    newest: Callable, disk: ByteDisk, before: dict, steps: tuple, returned: bool, after: str
) -> None:
    """One file changes: there is another checkpoint, which is whole."""
    for name, what, hurt in _hurt(disk, every=returned):
        where = f"{after}; of {name!r} {what}"
        untouched = returned and name in before and disk.read(name) == before[name]
        _judge(newest, hurt, steps[-1:] if untouched else steps, where)


def _hurt(disk: ByteDisk, every: bool) -> Iterator[tuple[str, str, ByteDisk]]:
    for name in disk.names():
        for what, data in damages(disk.read(name), every):
            yield name, what, disk.damaged(name, data)


def _judge(newest: Callable, disk: ByteDisk, allowed: Any, where: str, none: bool = False) -> Any:
    """Raise NotYet unless `newest` finds a checkpoint that it may; returns its step."""
    try:
        found = perform(newest, disk)
    except NotYet as wrong:
        says = wrong.reason.partition(") ")[2] or wrong.reason
        raise NotYet(f"{where}: newest {says}"[:290]) from None
    if found is None and (none or not allowed):
        return None
    step = next((step for step in allowed if _is(found, step)), None)
    if step is None:
        raise NotYet(f"{where}: newest finds {_said(found)}")
    return step


def _is(found: Any, step: int, again: bool = False) -> bool:
    if not isinstance(found, tuple | list) or len(found) != 2 or found[0] != step:
        return False
    parts = found[1]
    return isinstance(parts, tuple | list) and list(parts) == parts_of(step, again)


def _said(found: Any) -> str:
    """What was found, in words; its step is the reader's own."""
    if found is None:
        return "nothing, and there is a whole checkpoint"
    if not isinstance(found, tuple | list) or len(found) != 2:
        return f"a {type(found).__name__} where a pair (step, parts) should be"
    if found[0] in STEPS and _is(found, found[0]):
        return f"that of step {found[0]}: there is a newer one, and it is whole"
    return f"step {found[0]!r} with bytes that nobody has saved as that step"


def _judge_growth(save: Callable, files: dict) -> None:
    """The disk does not fill up: what is older than the second newest goes."""
    disk = ByteDisk(files)
    counts = []
    for step in range(200, 1000, 100):
        perform(save, disk, step, parts_of(200))
        counts.append(len(disk.names()))
    if counts[-1] > counts[0]:
        raise NotYet("the disk fills up: each save leaves more files than there were before it")
