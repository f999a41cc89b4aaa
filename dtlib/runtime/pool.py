"""The warm pool: n rank processes that stay between calls, and the order in which they work.

A *generation* is the process group that the ranks share until one of them fails. After a failure
the pool repairs itself at the next call. If every rank has answered, be it because it was freed
from what it waited for, they meet in a new generation and keep their names. If one is dead, or
cannot be freed, or does not come, all are replaced: names are there on all ranks or on none.
"""

import contextlib
import multiprocessing as mp
import multiprocessing.util
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from dtlib.runtime.errors import RanksError
from dtlib.runtime.exchange import Exchange, LogFile, RankHandle
from dtlib.runtime.forkserver import start_process, start_server
from dtlib.runtime.messages import Request
from dtlib.runtime.rank_process import serve
from dtlib.runtime.verdict import judge, ranks_interrupted, unpack_result

_SECONDS_TO_START = 600.0
_SECONDS_TO_MEET = 20.0  # ranks that are there already
_REPLACED = (
    "the ranks did not meet again after a failure: they start anew, without the names that their "
    "cells had defined\n"
)


class Pool:
    """`n` rank processes; `call` sends one request to all and returns their results in order."""

    def __init__(self, n: int, backend: str) -> None:
        self.n, self.backend = n, backend
        self.users: weakref.WeakSet = weakref.WeakSet()  # launches that are not closed
        self._handles: list[RankHandle] = []
        self._directory: str | None = None
        self._generation = 0
        self._in_step = False  # every rank waits for a request, as far as we know
        self._needs_group = True
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._ended = False

    def call(
        self,
        action: str,
        body: Any,
        timeout: float,
        *,
        session: int = 0,
        debug: bool = False,
    ) -> list[Any]:
        """Let every rank perform an action.

        Args:
            action, body, session, debug: see `Request`.
            timeout: seconds until ranks that have not answered count as stuck.

        Returns:
            The results in rank order.

        Raises:
            RankError, RankDied, RankTimeout: see there; the pool is usable after each of them.
        """
        with self._turn():
            self._repair()
            return self._exchange(self._request(action, body, session, debug), timeout)

    def start(self) -> None:
        """Make sure that the ranks are there."""
        with self._turn():
            self._repair()

    def forget(self, session: int) -> None:
        """Close a session: its names go, the ranks stay, and one that has died is no matter.

        The next session's groups have one number on all ranks, also after a group of some alone.
        """
        with self._turn(), contextlib.suppress(RanksError):
            if self._in_step:
                numbers = self._exchange(self._request("forget", session), _SECONDS_TO_MEET)
                if len(set(numbers)) > 1:
                    self._exchange(self._request("number", max(numbers)), _SECONDS_TO_MEET)

    def close(self) -> None:
        """End the rank processes; the next call would start new ones."""
        for handle in self._handles:
            handle.process.kill()
        for handle in self._handles:
            handle.close()
        self._handles.clear()
        self._in_step = False
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def end(self) -> None:
        """Close for good, as this process ends: a start that is under way makes no more ranks."""
        self._ended = True
        self.close()

    # Turns: one request at a time.

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Threads wait for each other; a thread that waits for itself would wait forever."""
        if self._owner == threading.get_ident():
            raise RuntimeError("these ranks are busy with another call of this thread")
        with self._lock:
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = None

    # Start and repair.

    def _repair(self) -> None:
        if self._in_step and self._needs_group:
            with contextlib.suppress(RanksError):
                self._meet(_SECONDS_TO_MEET)
            if self._needs_group:
                sys.stderr.write(_REPLACED)
                self._in_step = False
        if not self._in_step:
            self.close()
            self._fork()
            self._meet(_SECONDS_TO_START)

    def _meet(self, seconds: float) -> None:
        self._generation += 1
        self._exchange(self._request("join", self._generation), seconds)
        self._needs_group = False

    def _fork(self) -> None:
        start_server()
        self._directory = tempfile.mkdtemp(prefix="dtlib-ranks-", dir=mp.util.get_temp_dir())
        self._needs_group = True
        for rank in range(self.n):
            if self._ended:
                raise RanksError("no ranks are started any more, this process ends")
            self._handles.append(self._fork_rank(rank, Path(self._directory)))
        self._in_step = True

    def _fork_rank(self, rank: int, directory: Path) -> RankHandle:
        (connection, requests), (lifeline, line) = mp.Pipe(), mp.Pipe()
        args = (rank, self.n, self.backend, str(directory), requests, line)
        process = start_process(serve, args, f"rank {rank}")
        requests.close()
        line.close()
        logs = (LogFile(directory / f"{kind}{rank}") for kind in ("stdout", "stderr", "stack"))
        return RankHandle(rank, process, connection, lifeline, *logs)

    # One exchange, from the request to the results or the error.

    def _request(self, action: str, body: Any, session: int = 0, debug: bool = False) -> Request:
        ranks = tuple(handle.process.pid for handle in self._handles)
        return Request(action, body, session, debug, os.getcwd(), tuple(sys.path), ranks)

    def _exchange(self, request: Request, timeout: float) -> list[Any]:
        self._in_step = False
        exchange, interrupted = Exchange(self._handles), False
        try:
            exchange.send(request)
            exchange.collect(timeout)
            if exchange.failed:
                exchange.settle()
        except KeyboardInterrupt:
            interrupted = True
        self._free(exchange)
        kept = self._finish(exchange)
        if interrupted:
            raise ranks_interrupted(exchange, kept)
        error = judge(exchange, timeout, kept, request.debug)
        if error is not None:
            raise error
        return [unpack_result(rank, exchange.replies[rank].packed) for rank in range(self.n)]

    def _free(self, exchange: Exchange) -> None:
        """See where the ranks are that do not answer, and let them go."""
        if exchange.silent:
            exchange.locate()
            if self.backend == "gloo":  # NCCL lets go of nobody
                exchange.free(self._generation)

    def _finish(self, exchange: Exchange) -> bool:
        """Show what the ranks printed, and note whether they are still in step: if not, they go."""
        show_in_rank_order({h.rank: h.stdout.new_text() for h in self._handles}, sys.stdout)
        show_in_rank_order({h.rank: h.stderr.new_text() for h in self._handles}, sys.stderr)
        replies = exchange.replies.values()
        gone = any(reply.failure or not reply.has_group for reply in replies)
        gone = gone or bool(exchange.stuck)
        # Only gloo lets go of the peers of a failed rank; NCCL ranks are replaced.
        if len(replies) < self.n or (gone and self.backend == "nccl"):
            self.close()
            return False
        self._needs_group = self._needs_group or gone
        self._in_step = True
        return True


def show_in_rank_order(texts: dict[int, str], stream: TextIO) -> None:
    """Print what each rank wrote, each line with its rank.

    >>> show_in_rank_order({1: "b\\nc", 0: "a\\n"}, sys.stdout)
    [rank 0] a
    [rank 1] b
    [rank 1] c
    """
    lines = [
        f"[rank {rank}] {line}\n" for rank in sorted(texts) for line in texts[rank].splitlines()
    ]
    if lines:
        stream.write("".join(lines))
        stream.flush()
