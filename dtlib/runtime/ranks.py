"""Ranks: the processes of a parallel program, seen from the notebook."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from types import TracebackType
from typing import Any, Self

from dtlib.runtime.errors import RanksError, RanksInterrupted
from dtlib.runtime.frames import remember_source
from dtlib.runtime.messages import pack_call, pack_names
from dtlib.runtime.pool import Pool

_session_numbers = itertools.count(1)


def check_timeout(timeout: float) -> None:
    """Raise ValueError unless `timeout` is a positive number."""
    if not (isinstance(timeout, Real) and timeout > 0):
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")


class Ranks(ABC):
    """`n` ranks that run what they are given. Made by `launch`; closed by `close` or a `with`.

    Code on a rank finds `torch.distributed` initialised. Cells also find the names `rank`,
    `world_size`, `dist`, `torch`, `group` (all ranks) and `device` (the rank's GPU, or the CPU).
    """

    n: int

    @abstractmethod
    def run(
        self, function: Callable, /, *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> Any:
        """Call `function(*args, **kwargs)` on every rank.

        Args:
            function: any function, also one that is defined in a notebook cell.
            args, kwargs: its arguments, the same for every rank.
            timeout: seconds until ranks that have not returned count as stuck (None: as launched).

        Returns:
            The list of results by rank; under torchrun, the result of this rank.

        Raises:
            RankError, RankDied, RankTimeout: the call failed; the ranks remain usable.
            RanksInterrupted: a KeyboardInterrupt that says where the ranks were.
            TypeError: an argument cannot be sent.
        """

    @abstractmethod
    def cell(self, source: str, timeout: float | None = None) -> Any:
        """Run source text on every rank, in names that stay from cell to cell.

        Args:
            source: Python statements.
            timeout: as for `run`.

        Returns:
            The values of the last expression by rank; under torchrun, the value of this rank.

        Raises:
            SyntaxError: the text is no Python.
            RankError, RankDied, RankTimeout: as for `run`.
        """

    @abstractmethod
    def push(self, **values: Any) -> None:
        """Give values to the cells of every rank, each under its name."""

    @abstractmethod
    def close(self) -> None:
        """Give the ranks back; what their cells have defined is gone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.n} ranks>"

    def __reduce__(self) -> Any:
        raise TypeError("ranks can be used only where they were launched")


class PoolRanks(Ranks):
    """Ranks of a warm pool, with names of their own: pools are shared, sessions are not."""

    def __init__(self, pool: Pool, timeout: float, debug: bool) -> None:
        self.n, self.timeout, self.debug = pool.n, timeout, debug
        self._pool: Pool | None = pool
        self._session = next(_session_numbers)
        self._cell_numbers = itertools.count(1)
        pool.users.add(self)

    def run(
        self, function: Callable, /, *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> list[Any]:
        return self._call("run", pack_call(function, args, kwargs), timeout)

    def cell(self, source: str, timeout: float | None = None) -> list[Any]:
        return self._cell("cell", source, f"<ranks cell {next(self._cell_numbers)}>", timeout)

    def show(self, source: str, name: str, timeout: float | None = None) -> list[str | None]:
        """Run a cell called `name`; return the printed forms of its values (None for None)."""
        return self._cell("show", source, name, timeout)

    def push(self, **values: Any) -> None:
        self._call("push", pack_names(values))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.users.discard(self)
            self._pool.forget(self._session)
            self._pool = None

    def _cell(self, action: str, source: str, name: str, timeout: float | None) -> list[Any]:
        remember_source(name, source)
        compile(source, name, "exec")
        return self._call(action, (name, source), timeout)

    def _call(self, action: str, body: Any, timeout: float | None = None) -> list[Any]:
        if self._pool is None:
            raise RuntimeError("these ranks are closed: launch() again")
        timeout = self.timeout if timeout is None else timeout
        check_timeout(timeout)
        try:
            return self._pool.call(action, body, timeout, session=self._session, debug=self.debug)
        except (RanksError, RanksInterrupted) as error:
            # The reader's line and the rank's line matter, not the way between them.
            raise error.with_traceback(None) from None
