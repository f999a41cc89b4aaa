"""A rank: a process that waits for requests, runs the reader's code, and answers.

This module runs inside the rank. Its other side is `pool.py`.
"""

import contextlib
import faulthandler
import multiprocessing as mp
import multiprocessing.util
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dtlib.runtime.backend import take_device
from dtlib.runtime.fingerprint import checked_collectives
from dtlib.runtime.messages import Reply, Request, decode, describe_failure, encode, pack_result
from dtlib.runtime.modules import ModuleWatch
from dtlib.runtime.patience import Patience
from dtlib.runtime.process_group import (
    SECONDS_TO_LET_GO,
    cut_connections,
    groups_made,
    join_group,
    leave_group,
    let_go,
    number_groups_from,
    process_groups,
)
from dtlib.runtime.session import Session, TorchSettings, run_cell

# Peers that are about to finish the same collective do so before a failed rank hangs up.
SECONDS_BEFORE_HANGING_UP = 0.1
_SECONDS_TO_END = 5.0  # between the end of a notebook's connections and its own


def rank_here() -> int | None:
    """The number of the rank that this process is, which bears it in its name; elsewhere None."""
    word, _, number = mp.current_process().name.partition(" ")
    return int(number) if word == "rank" else None


def serve(
    rank: int,
    world_size: int,
    backend: str,
    directory: str,
    connection: Connection,
    lifeline: Connection,
) -> None:
    """Be rank `rank` until the notebook closes the connections or ends.

    Requests come over `connection`; `lifeline` is heard while one is being performed.
    """
    # Jupyter kills and interrupts whole process groups. In a group of its own, a rank has the time
    # to clear up, and hears of Ctrl-C from the notebook.
    os.setpgrp()
    _send_output_to(Path(directory), rank)
    rank_process = RankProcess(rank, world_size, backend, Path(directory))
    _hold(lifeline, rank_process.let_go, directory)
    signal.signal(signal.SIGINT, rank_process.on_interrupt)
    try:
        while True:
            rank_process.answer(connection)
    except (EOFError, OSError):
        _leave(directory)


def _hold(lifeline: Connection, let_go: Callable[[int], None], directory: str) -> None:
    """Listen beside the reader's code, also while that waits in a collective.

    What comes is the number of a generation that is over. The line breaks when the notebook ends,
    even if it is killed: so does this process. Asking for the parent's id would not do: the
    parent is the fork server, which outlives it.
    """

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                let_go(decode(lifeline.recv_bytes()))
        _leave(directory)

    threading.Thread(target=listen, daemon=True).start()


def _leave(directory: str) -> None:
    """End this process where nobody else is left to clear up.

    A notebook that was killed also leaves the folder of multiprocessing, where the fork server
    has its socket. One that lives still needs it.
    """
    shutil.rmtree(directory, ignore_errors=True)
    mp.parent_process().join(_SECONDS_TO_END)
    if not mp.parent_process().is_alive():
        shutil.rmtree(mp.util.get_temp_dir(), ignore_errors=True)
    os._exit(0)


def _send_output_to(directory: Path, rank: int) -> None:
    """Point the file descriptors at files: C++ libraries write their last words to number 2."""
    for descriptor, kind in ((1, "stdout"), (2, "stderr")):
        file = os.open(directory / f"{kind}{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
        stream = open(  # noqa: SIM115 (open as long as the process)
            descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        setattr(sys, kind, stream)
    stacks = open(directory / f"stack{rank}", "a")  # noqa: SIM115
    faulthandler.enable(stacks)
    # Runs in C, so it also answers while the rank blocks inside a collective.
    faulthandler.register(signal.SIGUSR1, stacks)


class RankProcess:
    """The state of a rank: its sessions, and its place in the process group."""

    def __init__(self, rank: int, world_size: int, backend: str, directory: Path) -> None:
        import torch

        self.rank, self.world_size, self.backend = rank, world_size, backend
        self.directory = directory
        names = {"RANK": rank, "LOCAL_RANK": rank}
        names |= {"WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
        os.environ.update({name: str(value) for name, value in names.items()})
        torch.set_num_threads(1)
        self.device = take_device(backend, rank)
        self._fresh_settings = TorchSettings.current()
        self._modules = ModuleWatch()
        self._sessions: dict[int, Session] = {}
        self._current: Session | None = None
        self._interruptible = False
        self._generation: int | None = None
        self._generation_lock = threading.Lock()

    # One request, one reply.

    def answer(self, connection: Connection) -> None:
        """Receive a request, perform it, and reply, whatever happens."""
        request: Request = decode(connection.recv_bytes())
        packed, failure = None, None
        try:
            self._interruptible = True
            try:
                packed = pack_result(self._perform(request))
            finally:
                self._interruptible = False
        except BaseException as error:
            failure = describe_failure(error, time.monotonic())
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send_bytes(encode(Reply(packed, failure, bool(process_groups()))))
        if failure is not None and not self._is_called(connection, request.ranks):
            leave_group()

    def _is_called(self, connection: Connection, ranks: Sequence[int]) -> bool:
        """Whether the next request comes before the peers have had their time."""
        patience = Patience(ranks)
        while (rest := patience.left(SECONDS_BEFORE_HANGING_UP)) > 0:
            if connection.poll(max(rest, 0.01)):
                return True
        return False

    def on_interrupt(self, *_: Any) -> None:
        """Heed an interrupt once, and in the reader's code only."""
        if self._interruptible:
            self._interruptible = False
            raise KeyboardInterrupt

    def let_go(self, generation: int) -> None:
        """Make the collectives of a generation fail, unless it is over already.

        The lifeline's thread comes here when it can, maybe late: the next generation is not its.
        """
        with self._generation_lock:
            if generation == self._generation:
                cut_connections()

    def _perform(self, request: Request) -> Any:
        if request.directory != os.getcwd():
            os.chdir(request.directory)
        sys.path[:] = request.import_path
        action = getattr(self, f"do_{request.action}")
        if request.action in ("join", "forget", "number"):
            return action(request.body)
        session = self._enter(request.session)
        check = checked_collectives() if request.debug else contextlib.nullcontext()
        with self._own_groups(session), check:
            return action(session, request.body)

    # The actions: what a request can ask for.

    def do_run(self, session: Session, call: bytes) -> Any:
        """Call a function."""
        function, args, kwargs = decode(call)
        return function(*args, **kwargs)

    def do_cell(self, session: Session, cell: tuple[str, str]) -> Any:
        """Run a cell in the session's names."""
        name, source = cell
        return run_cell(name, source, session.names)

    def do_show(self, session: Session, cell: tuple[str, str]) -> str | None:
        """Run a cell, and answer with the printed form of its value: it need not travel."""
        value = self.do_cell(session, cell)
        return None if value is None else repr(value)

    def do_push(self, session: Session, values: bytes) -> None:
        """Put values into the session's names."""
        session.names.update(decode(values))

    def do_forget(self, session_number: int) -> int:
        """Close a session; the answer is the number of the next process group."""
        session = self._sessions.pop(session_number, None)
        if session is not None:
            session.close()
        return groups_made()

    def do_number(self, number: int) -> None:
        """Give the next process group this number."""
        number_groups_from(number)

    def do_join(self, generation: int) -> None:
        """Join the process group of a generation: each has its own file to meet in."""
        with self._generation_lock:
            self._generation = generation
        leave_group()
        for session in self._sessions.values():
            left, session.groups = [*session.groups, session.names.pop("group", None)], []
            let_go(left, SECONDS_TO_LET_GO)
        meeting_file = self.directory / f"store{generation}"
        join_group(self.rank, self.world_size, self.backend, meeting_file)
        for session in self._sessions.values():
            session.names["group"] = process_groups()[0]

    # Sessions and the process group.

    def _enter(self, number: int) -> Session:
        if number not in self._sessions:
            self._modules.forget_edited()
            self._sessions[number] = Session(self.device, self._fresh_settings)
        session = self._sessions[number]
        if session is not self._current:
            if self._current is not None:
                self._current.settings = TorchSettings.current()
            session.settings.restore()
            self._current = session
        return session

    @contextlib.contextmanager
    def _own_groups(self, session: Session) -> Iterator[None]:
        before = process_groups()
        try:
            yield
        finally:
            session.groups += [group for group in process_groups() if group not in before]
