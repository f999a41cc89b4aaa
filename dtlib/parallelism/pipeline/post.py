"""The mailbox of one rank: what it sends and receives while it works through its row."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from dtlib.parallelism.pipeline.messages import Message, messages
from dtlib.parallelism.pipeline.schedule import PipelineSchedule


def exchange(operations: list[tuple], group) -> list:
    """Start sends and receives; a handle for each, to be kept until it was waited for.

    Arguments: ``operations``, each (dist.isend or dist.irecv, tensor, rank in the group). On gloo
    each is started by itself; tensors on a GPU travel as one batch, as NCCL needs it.
    """
    if not operations:
        return []
    calls = [(call, x, dist.get_global_rank(group, peer)) for call, x, peer in operations]
    if not calls[0][1].is_cuda:
        return [call(x, peer, group=group) for call, x, peer in calls]
    batch = dist.batch_isend_irecv([dist.P2POp(call, x, peer, group) for call, x, peer in calls])
    return [_Batch(batch)] * len(calls)


class _Batch:
    """The handle of everything that was started at once."""

    def __init__(self, works: list):
        self.works = works

    def wait(self) -> None:
        for work in self.works:
            work.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self.works)


class Post:
    """The messages of one rank, posted in the order on which all ranks agree."""

    def __init__(self, schedule: PipelineSchedule, rank: int, group, memory_for: Callable):
        mine = [m for m in messages(schedule) if rank in (m.src, m.dst)]
        self.rank, self.group, self.memory_for = rank, group, memory_for
        self.waiting = mine[::-1]
        self.sends = {m.result for m in mine if m.src == rank}
        self.arriving: dict[tuple, tuple] = {}
        self.leaving: list[tuple] = []

    def send(self, result: tuple, tensor: torch.Tensor) -> None:
        self._post_up_to(result, tensor)
        self.leaving = [sent for sent in self.leaving if not sent[0].is_completed()]

    def receive(self, result: tuple) -> torch.Tensor:
        if result not in self.arriving:
            self._post_up_to(result)
        handle, memory = self.arriving.pop(result)
        handle.wait()
        return memory

    def finish(self) -> None:
        for handle, _ in self.leaving:
            handle.wait()
        self.leaving.clear()

    def _post_up_to(self, result: tuple, leaving: torch.Tensor | None = None) -> None:
        """Post the messages up to ``result``: receives that come before it, and itself."""
        posted: list[tuple[Message, torch.Tensor]] = []
        while not posted or posted[-1][0].result != result:
            message = self.waiting.pop()
            receives = message.dst == self.rank
            posted.append((message, self.memory_for(message.result[2]) if receives else leaving))
        for (message, tensor), handle in zip(posted, self._handles(posted), strict=True):
            if message.dst == self.rank:
                self.arriving[message.result] = handle, tensor
            else:
                self.leaving.append((handle, tensor))

    def _handles(self, posted: list) -> list:
        operations = [
            (dist.irecv, tensor, m.src) if m.dst == self.rank else (dist.isend, tensor, m.dst)
            for m, tensor in posted
        ]
        return exchange(operations, self.group)
