"""Judge of a loss that is computed a few tokens at a time."""

from collections.abc import Iterator
from typing import Any

from dtlib.exercises.judge import items
from dtlib.exercises.judges.arrays import same_array
from dtlib.later import np


def texts() -> Iterator[tuple[str, tuple]]:
    """Streams, heads and targets, some of which are missing; the last with large logits."""
    draw = np.random.default_rng(15)
    for tokens, size, scale in ((6, 6, 1.0), (7, 3, 1.0), (8, 2, 1.0), (5, 1, 300.0)):
        targets = draw.integers(0, 5, size=tokens)
        targets[1:3] = -100
        args = scale * draw.normal(size=(tokens, 4)), draw.normal(size=(5, 4)), targets, size
        yield f"{tokens} tokens, pieces of {size}", args


def same_pieces(given: Any, right: tuple, *args: Any) -> None:
    """Raise `NotYet` unless loss and gradients are the right ones."""
    for found, wanted, what in zip(
        items(given, "(loss, dx, dweight)", 3),
        right,
        ("the loss", "the gradient of x", "the gradient of weight"),
        strict=True,
    ):
        same_array(found, wanted, what, 1e-9)
