"""Efficiency: sending less, waiting less, rounding more, and what each shortcut keeps exact.

`compression`, gradients in fewer bytes.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.efficiency.compression.programs import (
        Exchange,
        Gather,
        Mean,
        Meter,
        Who,
        across,
        alone,
        together,
    )

__getattr__, __dir__, __all__ = face(__name__)
