"""Over which axes of a mesh a gradient must be added: a rule of one line.

Ranks that differ along an axis either do the same with a weight, or different things. If the same,
each has the whole gradient. If different things with one and the same weight, each has a summand of
its gradient, which is Partial. If different things with different pieces of the weight, each has
the gradient of its own piece. So a gradient is Partial on exactly those axes along which the work
is divided and the weight is not.
"""

from collections.abc import Iterable, Mapping

from dtlib.formulas.require import require_type
from dtlib.mesh import Placement, Shard


def reduction_axes(weight: Mapping[str, Placement], divided: Iterable[str]) -> tuple[str, ...]:
    """The axes over which the gradient of a weight is added, in the order of `divided`.

    Equation: the axes that divide its work, less those that divide the weight itself.
    Arguments: `weight`, how it lies along each axis (one that is not named: Replicate); `divided`,
    the axes whose ranks use it for other tokens, heads or layers. Returns the names of axes.
    Raises TypeError for what is no Placement.

    A matrix that tp cuts, a norm on a stream that sequence parallelism divides, an expert on a
    mesh whose ranks of data are replicas x ep, and a table that is used by two stages:

    >>> from dtlib.mesh import Shard
    >>> reduction_axes({"tp": Shard(0)}, ["dp", "cp", "tp"])
    ('dp', 'cp')
    >>> reduction_axes({}, ["dp", "cp", "tp"])
    ('dp', 'cp', 'tp')
    >>> reduction_axes({"ep": Shard(0)}, ["replicas", "ep"])
    ('replicas',)
    >>> reduction_axes({"tp": Shard(0)}, ["dp", "cp", "tp", "pp"])
    ('dp', 'cp', 'pp')
    """
    require_type("reduction_axes", Placement, **{f"along {a}": p for a, p in weight.items()})
    return tuple(axis for axis in divided if not isinstance(weight.get(axis), Shard))
