"""Several strategies in one run: how tensors lie on a mesh, and what it costs to lay them anew.

`placement`, the arithmetic; `redistributing`, which does it on real ranks.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.composition.placement import Change, Placed, Way, cheapest_way
    from dtlib.composition.redistributing import redistribute

__getattr__, __dir__, __all__ = face(__name__)
