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
from dtlib.mesh import Mesh

AXES = ("dp", "cp", "pp", "tp")
TOKEN_AXES = ("replicas", "ep")


class Places:
    """A rank's coordinates on a mesh, and its process group along each axis of a layout.

    Arguments: `mesh` of all ranks, with axes among dp, cp, pp and tp in any order (one that is not
    there has one rank); `layout`, of the same sizes; `copies`, of how many ranks of tp in a row
    each has the same key heads. Every rank makes one, as it makes groups.
    Attributes: `at`, the coordinate along each axis; `tp`, `cp`, `pp`, the groups along an axis;
    `tokens` and `experts`, as above; `copies`, of key heads; `sums`, the group for each set of axes
    over which gradients are added; `groups`, all of these by name; `everyone`. Raises TypeError for
    another mesh or layout; ValueError for an axis of another name, and for sizes that differ.
    """

    def __init__(self, mesh: Mesh, layout: Layout, copies: int = 1):
        check_sizes(mesh, layout)
        missing = [axis for axis in AXES if axis not in mesh.axes]
        self.mesh = Mesh([*mesh.shape, *[1] * len(missing)], [*mesh.axes, *missing], mesh.ranks)
        self.layout, self.at = layout, self.mesh.coordinates(dist.get_rank())
        rows = {
            rank: rows_of(self.mesh, rank, layout.ep, copies) for rank in sorted(self.mesh.ranks)
        }
        made = make_each_once(ranks for lists in rows.values() for ranks in lists.values())
        own = {name: made[ranks] for name, ranks in rows[dist.get_rank()].items()}
        self.groups = own
        self.tp, self.cp, self.pp = own["tp"], own["cp"], own["pp"]
        self.tokens, self.experts, self.copies = own["tokens"], own["experts"], own["copies"]
        self.sums = {TOKEN_AXES: self.tokens, ("replicas",): own["replicas"]}
        self.everyone = dist.group.WORLD
        self._made = [group for group in made.values() if group is not self.everyone]

    def close(self) -> None:
        """Give the groups back, with the threads that each of them has."""
        for group in self._made:
            dist.destroy_process_group(group)
        self._made = []


def rows_of(mesh: Mesh, rank: int, ep: int, copies: int) -> dict[str, tuple[int, ...]]:
    """The ranks of each group that a rank is in, by the name that `Places` has for it.

    >>> rows = rows_of(Mesh.of(dp=2, pp=1, cp=2, tp=2), rank=4, ep=2, copies=1)
    >>> rows["tokens"], rows["experts"], rows["replicas"]
    ((0, 2, 4, 6), (4, 6), (0, 4))
    """
    rows = {axis: tuple(mesh.sub(axis, rank=rank).ranks) for axis in ("tp", "cp", "pp")}
    tokens = tuple(mesh.sub("dp", "cp", rank=rank).ranks)
    replicas = tokens[tokens.index(rank) % ep :: ep]
    return rows | {
        "tokens": tokens,
        "experts": _row(tokens, rank, ep),
        "replicas": replicas,
        "copies": _row(rows["tp"], rank, copies),
    }


def _row(ranks: tuple[int, ...], rank: int, size: int) -> tuple[int, ...]:
    """Of ranks in rows of this size, the row of one."""
    first = ranks.index(rank) // size * size
    return ranks[first : first + size]


def make_each_once(lists: Iterable[tuple[int, ...]]) -> dict:
    """A process group for each list that this rank is in, by the list; all ranks make all of them.

    The list of all ranks is the world itself.
    """
    rank, world, made = dist.get_rank(), dist.get_world_size(), {}
    for ranks in sorted(set(lists)):
        group = dist.group.WORLD if ranks == tuple(range(world)) else dist.new_group(list(ranks))
        if rank in ranks:
            made[ranks] = group
    return made


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
