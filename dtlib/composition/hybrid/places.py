"""Where a rank stands in a layout, and the groups of ranks that it talks to.

The nouns:

- **Tokens' group**: the ranks that do the same work on other tokens: dp x cp.
- **Experts' group**: `ep` ranks in a row of a tokens' group, which have all experts among them.
- **Replicas**: the ranks of a tokens' group that have the same experts: dp x cp / ep of them. The
  tokens' group is a grid of replicas x ep, so the two are its axes.
"""

from collections.abc import Iterable

import torch.distributed as dist

from dtlib.formulas.require import require, require_type
from dtlib.layout import Layout
from dtlib.mesh import Mesh, make_groups

AXES = ("dp", "cp", "pp", "tp")
TOKEN_AXES = ("replicas", "ep")


class Places:
    """A rank's coordinates on a mesh, and its process group along each axis of a layout.

    Arguments: `mesh` of all ranks, with axes among dp, cp, pp and tp in any order (one that is not
    there has one rank); `layout`, of the same sizes. Every rank makes one, as it makes groups.
    Attributes: `at`, the coordinate along each axis; `tp`, `cp`, `pp`, the groups along an axis;
    `tokens` and `experts`, as above; `sums`, the group for each set of axes over which gradients
    are added; `everyone`. Raises TypeError for another mesh or layout; ValueError for an axis
    of another name, and for sizes that differ.
    """

    def __init__(self, mesh: Mesh, layout: Layout):
        check_sizes(mesh, layout)
        rank = dist.get_rank()
        missing = [axis for axis in AXES if axis not in mesh.axes]
        whole = Mesh([*mesh.shape, *[1] * len(missing)], [*mesh.axes, *missing], mesh.ranks)
        groups = make_groups(whole)
        self.mesh, self.layout, self.at = whole, layout, whole.coordinates(rank)
        self.tp, self.cp, self.pp = groups["tp"], groups["cp"], groups["pp"]
        tokens = same_work(whole)
        self.tokens = own_group(tokens)
        self.experts = own_group(row for ranks in tokens for row in in_rows(ranks, layout.ep))
        replicas = own_group(
            ranks[place :: layout.ep] for ranks in tokens for place in range(layout.ep)
        )
        self.sums = {TOKEN_AXES: self.tokens, ("replicas",): replicas}
        self.everyone = dist.group.WORLD


def check_sizes(mesh: Mesh, layout: Layout) -> None:
    """Raise unless the mesh has the layout's axes, each with as many ranks."""
    owner = "parallelize"
    require_type(owner, Mesh, mesh=mesh)
    require_type(owner, Layout, layout=layout)
    for axis in mesh.axes:
        allowed = f"{', '.join(AXES)} (experts are divided among ranks of dp x cp)"
        require(axis in AXES, owner, "an axis of the mesh", axis, f"one of {allowed}")
    sizes = dict(zip(mesh.axes, mesh.shape, strict=True))
    for axis in AXES:
        size, due = sizes.get(axis, 1), getattr(layout, axis)
        require(size == due, owner, f"the mesh's {axis}", size, f"{due}, as in the layout")


def same_work(mesh: Mesh) -> list[list[int]]:
    """The ranks that differ in their tokens only, along dp and cp, for all places of the others.

    >>> same_work(Mesh.of(dp=2, pp=1, cp=2, tp=2))
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    found = [mesh.sub("dp", "cp", rank=rank).ranks for rank in mesh.ranks]
    return [list(ranks) for ranks in dict.fromkeys(found)]


def in_rows(ranks: list[int], size: int) -> list[list[int]]:
    """Ranks in rows of equal size.

    >>> in_rows([0, 2, 4, 6], 2)
    [[0, 2], [4, 6]]
    """
    return [ranks[first : first + size] for first in range(0, len(ranks), size)]


def own_group(lists: Iterable[list[int]]):
    """The process group of the list that this rank is in; every rank makes those of all lists."""
    own = None
    for ranks in lists:
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            own = group
    return own
