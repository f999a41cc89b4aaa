"""Kernels that start in milliseconds: forked from a process that has imported what they will.

A cold kernel and the server of its ranks import torch for ten seconds of a processor, and the
checks start fifty kernels. `warm_kernels()` gives the environment in which Jupyter's "python3" is
warm: its kernel specification starts `ask`, a small program that has the server fork a kernel and
lives as long as that. Nothing of the book is imported beforehand but how ranks start.
"""

import atexit
import contextlib
import importlib
import itertools
import json
import multiprocessing.util
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PRELOADED = [
    "numpy",
    "sympy",
    "matplotlib.pyplot",
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "cloudpickle",
    "anywidget",
    "ipykernel.kernelapp",
    "dtlib.runtime.forkserver",
]
SETTINGS = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
FORWARDED = (signal.SIGINT, signal.SIGTERM)


# Whoever starts kernels


@contextlib.contextmanager
def warm_kernels(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Serve kernels for a while; yields the environment in which Jupyter finds them.

    Args:
        environment: what the server starts with. A kernel has what its own starter has; only what
            Python reads when it starts, such as PYTHONHASHSEED, is the server's.

    On other systems than Linux kernels stay cold: macOS's libraries may not be used after a fork.
    """
    if sys.platform != "linux":
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="warm-", dir="/tmp") as folder:
        address = f"{folder}/socket"
        _write_specification(Path(folder), address)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)
            command = [sys.executable, __file__, "serve", str(listener.fileno())]
            server = subprocess.Popen(
                command,
                env={**environment, **SETTINGS},
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C is for kernels and for who waits for them
            )
        with server:  # at the end its standard input is closed
            yield {**environment, "JUPYTER_PATH": folder}


def _write_specification(folder: Path, address: str) -> None:
    kernel = folder / "kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    argv = [sys.executable, "-P", __file__, "ask", address, "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))


# What Jupyter takes for the kernel


def ask(address: str, *arguments: str) -> None:
    """Have a kernel forked, hand on the signals that are meant for it, and end when it ends."""
    wanted = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        message = json.dumps(wanted).encode()
        socket.send_fds(server, [len(message).to_bytes(8, "big")], [0, 1, 2])
        server.sendall(message)
        kernel = int.from_bytes(server.recv(8), "big")
        for number in FORWARDED:
            signal.signal(number, lambda signum, _: os.killpg(kernel, signum))
        server.recv(1)


# The server


class Server:
    """Forks a kernel for whoever asks; ends one whose starter has gone, and says when one ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._starters: dict[int, socket.socket] = {}  # of each kernel
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Go on until standard input ends, with the process that started this one."""
        for source in (self._listener, self._wake, sys.stdin):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    signal.set_wakeup_fd(-1)
                    for starter in list(self._starters.values()):
                        self._end(starter)
                    return
                if key.fileobj is self._listener:
                    self._start()
                elif key.fileobj is self._wake:
                    self._reap()
                else:
                    self._end(key.fileobj)

    def _start(self) -> None:
        starter, _ = self._listener.accept()
        self._starters[_fork(starter)] = starter
        self._selector.register(starter, selectors.EVENT_READ)

    def _reap(self) -> None:
        """The starters of kernels that have ended hear of it, and end."""
        self._wake.recv(64)
        for kernel in [one for one in self._starters if os.waitpid(one, os.WNOHANG)[0]]:
            starter = self._starters.pop(kernel)
            with contextlib.suppress(KeyError):
                self._selector.unregister(starter)
            starter.close()

    def _end(self, starter: socket.socket) -> None:
        """End the kernel of a starter that has gone."""
        self._selector.unregister(starter)
        kernel = next(kernel for kernel, of in self._starters.items() if of is starter)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(kernel, signal.SIGKILL)


def _fork(starter: socket.socket) -> int:
    length, streams, _, _ = socket.recv_fds(starter, 8, 3)
    message = starter.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    kernel = os.fork()
    if kernel == 0:
        with _leaving():
            _become_kernel(streams, **json.loads(message))
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):  # it has been ended already
        starter.sendall(kernel.to_bytes(8, "big"))
    return kernel


@contextlib.contextmanager
def _leaving() -> Iterator[None]:
    """What a forked process does, it does instead of going on; then it ends as others do."""
    try:
        yield
    except SystemExit:
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        os._exit(0)


def _become_kernel(
    streams: list[int], arguments: list[str], folder: str, environment: dict[str, str]
) -> None:
    """What a fresh interpreter would do here, less its imports."""
    import numpy
    from ipykernel.kernelapp import launch_new_instance

    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    _close_all_but([0, 1, 2])
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*filter(None, places), *sys.path]
    sys.argv = ["ipykernel_launcher", *arguments]
    numpy.random.seed()  # else all kernels would draw the same numbers
    _start_server_of_ranks()
    launch_new_instance()


def _start_server_of_ranks() -> None:
    """Fork it now: later this process has threads, and only a cold server could be started."""
    from dtlib.runtime.forkserver import start_server

    spawn = multiprocessing.util.spawnv_passfds
    multiprocessing.util.spawnv_passfds = _fork_instead
    try:
        start_server()
    finally:
        multiprocessing.util.spawnv_passfds = spawn


def _fork_instead(_program: bytes, arguments: list[str], kept: list[int]) -> int:
    """Run a command of multiprocessing, `python -c PROGRAM`, with what is imported here."""
    process = os.fork()
    if process == 0:
        with _leaving():
            _close_all_but([0, 1, 2, *kept])
            exec(arguments[-1], {"__name__": "__main__"})
    return process


def _close_all_but(kept: list[int]) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for low, high in itertools.pairwise([*sorted(kept), most]):
        os.closerange(low + 1, high)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(*sys.argv[2:])
    else:
        del sys.path[0]  # this file's folder
        for name in PRELOADED:
            importlib.import_module(name)
        Server(socket.socket(fileno=int(sys.argv[2]))).serve()
