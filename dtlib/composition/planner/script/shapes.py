"""What a script's forward pass shows of its model: shapes of products, of attention, of tables.

`ScriptShapes` is what is noted; `ShapesSeen` notes it, operation by operation.
"""

from collections import Counter
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class ScriptAttention:
    """Calls of attention on one shape: `width` numbers of a head, `fused` where no score is kept.

    A rank's own: of `tp` ranks that share a layer each has its part of the `heads`.
    """

    sequences: int
    heads: int
    key_heads: int
    tokens: int
    width: int
    fused: bool


@dataclass(frozen=True)
class ScriptShapes:
    """What the forward passes of a step were made of, on one rank.

    `products` have (rows, inner, columns, times) of each matrix product; `attention` pairs of a
    `ScriptAttention` and times; `tables` the shapes of tables that were looked up; `operations`
    the names of all; `dtypes` those of the products.
    """

    products: tuple[tuple[int, int, int, int], ...] = ()
    attention: tuple[tuple[ScriptAttention, int], ...] = ()
    tables: tuple[tuple[int, int], ...] = ()
    operations: tuple[str, ...] = field(default=(), repr=False)
    dtypes: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, plain: dict) -> "ScriptShapes":
        """The shapes of which `dataclasses.asdict` has told."""
        attention = tuple((ScriptAttention(**kind), times) for kind, times in plain["attention"])
        lists = {name: tuple(map(tuple, plain[name])) for name in ("products", "tables")}
        words = {name: tuple(plain[name]) for name in ("operations", "dtypes")}
        return cls(attention=attention, **lists, **words)


class ShapesSeen:
    """Notes the operations of forward passes; `found()` is what they showed."""

    def __init__(self):
        self._products, self._attention = Counter(), Counter()
        self._tables, self._operations, self._dtypes = set(), set(), set()
        self._scores = None

    def note(self, func, args, result) -> None:
        """An operation has been carried out."""
        name = func.overloadpacket.__name__
        self._operations.add(name)
        if name in ("mm", "addmm"):
            left, right = args[-2:]
            self._products[(*left.shape, right.shape[1])] += 1
            self._dtypes.add(str(left.dtype).removeprefix("torch."))
        elif name == "embedding":
            self._tables.add(tuple(args[0].shape))
        elif name.startswith("_scaled_dot_product"):
            query, key, value = (each.shape for each in args[:3])
            self._attention[_attention(query, key[1], value[-1], fused=True)] += 1
        elif name == "_softmax" and result.ndim == 4:
            self._scores = result.shape
        elif name == "bmm" and self._scores is not None:
            self._weighed(*(each.shape for each in args[:2]))

    def _weighed(self, weights: torch.Size, values: torch.Size) -> None:
        """Attention in single steps ends in the product of all its weights with the values."""
        sequences, heads, tokens, keys = self._scores
        if tuple(weights) == (sequences * heads, tokens, keys):
            kind = _attention(self._scores, heads, values[-1], fused=False)
            self._attention[kind] += 1
            self._scores = None

    def found(self) -> ScriptShapes:
        """All that was noted."""
        products = sorted((*shape, times) for shape, times in self._products.items())
        attention = tuple(self._attention.items())
        rest = (tuple(sorted(each)) for each in (self._tables, self._operations, self._dtypes))
        return ScriptShapes(tuple(products), attention, *rest)


def _attention(query, key_heads: int, width: int, fused: bool) -> ScriptAttention:
    return ScriptAttention(query[0], query[1], key_heads, query[2], width, fused)
