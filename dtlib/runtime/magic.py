"""`%%ranks`: a notebook cell that runs on every rank."""

import shlex
import traceback
from typing import Any

from dtlib.runtime.errors import RanksError
from dtlib.runtime.launcher import launch, start_in_background
from dtlib.runtime.ranks import PoolRanks, Ranks

_USAGE = (
    "%%ranks [n] [--timeout SECONDS] [--debug] [--push NAME,NAME], such as: %%ranks 4 --push model"
)

# The ranks of each `%%ranks n`: their names stay from cell to cell until the notebook ends.
_ranks: dict[int | None, Ranks] = {}


def load_ipython_extension(ipython: Any) -> None:
    """Register `%%ranks`, say what ranks there are, and start them while the reader reads on."""
    ipython.register_magic_function(
        lambda line, cell: run_on_ranks(line, cell, ipython), "cell", "ranks"
    )
    print(start_in_background())


def run_on_ranks(line: str, cell: str, ipython: Any) -> None:
    """Run a cell on `n` ranks, in names that stay from cell to cell, and print their values.

    A cell finds `rank`, `world_size`, `dist`, `torch`, `group` and `device`. What the ranks
    print, and the value of the cell's last line where it has one, is shown in rank order.
    `--push` copies names of the notebook to the ranks first, `--debug` compares what the ranks do
    before each collective, `--timeout` changes how long ranks may take. A line or cell that
    cannot run is a RanksError: like all of them, it shows its message and no more.
    """
    try:
        _run_on_ranks(line, cell, ipython)
    except SyntaxError as error:
        _refuse_command(cell, error.lineno or 0)
        raise RanksError("\n" + "".join(traceback.format_exception_only(error))) from None
    except (NameError, TypeError, ValueError) as error:
        raise RanksError(str(error)) from None


def _run_on_ranks(line: str, cell: str, ipython: Any) -> None:
    n, options = _parse(line)
    ranks = _ranks_of(n)
    if options["push"]:
        ranks.push(**{name: _of_the_notebook(name, ipython) for name in options["push"]})
    timeout = options["timeout"]
    if isinstance(ranks, PoolRanks):
        ranks.debug = options["debug"]
        # Not execution_count, which some versions of IPython raise before a cell runs.
        name = f"<ranks cell {len(ipython.user_ns['In']) - 1}>"
        for rank, value in enumerate(ranks.show(cell, name, timeout)):
            if value is not None:
                print("\n".join(f"[rank {rank}] {text}" for text in value.splitlines()))
    else:
        ranks.cell(cell, timeout)


def _refuse_command(cell: str, number: int) -> None:
    """Say what a line is that Python does not know, if it is a command of the notebook."""
    line = "".join(cell.splitlines()[number - 1 : number]).strip()
    if line.startswith(("%", "!")):
        raise RanksError(
            f"line {number}: {line} is a command of the notebook, and ranks run Python only; "
            "put it into a cell of its own, without %%ranks"
        ) from None


def _ranks_of(n: int | None) -> Ranks:
    if n not in _ranks:
        ranks = launch(n)
        _ranks[n] = _ranks.setdefault(ranks.n, ranks)
    return _ranks[n]


def _of_the_notebook(name: str, ipython: Any) -> Any:
    try:
        return ipython.user_ns[name]
    except KeyError:
        raise NameError(f"--push {name}: the notebook has no such name") from None


def _parse(line: str) -> tuple[int | None, dict[str, Any]]:
    """The number of ranks and the options of a line.

    >>> _parse("4 --timeout 5 --push x,y")
    (4, {'timeout': 5.0, 'debug': False, 'push': ['x', 'y']})
    >>> _parse("four")
    Traceback (most recent call last):
    ValueError: 'four' is not understood; write %%ranks [n] [--timeout SECONDS] ...
    """
    n, options = None, {"timeout": None, "debug": False, "push": []}
    words = iter(shlex.split(line))
    for word in words:
        try:
            if word == "--debug":
                options["debug"] = True
            elif word == "--timeout":
                options["timeout"] = float(next(words))
            elif word == "--push":
                options["push"] = next(words).split(",")
            elif n is not None:
                raise ValueError(word)
            else:
                n = int(word)
        except (ValueError, StopIteration):
            raise ValueError(f"{word!r} is not understood; write {_USAGE}") from None
    return n, options
