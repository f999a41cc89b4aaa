"""The mailbox of one rank: what it sends and receives while it works through its row."""

from collections.abc import Hashable, Sequence

import torch
import torch.distributed as dist

from dtlib.parallelism.operators.counting import listed_as
from dtlib.parallelism.pipeline.border import (
    Layout,
    blank_header,
    header_of,
    layouts_of,
    read_header,
)
from dtlib.parallelism.pipeline.messages import Message, messages
from dtlib.parallelism.pipeline.schedule import PipelineSchedule

Tensors = tuple[torch.Tensor, ...]


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
    """The messages of one rank, posted in the order on which all ranks agree.

    ``kinds`` are one value for each micro-batch, equal where the inputs have equal shapes: of each
    kind the first message across a border comes after a header. Waiting for a header cannot
    deadlock either: whatever its sender waits for is earlier in the order, and so was posted.
    """

    def __init__(
        self, schedule: PipelineSchedule, rank: int, group, device, kinds: Sequence[Hashable]
    ):
        mine = [m for m in messages(schedule) if rank in (m.src, m.dst)]
        self.rank, self.group, self.device, self.kinds = rank, group, device, kinds
        self.waiting = mine[::-1]
        self.sends = {m.result for m in mine if m.src == rank}
        self.layouts: dict[tuple, tuple[Layout, ...]] = {}
        self.arriving: dict[tuple, tuple[list, Tensors]] = {}
        self.leaving: list[tuple] = []

    def send(self, result: tuple, tensors: Tensors) -> None:
        self._post_up_to(result, tuple(x.contiguous() for x in tensors))
        self.leaving = [sent for sent in self.leaving if not sent[0].is_completed()]

    def receive(self, result: tuple) -> Tensors:
        if result not in self.arriving:
            self._post_up_to(result)
        handles, memory = self.arriving.pop(result)
        for handle in handles:
            handle.wait()
        return memory

    def finish(self) -> None:
        for handle, _ in self.leaving:
            handle.wait()
        self.leaving.clear()

    def _post_up_to(self, result: tuple, leaving: Tensors = ()) -> None:
        """Post the messages up to ``result``: receives that come before it, and itself."""
        posted: list[tuple[Message, Tensors]] = []
        while not posted or posted[-1][0].result != result:
            message = self.waiting.pop()
            if self._border(message) not in self.layouts:
                self._start(posted)
                posted = []
                self.layouts[self._border(message)] = self._announced(message, leaving)
            posted.append((message, self._memory(message) if self._comes(message) else leaving))
        if result[0] == "F" and not self._comes(message):
            self._check_layouts(message, leaving)
        self._start(posted)

    def _comes(self, message: Message) -> bool:
        return message.dst == self.rank

    def _border(self, message: Message) -> tuple:
        """What crosses there: from which rank to which, behind which stage, of which kind."""
        kind, stage, i = message.result
        if kind == "F":
            return message.src, message.dst, stage, self.kinds[i]
        return message.dst, message.src, stage - 1, self.kinds[i]

    def _announced(self, message: Message, leaving: Tensors) -> tuple[Layout, ...]:
        """Send the header of what leaves, or wait for the header of what will come."""
        with listed_as("header"):
            if self._comes(message):
                header = blank_header().to(self.device)
                (handle,) = exchange([(dist.irecv, header, message.src)], self.group)
                handle.wait()
                return read_header(header)
            header = header_of(layouts_of(leaving)).to(self.device)
            (handle,) = exchange([(dist.isend, header, message.dst)], self.group)
        self.leaving.append((handle, header))
        return layouts_of(leaving)

    def _check_layouts(self, message: Message, leaving: Tensors) -> None:
        announced, found = self.layouts[self._border(message)], layouts_of(leaving)
        if found != announced:
            _, stage, i = message.result
            raise ValueError(
                f"stage {stage} gives {', '.join(map(str, found))} for micro-batch {i}, but gave "
                f"{', '.join(map(str, announced))} for one whose inputs have the same shapes; what "
                "a stage gives must depend on the shapes of the inputs only: pad or cast it"
            )

    def _memory(self, message: Message) -> Tensors:
        """For what comes: forward everything, backward what has a gradient."""
        forward = message.result[0] == "F"
        layouts = self.layouts[self._border(message)]
        return tuple(x.empty(self.device) for x in layouts if forward or x.differentiable)

    def _start(self, posted: list[tuple[Message, Tensors]]) -> None:
        """Start all their tensors' sends and receives at once."""
        handles = iter(
            exchange(
                [
                    (dist.irecv, x, message.src)
                    if self._comes(message)
                    else (dist.isend, x, message.dst)
                    for message, tensors in posted
                    for x in tensors
                ],
                self.group,
            )
        )
        for message, tensors in posted:
            own = [next(handles) for _ in tensors]
            if self._comes(message):
                self.arriving[message.result] = own, tensors
            else:
                self.leaving += zip(own, tensors, strict=True)
