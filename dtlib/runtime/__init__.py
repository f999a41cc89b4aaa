"""Ranks: real processes from a notebook, that do not hang it."""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.runtime.launcher import launch, close_pools
    from dtlib.runtime.ranks import Ranks
    from dtlib.runtime.errors import (
        RanksError, RankError, RankDied, RankTimeout, RanksInterrupted, CollectiveMismatch,
    )
    from dtlib.runtime.backend import device
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
