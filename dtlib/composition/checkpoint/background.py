"""A save that the run does not wait for: the state is copied, and a thread writes the copy.

The thread does all that `write_checkpoint` does, with a process group of its own. Collectives of
one group happen in one order on all its ranks, and two threads would give the group of training
two; so the two never share one. And because the thread commits by itself, a checkpoint is complete
when the last file has arrived, not when somebody asks for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import NamedTuple

import torch.distributed as dist

from dtlib.composition.checkpoint.disk import Disk
from dtlib.composition.checkpoint.saving import group_of, state_of
from dtlib.composition.checkpoint.shards import Part
from dtlib.composition.checkpoint.writing import Ranks, own_share, write_checkpoint


class Blocked(NamedTuple):
    """What a save has cost the run: seconds in which it `waited` for the save before to arrive and
    in which this rank's share was `copied`, and the `bytes` of this copy."""

    waited: float
    copied: float
    bytes: int


class BackgroundSaves:
    """Checkpoints of a run that are written while it goes on; every rank of the world makes one.

    The run stops for a copy of what this rank writes, in the host's memory. What a failure throws
    back is half an interval and the time until the copy has arrived (`lagging_overhead`).
    Arguments: as for `save_checkpoint`; `group`'s ranks get another group, on gloo.
    Use it as a context, or call `close`: what was begun is then complete, or its error raised.
    """

    def __init__(
        self,
        folder: str | Path,
        run,
        optimizer=None,
        *,
        group=None,
        keep: int = 2,
        disk: Disk | None = None,
    ):
        self.folder, self.run, self.optimizer = folder, run, optimizer
        self.options = {"keep": keep, "disk": disk}
        group = group_of(run, group)
        self.group = None
        if group is not None:
            self.group = dist.new_group(dist.get_process_group_ranks(group), backend="gloo")
        self._thread: Thread | None = None
        self._here: Path | None = None
        self._error: BaseException | None = None

    def save(self, step: int, extra: Mapping | None = None) -> Blocked:
        """Copy the state after a step and begin to write it; every rank calls it.

        A save that is still on its way is waited for, so that there is one copy at a time.
        Raises CheckpointError, on every rank, if that one could not be written; then nothing new is
        begun. What is wrong with this one is raised by the next `save`, `finish` or `close`.
        """
        began = perf_counter()
        self.finish()
        waited = perf_counter()
        parts = state_of(self.run, self.optimizer, self.group)
        copies = [copied(part) for part in own_share(parts, Ranks(self.group))]
        self._thread = Thread(target=self._write, args=(step, copies, extra))
        self._thread.start()
        size = sum(part.tensor.nbytes for part in copies)
        return Blocked(waited - began, perf_counter() - waited, size)

    def finish(self) -> Path | None:
        """Wait for the save that is on its way, and return its folder; None without a save.

        Raises CheckpointError, on every rank, as `write_checkpoint` does: once, and the checkpoints
        before it are whole.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            self._here = None
            raise error
        return self._here

    def close(self) -> None:
        """Finish, and give the group back."""
        try:
            self.finish()
        finally:
            if self.group is not None:
                dist.destroy_process_group(self.group)
                self.group = None

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _write(self, step: int, copies: list[Part], extra) -> None:
        options = self.options | {"extra": extra, "group": self.group}
        try:
            self._here = write_checkpoint(self.folder, step, copies, **options)
        except BaseException as error:  # whatever it is, the run is told of it, not this thread
            self._error = error


def copied(part: Part) -> Part:
    """A part with numbers of its own in the host's memory."""
    return replace(part, tensor=part.tensor.detach().to("cpu", copy=True))
