"""Ranks: real processes from a notebook, that do not hang it."""

from dtlib.runtime.backend import device
from dtlib.runtime.errors import (
    CollectiveMismatch,
    RankDied,
    RankError,
    RanksError,
    RanksInterrupted,
    RankTimeout,
)
from dtlib.runtime.launcher import close_pools, launch
from dtlib.runtime.ranks import Ranks

__all__ = [
    "CollectiveMismatch",
    "RankDied",
    "RankError",
    "RankTimeout",
    "Ranks",
    "RanksError",
    "RanksInterrupted",
    "close_pools",
    "device",
    "launch",
]
