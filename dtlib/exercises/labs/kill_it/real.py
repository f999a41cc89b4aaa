"""What the real run of the lab trains on, and who kills a rank of it."""

import os
import signal
from pathlib import Path
from typing import Any

from dtlib.foundations import TransformerSpec
from dtlib.layout import Layout

SPEC = TransformerSpec("small", layers=2, hidden=16, heads=4, vocab=32, norm="rms", bias=False)
BATCH, LENGTH = 12, 9


def fresh_run() -> tuple[Any, Any]:
    """A GPT over all ranks, ZeRO 2 and AdamW, as it is before the first step: (run, optimizer)."""
    import torch
    import torch.distributed as dist

    from dtlib.composition import parallelize
    from dtlib.mesh import Mesh
    from dtlib.models import GPT

    P = dist.get_world_size()
    run = parallelize(GPT(SPEC, dtype=torch.float64), Mesh.of(dp=P), Layout(dp=P, zero=2))
    return run, run.optimizer(torch.optim.AdamW, lr=1e-2)


def rows_at(cursor: int) -> tuple[Any, int]:
    """The next 12 sequences of the data from a place in it, and the place behind them.

    The data has sequences that are too short, which are passed over: the place is no multiple of
    anything, and no step says where it is.
    """
    import torch

    rows = []
    while len(rows) < BATCH:
        generator = torch.Generator().manual_seed(cursor)
        cursor += 1
        if torch.rand((), generator=generator) < 0.7:
            rows.append(torch.randint(SPEC.vocab, (LENGTH,), generator=generator))
    return torch.stack(rows), cursor


class Watch:
    """Writes down each loss in a file of rank 0; kills one rank in the middle of one step, once.

    Arguments: `folder`, for its notes; `victim`, the rank, of so many as there are then (None:
    nobody); `step`, after whose backward pass it is killed, before the update; `agent`, kill the
    parent process first, too, as a node that goes takes everything along.
    """

    def __init__(self, folder: str | Path, victim: int | None, step: int, agent: bool = False):
        self.folder, self.victim, self.step, self.agent = Path(folder), victim, step, agent

    def __call__(self, step: int, loss: float) -> None:
        """To be called by every rank in each step, between the backward pass and the update."""
        import torch.distributed as dist

        rank, size = dist.get_rank(), dist.get_world_size()
        if rank == 0:
            with (self.folder / "losses.txt").open("a") as file:
                file.write(f"{size} {step} {loss!r}\n")
        dist.barrier()  # the note is written before anybody dies
        if rank == self.victim and step == self.step and self._first():
            if self.agent:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    def notes(self) -> list[tuple[int, int, float]]:
        """What was written down: (ranks, step, loss), in order."""
        file = self.folder / "losses.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        words = [line.split() for line in lines]
        return [(int(size), int(step), float(loss)) for size, step, loss in words]

    def _first(self) -> bool:
        try:
            (self.folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def undisturbed(steps: int) -> list[float]:
    """The losses of one process that nobody kills, with no strategy at all."""
    import torch

    from dtlib.models import GPT, next_token_loss

    model, cursor, losses = GPT(SPEC, dtype=torch.float64), 0, []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        tokens, cursor = rows_at(cursor)
        loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
