"""Ranks that send along one axis and add along others: in memory, and the same calls for real."""

from collections.abc import Callable, Sequence
from typing import Any

from dtlib.exercises.worlds import messages, team
from dtlib.exercises.worlds.messages import Comm
from dtlib.exercises.worlds.real import RealTeam
from dtlib.exercises.worlds.team import RecordedTeam
from dtlib.exercises.worlds.threads import world_of
from dtlib.later import torch


def record_mesh(program: Callable, size: int, *args: Any, timeout: float = 60.0) -> list:
    """Run ``program(comm, *args)`` on ``size`` ranks in memory; their results, in order.

    ``comm`` is a `RecordedTeam` that can also ``send`` and ``recv``. Raises as `record_team` does.

    >>> def pass_on(comm):
    ...     if comm.rank == 0:
    ...         return comm.send(torch.ones(2, dtype=torch.float64), 1)
    ...     return comm.recv((2,), 0).tolist()
    >>> record_mesh(pass_on, 2)
    [None, [1.0, 1.0]]
    """
    world = world_of(size)
    group, mail = team._Group(world, range(size)), messages._Mail(world, "dtlib.parallelism")
    return world.run(lambda rank: program(MeshRank(group, mail, rank), *args), timeout)


class MeshRank(RecordedTeam):
    """One rank of all: collectives over all ranks or, by `split`, over some; and messages."""

    def __init__(self, group: Any, mail: Any, rank: int):
        super().__init__(group, rank, arrays=False)
        self._wire = Comm(mail, rank)
        self.sent: list[int] = mail.world.diary(rank, [])

    def send(self, x: Any, dst: int) -> None:
        """Send x, of 64 bits, to rank ``dst``; returns when that rank has them."""
        self.sent.append(dst)
        self._wire.send(x.detach().clone(), dst)

    def recv(self, shape: Sequence[int], src: int) -> Any:
        """The next tensor that rank ``src`` sends to this rank, in 64 bits, of that shape."""
        buffer = torch.empty(tuple(shape), dtype=torch.float64)
        self._wire.recv(buffer, src)
        return buffer


class RealMesh(RealTeam):
    """The calls of a `MeshRank` on real ranks, gloo or NCCL."""

    def split(self, groups: Sequence[Sequence[int]]) -> RealTeam:
        """The smaller team of this rank; all ranks call it with the same groups."""
        import torch.distributed as dist

        made = [dist.new_group(list(members)) for members in groups]
        return RealTeam(next(g for g, who in zip(made, groups, strict=True) if self.rank in who))

    def send(self, x: Any, dst: int) -> None:
        import torch.distributed as dist

        dist.send(x.detach().contiguous(), dst)

    def recv(self, shape: Sequence[int], src: int) -> Any:
        import torch.distributed as dist

        buffer = torch.empty(tuple(shape), dtype=torch.float64, device=self.device)
        dist.recv(buffer, src)
        return buffer
