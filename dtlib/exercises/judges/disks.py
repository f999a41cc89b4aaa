"""Judge of a program that saves: wherever the machine stops, a whole checkpoint is the newest."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dtlib.exercises.judge import function, perform
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.disk import MANIFEST, disks_of


def loses_nothing(save: Callable, old: Mapping[str, Any], new: list) -> None:
    """Raise `NotYet` unless the old checkpoint, of step 10, or the new one is always the newest.

    Arguments: `save(disk, step, shards)`; `old`, the files of a whole checkpoint; `new`, the data
    that are saved as step 20.
    """
    function(save, "my_save(disk, step, shards)")
    saved = [data for name, data in old.items() if not name.startswith(MANIFEST)]
    for operations, disk, returned in disks_of(partial(perform, save), dict(old), 20, list(new)):
        after = "at its end" if returned else f"stopped after {operations} operations"
        try:
            found = disk.newest()
        except NotYet as wrong:
            raise NotYet(f"{after}: {wrong.reason}") from None
        if found not in ((10, saved), (20, new)):
            raise NotYet(f"{after}: the newest checkpoint is neither the old one nor the new one")
        if returned and found[0] != 20:
            raise NotYet(f"{after}: the newest checkpoint is that of step {found[0]}")
