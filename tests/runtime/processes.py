"""Which rank processes there are, and whether they end."""

import time
from collections.abc import Callable

import psutil


def rank_processes() -> set[int]:
    """The process ids of all ranks of this process: what its fork server has forked."""
    children = psutil.Process().children()
    servers = [child for child in children if "forkserver" in " ".join(child.cmdline())]
    return {rank.pid for server in servers for rank in server.children() if is_running(rank)}


def is_running(process: psutil.Process) -> bool:
    """False for a process that has ended, even if nobody has asked for its exit status."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def still_running(processes: list[psutil.Process], seconds: float = 600) -> list[psutil.Process]:
    """Those of the processes that do not end within so many seconds."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return list(filter(is_running, processes))


def wait_until(condition: Callable[[], bool], seconds: float = 600) -> bool:
    """Wait for a condition, minutes if need be: a busy machine is slow. Whether it came to be."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def come_to_rest(process: psutil.Process, looks: int = 20) -> bool:
    """Wait until a process and all that it has started sleep, so many looks in a row.

    Whoever has work to do is running or would like to, however slow the machine.
    """
    quiet = 0

    def at_rest() -> bool:
        nonlocal quiet
        states = [_state(one) for one in (process, *process.children(recursive=True))]
        quiet = quiet + 1 if states and set(states) <= {psutil.STATUS_SLEEPING, None} else 0
        return quiet >= looks

    return wait_until(at_rest)


def _state(process: psutil.Process) -> str | None:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return None
