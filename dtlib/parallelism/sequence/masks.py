"""Masks: which tokens a token may look at, said of their positions in the whole sequence.

The noun is `Mask`, a function of two positions. However a sequence is shared out, a rank knows the
positions of its queries and of the keys that it meets: that is enough to say what they see, and
whether they see anything, for a block without a pair is skipped. Masks are combined with `&`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dtlib.formulas.require import require, require_count


@dataclass(frozen=True)
class Mask:
    """Who sees whom: true where the token at position q may look at the one at position k.

    Arguments: `sees`, a function of two whole-number tensors, q of the shape (s, 1) and k of the
    shape (1, t); it returns booleans (s, t), or (b, 1, s, t) where the sequences of a batch differ.
    Called with the positions of s queries and t keys. `a & b` allows what both allow.
    A query that sees no key at all gets the result 0 and gives no gradient.

    >>> banded = causal_mask & window_mask(2)
    >>> banded(torch.arange(3), torch.arange(3)).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """

    sees: Callable

    def __call__(self, q_s: torch.Tensor, k_t: torch.Tensor) -> torch.Tensor:
        return self.sees(q_s[:, None], k_t[None, :])

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(lambda q, k: self.sees(q, k) & other.sees(q, k))


causal_mask = Mask(lambda q, k: q >= k)
"""A token sees itself and what stands before it."""


def window_mask(tokens: int) -> Mask:
    """A token sees those that are fewer than so many places away, itself among them.

    With `causal_mask` that is the sliding window: itself and `tokens` - 1 before it.
    Raises ValueError for a window that is not a whole number of at least 1.
    Source: Beltagy et al. 2020.
    """
    require_count("window_mask", tokens=tokens)
    return Mask(lambda q, k: (q - k).abs() < tokens)


def document_mask(document_s: torch.Tensor) -> Mask:
    """A token sees its own document only; one of a negative document, padding, is in none.

    Argument: the document of every position of the whole sequence, (s,), the same on all ranks; or
    (b, s), where the sequences of a batch are packed differently (`document_numbers` makes them).
    Padding sees nothing and is not seen. Raises ValueError for a table of another shape, and for
    positions beyond it.

    >>> whole = torch.arange(3)
    >>> document_mask(torch.tensor([0, 0, -1]))(whole, whole).int()
    tensor([[1, 1, 0],
            [1, 1, 0],
            [0, 0, 0]], dtype=torch.int32)
    """
    document = torch.as_tensor(document_s)
    shape, allowed = tuple(document.shape), "(tokens,) or (sequences, tokens)"
    require(len(shape) in (1, 2), "document_mask", "the shape of document_s", shape, allowed)
    by_sequence = document if document.dim() == 1 else document[:, None]

    def sees(q, k):
        of_q, of_k = (_looked_up(by_sequence, positions) for positions in (q, k))
        return (of_q == of_k) & (of_q >= 0)

    return Mask(sees)


def document_numbers(lengths, seq: int) -> torch.Tensor:
    """The document of each of `seq` positions: 0, 1, ... end to end, then -1 for the padding.

    Arguments: the documents' `lengths`, the differences of what kernels call `cu_seqlens`; `seq`.
    Raises ValueError for lengths that are negative or longer than `seq` together.

    >>> document_numbers([3, 2], seq=6).tolist()
    [0, 0, 0, 1, 1, -1]
    """
    listed = lengths.tolist() if isinstance(lengths, torch.Tensor) else list(lengths)
    fits = all(isinstance(n, int) and n >= 0 for n in listed) and sum(listed) <= seq
    allowed = f"whole numbers from 0 on, {seq} together at the most"
    require(fits, "document_numbers", "lengths", listed, allowed)
    of_tokens = [number for number, length in enumerate(listed) for _ in range(length)]
    return torch.tensor(of_tokens + [-1] * (seq - len(of_tokens)))


def _looked_up(table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    tokens, last = table.shape[-1], int(positions.max())
    require(last < tokens, "document_mask", "a position", last, f"below {tokens}, its tokens")
    return table.to(positions.device)[..., positions]
