"""A rank's place in a process group; entering and leaving the group of all ranks."""

import os
import socket
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from dtlib.runtime.backend import torch_backend
from dtlib.runtime.patience import join_patiently

# The notebook is the one that gives up on a hanging rank: it can show where the rank is.
NO_TIMEOUT = timedelta(days=1)

SECONDS_TO_LET_GO = 2.0


def ranks_of(group) -> tuple[int, int]:
    """(rank, P) of this process in ``group``. Raises for no group and for one it is not in."""
    import torch.distributed as dist

    if group is None:
        raise TypeError(
            "group = None; a process group is given explicitly, such as dist.group.WORLD"
        )
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"group = {group}: this process does not belong to it")
    return rank, dist.get_world_size(group)


def told(own, group) -> list:
    """What every rank of a group says, in their order; all of them call it, each with its ``own``.

    Any object that can be pickled. Slow beside a collective of tensors: for what is said once.
    """
    import torch.distributed as dist

    everybody: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(everybody, own, group=group)
    return everybody


def require_alike(argument: str, own: str, group, rule: str) -> None:
    """Raise ValueError on every rank unless all say the same of an argument; all of them call it.

    Arguments: the ``argument`` that an error begins with; what this rank has, in words, ``own``;
    the ``group``; the ``rule`` that an error ends with.
    """
    everybody = told(own, group)
    for rank, other in enumerate(everybody):
        if other != everybody[0]:
            raise ValueError(
                f"{argument}: rank {rank} of the group has {other}, where rank 0 has "
                f"{everybody[0]}; {rule}"
            )


def join_group(rank: int, world_size: int, backend: str, meeting_file: Path) -> None:
    """Meet the other ranks through a file, which must be new: no port, no clash."""
    import torch.distributed as dist

    dist.init_process_group(
        torch_backend(backend),
        store=dist.FileStore(str(meeting_file), world_size),
        rank=rank,
        world_size=world_size,
        timeout=NO_TIMEOUT,
    )


def leave_group() -> None:
    """Leave the group, so that peers that wait in a collective fail at once."""
    import torch.distributed as dist

    if dist.is_initialized():
        groups = process_groups()
        cut_connections()
        dist.destroy_process_group()
        let_go(groups, SECONDS_TO_LET_GO)


def let_go(objects: list[Any], seconds: float) -> None:
    """Empty a list, and wait so long for what was in it to be gone.

    A group of gloo ends when its last collective does. A send that was on its way when the
    connections were cut now and then waits for good; such a group is left to itself.
    """
    ending = threading.Thread(target=objects.clear, daemon=True)
    ending.start()
    join_patiently([ending], seconds)


def process_groups() -> list[Any]:
    """All process groups that this rank is in, the world's first."""
    import torch.distributed as dist

    return list(dist.distributed_c10d._world.pg_map)


def groups_made() -> int:
    """How many groups torch has numbered here: its next one is named by this number.

    A group that some ranks make alone, without saying so, leaves the others behind by one: their
    next common group would have two names, and all would wait.
    """
    import torch.distributed as dist

    return dist.distributed_c10d._world.group_count


def number_groups_from(number: int) -> None:
    """Let torch name the next group by this number."""
    import torch.distributed as dist

    dist.distributed_c10d._world.group_count = number


def cut_connections() -> None:
    """Shut down the TCP connections to this machine, which are gloo's: what waits on them fails.

    gloo closes its own only when the last reference to a group is gone, and the reader's names
    (a mesh, a wrapped model) may hold some; its abort() does nothing.
    """
    for descriptor in map(int, os.listdir("/dev/fd")):
        try:
            connection = socket.socket(fileno=descriptor)
        except OSError:
            continue
        try:
            internet = connection.family in (socket.AF_INET, socket.AF_INET6)
            if internet and connection.getpeername()[0] in ("127.0.0.1", "::1"):
                connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # a listening socket, or a peer that has left already
        finally:
            connection.detach()
