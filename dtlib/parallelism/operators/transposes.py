"""The table of operators and transposes, and the test that certifies it on real ranks.

A placement (`dtlib.mesh`) says how a tensor counts in an inner product, and what its gradient is.
In this book's words for collectives (`dtlib.collectives.PRIMITIVES`) `Partial` and `Copies` are
'everywhere', before and after, `Shard` is 'at its owner', and `Replicate` is 'at the root', of
which there is one: f is a broadcast, g a reduce, and swapping before and after gives every
transpose.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from dtlib.formulas.table import Table
from dtlib.mesh import Copies, Partial, Placement, Replicate, Shard
from dtlib.parallelism.operators import adjoint, messages
from dtlib.runtime.process_group import ranks_of


@dataclass(frozen=True)
class Adjoint:
    """One line of the table: an operator, its transpose, and how their tensors count.

    Arguments: ``name`` of a function of `dtlib.parallelism.operators.adjoint`; ``forward`` and
    ``backward``, what it sends; ``transpose``, the name of the function that the backward pass is;
    ``before`` and ``after``, placements of what goes in and of what comes out, at dimension 0;
    ``convention``, which loss it belongs to.
    """

    name: str
    forward: str
    backward: str
    transpose: str
    before: Placement
    after: Placement
    convention: str

    def __call__(self, x, group, **arguments):
        """The operator itself."""
        return getattr(adjoint, self.name)(x, group, **arguments)


class Adjoints(dict):
    """The lines by name; shown as a table."""

    def table(self) -> Table:
        columns = ("operator", "its transpose", "sends / sends back", "before → after", "loss")
        rows = tuple(
            (
                *(f"`{line.name}`", f"`{line.transpose}`", f"{line.forward} / {line.backward}"),
                *(f"{line.before} → {line.after}", line.convention),
            )
            for line in self.values()
        )
        return Table("Operators and their transposes", columns, rows)

    def _repr_markdown_(self) -> str:
        return self.table()._repr_markdown_()

    def __repr__(self) -> str:
        return repr(self.table())


_OPERATORS = """
copy_to_ranks  | nothing        | all-reduce     | sum_over_ranks | replicated | copies
sum_over_ranks | all-reduce     | nothing        | copy_to_ranks  | partial    | replicated
own_slice      | nothing        | all-gather     | gather_slices  | replicated | sharded
gather_slices  | all-gather     | nothing        | own_slice      | sharded    | replicated
all_reduce     | all-reduce     | all-reduce     | all_reduce     | partial    | copies
all_gather     | all-gather     | reduce-scatter | reduce_scatter | sharded    | copies
reduce_scatter | reduce-scatter | all-gather     | all_gather     | partial    | sharded
all_to_all     | all-to-all     | all-to-all     | all_to_all     | sharded    | sharded
shift          | send on        | send back      | shift          | sharded    | sharded
"""


def _line(text: str) -> Adjoint:
    name, forward, backward, transpose, before, after = map(str.strip, text.split("|"))
    loss = "replicated" if "replicated" in (before, after) else "partitioned"
    return Adjoint(name, forward, backward, transpose, _PLACED[before], _PLACED[after], loss)


_PLACED = {str(placed): placed for placed in (Replicate(), Copies(), Partial(), Shard())}


ADJOINTS = Adjoints((line.name, line) for line in map(_line, _OPERATORS.strip().splitlines()))


def inner_product(x: torch.Tensor, y: torch.Tensor, group, placement: Placement) -> float:
    """<x, y> over all ranks of a group, in fp64: added over the ranks unless it counts once."""
    _check_placement("placement", placement)
    own = (x.detach().double() * y.detach().double()).sum()
    return own.item() if placement.counts_once else messages.all_reduce(own, group).item()


def adjoint_gap(
    operator: Callable,
    shape,
    group,
    before: Placement | None = None,
    after: Placement | None = None,
    seed: int = 0,
    **arguments,
) -> float:
    """How far an operator's backward pass is from its transpose: |<Ax, y> - <x, A'y>|, relative.

    All ranks of the group call it. x and y are drawn in fp64, the same on all ranks or different,
    as their placements demand; A is run, and A' is what autograd makes of it.

    Arguments: ``operator``, a function of a tensor and a group, or the name of a line of
    `ADJOINTS`; ``shape`` of x on this rank; ``before`` and ``after``, how x and Ax count (a line
    of the table brings its own); ``seed``; ``arguments`` of the operator.

    Returns the gap over the sum of the absolute values of the products. It is also the gap, if that
    is larger, by which a result differs between ranks that is declared the same on all. About
    1e-16 for a transpose; for anything else far more, from a hundredth to several times the whole.
    Raises ValueError for a placement that there is not.
    """
    if isinstance(operator, str):
        line = _named(operator)
        operator, before, after = line, before or line.before, after or line.after
    _check_placement("before", before)
    _check_placement("after", after)
    x = _drawn(shape, before, group, seed).requires_grad_()
    ax = operator(x, group, **arguments)
    y = _drawn(ax.shape, after.gradient, group, seed + 1)
    (aty,) = torch.autograd.grad(ax, x, grad_outputs=y)
    forwards, backwards = inner_product(ax, y, group, after), inner_product(x, aty, group, before)
    scale = inner_product(ax.abs(), y.abs(), group, after)
    gaps = [abs(forwards - backwards) / scale if scale else abs(forwards - backwards)]
    gaps += [_disagreement(ax, group)] if after.same_everywhere else []
    gaps += [_disagreement(aty, group)] if before.gradient.same_everywhere else []
    return max(gaps)


def certify(group, rows: int = 3, columns: int = 5, seed: int = 0) -> dict[str, float]:
    """The gap of every line of `ADJOINTS` on the ranks of a group, by name.

    Arguments: ``rows`` per rank and ``columns`` of the tensors that are drawn.

    On four ranks every gap is below 1e-15 (``tests/parallelism/operators/test_adjoint.py``).
    """
    _, P = ranks_of(group)
    return {
        name: adjoint_gap(
            name, (rows * P, columns), group, seed=seed, **({"dim": 0} if "slice" in name else {})
        )
        for name in ADJOINTS
    }


def _drawn(shape, placement: Placement, group, seed: int) -> torch.Tensor:
    rank, P = ranks_of(group)
    own = 0 if placement.same_everywhere else rank
    generator = torch.Generator().manual_seed(seed * P + own)
    values = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    return values.to(_device_of(group))


def _device_of(group) -> torch.device:
    on_gpu = "nccl" in str(dist.get_backend(group))
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _disagreement(x: torch.Tensor, group) -> float:
    """The largest difference between two ranks' tensors, over the largest entry."""
    all_ranks = messages.all_gather(x.detach()[None], group)
    largest = all_ranks.abs().max().item() if all_ranks.numel() else 0.0
    spread = (all_ranks - all_ranks[:1]).abs().max().item() if largest else 0.0
    return spread / largest if largest else 0.0


def _named(name: str) -> Adjoint:
    if name not in ADJOINTS:
        raise ValueError(f"operator = {name!r}; the table has {', '.join(ADJOINTS)}")
    return ADJOINTS[name]


def _check_placement(argument: str, placement) -> None:
    if not isinstance(placement, Placement):
        allowed = "Replicate(), Copies(), Partial(), Shard(dim)"
        raise ValueError(f"{argument} = {placement!r}; a placement is one of {allowed}")
