"""What replicas train, who takes part in a step, and where one of them fails."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

POINTS = ("before the quorum", "before the sum", "before the vote", "after the vote")


@dataclass(frozen=True)
class ReplicaTask:
    """What all replicas train. `make`, `loss` and `restore` must be importable: they are sent.

    `make()` gives a model and its optimizer, the same on each replica; `loss(model, number)` is the
    loss of the share of this number, counted from the start of the run, so the cursor of the data
    is how many shares were used. A step uses `shares` of them, and steps on their mean gradient.
    `restore(model, optimizer, state)` loads what a peer has sent: {"model": ..., "optimizer": ...}.
    """

    make: Callable[[], tuple[Any, Any]]
    loss: Callable[[Any, int], Any]
    shares: int
    steps: int
    restore: Callable[[Any, Any, dict], None] | None = None


@dataclass(frozen=True)
class Fault:
    """A replica that kills itself, or hangs, when it first comes to a point of a step.

    `at` is one of POINTS. It is started again while the others go on, and is in the quorum of step
    `back`, if that is given: that one waits for it, so that a run is the same each time. Raises
    ValueError for a point that there is not.
    """

    replica: int
    step: int
    at: str
    back: int | None = None
    hangs: bool = False

    def __post_init__(self):
        if self.at not in POINTS:
            raise ValueError(f"Fault: at must be one of {POINTS}, got {self.at!r}")

    def strike(self) -> None:
        """End this process as nothing can catch it, or stop it as nothing can wake it."""
        os.kill(os.getpid(), signal.SIGSTOP if self.hangs else signal.SIGKILL)


@dataclass(frozen=True)
class Quorum:
    """Who takes part in a step: all `members`, of which the `healthy` ones have the state.

    `epoch` counts memberships: each has a process group of its own. Members that are not healthy
    are healed by the first that is, and take no shares in this step.
    """

    epoch: int
    members: tuple[int, ...]
    healthy: tuple[int, ...]

    def owner(self, share: int) -> int:
        """The replica that computes this share.

        >>> [Quorum(0, (0, 2, 3), (0, 3)).owner(share) for share in range(4)]
        [0, 3, 0, 3]
        """
        return self.healthy[share % len(self.healthy)]
