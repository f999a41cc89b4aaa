"""What chapter 23's exercises compare with, found in other ways."""

import pytest

from dtlib.composition.placement import Placed
from dtlib.composition.types import PlacementError, Types
from dtlib.exercises import NotYet
from dtlib.exercises.chapters.composition.ch23 import _groups, _layouts, _operands, _part, _rule
from dtlib.exercises.judges.typed import lies_as, meanings
from dtlib.exercises.worlds import Steps, Threads, TransportError, record_groups
from dtlib.later import np
from dtlib.mesh import Copies, Mesh, Partial, Shard

OPERANDS = [case for _, case in _operands()]


@pytest.mark.parametrize("case", [case for _, case in _layouts()], ids=str)
def test_a_rank_holds_what_the_library_says(case):
    shape, sizes, cuts, place = case
    axes = "abc"[: len(sizes)]
    shards = {a: Shard(dim) for a, dim in zip(axes, cuts, strict=True) if dim is not None}
    placed = Placed.on(Mesh(sizes, axes), shape, **shards)
    rank = placed.mesh.rank(**dict(zip(axes, place, strict=True)))
    assert [slice(*ends) for ends in _part(*case)] == [*placed.part(rank)]


def typed(spec, placements):
    """The library's rule of an einsum, in the letters of the exercise."""
    kinds = {"C": Copies(), "P": Partial()}
    do = Types(["tp"])
    values = [do.value("x", tp=kinds.get(one) or Shard(int(one[1:]))) for one in placements]
    try:
        made = do.einsum(spec, *values)["tp"]
    except PlacementError:
        return "refused"
    return f"S{made.dim}" if isinstance(made, Shard) else type(made).__name__[0]


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_rule_is_the_librarys_and_what_ranks_compute(ranks):
    assert len(OPERANDS) > 60
    for spec, placements in OPERANDS:
        found = meanings(spec, placements, ranks)
        assert found == [one for one in [_rule(spec, placements)] if one != "refused"]
        assert typed(spec, placements) == _rule(spec, placements)


@pytest.mark.parametrize("slip", [{"careful": False}, {"added": "refused"}, {"moved": False}])
def test_sabotage_what_ranks_compute_tells_a_wrong_rule(slip):
    def passes(case):
        try:
            lies_as(_rule(*case, **slip), "none of them", *case)
        except NotYet:
            return False
        return True

    wrong = [case for case in OPERANDS if _rule(*case, **slip) != _rule(*case)]
    assert wrong and not any(map(passes, wrong))


@pytest.mark.parametrize("world", [Threads, Steps])
def test_groups_in_memory_are_those_of_the_mesh_in_threads_and_in_steps(world, monkeypatch):
    monkeypatch.setattr("dtlib.exercises.worlds.grouping.world_of", world)
    mesh = Mesh.of(dp=2, pp=1, tp=3)
    for rank, (own, calls) in enumerate(record_groups(_groups, 6, mesh.grid)):
        assert [[*group] for group in own] == [*mesh.groups_of(rank).values()]
        assert calls == [tuple(one) for axis in mesh.axes for one in mesh.groups(axis)]
    with pytest.raises(TransportError, match=r"call 1 is new_group\(\[0, 2\]\) on rank 0, but"):
        record_groups(lambda *given: _groups(*given, own_only=True), 4, np.arange(4).reshape(2, 2))
    with pytest.raises(TransportError, match=r"waits in .* its call 1, for rank 1, which has fin"):
        record_groups(lambda make, rank: rank or make([0]), 2)
