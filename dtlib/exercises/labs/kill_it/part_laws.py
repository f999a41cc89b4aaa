"""Every number is read once, padding never; and the rest of the ranks goes on as all would."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.judge import call, functions, items
from dtlib.exercises.judges.tensors import close, normal
from dtlib.exercises.labs.kill_it.parts import length, pieces
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.team import record_team
from dtlib.later import torch


def reshard_law(answer: Any) -> None:
    cut, reshard = functions(answer, "pieces(n, P, Q)", "reshard(read, n, P, Q, q)")
    for n, P, Q in _cases():
        _judge_pieces(call(cut, n, P, Q), n, P, Q)
    for n, P, Q in _cases():
        if n < 10**6:
            _judge_reshard(reshard, n, P, Q)


def survivor_law(answer: Callable, P: int) -> None:
    """P ranks wrote, the last of them is lost, and others go on: P - 1, one alone, and P + 1."""
    for n, batch in ((10, 7), (13, 12), (6, 2), (3, 9)):
        for size in dict.fromkeys((P - 1, 1, P + 1)):
            where = f"{n} numbers and {batch} rows, from {P} ranks to {size}: "
            _judge_survivors(answer, n, P, size, batch, where)


def _cases() -> Iterator[tuple[int, int, int]]:
    """Some that are easily drawn, all small ones, and some of which nobody counts the numbers."""
    yield from ((7, 3, 2), (7, 2, 3), (10, 4, 3))
    yield from ((n, P, Q) for n in range(1, 15) for P in range(1, 6) for Q in range(1, 6))
    yield from ((10**9 + 7, 8, 6), (10**9 + 7, 6, 8), (10**9, 1, 7))


def _judge_pieces(given: Any, n: int, P: int, Q: int) -> None:
    where = f"n = {n}, from P = {P} to Q = {Q}"
    rows = items(given, f"{where}: pieces", Q)
    L = length(n, P)
    for q, (row, due) in enumerate(zip(rows, pieces(n, P, Q), strict=True)):
        place = f"{where}: new part {q}"
        found = [_piece(one, place) for one in items(row, place, len(list(row)))]
        for p, start, stop in found:
            _judge_piece(p, start, stop, f"{place} reads ({p}, {start}, {stop})", n, P, L)
        if found == due:
            continue
        if sorted(found) == due:
            raise NotYet(f"{place} reads the right pieces in another order")
        if _numbers(found) == _numbers(due):
            raise NotYet(f"{place} reads {len(found)} pieces: several are one, end to end")
        raise NotYet(f"{place} reads other numbers than it must hold")


def _piece(one: Any, place: str) -> tuple[int, int, int]:
    try:
        p, start, stop = one
        return int(p), int(start), int(stop)
    except (TypeError, ValueError):
        raise NotYet(f"{place}: a piece is (old part, start, stop), got {one!r}"[:200]) from None


def _judge_piece(p: int, start: int, stop: int, what: str, n: int, P: int, L: int) -> None:
    if not 0 <= p < P:
        raise NotYet(f"{what}: there is no such old part")
    if start >= stop:
        raise NotYet(f"{what}: that is nothing")
    if start < 0 or stop > L:
        raise NotYet(f"{what}: outside of that part; positions count from the part's own start")
    if p * L + stop > n:
        raise NotYet(f"{what}: some of that is padding")


def _numbers(row: list) -> Any:
    """What pieces read, with those that lie end to end as one."""
    joined: list[tuple[int, int, int]] = []
    for p, start, stop in row:
        if joined and joined[-1][0] == p and joined[-1][2] == start:
            start = joined.pop()[1]
        joined.append((p, start, stop))
    return joined


class Files:
    """The parts that ranks have written, with NaN for padding, and a count of what is read."""

    def __init__(self, whole: Any, P: int):
        self.n, self.L = len(whole), length(len(whole), P)
        padding = torch.full((P * self.L - self.n,), float("nan"), dtype=whole.dtype)
        self.parts = torch.cat([whole, padding]).view(P, self.L)
        self.reads: Counter = Counter()

    def read(self, p: int, start: int, stop: int) -> Any:
        """The numbers `start` to `stop - 1` of old part p."""
        P = len(self.parts)
        if not (0 <= p < P and 0 <= start < stop <= self.L):
            raise NotYet(f"read({p}, {start}, {stop}): there is no such piece of {P} parts")
        if p * self.L + stop > self.n:
            raise NotYet(f"read({p}, {start}, {stop}): some of that is padding")
        self.reads.update(range(p * self.L + start, p * self.L + stop))
        return self.parts[p, start:stop].clone()

    def judge(self, where: str) -> None:
        """Raise NotYet unless every number was read once."""
        if len(self.reads) < self.n:
            raise NotYet(f"{where}{self.n - len(self.reads)} of the numbers are never read")
        if max(self.reads.values()) > 1:
            raise NotYet(f"{where}some numbers are read {max(self.reads.values())} times")


def _judge_reshard(reshard: Callable, n: int, P: int, Q: int) -> None:
    where = f"n = {n}, from P = {P} to Q = {Q}: "
    whole = normal(n, seed=n)
    files = Files(whole, P)
    found = [call(reshard, files.read, n, P, Q, q) for q in range(Q)]
    for q, part in enumerate(found):
        if not torch.is_tensor(part) or part.shape != (length(n, Q),):
            kind = f"shape {list(part.shape)}" if torch.is_tensor(part) else type(part).__name__
            raise NotYet(f"{where}new part {q} is of {kind}: all are flat and of one length")
        held = max(0, min(length(n, Q), n - q * length(n, Q)))
        if not torch.equal(part[:held], whole[q * length(n, Q) :][:held].to(part.dtype)):
            raise NotYet(f"{where}new part {q} holds other numbers than it must")
        if part[held:].count_nonzero():
            raise NotYet(f"{where}what fills up new part {q} is not zero")
    files.judge(where)


def _judge_survivors(
    answer: Callable, n: int, P: int, size: int, batch: int, where: str, steps: int = 3
) -> None:
    """The weights after some steps on `size` ranks are those of one process with all rows."""
    rows = normal(batch, n, seed=n)
    start = {name: normal(n, seed=seed) for seed, name in enumerate(("weights", "momentum"), 1)}
    files = {name: Files(whole, P) for name, whole in start.items()}
    asked: list[Counter] = [Counter() for _ in range(size)]

    def program(comm):
        def gradient(w, own):
            own = list(own)
            asked[comm.rank].update(own)
            if not own:
                return w * float("nan")
            return mean_gradient(w, rows[own])

        def read(what, *place):
            if what not in files:
                raise NotYet(f"there are 'weights' and 'momentum', got {what!r}")
            return files[what].read(*place)

        return call(answer, comm, read, n, P, gradient, batch, steps)

    found = _run(program, size, where)
    _judge_rows(asked, batch, steps, where)
    for name, one in files.items():
        one.judge(f"{where}of the {name} ")
    for rank, part in enumerate(found):
        if not torch.is_tensor(part) or part.shape != (length(n, size),):
            raise NotYet(f"{where}rank {rank} must return its part of the weights, flat and whole")
    got = torch.cat(found)
    _judge_weights(got, rows, start, steps, where)
    if got[n:].isnan().any() or got[n:].count_nonzero():
        raise NotYet(f"{where}what fills up the last part is no longer zero")


def _run(program: Callable, size: int, where: str) -> list:
    from dtlib.exercises.worlds.world import TransportError

    try:
        return record_team(program, size)
    except (NotYet, TransportError) as wrong:
        raise NotYet(f"{where}{wrong.reason}"[:290]) from None


def _judge_rows(asked: list[Counter], batch: int, steps: int, where: str) -> None:
    """Each row counts once in each step, and no rank has two more than another."""
    total = sum(asked, Counter())
    if set(total) - set(range(batch)):
        raise NotYet(f"{where}a rank asks for rows that are not in the batch")
    if len(total) < batch:
        raise NotYet(f"{where}{batch - len(total)} of the batch's rows belong to no rank")
    if set(total.values()) != {steps}:
        raise NotYet(f"{where}a row must count once in each of the {steps} steps, on one rank")
    counts = [len(one) for one in asked]
    if max(counts) - min(counts) > 1:
        raise NotYet(f"{where}the ranks have {counts} rows: the slowest of them decides")


def mean_gradient(w: Any, rows: Any) -> Any:
    """Of the loss that a step has: the mean over rows x of (1 - tanh(w . x))^2."""
    out = torch.tanh(rows @ w)
    return (-2 * (1 - out) * (1 - out**2)) @ rows / len(rows)


def _judge_weights(got: Any, rows: Any, start: dict, steps: int, where: str) -> None:
    n = len(start["weights"])
    if close(got[:n], trained(start, rows, steps)):
        return
    if got[:n].isnan().any():
        raise NotYet(f"{where}NaN in the weights: a mean over no rows is none, even times zero")
    if close(got[:n], trained(start | {"momentum": 0 * start["momentum"]}, rows, steps)):
        raise NotYet(f"{where}the momentum began at zero: it is a part of the state")
    raise NotYet(f"{where}the rows count otherwise than in the mean of the batch")


def trained(start: dict, rows: Any, steps: int) -> Any:
    """The weights of one process that has all rows."""
    w, m = start["weights"], start["momentum"]
    for _ in range(steps):
        m = 0.9 * m + mean_gradient(w, rows)
        w = w - 0.1 * m
    return w
