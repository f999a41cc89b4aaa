"""Which rank processes there are, and whether they end."""

import time

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


def still_running(processes: list[psutil.Process], seconds: float = 20) -> list[psutil.Process]:
    """Those of the processes that do not end within so many seconds."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return list(filter(is_running, processes))
