"""The same calls as the recording transport, on real ranks: a process group that counts."""

from typing import Any

from dtlib.collectives.transport import Batched, Counting, PointToPoint
from dtlib.exercises.transport import Calls


class GroupComm(Calls):
    """Point-to-point messages of one real rank; what it sends is counted.

    Arguments: ``group``, a torch.distributed process group (None: all ranks).
    ``rank``, ``size`` and ``device`` say where this rank stands, ``sent_messages`` and
    ``sent_bytes`` what it has sent. On GPUs messages start when the first handle is waited for:
    post the sends and receives of a round before waiting, so that NCCL takes them together.
    """

    def __init__(self, group: Any = None):
        import torch.distributed as dist

        from dtlib.runtime import device

        self.group = group or dist.group.WORLD
        self.device = device()
        on_gpu = self.device.type == "cuda"
        self._wire = Counting(Batched(self.group) if on_gpu else PointToPoint(self.group))
        self.rank, self.size = self._wire.rank, self._wire.size

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
