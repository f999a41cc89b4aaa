"""Judges of runs on three axes: warm-ups of pipelines, a norm over copies, a tied table."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

from dtlib.exercises.judge import call, function, number, whole
from dtlib.exercises.judges.pipelines import thrifty_law, with_warm_up
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import RecordedTeam, TransportError, record_team
from dtlib.later import np

AXES = ("dp", "pp", "tp")
Sizes = tuple[int, int, int]


def places(sizes: Sizes) -> list[tuple[int, int, int]]:
    """The place of each rank along dp, pp and tp, in the order of the ranks; tp runs fastest.

    >>> places((2, 1, 2))
    [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    """
    return [*product(*map(range, sizes))]


_RUNS = (((2, 2, 2), 4), ((1, 4, 2), 8), ((2, 8, 1), 16), ((3, 3, 2), 2), ((2, 1, 2), 3))


def warms_up_each_stage(answer: Any) -> None:
    """Raise `NotYet` unless ``my_warm_up(rank, dp, pp, tp)`` makes each pipeline's rows 1F1B's.

    >>> warms_up_each_stage(lambda rank, dp, pp, tp: pp - 1)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: dp = 2, pp = 2, tp = 2, ranks [0, 2]: legal, but slower than ...
    """
    function(answer, "my_warm_up(rank, dp, pp, tp)")
    for sizes, m in _RUNS:
        dp, pp, tp = sizes
        counts = {place: _count(answer, rank, sizes) for rank, place in enumerate(places(sizes))}
        for d, t in product(range(dp), range(tp)):
            ranks = [d * pp * tp + s * tp + t for s in range(pp)]
            row = [counts[d, s, t] for s in range(pp)]
            try:
                thrifty_law(with_warm_up(pp, m, lambda p, s, row=row: row[s]), None, pp, m)
            except NotYet as wrong:
                said = wrong.reason.replace("but rank ", "but stage ")
                raise NotYet(f"dp = {dp}, pp = {pp}, tp = {tp}, ranks {ranks}: {said}") from None


def _count(answer: Callable, rank: int, sizes: Sizes) -> int:
    count = whole(call(answer, rank, *sizes), "a warm-up")
    if count < 0:
        raise NotYet(f"rank {rank} of dp, pp, tp = {sizes}: a warm-up is not negative")
    return count


class Counted:
    """A team's sum of one number, and how often it was asked for."""

    def __init__(self, team: RecordedTeam):
        self.team, self.asked = team, 0

    def __call__(self, x: float) -> float:
        self.asked += 1
        return self.team.all_reduce(np.array([float(x)])).item()


def gradients_in_pieces(sizes: Sizes, seed: int = 24) -> tuple[list[list[tuple]], float]:
    """For each rank its pieces, (gradient, cut, stages), and the norm of every number once.

    A stage has a matrix that tp cuts, a norm's weight that it does not cut, and a flat part that dp
    cuts as well; the first and the last stage have the same table, cut along tp.
    """
    draw = np.random.default_rng(seed)
    kinds = (((), 3), (("tp",), 4), (("dp", "tp"), 2))
    parts: dict[tuple, Any] = {}
    ranks = []
    for place in places(sizes):
        at = dict(zip(AXES, place, strict=True))
        pieces = []
        for cut, length in kinds:
            key = cut, at["pp"], *(at[axis] for axis in cut)
            pieces.append((parts.setdefault(key, draw.normal(size=length)), cut, 1))
        if at["pp"] in (0, sizes[1] - 1):
            table = parts.setdefault(("table", at["tp"]), draw.normal(size=5))
            pieces.append((table, ("tp",), min(2, sizes[1])))
        ranks.append(pieces)
    return ranks, float(np.linalg.norm(np.concatenate([*parts.values()])))


def counts_each_once(answer: Callable, sizes: Sizes) -> None:
    """Raise `NotYet` unless every rank gets the norm of all numbers, each of them counted once."""
    ranks, right = gradients_in_pieces(sizes)
    named = dict(zip(AXES, sizes, strict=True))
    where = ", ".join(f"{axis} = {size}" for axis, size in named.items())

    def program(team: RecordedTeam) -> tuple[Any, int]:
        add = Counted(team)
        own = [(gradient.copy(), cut, stages) for gradient, cut, stages in ranks[team.rank]]
        return call(answer, own, dict(named), add, passing=(TransportError,)), add.asked

    squares = [sum(float(g @ g) for g, *_ in pieces) for pieces in ranks]
    once = {math.sqrt(sum(squares)): "every rank's copies were added"}
    for rank, (given, asked) in enumerate(record_team(program, len(ranks), arrays=True)):
        if asked != 1:
            raise NotYet(f"{where}: call add once; rank {rank} called it {asked} times")
        own = {math.sqrt(squares[rank]): "that is the norm of this rank's pieces"}
        hints = {value: hint for value, hint in (own | once).items() if value != right}
        number(given, right, f"{where}: the norm on rank {rank}", tolerance=1e-9, mistakes=hints)


def adds_the_table(answer: Callable, dp: int, pp: int) -> None:
    """Raise `NotYet` unless each gradient is added over dp, and the table's over both its stages.

    ``answer(gradients, comm, dp, pp)`` runs on all ranks, pp fastest; ``gradients`` are summands.
    """
    draw = np.random.default_rng(24)
    mine: list[dict] = [{"layer": draw.normal(size=3)} for _ in range(dp * pp)]
    for rank, own in enumerate(mine):
        if rank % pp in (0, pp - 1):
            own["table"] = draw.normal(size=4)
    ends = sum(own["table"] for own in mine if "table" in own)

    def program(team: RecordedTeam) -> Any:
        own = {name: gradient.copy() for name, gradient in mine[team.rank].items()}
        return call(answer, own, team, dp, pp, passing=(TransportError,))

    for rank, given in enumerate(record_team(program, dp * pp, arrays=True)):
        where = f"dp = {dp}, pp = {pp}, rank {rank}"
        if not isinstance(given, dict) or set(given) != set(mine[rank]):
            raise NotYet(f"{where}: return a dict with the keys {', '.join(mine[rank])}")
        layer = sum(own["layer"] for own in mine[rank % pp :: pp])
        _same(given["layer"], layer, f"{where}: the layer")
        if "table" in mine[rank]:
            replicas = sum(own["table"] for own in mine[rank % pp :: pp])
            if pp > 1 and np.allclose(given["table"], replicas):
                raise NotYet(f"{where}: the table's other use lies on another stage")
            _same(given["table"], ends, f"{where}: the table")


def _same(given: Any, right: Any, what: str) -> None:
    found = np.asarray(given, dtype=float)
    if found.shape != right.shape:
        raise NotYet(f"{what}'s gradient has shape {list(found.shape)}")
    if np.allclose(found, right, rtol=1e-9, atol=1e-12):
        return
    factor = float(np.median(found / right))
    if np.allclose(found, factor * right):
        raise NotYet(f"{what}'s gradient is too {'large' if factor > 1 else 'small'} by a factor")
    raise NotYet(f"{what}'s gradient is not the sum of the summands of its ranks")
