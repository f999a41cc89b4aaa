"""Batches of tokens with the experts that they want, and what their journeys cost."""

from typing import Any, NamedTuple

from dtlib.exercises.judges.tensors import normal
from dtlib.exercises.verdict import NotYet

WIDTH = 5


class Batch(NamedTuple):
    """Tokens of all ranks and their experts; ``name`` says what is special."""

    name: str
    experts: int
    x: list
    expert: list

    def away(self, rank: int) -> tuple[int, int]:
        """Rows that a rank sends to others, and that it gets from others."""
        P = len(self.x)
        homes = [e.flatten() // (self.experts // P) for e in self.expert]
        out = int((homes[rank] != rank).sum())
        return out, sum(int((h == rank).sum()) for r, h in enumerate(homes) if r != rank)


def batches(P: int) -> list[Batch]:
    """On P ranks: uneven shares of tokens, one of them empty, and experts that nobody wants."""
    cases = (
        ("4 tokens each", [4, 4], 4, 4, 2),
        ("uneven shares", [3, 5, 2, 4], 8, 8, 2),
        ("one rank without tokens", [3, 0, 5, 2], 8, 8, 2),
        ("experts that get nothing", [3, 5, 2, 4], 8, 3, 2),
        ("k = 1", [3, 5, 2, 4], 4, 4, 1),
    )
    return [
        Batch(
            name,
            experts,
            [normal(t, WIDTH, seed=r) for r, t in enumerate(tokens)],
            [choose(t, used, k, seed=r) for r, t in enumerate(tokens)],
        )
        for name, tokens, experts, used, k in cases
        if len(tokens) == P
    ]


def same_bytes(where: str, sent: float, right: float, what: str) -> None:
    """Raise NotYet unless exactly these bytes were sent, for ``what``."""
    if sent != right:
        side = "more" if sent > right else "fewer"
        raise NotYet(f"{where}: right, but it sends {side} bytes than {what}")


def choose(tokens: int, used: int, k: int, seed: int):
    """k different experts of the first ``used`` for each token."""
    return normal(tokens, used, seed=seed).argsort(dim=1)[:, :k]


def parts(value: Any, what: str, count: int) -> list:
    """``value`` as a list of ``count`` items, or NotYet with ``what`` and without its tensors."""
    if not isinstance(value, tuple | list):
        raise NotYet(f"{what} must have {count} items, got {type(value).__name__}")
    if len(value) != count:
        raise NotYet(f"{what} must have {count} items in order, got {len(value)}")
    return list(value)
