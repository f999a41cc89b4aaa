"""Softmax as a sum: what is known of an attention row after some of its keys, and how to add.

The nouns:

- **SoftmaxState**: the largest score m, the sum s of exp(score - m), and the same sum o with every
  term times its value. The row's result is o / s.
- **merge**: the state of two disjoint sets of keys together. States with `merge` are a commutative
  monoid; the identity is the state of no keys at all, (-inf, 0, 0).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtlib.collectives.monoid import Monoid


class SoftmaxState(NamedTuple):
    """A partly computed softmax-weighted sum, for any number of rows at once.

    Arguments: `m` and `s`, one number for each row; `o`, one vector for each row. The state means
    the sum s e^m and the weighted sum o e^m; m is only the unit they are counted in.

    >>> scores, values = torch.tensor([1.0, 3.0, 2.0]), torch.tensor([[1.0], [2.0], [4.0]])
    >>> left, right = (SoftmaxState.of(scores[k], values[k]) for k in ([0, 1], [2]))
    >>> left.merge(right).result(), scores.softmax(0) @ values
    (tensor([2.3994]), tensor([2.3994]))
    """

    m: Tensor
    s: Tensor
    o: Tensor

    @classmethod
    def of(cls, scores: Tensor, values: Tensor, exp: Callable = torch.exp) -> "SoftmaxState":
        """The state of some keys: scores (..., rows, keys) or (keys,), values (..., keys, width).

        A key that is masked has the score -inf. The largest score is a unit and not a result, so no
        gradient goes through it.
        """
        m = scores.detach().amax(-1)
        weights = exp(scores - _unit(m)[..., None])
        return cls(m, weights.sum(-1), weights @ values)

    @classmethod
    def identity(cls, like: Tensor, width: int | None = None) -> "SoftmaxState":
        """The state of no keys, for as many rows as `like` has: (..., rows, d).

        `width` is that of a value; without it, that of `like`.
        """
        width = like.shape[-1] if width is None else width
        zero = like.new_zeros(*like.shape[:-1], width)
        return cls(torch.full_like(like[..., 0], -torch.inf), torch.zeros_like(like[..., 0]), zero)

    def merge(self, other: "SoftmaxState", exp: Callable = torch.exp) -> "SoftmaxState":
        """Both sets of keys: bring the two to one unit, then add.

        `exp` is the function that made the states; `torch.exp2` for states counted in powers of 2.
        """
        m = torch.maximum(self.m, other.m)
        a, b = exp(self.m - _unit(m)), exp(other.m - _unit(m))
        o = a[..., None] * self.o + b[..., None] * other.o
        return SoftmaxState(m, a * self.s + b * other.s, o)

    def result(self) -> Tensor:
        """The weighted mean o / s; 0 for a row that has seen no key."""
        return self.o / torch.where(self.s > 0, self.s, 1)[..., None]

    def log_sum(self) -> Tensor:
        """The logarithm of the sum of all exp(score): -inf for a row that has seen no key."""
        return self.m + self.s.log()


def _unit(m: Tensor) -> Tensor:
    """The score to subtract: any number will do where there is none, but -inf - -inf is nan."""
    return torch.where(m.isfinite(), m, 0)


def softmax_monoid(width: int, exp: Callable = torch.exp) -> Monoid:
    """States as entries of a buffer, the rows (m, s, o_1 ... o_width): ready for any all-reduce.

    >>> from dtlib.collectives import tree_all_reduce
    >>> from dtlib.collectives.monoid import emulate_with
    >>> keys = [np.array([[score, 1.0, value]]) for score, value in ((0, 2.0), (1, 4.0))]
    >>> m, s, o = emulate_with(softmax_monoid(1), tree_all_reduce(2), keys)[0][0]
    >>> round(float(o / s), 4)
    3.4621
    """

    def state(rows: np.ndarray) -> SoftmaxState:
        m, s, *o = torch.from_numpy(np.moveaxis(np.array(rows, dtype=float), -1, 0))
        return SoftmaxState(m, s, torch.stack(o, -1))

    def op(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        m, s, o = state(a).merge(state(b), exp)
        return torch.cat([m[..., None], s[..., None], o], -1).numpy()

    return Monoid("softmax-weighted sum", op, np.array([-np.inf, *[0.0] * (1 + width)]))
