"""GradientSums: sixteen ranks, a weight, and the axes over which the reader adds its gradient."""

from math import prod

from dtlib.composition.uses import USES, Use
from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, toggle
from dtlib.explore.kit.widget import Widget
from dtlib.mesh import Mesh, Shard

MESH = Mesh.of(pp=2, dp=2, cp=2, tp=2)


def kind_of(use: Use, axis: str) -> str:
    """What the ranks along an axis hold of the gradient: "terms", "pieces" or "the same"."""
    if isinstance(use.placements[axis], Shard):
        return "pieces"
    return "terms" if axis in use.divided else "the same"


class GradientSums(Widget):
    """One weight on a mesh of 2 x 2 x 2 x 2 ranks, and which gradients one rank gets in its sum.

    Arguments: `weight`, a name of `dtlib.composition.uses.USES`, and `over`, the axes that are
    added over at the start; `task`, a `Task` over ``right`` (1 or 0), ``due`` (how many terms
    the gradient has), ``share`` (of these, how many are in the sum), ``mixed`` (how many different
    pieces are added) and ``times`` (how often each term is counted). A set is guessed axis by
    axis, so there is a switch more than on other widgets. Raises ValueError for another weight, and
    for a task that cannot be met.
    """

    def __init__(
        self,
        *,
        title: str,
        weight: str = "norm",
        over: tuple[str, ...] = ("dp",),
        task: Task | None = None,
    ):
        super().__init__(
            title=title,
            controls=[
                choice("weight", "Weight", {name: name for name in USES}, weight),
                *(toggle(axis, f"add over {axis}", axis in over) for axis in MESH.axes),
            ],
            task=task,
            axes=list(MESH.axes),
            kinds={
                name: {axis: kind_of(use, axis) for axis in MESH.axes}
                for name, use in USES.items()
            },
            start={"at": 0},
        )  # fmt: skip

    def names(self, *, weight: str, **added: int) -> dict[str, float]:
        sizes = dict(zip(MESH.axes, MESH.shape, strict=True))
        kinds = {axis: kind_of(USES[weight], axis) for axis in MESH.axes}

        def ranks(kind: str, inside: int) -> int:
            return prod(
                sizes[axis] for axis in sizes if kinds[axis] == kind and added[axis] == inside
            )

        right = all(added[axis] == (kinds[axis] == "terms") for axis in MESH.axes)
        return {
            "right": int(right),
            "due": ranks("terms", 0) * ranks("terms", 1),
            "share": 1 / ranks("terms", 0),
            "mixed": ranks("pieces", 1),
            "times": ranks("the same", 1),
        }
