"""Shares of a whole: of a dimension among parts, a batch among ranks, a mean among neighbours."""

from typing import Any

from dtlib.exercises.judge import items, number, whole
from dtlib.exercises.verdict import NotYet


def cut(n, parts, even=False):
    """The parts of n as torch.chunk cuts them, or as evenly as can be."""
    length = -(-n // parts)
    if even:
        return [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]
    return [(min(i * length, n), min((i + 1) * length, n)) for i in range(parts)]


def pieces(n, p, q, *, even=False, own=False, empty=False):
    """For each of q new parts the stretches of p old ones that it reads; or what goes wrong."""
    old = cut(n, p, even)
    found = []
    for start, stop in cut(n, q, even):
        overlaps = [(r, max(a, start), min(b, stop)) for r, (a, b) in enumerate(old)]
        kept = [(r, a, b) for r, a, b in overlaps if a < b or empty]
        found.append([(r, a - old[r][0], b - old[r][0]) for r, a, b in kept] if own else kept)
    return found


def same_pieces(given: Any, right: list, n: int, p: int, q: int) -> None:
    """Raise NotYet at the first new part whose stretches are others."""
    for new, (mine, due) in enumerate(zip(items(given, "the result", q), right, strict=True)):
        stretches = [items(one, "a piece", 3) for one in items(mine, f"new part {new}", len(due))]
        if [tuple(whole(x, "an entry") for x in piece) for piece in stretches] != due:
            raise NotYet(f"new part {new}: other pieces than it overlaps, or in another order")


def plan(batch, ranks, *, even=False, equal=False):
    """Rows and weight of each rank's mean; or what goes wrong."""
    rows = [batch // ranks + (not even and rank < batch % ranks) for rank in range(ranks)]
    return [(n, 1 / ranks if equal else n / sum(rows)) for n in rows]


def plan_law(given: Any, right: list, batch: int, ranks: int) -> None:
    """Raise NotYet for rows that are others than the batch, or uneven, or weighted wrongly."""
    shares = [items(one, "a rank's share", 2) for one in items(given, "the plan", ranks)]
    rows = [whole(n, "the rows of a rank") for n, _ in shares]
    if sum(rows) != batch:
        raise NotYet(f"{sum(rows)} rows in all: the global batch has changed")
    if max(rows) - min(rows) > 1:
        raise NotYet("the slowest rank decides: shares must differ by one row at most")
    slips = {1 / ranks: "a mean of means counts the rows of small shares more"}
    for rank, (n, weight) in enumerate(shares):
        of = f"the weight of rank {rank}'s mean"
        number(weight, n / batch, of, tolerance=1e-9, mistakes=slips)


def mixing_of(neighbours: list, *, mine: bool = False) -> list:
    """Two neighbours take the same of each other; with `mine` each takes what suits itself."""
    P = len(neighbours)
    mixing = [[0.0] * P for _ in range(P)]
    for i, row in enumerate(neighbours):
        for j in row:
            both = len(row) if mine else max(len(row), len(neighbours[j]))
            mixing[i][j] = 1 / (1 + both)
        mixing[i][i] = 1 - sum(mixing[i])
    return mixing


def mixes(given: Any, right: list, neighbours: list) -> None:
    """Raise unless the matrix is doubly stochastic and has all neighbours and nobody else."""
    P = len(neighbours)
    rows = [items(row, f"row {i}", P) for i, row in enumerate(items(given, "the matrix", P))]
    if all(
        abs(x - y) < 1e-12
        for row, due in zip(rows, right, strict=True)
        for x, y in zip(row, due, strict=True)
    ):
        return
    for i in range(P):
        number(sum(rows[i]), 1.0, f"the sum of row {i}", tolerance=1e-9)
        for j in range(P):
            near = j in neighbours[i]
            if rows[i][j] < -1e-12 or (near and rows[i][j] <= 0):
                raise NotYet(f"rank {i} must take something of rank {j}, and never less")
            if not near and i != j and rows[i][j]:
                raise NotYet(f"rank {i} hears nothing of rank {j}: they are no neighbours")
    for j in range(P):
        total = sum(row[j] for row in rows)
        if abs(total - 1) > 1e-9:
            raise NotYet(f"column {j} does not add up to 1, so the mean is not kept")
