"""`launch`: get ranks, from a warm pool or from the torchrun that started this process."""

import atexit
import contextlib
import os
import threading

from dtlib.runtime import rank_process
from dtlib.runtime.backend import choose_backend, visible_gpus
from dtlib.runtime.forkserver import check_platform, start_server
from dtlib.runtime.pool import Pool
from dtlib.runtime.ranks import PoolRanks, Ranks, check_timeout
from dtlib.runtime.torchrun import TorchrunRanks, is_torchrun

DEFAULT_RANKS = 4
# Idle pools beyond this many processes in all are closed, the longest unused first.
IDLE_RANKS_KEPT = 16

_pools: dict[tuple[int, str], Pool] = {}


def launch(
    n: int | None = None,
    *,
    timeout: float = 60,
    debug: bool = False,
    backend: str | None = None,
) -> Ranks:
    """Get `n` ranks: processes that run the same code and talk through `torch.distributed`.

    The first call starts a server that loads torch (some seconds); later ones take milliseconds,
    because closed ranks stay warm for the next launch. What one launch leaves behind (names, the
    default dtype, the random state, process groups) the next one does not see. Launches may be
    nested and of different sizes; inside a rank there is no launch.

    Args:
        n: number of ranks (None: the number of GPUs if there are several, else 4).
        timeout: seconds after which a call whose ranks do not answer is stopped; the error shows
            where each of them is stuck. On Linux, time without a processor does not count: a busy
            machine is no hang.
        debug: compare operation, shapes and dtypes among the ranks before each collective, and
            between sender and receiver; slower, for finding mistakes.
        backend: "nccl" or "gloo" (None: NCCL if there are n GPUs, else gloo on the CPU).

    Returns:
        Ranks, to be used in a `with` statement or closed by `close`.

    Raises:
        ValueError: n is no positive integer or differs from torchrun's world size, the timeout is
            not positive, or the backend lacks GPUs.
        RuntimeError: called inside a rank, on a platform without fork server, or in a script to
            which a launcher has told only a part of what it needs.
        ModuleNotFoundError: torch is missing.

    Under torchrun, `launch` joins the ranks that torchrun has started, `run` executes this
    process's share and returns its own result. So it is in a script wherever RANK and WORLD_SIZE
    are set; a notebook starts its own ranks, whatever its pod has set.

    >>> def total(x):
    ...     import torch.distributed as dist
    ...     dist.all_reduce(x)
    ...     return x.item()
    >>> import torch
    >>> with launch(2) as ranks:
    ...     ranks.run(total, torch.tensor(20.5))
    [41.0, 41.0]
    """
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ValueError(f"n must be a positive integer, got {n!r}")
    check_timeout(timeout)
    if (rank := rank_process.rank_here()) is not None:
        raise RuntimeError(
            f"launch() was called on rank {rank}; "
            "ranks are launched from outside, by the notebook or script"
        )
    check_platform()
    if is_torchrun():
        return TorchrunRanks(n, timeout, debug, backend)
    if n is None:
        n = _default_ranks(0 if backend == "gloo" else visible_gpus())
    return PoolRanks(_warm_pool(n, choose_backend(n, backend)), timeout, debug)


def start_in_background() -> str:
    """Begin to start the ranks that `launch()` gives, and say what they are, in one line.

    Whoever wants them first waits for them. If they cannot start, that launch tries again, and
    tells why. Raises as `launch` where there can be no ranks at all.
    """
    check_platform()
    if is_torchrun():
        return "the ranks that torchrun has started"
    gpus = visible_gpus()
    n = _default_ranks(gpus)
    pool = _pool(n, choose_backend(n))
    start_server()  # here: it needs the settings of this process for a moment
    threading.Thread(target=_started_quietly, args=(pool,), daemon=True).start()
    return _said_of(n, pool.backend, gpus)


def _said_of(n: int, backend: str, gpus: int) -> str:
    """What there is, for a reader.

    >>> _said_of(4, "gloo", 0), _said_of(8, "nccl", 8)
    ('4 ranks over gloo on the CPU, starting; no GPU', '8 ranks over NCCL, starting; each a GPU')
    >>> _said_of(4, "gloo", 1)
    '4 ranks over gloo on the CPU, starting; NCCL needs a GPU for each, there is 1'
    """
    if backend == "nccl":
        return f"{n} ranks over NCCL, starting; each a GPU"
    idle = f"NCCL needs a GPU for each, there is {gpus}" if gpus else "no GPU"
    return f"{n} ranks over gloo on the CPU, starting; {idle}"


def _started_quietly(pool: Pool) -> None:
    with contextlib.suppress(Exception):  # told by the launch that tries again
        pool.start()


def _default_ranks(gpus: int) -> int:
    return gpus if gpus > 1 else DEFAULT_RANKS


def _pool(n: int, backend: str) -> Pool:
    pool = _pools.pop((n, backend), None) or Pool(n, backend)
    _pools[n, backend] = pool
    return pool


def _warm_pool(n: int, backend: str) -> Pool:
    pool = _pool(n, backend)
    pool.start()
    idle = [key for key in _pools if not _pools[key].users and _pools[key] is not pool]
    while idle and pool.n + sum(size for size, _ in idle) > IDLE_RANKS_KEPT:
        _pools.pop(idle.pop(0)).close()
    return pool


def close_pools() -> None:
    """End all rank processes; the next launch or call starts new ones."""
    for pool in _pools.values():
        pool.close()


def _end_pools() -> None:
    for pool in _pools.values():
        pool.end()


# multiprocessing waits for its processes at exit: end ours before.
atexit.register(_end_pools)
# A fork of the notebook process must not talk to ranks that are not its own.
os.register_at_fork(after_in_child=_pools.clear)
