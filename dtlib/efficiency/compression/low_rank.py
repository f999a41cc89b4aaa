"""PowerSGD: a gradient's matrix as a product of two thin ones, which may be added on their way."""

from collections.abc import Sequence

import torch

from dtlib.efficiency.compression.compressor import Compressor, Sent, finite
from dtlib.efficiency.compression.programs import Mean
from dtlib.formulas.require import require


class PowerSGD(Compressor):
    r"""The nearest product of rank r that one step of power iteration finds, from the last one.

    Equation: \(\hat P = \mathrm{orth}(M\,Q)\), \(Q' = M^T \hat P\), \(C(M) = \hat P\,Q'^T\), for
    the mean M of all matrices: both products are linear in M, so their means are all-reduced.
    Linear for a given \(\hat P\), which all ranks have.
    Arguments: `rank` r; `seed` of the first Q, the same on all ranks; `warm`, whether Q' is the
    next Q. A tensor of several dims is a matrix, its first dim against the others; a vector, or a
    matrix that is not larger than its factors, is sent whole, with the first all-reduce.
    Sent: r (m + n) numbers of m n. Source: Vogels et al. 2019.

    >>> M = torch.outer(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]))
    >>> torch.allclose(PowerSGD(rank=1)(M), M)
    True
    """

    linear = True
    settings = ("rank", "seed", "warm")

    def __init__(self, rank: int = 4, seed: int = 0, *, warm: bool = True):
        require(rank >= 1, "PowerSGD", "rank", rank, "a positive number")
        self.rank, self.seed, self.warm = rank, seed, warm
        self.right: list[torch.Tensor] = []

    def rounds(self, flat, shapes):
        """Two all-reduces, of the left factors with what is sent whole, and of the right ones."""
        pieces = flat.split([shape.numel() for shape in shapes])
        matrix = [self._is_matrix(shape) for shape in shapes]
        own = [p.view(s[0], -1) for p, s, m in zip(pieces, shapes, matrix, strict=True) if m]
        whole = [piece for piece, m in zip(pieces, matrix, strict=True) if not m]
        right = self._start(own)
        left = [m @ q for m, q in zip(own, right, strict=True)]
        *left, rest = yield from _means([*left, _end_to_end(whole, flat)])
        left = [torch.linalg.qr(p.float()).Q.to(p.dtype) for p in left]
        mine = [m.T @ p for m, p in zip(own, left, strict=True)]
        means = (yield from _means(mine)) if mine else []
        if all(map(finite, means)):
            self.right = means
        return Sent(
            _joined(matrix, [p @ q.T for p, q in zip(left, means, strict=True)], rest, pieces),
            _joined(matrix, [p @ q.T for p, q in zip(left, mine, strict=True)],
                    _end_to_end(whole, flat), pieces),
        )  # fmt: skip

    def _is_matrix(self, shape: torch.Size) -> bool:
        if len(shape) < 2:
            return False
        m, n = shape[0], shape[1:].numel()
        return self.rank * (m + n) < m * n

    def _start(self, matrices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        sizes = [(m.shape[1], self.rank) for m in matrices]
        if self.warm and [tuple(q.shape) for q in self.right] == sizes:
            return self.right
        draw = torch.Generator().manual_seed(self.seed)
        return [
            torch.randn(size, generator=draw).to(m.device, m.dtype)
            for size, m in zip(sizes, matrices, strict=True)
        ]


def _means(tensors: Sequence[torch.Tensor]):
    """The means of several tensors, in one all-reduce."""
    found = yield Mean(torch.cat([tensor.reshape(-1) for tensor in tensors]))
    pieces = found.split([tensor.numel() for tensor in tensors])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]


def _end_to_end(tensors: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    return torch.cat(list(tensors)) if tensors else like.new_zeros(0)


def _joined(matrix, products, rest, pieces) -> torch.Tensor:
    """Products and what was sent whole, in their order."""
    product = iter(products)
    vector = iter(rest.split([p.numel() for p, m in zip(pieces, matrix, strict=True) if not m]))
    return torch.cat([next(product).reshape(-1) if m else next(vector) for m in matrix])
