"""The server process that has torch loaded and forks the ranks, in milliseconds.

Forking the notebook itself would copy its threads' locks (ranks then hang at random), and starting
fresh interpreters would import torch once per rank. The standard library's forkserver avoids both.
"""

import contextlib
import importlib.util
import multiprocessing as mp
import multiprocessing.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import forkserver

from dtlib.runtime.sweeper import FOLDER

_PRELOADED = [
    "dtlib.runtime.sweeper",
    "torch",
    "torch.distributed",
    "torch._dynamo",  # else the first optimizer imports it, for seconds, in every rank
    "cloudpickle",
    "dtlib.runtime.rank_process",
]
_BYTES_OF_A_SOCKET = 103  # that its path may have on macOS; 107 on Linux
_BYTES_BELOW = len("/pymp-xxxxxxxx/listener-xxxxxxxx")


def check_platform() -> None:
    """Raise if ranks cannot run here: no fork server on Windows, or no torch."""
    if sys.platform == "win32":
        raise RuntimeError("ranks need Linux or macOS; on Windows, run the book inside WSL 2")
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError("ranks need PyTorch, which is not installed: pip install torch")


def start_server() -> None:
    """Start loading torch in the background; returns at once, and does nothing the second time."""
    check_platform()
    _make_room_for_sockets()
    mp.get_context("forkserver").set_forkserver_preload(_PRELOADED)
    with _starting():
        forkserver.ensure_running()


def start_process(target: Callable, args: tuple, name: str) -> mp.process.BaseProcess:
    """Fork a process from the server. It may have children of its own, so it is no daemon."""
    process = mp.get_context("forkserver").Process(target=target, args=args, name=name)
    start_server()
    with _hidden_main():  # for seconds, while the server loads torch: no setting waits with it
        process.start()
    return process


def _make_room_for_sockets() -> None:
    """Let multiprocessing keep its sockets in /tmp where TMPDIR is too long for their paths."""
    if len(os.fsencode(tempfile.gettempdir())) + _BYTES_BELOW <= _BYTES_OF_A_SOCKET:
        return
    before, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        mp.util.get_temp_dir()  # is made once, and goes with this process
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    # One thread per rank: more ranks than cores with several threads each only wait for each other.
    settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback}
    settings[FOLDER] = mp.util.get_temp_dir()
    with _environment(settings), _hidden_main():
        yield


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Keep the new process from importing the script that launches it.

    multiprocessing re-imports `__main__` in each child: scripts would need a guard, and pytest
    would start inside every rank. Functions of `__main__` travel by value, so nothing is missing.
    """
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        main.__dict__.update(hidden)
