"""The other way with the same replicas: with each failure all stop, and restart from a checkpoint.

They train the same task in the same order of sums, so that the two ways can be compared by bits,
and by the steps that each does again.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

from dtlib.composition.checkpoint.manifest import complete_steps
from dtlib.composition.checkpoint.saving import load_checkpoint, save_checkpoint
from dtlib.composition.quorum.replica import Replica
from dtlib.composition.quorum.task import Fault, Quorum, ReplicaTask
from dtlib.formulas.require import require_count
from dtlib.runtime import RankDied, launch


class JobLife(NamedTuple):
    """From one start of the job to its end: the step it began with, and how many it tried."""

    start: int
    tried: int


@dataclass(frozen=True)
class RestartsRun:
    """The lives of a job in their order, and the state of its first replica at the end."""

    lives: tuple[JobLife, ...]
    state: dict[str, Any] = field(repr=False)


def train_with_restarts(
    task: ReplicaTask,
    replicas: int,
    trace: Sequence[tuple[int, int]] = (),
    *,
    every: int,
    restart: int = 0,
    timeout: float = 60,
) -> RestartsRun:
    """Train a task on replicas that all stop when one dies, and go on after the last checkpoint.

    Time is counted in steps: one that is tried takes one, a restart takes `restart`. `trace`: for
    each failure in which step's time since the start it comes, and which replica kills itself then,
    before the gradients are added. The job saves after `every` steps. A failure at which the job is
    restarting is refused with ValueError, and so are counts below 1 (`restart`: below 0).
    `timeout`, in seconds, is how long ranks may stay silent.
    """
    require_count("train_with_restarts", replicas=replicas, every=every)
    require_count("train_with_restarts", least=0, restart=restart)
    lives, now = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for failure in (*trace, None):
            start, faults = max(complete_steps(folder), default=0), []
            if failure is not None:
                require_count("train_with_restarts", least=now, time=failure[0])
                faults = [Fault(failure[1], start + failure[0] - now, "before the sum")]
            state = _life(task, replicas, faults, folder, every, timeout)
            tried = max(file.stat().st_size for file in folder.glob("tried-*"))
            lives.append(JobLife(start, tried))
            if state is not None:
                return RestartsRun(tuple(lives), state)
            now = failure[0] + 1 + restart


def _life(
    task: ReplicaTask, replicas: int, faults: list[Fault], folder: Path, every: int, timeout: float
) -> dict[str, Any] | None:
    """Train from the newest checkpoint to the end, whose state is returned, or to the fault."""
    for file in folder.glob("tried-*"):
        file.unlink()
    try:
        with launch(replicas, timeout=timeout) as ranks:
            return ranks.run(_train, task, faults, folder, every)[0]
    except RankDied as error:
        if [error.rank] != [fault.replica for fault in faults]:
            raise
        return None


def _train(task: ReplicaTask, faults: list[Fault], folder: Path, every: int) -> dict[str, Any]:
    """What each rank does in a life; it notes each step that it tries, and dies with the fault."""
    everybody = tuple(range(dist.get_world_size()))
    me, group = dist.get_rank(), dist.group.WORLD
    replica = Replica(me, task, faults, line=None, folder=folder, wait=0)
    replica.group = group
    model, optimizer = replica.model, replica.optimizer
    if complete_steps(folder):
        replica.step = load_checkpoint(folder, model, optimizer, group=group).step
    while replica.step < task.steps:
        with (folder / f"tried-{me}").open("a") as file:
            file.write(".")
        replica.cursor = replica.step * task.shares
        replica.add(Quorum(0, everybody, everybody))
        optimizer.step()
        replica.step += 1
        if replica.step % every == 0:
            save_checkpoint(folder, model, optimizer, step=replica.step, group=group)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
