"""Judges of programs on sharded vectors: a gradient that is clipped, a step of stage 2."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.judge import call, items
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import Deadlock, RecordedTeam, TransportError, record_team
from dtlib.later import np


def _run_clip(answer: Callable, parts: list, most: float) -> list:
    """What the reader's ``clip(g, most, add)`` returns on each rank, with one call of ``add``."""

    def program(team: RecordedTeam) -> Any:
        def add(x: float) -> float:
            return team.all_reduce(np.array([float(x)])).item()

        args = parts[team.rank].copy(), most, add
        (given,) = call(lambda *args: [answer(*args)], *args, passing=(TransportError,))
        if len(team.calls) != 1:
            raise NotYet(f"call add once; it was called {len(team.calls)} times")
        return given

    return record_team(program, len(parts), arrays=True)


def _same_clipped(result: Any, parts: list, rank: int, most: float) -> None:
    """Raise `NotYet` unless ``result`` is the part of ``rank`` of all ``parts`` clipped together.

    >>> _same_clipped([3.0, 0.0], [[3.0, 0.0], [0.0, 4.0]], 0, 1.0)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: rank 0: another part than the clipped whole's
    """
    part, norm = np.asarray(parts[rank]), np.linalg.norm(np.concatenate(parts))
    if not np.isfinite(norm):
        own = "its own part is fine, but " if np.isfinite(part).all() else ""
        if result is not None:
            raise NotYet(f"rank {rank} must skip the step: {own}the whole is not finite")
        return
    if result is None:
        raise NotYet("a finite gradient is not to be skipped")

    def place(i: int, entry: float) -> str:
        if math.isclose(entry, part[i] * min(1.0, most / np.linalg.norm(part)), rel_tol=1e-4):
            return "clipped by the norm of its own part"
        if norm <= most:
            return "the norm is below the bound; the gradient stays as it is"
        return "another part than the clipped whole's"

    same_array(result, part * min(1.0, most / norm if norm else 1.0), f"rank {rank}", 1e-4, place)


def _parts(P: int) -> Iterator[tuple[list, float]]:
    """Gradients in P parts, each with the most that its norm may be; some are not finite."""
    draw = np.random.default_rng(20)
    for scale, most in ((1, 1.0), (1e-3, 1.0), (9, 0.3), (0, 1.0)):
        yield [*(scale * draw.normal(size=(P, 5)))], most
    for bad in (np.inf, -np.inf, np.nan):
        parts = draw.normal(size=(P, 4))
        parts[P // 2, 2] = bad
        yield [*parts], 1.0


def judge_clip(answer: Callable, P: int) -> None:
    """Raise `NotYet` unless P parts are clipped as their whole, or skipped together."""
    for parts, most in _parts(P):
        for rank, result in enumerate(_run_clip(answer, parts, most)):
            _same_clipped(result, parts, rank, most)


def _run_columns(answer: Callable, whole: Any, steps: int, P: int) -> list:
    """What ``newton_columns(part, steps, add)`` returns on each rank, with its calls judged."""
    parts = np.array_split(whole, P, axis=1)

    def program(team: RecordedTeam) -> Any:
        def add(x: Any) -> Any:
            total = team.all_reduce(np.atleast_1d(np.array(x, dtype=float)))
            return total if np.ndim(x) else total.item()

        args = parts[team.rank].copy(), steps, add
        (given,) = call(lambda *args: [answer(*args)], *args, passing=(TransportError,))
        if len(team.calls) > steps + 1:
            raise NotYet(f"call add at most {steps + 1} times; it was called {len(team.calls)}")
        if any(made.numbers > whole.shape[0] ** 2 for made in team.calls):
            raise NotYet("add a product of rows by rows, not the matrix: that would be a gather")
        return given

    return record_team(program, P, arrays=True)


def judge_columns(answer: Callable, P: int, reference: Callable) -> None:
    """Raise `NotYet` unless the columns of P ranks are those of the ``reference`` on the whole."""
    draw = np.random.default_rng(22)
    for (rows, columns), steps in (((3, 8), 1), ((4, 16), 5), ((5, 9), 2)):
        whole = draw.normal(size=(rows, columns))
        right = np.array_split(reference(whole, steps, lambda x: x), P, axis=1)
        apart = [reference(part, steps, lambda x: x) for part in np.array_split(whole, P, axis=1)]
        for rank, given in enumerate(_run_columns(answer, whole, steps, P)):
            if P > 1 and np.shape(given) == right[rank].shape and np.allclose(given, apart[rank]):
                raise NotYet("that is the update of a rank's columns by themselves: another one")
            same_array(given, right[rank], f"{rows} x {columns}, {steps} steps, rank {rank}", 1e-6)


class Vectors:
    """A rank's collectives for numpy vectors, on a recorded team."""

    def __init__(self, team: RecordedTeam):
        self.rank, self.size, self._team = team.rank, team.size, team

    def reduce_scatter(self, x: Any) -> Any:
        """This rank's part of the sum of all ranks' vectors."""
        return self._team.reduce_scatter(np.array(x, dtype=float))

    def all_gather(self, part: Any) -> Any:
        """All ranks' parts, end to end."""
        return self._team.all_gather(np.array(part, dtype=float))


def _run_step(answer: Callable, mine: list, gradients: Any, where: str) -> list[tuple]:
    """Every rank's weights and velocity after a step of the reader's."""
    n, part = len(mine[0][0]), len(mine[0][1])

    def program(team: RecordedTeam) -> tuple:
        weights, velocity = mine[team.rank]
        own = (values.copy() for values in (weights, gradients[team.rank], velocity))
        given = call(answer, *own, Vectors(team), passing=(TransportError,))
        return items(given, f"{where}: (weights, velocity)", 2), team.calls

    try:
        results = record_team(program, len(mine), arrays=True)
    except Deadlock:
        raise NotYet(f"{where}: some ranks wait in a collective that others never call") from None
    for rank, (given, calls) in enumerate(results):
        _judge_calls(calls, len(mine) * part, part, where)
        for values, name, length in zip(given, ("weights", "a velocity"), (n, part), strict=True):
            if np.shape(values) != (length,):
                raise NotYet(f"{where}: rank {rank} returns {name} of shape {np.shape(values)}")
    return [tuple(np.asarray(values, dtype=float) for values in given) for given, _ in results]


def _judge_calls(calls: list, scattered: int, gathered: int, where: str) -> None:
    names = [call.operation.replace("-", "_") for call in calls]
    if names != ["reduce_scatter", "all_gather"]:
        wanted = "one reduce_scatter of gradients, then one all_gather of weights"
        raise NotYet(f"{where}: a step needs {wanted}; it calls {', '.join(names) or 'neither'}")
    if [call.numbers for call in calls] != [scattered, gathered]:
        raise NotYet(f"{where}: fill up to the next multiple; each rank hands out what it owns")


def _same_weights(given: Any, right: Any, before: Any, P: int, where: str) -> None:
    """Raise `NotYet` unless the weights after a step are ``right``; ``before`` are the old ones."""
    if np.allclose(given, right, rtol=1e-9, atol=1e-12):
        return
    if np.allclose(given - before, P * (right - before), rtol=1e-6):
        raise NotYet(f"{where}: the update is too large by the number of ranks: the mean, please")
    raise NotYet(f"{where}: the weights are not those of one process after the update")


def judge_step(answer: Callable, P: int) -> None:
    """Raise `NotYet` unless three steps on P ranks end with the weights of one process."""
    draw = np.random.default_rng(21)
    for n in (5, 4, 13, 2):
        part, plain, v = -(-n // P), draw.normal(size=n), np.zeros(n)
        mine = [(plain.copy(), np.zeros(part)) for _ in range(P)]
        for _ in range(3):
            before, gradients = plain, draw.normal(size=(P, n))
            v = 0.9 * v + gradients.mean(axis=0)
            plain = before - 0.1 * v
            mine = _run_step(answer, mine, gradients, f"{n} weights")
            for rank, (weights, _) in enumerate(mine):
                _same_weights(weights, plain, before, P, f"{n} weights, rank {rank}")
