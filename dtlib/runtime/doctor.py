"""`python -m dtlib doctor`: what this machine offers to ranks, and what to do where it does not.

The first findings are about this machine alone; the next six are the stations that a run passes
before its first step (`dtlib.runtime.stations`); the last one starts two ranks and adds 1 and 2.
"""

import importlib.metadata
import os
import platform
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial

from dtlib.machines.recognise import catalog_gpu
from dtlib.runtime.backend import choose_backend, visible_gpus
from dtlib.runtime.forkserver import check_platform
from dtlib.runtime.launcher import DEFAULT_RANKS, launch
from dtlib.runtime.stations import STATIONS, Host, this_host

_ENOUGH_SHARED_MEMORY = 64 * 10**6


def doctor() -> str:
    """A report of one line per finding; a problem is a line that says what to do.

    >>> print(doctor())
    Python           ...
    """
    return "\n".join(f"{title:16} {_look(finding)}" for title, finding in _FINDINGS.items())


def machine_facts() -> dict:
    """What this machine has, for a program to read: its cores, and a GPU's name, memory and entry.

    >>> sorted(machine_facts())
    ['cores', 'gpus', 'version']
    """
    return {"version": 1, "cores": _core_count(), "gpus": list(_cards())}


def _cards() -> Iterator[dict]:
    for index in range(visible_gpus()):
        import torch

        card = torch.cuda.get_device_properties(index)
        entry = catalog_gpu(card.name, card.total_memory)
        yield {"name": card.name, "memory_bytes": card.total_memory, "entry": entry}


def network_report(host: Host | None = None, width: int = 72) -> str:
    """The stations of a run that starts, one after the other: of a host, or of this one.

    Args:
        host: what a machine and its environment offer (None: this machine, now).
        width: the longest line, in characters; what is longer goes on below.

    >>> print(network_report())
    ranks            ...
    """
    indent = 17 * " "
    wrap = partial(textwrap.fill, width=width, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(
        wrap(f"{title:16} {_look(partial(_station, title, host))}") for title in STATIONS
    )


def _station(title: str, host: Host | None = None) -> str:
    return STATIONS[title](host or this_host())


def _look(finding: Callable[[], str]) -> str:
    """The finding, or why there is none: a report that fails helps nobody."""
    try:
        return finding()
    except Exception as problem:
        return f"PROBLEM: {' '.join(str(problem).split()) or type(problem).__name__}"


def _python() -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"


def _torch() -> str:
    check_platform()
    return importlib.metadata.version("torch")


def _cores() -> str:
    cores = _core_count()
    return f"{cores}; each rank computes with one thread, {DEFAULT_RANKS} ranks unless you say more"


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _gpus() -> str:
    return str(visible_gpus())


def _backend() -> str:
    backend = choose_backend(DEFAULT_RANKS)
    why = "a GPU for each" if backend == "nccl" else "on the CPU"
    return f"{backend} for {DEFAULT_RANKS} ranks, {why}"


def _shared_memory() -> str:
    if not os.path.isdir("/dev/shm"):
        return "no /dev/shm; not needed for messages between ranks"
    size = shutil.disk_usage("/dev/shm").total
    advice = "" if size >= _ENOUGH_SHARED_MEMORY else "; start a container with --shm-size=1g"
    return f"{size / 10**6:,.0f} MB{advice}"


def _two_ranks() -> str:
    start = time.perf_counter()
    with launch(2, timeout=60) as ranks:
        ready = time.perf_counter()
        sums = ranks.run(_sum_of_ranks)
        done = time.perf_counter()
    if sums != [3.0, 3.0]:
        return f"PROBLEM: the sum of 1 and 2 came out as {sums}; please report this"
    return (
        f"work: started in {ready - start:.1f} s, an all-reduce took {1e3 * (done - ready):.0f} ms"
    )


def _sum_of_ranks() -> float:
    import torch
    import torch.distributed as dist

    from dtlib.runtime.backend import device

    mine = torch.tensor(dist.get_rank() + 1.0, device=device())
    dist.all_reduce(mine)
    return mine.item()


_FINDINGS: dict[str, Callable[[], str]] = {
    "Python": _python,
    "system": _system,
    "torch": _torch,
    "cores": _cores,
    "GPUs": _gpus,
    "backend": _backend,
    "shared memory": _shared_memory,
    **{title: partial(_station, title) for title in STATIONS},
    "two ranks": _two_ranks,
}
