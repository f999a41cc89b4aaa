"""What a run over the recording transport leaves behind: the trace of its messages."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Message(NamedTuple):
    """One message as it arrived; ``round`` is 1 plus the longest chain of messages before it."""

    round: int
    src: int
    dst: int
    nbytes: int
    values: "np.ndarray"

    def __str__(self) -> str:
        return f"round {self.round}: {self.src}→{self.dst} {self.values}"


@dataclass(frozen=True)
class Trace:
    """What the ranks did: results, final buffers and messages, in order of round and sender."""

    size: int
    results: list
    buffers: list
    messages: list[Message]

    @property
    def rounds(self) -> int:
        """The longest chain of messages that had to wait for one another."""
        return max((m.round for m in self.messages), default=0)

    def sent_bytes(self) -> list[int]:
        """Bytes that each rank sent."""
        return [sum(m.nbytes for m in self.messages if m.src == r) for r in range(self.size)]

    def received_bytes(self) -> list[int]:
        """Bytes that each rank received."""
        return [sum(m.nbytes for m in self.messages if m.dst == r) for r in range(self.size)]

    def sent_messages(self) -> list[int]:
        """Messages that each rank sent."""
        return [sum(m.src == r for m in self.messages) for r in range(self.size)]

    def __repr__(self) -> str:
        rows = zip(self.sent_messages(), self.sent_bytes(), self.received_bytes(), strict=True)
        lines = [f"rounds: {self.rounds}", "rank  messages sent  bytes sent  bytes received"]
        for rank, (count, sent, received) in enumerate(rows):
            lines.append(f"{rank:4}  {count:13,}  {sent:10,}  {received:14,}")
        return "\n".join(lines)
