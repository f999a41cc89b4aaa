"""Over which axes of a mesh a gradient must be added: a rule of one line.

The loss is a sum, L = sum_t l_t(w): over tokens, and within a token over what its heads and layers
make of w. Look along one axis of the mesh, at ranks that differ in nothing else. Either they do the
same with a weight, or different summands of the loss.

- The same: each has the whole gradient already. To add P equal ones would make it P times too
  large.
- Different things with one and the same weight: each has the summands of its own work. The gradient
  is their sum, so along this axis it is Partial.
- Different things with different pieces of the weight: nobody else has a gradient of this piece.
  What its strategy must do is to bring all work to it: tensor parallelism gives its ranks all
  tokens, expert parallelism sends them there, and a pipeline hands on all micro-batches.

So a gradient is Partial on exactly those axes along which the work is divided and the weight is
not. Where the sum ends is another matter: whole on every rank, or in parts (ZeRO).
"""

from collections.abc import Iterable, Mapping

from dtlib.formulas.require import require, require_type
from dtlib.mesh import Partial, Placement, Shard


def reduction_axes(weight: Mapping[str, Placement], divided: Iterable[str]) -> tuple[str, ...]:
    """The axes over which the gradient of a weight is added, in the order of `divided`.

    Equation: the axes that divide its work, less those that divide the weight itself.
    Arguments: `weight`, how it lies along each axis while it is used (one that is not named:
    Replicate); `divided`, the axes whose ranks use it for other tokens, heads or layers. Returns
    the names of axes: the ranks to add over differ in these and in no others. Raises TypeError for
    what is no Placement, ValueError for a weight that is Partial.
    Source: Shoeybi et al. 2019; Korthikanti et al. 2023 for norms; Singh et al. 2023 for experts.

    Axes may be cut anew: the ranks of dp x cp are also replicas x ep, of which an expert is in
    pieces along ep; the ranks of tp are kv x share where several share a head of keys.

    >>> tokens, piece = ["dp", "cp"], Shard(0)
    >>> for name, weight, divided in [
    ...     ("a matrix", {"tp": piece, "pp": piece}, [*tokens, "tp", "pp"]),
    ...     ("a norm, each rank of tp with other tokens", {"pp": piece}, [*tokens, "tp", "pp"]),
    ...     ("a norm, all with the same tokens", {"pp": piece}, [*tokens, "pp"]),
    ...     ("a head of keys for several ranks", {"kv": piece}, [*tokens, "kv", "share"]),
    ...     ("a table of the first stage and the last", {"tp": piece}, [*tokens, "tp", "pp"]),
    ...     ("an expert", {"ep": piece, "pp": piece}, ["replicas", "ep", "pp"]),
    ...     ("its router", {"pp": piece}, ["replicas", "ep", "pp"]),
    ... ]:
    ...     print(f"{name:42}", *reduction_axes(weight, divided))
    a matrix                                   dp cp
    a norm, each rank of tp with other tokens  dp cp tp
    a norm, all with the same tokens           dp cp
    a head of keys for several ranks           dp cp share
    a table of the first stage and the last    dp cp pp
    an expert                                  replicas
    its router                                 replicas ep
    """
    require_type("reduction_axes", Placement, **{f"along {a}": p for a, p in weight.items()})
    for axis, placement in weight.items():
        good, allowed = not isinstance(placement, Partial), "Replicate(), Copies() or a Shard"
        require(good, "reduction_axes", axis, placement, allowed)
    return tuple(axis for axis in divided if not isinstance(weight.get(axis), Shard))
