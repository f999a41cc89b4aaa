"""The calls of the worlds in memory, on real ranks: process groups that count."""

import time
from typing import Any

from dtlib.collectives.transport import Batched, Counting, PointToPoint
from dtlib.exercises.worlds.messages import Calls
from dtlib.exercises.worlds.team import Team


class _OnDevice:
    """Where a real rank stands; ``group``, a torch.distributed process group (None: all ranks)."""

    def _stand_in(self, group: Any) -> None:
        import torch.distributed as dist

        from dtlib.runtime import device

        self.group = group or dist.group.WORLD
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.device = device()


class GroupComm(Calls, _OnDevice):
    """Point-to-point messages of one real rank, as of `Comm`; what it sends is counted.

    ``rank``, ``size`` and ``device`` say where this rank stands, ``sent_messages`` and
    ``sent_bytes`` what it has sent. On GPUs messages start when the first handle is waited for:
    post the sends and receives of a round before waiting, so that NCCL takes them together.
    """

    def __init__(self, group: Any = None):
        self._stand_in(group)
        on_gpu = self.device.type == "cuda"
        self._wire = Counting(Batched(self.group) if on_gpu else PointToPoint(self.group))

    @property
    def sent_messages(self) -> int:
        return self._wire.sent_messages

    @property
    def sent_bytes(self) -> int:
        return self._wire.sent_bytes

    def isend(self, buffer: Any, dst: int) -> Any:
        """Start a send; leave ``buffer`` alone until the handle's ``wait()`` returns."""
        return self._wire.isend(buffer, dst)

    def irecv(self, buffer: Any, src: int) -> Any:
        """Start a receive; ``buffer`` is undefined until the handle's ``wait()`` returns."""
        return self._wire.irecv(buffer, src)

    def barrier(self) -> None:
        """Wait until every rank is here and has finished its work."""
        import torch.distributed as dist

        self.synchronize()
        dist.barrier(self.group)
        self.synchronize()

    def synchronize(self) -> None:
        """Wait until this rank's GPU, if it has one, has finished what it was given."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize()


class RealTeam(Team, _OnDevice):
    """The calls of a `RecordedTeam` on real ranks, gloo or NCCL."""

    def __init__(self, group: Any = None):
        super().__init__()
        self._stand_in(group)

    def _reduced(self, x: Any, op: str) -> Any:
        import torch.distributed as dist

        total = x.clone()
        kind = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[op]
        dist.all_reduce(total, op=kind, group=self.group)
        return total

    def _everybodys(self, x: Any) -> list:
        import torch
        import torch.distributed as dist

        mine = x.contiguous()
        everybody = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(everybody, mine, group=self.group)
        return everybody

    def _scattered(self, x: Any) -> Any:
        from dtlib.runtime.names import reduce_scatter_single

        part = x.new_empty(len(x) // self.size)
        reduce_scatter_single(part, x.contiguous(), group=self.group)
        return part

    def _swapped(self, x: Any, send: list[int], receive: list[int]) -> Any:
        import torch.distributed as dist

        arrived = x.new_empty(sum(receive), *x.shape[1:])
        dist.all_to_all_single(arrived, x.contiguous(), receive, send, group=self.group)
        return arrived


class ReplicaComm(_OnDevice):
    """The call of a `RecordedComm` on real ranks.

    ``calls`` and ``nbytes`` say how many all-reduces there were, and of how many bytes in all;
    ``log`` has a line (seconds, text) for each start and each `note`.
    """

    def __init__(self, group: Any = None):
        self._stand_in(group)
        self.calls = self.nbytes = 0
        self.log: list[tuple[float, str]] = []

    def all_reduce(self, buffer: Any, async_op: bool = False) -> Any:
        """Replace ``buffer`` by its sum over all ranks: now, or by the time that wait() returns."""
        import torch.distributed as dist

        self.calls += 1
        self.nbytes += buffer.nbytes
        self.note(f"all-reduce {self.calls} starts")
        return dist.all_reduce(buffer, group=self.group, async_op=async_op)

    def note(self, text: str) -> None:
        """Write a line of your own into the log."""
        self.log.append((time.perf_counter(), text))

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}: {self.calls} all-reduces, {self.nbytes:,} bytes"
