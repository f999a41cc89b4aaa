"""Batches of tokens with the experts that they want, and judges of what is done with them."""

from typing import Any, NamedTuple

from dtlib.exercises.verdict import NotYet

WIDTH, TOLERANCE = 5, 1e-10


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


def batches() -> list[Batch]:
    """Uneven shares of tokens, one of them empty, and experts that nobody wants."""
    cases = (
        ("P = 2", [4, 4], 4, 4, 2),
        ("P = 4", [3, 5, 2, 4], 8, 8, 2),
        ("P = 4, one rank without tokens", [3, 0, 5, 2], 8, 8, 2),
        ("P = 4, experts that get nothing", [3, 5, 2, 4], 8, 3, 2),
        ("P = 4, k = 1", [3, 5, 2, 4], 4, 4, 1),
    )
    return [
        Batch(
            name,
            experts,
            [random((t, WIDTH), seed=r) for r, t in enumerate(tokens)],
            [choose(t, used, k, seed=r) for r, t in enumerate(tokens)],
        )
        for name, tokens, experts, used, k in cases
    ]


def same(found: Any, right: Any, where: str, others: Any = None) -> None:
    """Raise NotYet unless both are equal up to rounding; ``others``: hint -> known wrong value."""
    if found is None:
        raise NotYet(f"{where} is missing: nothing flows back to it")
    if tuple(found.shape) != tuple(right.shape):
        raise NotYet(f"{where} has shape {list(found.shape)}, not {list(right.shape)}")
    if close(found, right):
        return
    for hint, other in (others or {}).items():
        if hint and other.shape == found.shape and close(found, other):
            raise NotYet(f"{where} is wrong: {hint}")
    if not bool(found.isfinite().all()):
        raise NotYet(f"{where} is not finite")
    raise NotYet(f"{where} differs from that of one process")


def close(found: Any, right: Any) -> bool:
    """Equal up to rounding, relative to the largest entry?"""
    if not right.numel():
        return True
    gap = (found.detach().double() - right.detach().double()).abs().max()
    return bool(gap <= TOLERANCE * right.detach().double().abs().max())


def same_calls(where: str, forward: int, backward: int, right_forward: int, right_backward: int):
    """Raise NotYet unless a rank has made so many collectives in each of the two passes."""
    for name, found, right in (
        ("forwards", forward, right_forward),
        ("backwards", backward, right_backward),
    ):
        if found != right:
            much = "more" if found > right else "fewer"
            raise NotYet(f"{where}: right, but {much} collectives {name} than it takes")


def same_bytes(where: str, sent: float, right: float, what: str) -> None:
    """Raise NotYet unless exactly these bytes were sent, for ``what``."""
    if sent != right:
        side = "more" if sent > right else "fewer"
        raise NotYet(f"{where}: right, but it sends {side} bytes than {what}")


def choose(tokens: int, used: int, k: int, seed: int):
    """k different experts of the first ``used`` for each token."""
    return random((tokens, used), seed).argsort(dim=1)[:, :k]


def random(shape, seed: int):
    """Normal numbers in 64 bits, always the same."""
    import torch

    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64)


def tensor(value: Any, rank: int | None = None) -> Any:
    """``value`` if it is a tensor, else NotYet."""
    import torch

    if not isinstance(value, torch.Tensor):
        where = "" if rank is None else f"rank {rank}: "
        raise NotYet(f"{where}{type(value).__name__} where a tensor should be")
    return value


def parts(value: Any, what: str, count: int) -> list:
    """``value`` as a list of ``count`` items, or NotYet with ``what`` and without its tensors."""
    if not isinstance(value, tuple | list):
        raise NotYet(f"{what} must have {count} items, got {type(value).__name__}")
    if len(value) != count:
        raise NotYet(f"{what} must have {count} items in order, got {len(value)}")
    return list(value)
