"""Ranks behind cables of so many bits/s: real ones where the machine allows, else a throttle.

A real one is a network namespace for each rank, whose port sends no faster than its rate, and a
switch between the ports. It takes root and the programs `ip` and `tc`. A throttle is the book's
link, time = alpha + bytes / beta, slept through before each collective, for the bytes that are
sent.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import cloudpickle

from dtlib import launch
from dtlib.efficiency.compression.programs import WireMeter
from dtlib.exercises.labs.send_less.task import Link

PORT = "port"  # the name of a rank's end of its cable
BURST, QUEUE = "64kb", "50ms"  # what a port may send at once, and how long it lets bytes wait


class ThrottledMeter(WireMeter):
    """Counts what a rank sends, and takes as long as its link would."""

    def __init__(self, P: int, link: Link):
        super().__init__(P)
        self.link = link

    def note(self, verb) -> None:
        """Count a verb, and wait."""
        before, collectives = self.bytes, self.collectives
        super().note(verb)
        time.sleep(self.link.seconds(self.bytes - before, self.collectives - collectives))


def why_not_real() -> str:
    """What keeps this machine from real links, or nothing."""
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"there is no program {' and no '.join(missing)}"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        with cabled(2, 1e9):
            return ""
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(error.cmd[:3])} fails here"


@contextmanager
def cabled(P: int, bits: float) -> Iterator[list[str]]:
    """The names of P namespaces, each with one port of that rate, and a switch between them."""
    names = [f"dtlab-{os.getpid()}-{rank}" for rank in range(P)]
    switch = f"dtlab-{os.getpid()}-switch"
    with ExitStack() as undo:
        for name in (switch, *names):
            _run("ip", "netns", "add", name)
            undo.callback(_run, "ip", "netns", "del", name)
        _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "switch", "up")
        for rank, name in enumerate(names):
            _plug(name, switch, rank, bits)
        yield names


def _plug(name: str, switch: str, rank: int, bits: float) -> None:
    """A cable from a namespace to the switch, of one rate in both directions."""
    end = ("peer", "name", f"p{rank}", "netns", switch)
    _run("ip", "link", "add", PORT, "netns", name, "type", "veth", *end)
    _run("ip", "-n", name, "addr", "add", f"{_address(rank)}/24", "dev", PORT)
    _run("ip", "-n", switch, "link", "set", f"p{rank}", "master", "switch")
    for where, port in ((name, "lo"), (name, PORT), (switch, f"p{rank}")):
        _run("ip", "-n", where, "link", "set", port, "up")
    for where, port in ((name, PORT), (switch, f"p{rank}")):
        limit = ("tbf", "rate", f"{bits:.0f}bit", "burst", BURST, "latency", QUEUE)
        _run("tc", "-n", where, "qdisc", "add", "dev", port, "root", *limit)


def _address(rank: int) -> str:
    return f"10.77.0.{rank + 1}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


def on_links(program: Callable, P: int, bits: float, *args: Any, real: bool) -> list:
    """What ``program(meter, *args)`` returns on each of P ranks behind cables of that rate.

    It runs in a process group of gloo, with a `WireMeter` that counts what it is told, and sleeps
    where the cables are not real. Raises RuntimeError with the last word of a rank that failed.
    """
    if not real:
        link = Link(beta=bits / 8)
        with launch(P, backend="gloo", timeout=300) as ranks:
            return ranks.run(_throttled, program, link, P, args)
    with tempfile.TemporaryDirectory() as folder, cabled(P, bits) as names:
        (Path(folder) / "program").write_bytes(cloudpickle.dumps((program, args)))
        ranks = [_start(name, rank, P, folder) for rank, name in enumerate(names)]
        _wait(ranks)
        found = [(Path(folder) / f"found{rank}").read_bytes() for rank in range(P)]
        return [cloudpickle.loads(each) for each in found]


def port_bytes() -> int | None:
    """What has left this rank's port so far, headers included; None where there is no port."""
    count = Path(f"/sys/class/net/{PORT}/statistics/tx_bytes")
    return int(count.read_text()) if count.exists() else None


def _throttled(program: Callable, link: Link, P: int, args: tuple) -> Any:
    return program(ThrottledMeter(P, link), *args)


def _start(name: str, rank: int, P: int, folder: str) -> subprocess.Popen:
    """A rank's process inside its namespace; `rank.py` is what it runs."""
    inside = ["ip", "netns", "exec", name, sys.executable]
    there = {"RANK": str(rank), "WORLD_SIZE": str(P), "GLOO_SOCKET_IFNAME": PORT}
    meet = {"MASTER_ADDR": _address(0), "MASTER_PORT": "29507", "OMP_NUM_THREADS": "1"}
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [*inside, "-m", "dtlib.exercises.labs.send_less.rank", folder],
        env={**os.environ, **there, **meet, **paths},
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait(ranks: list[subprocess.Popen], seconds: float = 300) -> None:
    """Until all have ended; where one fails or hangs the others are ended, and it is an error."""
    try:
        for rank, process in enumerate(ranks):
            _, errors = process.communicate(timeout=seconds)
            if process.returncode:
                last = (errors.strip().splitlines() or ["no word of why"])[-1]
                raise RuntimeError(f"rank {rank} ended with {process.returncode}: {last}")
    finally:
        for process in ranks:
            with suppress(ProcessLookupError):
                process.kill()
