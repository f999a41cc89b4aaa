"""A mean of gradients as a program of one rank, and three who carry it out.

The nouns:

- **Program**: a generator. It yields a verb, is sent the answer, and returns what came out.
- **Verb**: `Who` asks for (rank, P), `Mean` adds up on the way, `Gather` shows every rank's message
  to all, `Exchange` hands one message to each rank.
- **Message**: a tuple of tensors, of the same shapes on every rank.
- **WireMeter**: the bytes that one rank puts on its link.

`alone` runs a program as the only rank, `together` those of P ranks in one process, and `across`
this rank's in a group. The text of a program is the same for all three.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from dtlib.runtime.process_group import ranks_of

Message = tuple[torch.Tensor, ...]
Program = Generator[Any, Any, Any]


@dataclass(frozen=True)
class Who:
    """Who am I: the answer is (rank, P)."""

    payload = 0

    def sent_bytes(self, P: int) -> float:
        """Nothing is sent."""
        return 0.0

    def answers(self, verbs: Sequence["Who"]) -> list:
        """To all ranks at once."""
        return [(rank, len(verbs)) for rank in range(len(verbs))]

    def across(self, group) -> tuple[int, int]:
        """To this rank of a group."""
        return ranks_of(group)


@dataclass(frozen=True)
class Mean:
    """The mean of one tensor over the ranks, which a ring adds up on the way."""

    tensor: torch.Tensor

    @property
    def payload(self) -> int:
        """Bytes of the tensor."""
        return self.tensor.nbytes

    def sent_bytes(self, P: int) -> float:
        """2 (P - 1) / P of the payload, as in a ring all-reduce."""
        return 2 * (P - 1) / P * self.payload

    def answers(self, verbs: Sequence["Mean"]) -> list[torch.Tensor]:
        """To all ranks at once."""
        total = torch.stack([verb.tensor for verb in verbs]).sum(0)
        return [total / len(verbs) for _ in verbs]

    def across(self, group) -> torch.Tensor:
        """To this rank of a group."""
        total = self.tensor.clone()
        dist.all_reduce(total, group=group)
        return total / dist.get_world_size(group)


@dataclass(frozen=True)
class Gather:
    """Every rank's message, in the order of the ranks."""

    message: Message

    @property
    def payload(self) -> int:
        """Bytes of this rank's message."""
        return sum(tensor.nbytes for tensor in self.message)

    def sent_bytes(self, P: int) -> float:
        """P - 1 times the payload, as in a ring all-gather: each message passes each rank."""
        return (P - 1) * float(self.payload)

    def answers(self, verbs: Sequence["Gather"]) -> list[list[Message]]:
        """To all ranks at once."""
        return [[verb.message for verb in verbs] for _ in verbs]

    def across(self, group) -> list[Message]:
        """To this rank of a group."""
        mine = packed(self.message)
        found = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(found, mine, group=group)
        return [unpacked(buffer, self.message) for buffer in found]


@dataclass(frozen=True)
class Exchange:
    """One message for each rank; the answer is what each rank had for this one."""

    messages: Sequence[Message]

    @property
    def payload(self) -> int:
        """Bytes of all messages of this rank."""
        return sum(tensor.nbytes for message in self.messages for tensor in message)

    def sent_bytes(self, P: int) -> float:
        """All but the message to itself."""
        return (P - 1) / P * self.payload

    def answers(self, verbs: Sequence["Exchange"]) -> list[list[Message]]:
        """To all ranks at once."""
        return [[verb.messages[rank] for verb in verbs] for rank in range(len(verbs))]

    def across(self, group) -> list[Message]:
        """To this rank of a group."""
        mine = torch.stack([packed(message) for message in self.messages])
        found = torch.empty_like(mine)
        dist.all_to_all_single(found, mine, group=group)
        return [unpacked(buffer, self.messages[0]) for buffer in found]


@dataclass
class WireMeter:
    """What one rank of `P` sends: `bytes`, `collectives`, and the `payload` before the algorithms.

    >>> meter = WireMeter(P=4)
    >>> meter.note(Gather((torch.zeros(10),)))
    >>> meter.note(Mean(torch.zeros(10)))
    >>> meter.bytes, meter.payload, meter.collectives
    (180.0, 80, 2)
    """

    P: int
    bytes: float = 0.0
    payload: int = 0
    collectives: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)

    def note(self, verb) -> None:
        """Count what a verb sends."""
        if not isinstance(verb, Who):
            self.bytes += verb.sent_bytes(self.P)
            self.payload += verb.payload
            self.collectives += 1
            self.log.append((type(verb).__name__, verb.payload))


def alone(program: Program) -> Any:
    """What a program returns when there is no other rank."""
    return together([program])[0]


def together(programs: Sequence[Program], meter: WireMeter | None = None) -> list:
    """What the programs of all ranks return, run in lockstep in this process.

    Arguments: `programs`, one of each rank; `meter`, which counts rank 0's bytes.
    Raises ValueError where ranks ask for different things, as ranks that wait for each other would
    hang.
    """
    answers: list = [None] * len(programs)
    while True:
        verbs, results = [], []
        for program, answer in zip(programs, answers, strict=True):
            try:
                verbs.append(program.send(answer))
            except StopIteration as stop:
                results.append(stop.value)
        if not verbs:
            return results
        kinds = {(type(verb).__name__, verb.payload) for verb in verbs}
        if results or len(kinds) > 1:
            asked = ", ".join(f"{name} of {n} bytes" for name, n in sorted(kinds))
            raise ValueError(f"ranks ask for different things at once: {asked}")
        if meter is not None:
            meter.note(verbs[0])
        answers = verbs[0].answers(verbs)


def across(program: Program, group, meter: WireMeter | None = None) -> Any:
    """What this rank's program returns, in a group whose ranks all run theirs."""
    answer = None
    while True:
        try:
            verb = program.send(answer)
        except StopIteration as stop:
            return stop.value
        if meter is not None:
            meter.note(verb)
        answer = verb.across(group)


def packed(message: Message) -> torch.Tensor:
    """A message as bytes, end to end, so that one collective carries it."""
    return torch.cat([tensor.contiguous().view(-1).view(torch.uint8) for tensor in message])


def unpacked(buffer: torch.Tensor, like: Message) -> Message:
    """The message in the bytes, with the types and shapes of another.

    >>> message = torch.ones(1), torch.tensor([3, 4])
    >>> unpacked(packed(message), like=message)
    (tensor([1.]), tensor([3, 4]))
    """
    pieces = buffer.split([tensor.nbytes for tensor in like])
    return tuple(
        piece.clone().view(tensor.dtype).view(tensor.shape)
        for piece, tensor in zip(pieces, like, strict=True)
    )
