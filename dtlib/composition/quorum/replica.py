"""What a replica does in a step: its shares of the batch, the sum in one order, and its vote.

The batch of a step is cut into a fixed number of shares. Whoever takes part computes some of them,
and all add the shares' gradients in the order of the shares. So the sum has the same bits whoever
computed what: a run that lost replicas on its way ends with the weights of one that did not.
"""

import contextlib
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dtlib.composition.quorum.task import Fault, Quorum, ReplicaTask


class Replica:
    """One replica's process: its state, the group of the present quorum, and the line home."""

    def __init__(
        self, me: int, task: ReplicaTask, faults: list[Fault], line: Any, folder: Path, wait: float
    ):
        self.me, self.task, self.faults, self.line = me, task, faults, line
        self.folder, self.wait = folder, wait
        self.model, self.optimizer = task.make()
        self.step, self.cursor = 0, 0
        self.group, self.epoch = None, None

    def run(self, healthy: bool) -> None:
        """Train to the last step, and send home the state that there is then."""
        while self.step < self.task.steps:
            self._reach("before the quorum")
            self.line.send(("ready", healthy, self.step))
            quorum = self.line.recv()
            error = self._try(quorum)
            self._reach("before the vote")
            self.line.send(("vote", error))
            self._reach("after the vote")
            if not self.line.recv():
                self.group, self.epoch = None, None
                continue
            self.optimizer.step()
            self.step, self.cursor, healthy = self.step + 1, self.cursor + self.task.shares, True
        self.line.send(("done", self._packed()))

    def _try(self, quorum: Quorum) -> str | None:
        """Why the mean gradient of the whole batch is not here; None if it is."""
        try:
            self._join(quorum)
            self._heal(quorum)
            self.add(quorum)
        except RuntimeError as error:  # a peer is gone: gloo's connections were cut, or it is late
            self.group, self.epoch = None, None
            return str(error)
        return None

    def _join(self, quorum: Quorum) -> None:
        if self.epoch == quorum.epoch:
            return
        store = dist.FileStore(str(self.folder / f"epoch-{quorum.epoch}"), len(quorum.members))
        place, patience = quorum.members.index(self.me), timedelta(seconds=self.wait)
        self.group = dist.ProcessGroupGloo(store, place, len(quorum.members), patience)
        self.epoch = quorum.epoch

    def _heal(self, quorum: Quorum) -> None:
        """The first healthy member sends its state to those that have none; the rest go on."""
        source = quorum.healthy[0]
        behind = [member for member in quorum.members if member not in quorum.healthy]
        if self.me == source:
            for member in behind:
                state = torch.frombuffer(bytearray(self._packed()), dtype=torch.uint8)
                place = quorum.members.index(member)
                self.group.send([torch.tensor([len(state)])], place, 0).wait()
                self.group.send([state], place, 1).wait()
        elif self.me in behind:
            length, place = torch.zeros(1, dtype=torch.int64), quorum.members.index(source)
            self.group.recv([length], place, 0).wait()
            state = torch.empty(int(length), dtype=torch.uint8)
            self.group.recv([state], place, 1).wait()
            self._unpack(state.numpy().tobytes())

    def add(self, quorum: Quorum) -> None:
        """Put the mean of the shares' gradients into the weights' `.grad`, added in one order."""
        weights = list(self.model.parameters())
        mine = {}
        for share in range(self.task.shares):
            if quorum.owner(share) == self.me:
                loss = self.task.loss(self.model, self.cursor + share) / self.task.shares
                parts = torch.autograd.grad(loss, weights)
                mine[share] = torch.cat([part.flatten() for part in parts])
        self._reach("before the sum")
        total = torch.zeros(sum(w.numel() for w in weights), dtype=weights[0].dtype)
        for share in range(self.task.shares):
            gradient = mine.get(share, torch.empty_like(total))
            options = dist.BroadcastOptions()
            options.rootRank = quorum.members.index(quorum.owner(share))
            self.group.broadcast([gradient], options).wait()
            total += gradient
        for weight, part in zip(weights, total.split([w.numel() for w in weights]), strict=True):
            weight.grad = part.view_as(weight)

    def _reach(self, point: str) -> None:
        for fault in self.faults:
            if (fault.replica, fault.step, fault.at) == (self.me, self.step, point):
                fault.strike()

    def _packed(self) -> bytes:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        file = io.BytesIO()
        torch.save(state | {"step": self.step, "cursor": self.cursor}, file)
        return file.getvalue()

    def _unpack(self, data: bytes) -> None:
        state = torch.load(io.BytesIO(data), weights_only=True)
        (self.task.restore or restore_all)(self.model, self.optimizer, state)
        self.step, self.cursor = state["step"], state["cursor"]


def restore_all(model: Any, optimizer: Any, state: dict) -> None:
    """Load a peer's weights, and its optimizer's state."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def main(
    me: int,
    task: ReplicaTask,
    faults: list[Fault],
    line: Any,
    folder: Path,
    wait: float,
    healthy: bool,
) -> None:
    """The program of a replica's process, which ends when the process that started it has."""
    torch.set_num_threads(1)
    # A line that is closed: nobody is there any more to train for.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        Replica(me, task, faults, line, folder, wait).run(healthy)
