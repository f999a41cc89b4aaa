"""One request to every rank, and what became of it: replies, deaths, silence."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from dtlib.runtime.frames import Frame, frames_of_dump
from dtlib.runtime.messages import Reply, Request, decode, encode
from dtlib.runtime.patience import Patience

# How long the others may take to finish by themselves once a rank has failed. All of these are
# seconds of patience: time without a processor does not count.
SECONDS_TO_SETTLE = 1.0
_SECONDS_TO_END = 5.0
_SECONDS_AT_ONCE = 0.02  # in which most calls are over: a clock of patience reads files to begin
_SECONDS_FOR_A_STACK = 1.0
_SECONDS_AFTER_A_STACK = 0.1  # in which it does not grow
_LEAST_WAIT = 0.01
_SHOWN_BYTES = 100_000


class LogFile:
    """A file that a rank appends to; `new_text` returns what came since the last time."""

    def __init__(self, path: Path) -> None:
        self.path, self._offset = path, 0

    def new_text(self) -> str:
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read(_SHOWN_BYTES)
            rest = file.seek(0, os.SEEK_END) - self._offset - len(text)
            self._offset = file.tell()
        ending = f"\n... and {rest:,} bytes more\n" if rest else ""
        return text.decode(errors="replace") + ending


@dataclass
class RankHandle:
    """The notebook's end of a rank process."""

    rank: int
    process: BaseProcess
    connection: Connection
    lifeline: Connection
    stdout: LogFile
    stderr: LogFile
    stack: LogFile

    def signal(self, number: int) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def let_go(self, generation: int) -> None:
        """End what the rank waits for, a collective of this generation or Python code."""
        with contextlib.suppress(OSError):
            self.lifeline.send_bytes(encode(generation))
        self.signal(signal.SIGINT)

    def close(self) -> None:
        """Wait for the end of the rank, and close what led to it."""
        self.process.join()
        self.process.close()
        self.connection.close()
        self.lifeline.close()


@dataclass(frozen=True)
class Death:
    """How a rank process ended, where it was if it could say so, and its last words."""

    exitcode: int
    frames: list[Frame]
    stderr: str


class Exchange:
    """A request on its way. Each rank ends up in `replies`, or `deaths`, or stays silent.

    `stuck` tells where those were that had to be freed; what they answer then explains nothing.
    """

    def __init__(self, handles: list[RankHandle]) -> None:
        self.handles = handles
        self.replies: dict[int, Reply] = {}
        self.deaths: dict[int, Death] = {}
        self.stuck: dict[int, list[Frame]] = {}

    def send(self, request: Request) -> None:
        """Send the request; a rank that is dead already is noted."""
        message = encode(request)
        for handle in self.handles:
            try:
                handle.connection.send_bytes(message)
            except OSError:
                self._bury(handle)

    @property
    def silent(self) -> list[RankHandle]:
        answered = self.replies.keys() | self.deaths.keys()
        return [handle for handle in self.handles if handle.rank not in answered]

    @property
    def failed(self) -> bool:
        return bool(self.deaths) or any(reply.failure for reply in self.replies.values())

    @property
    def _is_open(self) -> bool:
        return bool(self.silent) and not self.failed

    def collect(self, seconds: float) -> None:
        """Take answers until all are there, one is a failure, or the time is over."""
        at_once = min(seconds, _SECONDS_AT_ONCE)
        began = time.monotonic()
        while self._is_open and (rest := began + at_once - time.monotonic()) > 0:
            self._take(rest)
        if not self._is_open:
            return
        patience = self._patience()
        while self._is_open and (rest := patience.left(seconds - at_once)) > 0:
            self._take(rest)

    def settle(self) -> None:
        """After a failure: let the others finish by themselves."""
        self._take_all(SECONDS_TO_SETTLE)

    def free(self, generation: int) -> None:
        """Let the silent ranks go; what is silent then is deaf."""
        for handle in self.silent:
            handle.let_go(generation)
        self._take_all(SECONDS_TO_SETTLE)

    def locate(self) -> None:
        """Note in `stuck` where the silent ranks are."""
        silent = self.silent
        for handle in silent:
            handle.stack.new_text()
            handle.signal(signal.SIGUSR1)
        dumps = {handle.rank: "" for handle in silent}
        patience, unchanged = self._patience(), self._patience()
        while patience.elapsed() < _SECONDS_FOR_A_STACK:
            time.sleep(_LEAST_WAIT)
            news = {handle.rank: handle.stack.new_text() for handle in silent}
            dumps = {rank: dump + news[rank] for rank, dump in dumps.items()}
            if any(news.values()) or not all(dumps.values()):
                unchanged = self._patience()
            elif unchanged.elapsed() > _SECONDS_AFTER_A_STACK:
                break
        self.stuck = {rank: frames_of_dump(dump) for rank, dump in dumps.items()}

    def _take_all(self, seconds: float) -> None:
        patience = self._patience()
        while self.silent and (rest := patience.left(seconds)) > 0:
            self._take(rest)

    def _patience(self) -> Patience:
        return Patience(handle.process.pid for handle in self.handles)

    def _take(self, seconds: float) -> None:
        silent = self.silent
        sources = [handle.connection for handle in silent]
        sources += [handle.process.sentinel for handle in silent]
        ready = wait(sources, max(_LEAST_WAIT, seconds))
        for handle in silent:
            if handle.connection in ready:
                self._receive(handle)
            elif handle.process.sentinel in ready:
                # A last reply may have been written just before the end.
                self._receive(handle) if handle.connection.poll() else self._bury(handle)

    def _receive(self, handle: RankHandle) -> None:
        try:
            self.replies[handle.rank] = decode(handle.connection.recv_bytes())
        except (EOFError, OSError):
            self._bury(handle)

    def _bury(self, handle: RankHandle) -> None:
        patience = Patience([handle.process.pid])
        while handle.process.is_alive() and patience.left(_SECONDS_TO_END) > 0:
            handle.process.join(_LEAST_WAIT)
        if handle.process.is_alive():
            handle.process.kill()
            handle.process.join()
        frames = frames_of_dump(handle.stack.new_text())
        self.deaths[handle.rank] = Death(handle.process.exitcode, frames, handle.stderr.new_text())
