"""Who takes part in a step, and whether it counts: agreed on in the process that starts replicas.

Each replica has a line to the lighthouse. The kernel closes it when the replica dies, so a death is
known at once. One that hangs is ended when the others' answers have been there for long enough.
"""

import contextlib
import io
import tempfile
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dtlib.composition.quorum.replica import main
from dtlib.composition.quorum.task import Fault, Quorum, ReplicaTask
from dtlib.formulas.require import require_count, require_positive
from dtlib.runtime.forkserver import start_process
from dtlib.runtime.patience import Patience


class Attempt(NamedTuple):
    """One try of a step: who took part, who of them was healed, and whether it counted."""

    step: int
    epoch: int
    members: tuple[int, ...]
    healed: tuple[int, ...]
    committed: bool


@dataclass(frozen=True)
class QuorumRun:
    """The attempts of a run in their order, and the last state of each replica that ended it."""

    attempts: tuple[Attempt, ...]
    states: dict[int, dict[str, Any]] = field(repr=False)


def train_with_quorum(
    task: ReplicaTask, replicas: int, faults: tuple[Fault, ...] = (), timeout: float = 20
) -> QuorumRun:
    """Train a task on replicas that vote on each step, and strike them with the faults.

    A step counts if every member of its quorum has the whole sum; one that dies before it has voted
    makes it fail, and the others do it again without that one. One that dies after its vote changes
    nothing: the decision stands. `timeout`, in seconds in which the processes could have run, is
    how long one may stay silent before it is ended; one that starts has a minute more. Raises
    ValueError for counts and times that are not positive, and RuntimeError when no replica with the
    state is left, and when a step fails twice although none has died: what is wrong then is the
    task.
    """
    require_count("train_with_quorum", replicas=replicas)
    require_positive("train_with_quorum", timeout=timeout)
    with tempfile.TemporaryDirectory() as folder:
        lighthouse = _Lighthouse(task, faults, Path(folder), timeout)
        try:
            for replica in range(replicas):
                lighthouse.start(replica, healthy=True)
            return lighthouse.run()
        finally:
            for replica in list(lighthouse.lines):
                lighthouse.end(replica)


STARTING = 60  # seconds for a process to import what it needs, on a machine with much to do


class _Lighthouse:
    def __init__(self, task: ReplicaTask, faults: tuple[Fault, ...], folder: Path, timeout: float):
        self.task, self.faults, self.folder, self.timeout = task, faults, folder, timeout
        self.lines: dict[int, Any] = {}
        self.processes: dict[int, Any] = {}
        self.attempts: list[Attempt] = []
        self.back: dict[int, int] = {}
        self.starting: set[int] = set()
        self.step, self.epoch = 0, -1

    def start(self, replica: int, healthy: bool) -> None:
        """Start a replica's process: from the beginning, or to be healed."""
        here, there = Pipe()
        faults = [fault for fault in self.faults if healthy and fault.replica == replica]
        arguments = (replica, self.task, faults, there, self.folder, self.timeout / 2, healthy)
        process = start_process(main, arguments, f"replica {replica}")
        there.close()
        self.lines[replica], self.processes[replica] = here, process
        self.starting.add(replica)

    def end(self, replica: int) -> None:
        """End a replica's process, whatever it does, and leave nothing of it."""
        self.lines.pop(replica).close()
        process = self.processes.pop(replica)
        process.kill()
        process.join()
        process.close()

    def run(self) -> QuorumRun:
        """All steps, each as often as it takes until it counts."""
        last = None
        while self.step < self.task.steps:
            self._bring_back()
            ready = self._answers({r for r in self.lines if self.back.get(r, 0) <= self.step})
            quorum = self._quorum(ready, last)
            for replica in quorum.members:
                self._tell(replica, quorum)
            votes = self._answers(set(quorum.members))
            against = [error for _, error in votes.values() if error is not None]
            committed = set(votes) == set(quorum.members) and not against
            if against and set(votes) == set(quorum.members) and self._tried(quorum.members):
                raise RuntimeError(
                    f"step {self.step} failed twice, and no replica died: {against[0]}"
                )
            for replica in votes:
                self._tell(replica, committed)
            healed = tuple(sorted(set(quorum.members) - set(quorum.healthy)))
            self.attempts.append(
                Attempt(self.step, quorum.epoch, quorum.members, healed, committed)
            )
            last = quorum.members if committed else None
            self.step += committed
        trained = {r for r in self.lines if self.back.get(r, 0) < self.step}
        states = {replica: said[1] for replica, said in self._answers(trained).items()}
        return QuorumRun(tuple(self.attempts), {r: _unpacked(states[r]) for r in sorted(states)})

    def _quorum(self, ready: dict[int, Any], last: tuple[int, ...] | None) -> Quorum:
        members = tuple(sorted(ready))
        healthy = tuple(r for r in members if ready[r][1])
        if not healthy:
            raise RuntimeError(f"step {self.step}: no replica with the state is left")
        self.epoch += members != last
        return Quorum(self.epoch, members, healthy)

    def _tried(self, members: tuple[int, ...]) -> bool:
        """Whether the attempt before was one at this step, by the same members."""
        before = [(attempt.step, attempt.members) for attempt in self.attempts[-1:]]
        return before == [(self.step, members)]

    def _bring_back(self) -> None:
        """Start the dead ones that are to come back; they join in the step that says so."""
        for fault in self.faults:
            dead = fault.replica not in self.lines
            if dead and fault.back is not None and fault.replica not in self.back:
                self.back[fault.replica] = fault.back
                self.start(fault.replica, healthy=False)

    def _tell(self, replica: int, what: Any) -> None:
        # One that has died is missed when its answer is waited for.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.lines[replica].send(what)

    def _answers(self, asked: set[int]) -> dict[int, Any]:
        """What each of them says, less those that die first or stay silent for too long."""
        answers: dict[int, Any] = {}
        silent = {self.lines[replica]: replica for replica in asked}
        patience = Patience([self.processes[replica].pid for replica in asked])
        allowed = self.timeout + (STARTING if asked & self.starting else 0)
        self.starting -= asked
        while silent and (rest := patience.left(allowed)) > 0:
            for line in wait(list(silent), max(rest, 0.01)):
                replica = silent.pop(line)
                try:
                    answers[replica] = line.recv()
                except (EOFError, ConnectionResetError):
                    self.end(replica)
        for replica in silent.values():
            self.end(replica)
        return answers


def _unpacked(data: bytes) -> dict[str, Any]:
    return torch.load(io.BytesIO(data), weights_only=True)
