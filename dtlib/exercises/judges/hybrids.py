"""Judges of runs on three axes: warm-ups, a norm over copies, tied tables, micro-batches."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from dtlib.exercises.judge import call, function, items, number, real, whole
from dtlib.exercises.judges.arrays import same_array
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


def norm_of_pieces(pieces, sizes, add, *, tied=True, cut=True, root=True) -> float:
    """The norm of a gradient in ``pieces``, (gradient, cut, stages), each number counted once."""
    total = 0.0
    for gradient, axes, stages in pieces:
        copied = [axis for axis in ("dp", "tp") if axis not in axes] if cut else ["dp"]
        copies = math.prod(sizes.get(axis, 1) for axis in copied) * (stages if tied else 1)
        total += float((gradient * gradient).sum()) / copies
    return math.sqrt(add(total)) if root else add(math.sqrt(total))


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


def counts_each_once(answer: Callable, P: int) -> None:
    """Raise `NotYet` unless P ranks get the norm of all numbers, each of them counted once.

    Tried on every mesh of dp, pp and tp of so many ranks.
    """
    for sizes in product(range(P, 0, -1), repeat=3):
        if math.prod(sizes) == P:
            _counts_on(answer, sizes)


def _counts_on(answer: Callable, sizes: Sizes) -> None:
    ranks, right = gradients_in_pieces(sizes)
    named = dict(zip(AXES, sizes, strict=True))
    where = ", ".join(f"{axis} = {size}" for axis, size in named.items())

    def program(team: RecordedTeam) -> tuple[Any, int]:
        def add(x: float) -> float:
            return team.all_reduce(np.array([float(x)])).item()

        own = [(gradient.copy(), cut, stages) for gradient, cut, stages in ranks[team.rank]]
        given = call(answer, own, dict(named), add, passing=(TransportError,))
        return given, len(team.calls)

    hints = {value: hint for value, hint in _wrong_norms(ranks, named) if value != right}
    for rank, (given, asked) in enumerate(record_team(program, len(ranks), arrays=True)):
        if asked != 1:
            raise NotYet(f"{where}: call add once; rank {rank} called it {asked} times")
        number(given, right, f"{where}: the norm on rank {rank}", tolerance=1e-9, mistakes=hints)


def _wrong_norms(ranks: list, sizes: dict[str, int]) -> Iterator[tuple[float, str]]:
    def of(**slip: bool) -> float:
        parts: list[float] = []
        for pieces in ranks:
            norm_of_pieces(pieces, sizes, lambda x: parts.append(x) or 0.0, **slip)
        return sum(parts)

    yield math.sqrt(of(tied=False)), "a table lies on two stages"
    yield math.sqrt(of(cut=False)), "which axes cut a piece, and along which is it copied?"
    everything = sum(float(g @ g) for pieces in ranks for g, *_ in pieces)
    yield math.sqrt(everything), "every rank's copies were added"
    roots = [norm_of_pieces(pieces, sizes, float) for pieces in ranks]
    yield sum(roots), "norms do not add, squares do"
    for root in roots:
        yield root, "that is what one rank's pieces have"


def synced(gradients, comm, dp, pp, *, ends=True, alone=True, mean=False) -> dict:
    """Gradients that are added over dp, and the table's over its stages; pp runs fastest."""
    edges = [[d * pp, d * pp + pp - 1] for d in range(dp)] if pp > 1 else []
    rest = [[rank] for rank in range(dp * pp) if not any(rank in edge for edge in edges)]
    replicas = comm.split([[*range(s, dp * pp, pp)] for s in range(pp)])
    pair = comm.split(edges + rest)
    found = {name: replicas.all_reduce(gradient) for name, gradient in gradients.items()}
    if "table" in found and ends:
        found["table"] = pair.all_reduce(found["table"]) / (pair.size if mean else 1)
        found["table"] = found["table"] * (1 if alone or pp > 1 else 2)
    return found


def adds_the_table(answer: Callable, P: int) -> None:
    """Raise `NotYet` unless each gradient is added over dp, and the table's over both its stages.

    ``answer(gradients, comm, dp, pp)`` runs on P ranks, pp fastest; ``gradients`` are summands.
    """
    for dp in (n for n in range(1, P + 1) if P % n == 0):
        _adds_on(answer, dp, P // dp)


def _adds_on(answer: Callable, dp: int, pp: int) -> None:
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
        replicas = mine[rank % pp :: pp]
        for name, gradient in given.items():
            over_dp = sum(own[name] for own in replicas)
            right = ends if name == "table" else over_dp
            place = partial(_what_stands_there, right=right, over_dp=over_dp)
            same_array(gradient, right, f"{where}, {name}", 1e-9, place)


def _what_stands_there(i: int, entry: float, *, right: Any, over_dp: Any) -> str:
    if math.isclose(entry, over_dp[i]):
        return "its other use lies on another stage"
    if math.isclose(entry, 2 * right[i]):
        return "one use too many: each is to be counted once"
    if math.isclose(2 * entry, right[i]):
        return "uses add up, they are not averaged"
    return "not the sum of its ranks' summands"


def same_factors(given: Any, right: list[list[float]], counts: list[list[int]]) -> None:
    """Raise `NotYet` unless these are the factors of each replica's micro-batches."""
    rows = items(given, "the factors", len(counts))
    for replica, (row, due) in enumerate(zip(rows, right, strict=True)):
        for i, factor in enumerate(items(row, f"replica {replica}", len(due))):
            value = real(factor, f"replica {replica}, micro-batch {i}")
            if not math.isclose(value, due[i], rel_tol=1e-9):
                side = "much" if value > due[i] else "little"
                raise NotYet(f"a target of replica {replica}, micro-batch {i} counts too {side}")
