"""Each rule alone, on any mesh: a line that types means on pieces what it means on wholes, and so
does its transpose. Local lines send nothing, so one process can play every rank, with integers."""

import random
from itertools import product

import pytest
import torch

from dtlib.composition import Placed, PlacementError, Types
from dtlib.composition.interpreters import Alone
from dtlib.composition.programs import by_total, square
from dtlib.mesh import Copies, Mesh, Partial, Replicate, Shard

SQUARE, CUBE = Mesh.of(dp=2, tp=2), Mesh.of(pp=2, dp=2, tp=2)
KINDS = [Replicate(), Copies(), Partial(), Shard(0), Shard(1)]
LINES = {
    "product": lambda do, x, y: do.einsum("ab,bc->ac", x, y),
    "product with a transpose": lambda do, x, y: do.einsum("ab,cb->ac", x, y),
    "element by element": lambda do, x, y: do.einsum("ab,ab->ab", x, y),
    "inner product": lambda do, x, y: do.einsum("ab,ab->", x, y),
    "sum": lambda do, x, y: do.add(x, y),
    "pointwise": lambda do, x, y: do.pointwise(square, x),
    "along rows": lambda do, x, y: do.along(by_total, x, 1),
    "along columns": lambda do, x, y: do.along(by_total, x, 0),
}


def summand_of(mesh, placements, rank):
    places = mesh.coordinates(rank)
    return tuple(places[axis] for axis, p in placements.items() if p == Partial())


def part_of(mesh, shape, placements, rank):
    cuts = {axis: p for axis, p in placements.items() if isinstance(p, Shard)}
    return Placed.on(mesh, shape, **cuts).part(rank)


def spread(mesh, whole, placements, draw):
    """What each rank holds: parts, copies, and integer summands that give the whole."""
    names = list(dict.fromkeys(summand_of(mesh, placements, rank) for rank in mesh.ranks))
    summands = {name: torch.full_like(whole, draw.randint(-3, 3)) for name in names[1:]}
    summands[names[0]] = whole - sum(summands.values())
    return [
        summands[summand_of(mesh, placements, rank)][
            part_of(mesh, whole.shape, placements, rank)
        ].clone()
        for rank in mesh.ranks
    ]


def meant(mesh, pieces, placements, shape):
    """What pieces mean together; None where copies differ."""
    total, seen = torch.zeros(shape, dtype=torch.float64), {}
    for rank, own in enumerate(pieces):
        part = part_of(mesh, shape, placements, rank)
        first = seen.setdefault((summand_of(mesh, placements, rank), str(part)), own)
        if first is own:
            total[part] += own
        elif not torch.equal(first, own):
            return None
    return total


def integers(draw, shape=(4, 4)):
    numbers = [float(draw.randint(-3, 3)) for _ in range(torch.Size(shape).numel())]
    return torch.tensor(numbers, dtype=torch.float64).reshape(shape)


def fault(mesh, line, given, draw, types=Types):
    """None if the line is refused or right; otherwise what is wrong: its result or a gradient."""
    do, run, wholes = types(mesh.axes), LINES[line], [integers(draw), integers(draw)]
    placements = [dict(zip(mesh.axes, one, strict=True)) for one in given]
    try:
        typed = run(do, *(do.value(n, **p) for n, p in zip("xy", placements, strict=True)))
    except PlacementError:
        return "refused"
    leaves = [whole.requires_grad_() for whole in wholes]
    due = run(Alone(), *leaves)
    gradient = integers(draw, due.shape)
    dues = torch.autograd.grad(due, leaves, gradient, allow_unused=True)
    back = {axis: p.gradient for axis, p in typed.placements.items()}
    pieces = [spread(mesh, w.detach(), p, draw) for w, p in zip(wholes, placements, strict=True)]
    results, grads = [], []
    for x, y, g in zip(*pieces, spread(mesh, gradient, back, draw), strict=True):
        own = [x.requires_grad_(), y.requires_grad_()]
        results.append(run(Alone(), *own))
        grads.append(torch.autograd.grad(results[-1], own, g, allow_unused=True))
        results[-1] = results[-1].detach()
    found = meant(mesh, results, typed.placements, due.shape)
    if found is None or not torch.equal(found, due):
        return "its result"
    for number, wanted in enumerate(dues):
        if wanted is None:
            continue
        whose = {axis: p.gradient for axis, p in placements[number].items()}
        found = meant(mesh, [one[number] for one in grads], whose, wanted.shape)
        if found is None or not torch.equal(found, wanted):
            return f"the gradient of {'xy'[number]}"
    return None


@pytest.mark.parametrize("line", LINES)
def test_every_rule_on_a_square(line):
    draw, each, said = random.Random(1), [*product(KINDS, repeat=2)], []
    for given in product(each, repeat=2):
        said.append(fault(SQUARE, line, given, draw))
    assert set(said) == {"refused", None}


@pytest.mark.parametrize("line", LINES)
def test_every_rule_on_a_cube(line):
    """Placements are drawn axis by axis among those that type on one axis."""
    draw, one_axis = random.Random(2), Mesh.of(tp=2)
    good = [
        pair
        for pair in product(KINDS, repeat=2)
        if fault(one_axis, line, [(one,) for one in pair], draw) is None
    ]
    for _ in range(60):
        given = list(zip(*draw.choices(good, k=3), strict=True))
        assert fault(CUBE, line, given, draw) in (None, "refused")


class Lax(Types):
    """A wrong rule: replicated values may be used as copies are."""

    def einsum(self, spec, *values):
        free = [
            self.value(one.name, **{a: Copies() if p == Replicate() else p
                                    for a, p in one.placements.items()})
            for one in values
        ]  # fmt: skip
        return super().einsum(spec, *free)


def test_sabotage_a_lax_rule_has_a_wrong_gradient():
    given = [(Replicate(), Replicate()), (Shard(1), Shard(1))]
    draw = random.Random(3)
    assert fault(SQUARE, "product", given, draw) == "refused"
    mixed = [(Replicate(), Copies()), (Shard(1), Copies())]
    assert fault(SQUARE, "product", mixed, draw, types=Lax) == "the gradient of x"
