"""One request to every rank, and what became of it: replies, deaths, silence."""

import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from dtlib.runtime.frames import Frame, frames_of_dump
from dtlib.runtime.messages import Reply, Request, decode, encode

# How long the others may take to finish by themselves once a rank has failed.
SECONDS_TO_SETTLE = 0.5
_LOOKS_AT_A_STACK = 20
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
    stdout: LogFile
    stderr: LogFile
    stack: LogFile

    def signal(self, number: int) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid, number)


@dataclass(frozen=True)
class Death:
    """How a rank process ended, where it was if it could say so, and its last words."""

    exitcode: int
    frames: list[Frame]
    stderr: str


class Exchange:
    """A request on its way. Each rank ends up in `replies`, or `deaths`, or stays silent."""

    def __init__(self, handles: list[RankHandle]) -> None:
        self.handles = handles
        self.replies: dict[int, Reply] = {}
        self.deaths: dict[int, Death] = {}

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

    def collect(self, seconds: float) -> None:
        """Take answers until all are there, one is a failure, or the time is over."""
        deadline = time.monotonic() + seconds
        while self.silent and not self.failed and time.monotonic() < deadline:
            self._take(deadline - time.monotonic())

    def settle(self) -> None:
        """After a failure: let the others finish, then interrupt them; the silent ones hang."""
        self._take_all(SECONDS_TO_SETTLE)
        self.interrupt()

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the ranks that still run Python code."""
        for handle in self.silent:
            handle.signal(signal.SIGINT)
        self._take_all(SECONDS_TO_SETTLE)

    def stacks(self) -> dict[int, list[Frame]]:
        """Where the silent ranks are."""
        silent = self.silent
        for handle in silent:
            handle.stack.new_text()
            handle.signal(signal.SIGUSR1)
        dumps = {handle.rank: "" for handle in silent}
        for _ in range(_LOOKS_AT_A_STACK):
            time.sleep(0.05)
            news = {handle.rank: handle.stack.new_text() for handle in silent}
            dumps = {rank: dump + news[rank] for rank, dump in dumps.items()}
            if all(dumps.values()) and not any(news.values()):
                break
        return {rank: frames_of_dump(dump) for rank, dump in dumps.items()}

    def _take_all(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.silent and time.monotonic() < deadline:
            self._take(deadline - time.monotonic())

    def _take(self, seconds: float) -> None:
        silent = self.silent
        sources = [handle.connection for handle in silent]
        sources += [handle.process.sentinel for handle in silent]
        ready = wait(sources, max(0.0, seconds))
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
        handle.process.join(1)
        if handle.process.is_alive():
            handle.process.kill()
            handle.process.join()
        frames = frames_of_dump(handle.stack.new_text())
        self.deaths[handle.rank] = Death(handle.process.exitcode, frames, handle.stderr.new_text())
