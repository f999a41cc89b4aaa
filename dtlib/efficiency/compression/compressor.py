"""What a compressor is: a map that makes a vector cheaper to send, and the constants that rate it.

The nouns:

- **Linear**: C(x + y) = C(x) + C(y), so that messages may be added on their way.
- **Contractive**, with constant delta: |C(x) - x|^2 <= (1 - delta) |x|^2 on average.
- **Unbiased**, with constant omega: E C(x) = x and E |C(x) - x|^2 <= omega |x|^2.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from dtlib.efficiency.compression.programs import Gather, Mean, Message, Program, Who, alone


@dataclass(frozen=True)
class Sent:
    """What became of a gradient: the `mean` that all ranks have, and this rank's `own` part of it.

    The mean of all ranks' own parts is `mean`, for every compressor but `TwoWay`.
    """

    mean: torch.Tensor
    own: torch.Tensor


class Compressor:
    """A map of vectors that are cheaper to send. What derives from it says what it sends.

    `linear` says whether its messages may be added on their way; `settings` names what all ranks
    must have alike. A compressor may have a state (a seed's step, a memory), so each bucket of
    gradients has one of its own: `fresh()`.
    """

    linear: ClassVar[bool] = False
    settings: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)
        return f"{type(self).__name__}({said})"

    def program(self, flat: torch.Tensor, shapes: Sequence[torch.Size] = ()) -> Program:
        """One rank's part of a compressed mean; it returns `Sent`.

        Arguments: `flat`, a vector of floats, the same length on all ranks; `shapes`, of the
        tensors that lie end to end in it, for those who look at matrices (none: one vector).
        A vector that holds NaN or an infinity is sent as NaN throughout, so that every rank sees
        it and may skip the step. An empty one sends nothing.
        Raises TypeError for a sparse tensor and for numbers that are no floats.
        """
        flat = _checked(flat)
        if not flat.numel():
            return Sent(flat.clone(), flat.clone())
        if not finite(flat):
            flat = torch.full_like(flat, torch.nan)
        return (yield from self.rounds(flat, shapes or (flat.shape,)))

    def rounds(self, flat: torch.Tensor, shapes: Sequence[torch.Size]) -> Program:
        """The program for a vector that has been looked at."""
        raise NotImplementedError

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """C(x), in the shape of `x`: what would arrive if this were the only rank."""
        return alone(self.program(_checked(x).reshape(-1), (x.shape,))).own.view(x.shape)

    def fresh(self) -> "Compressor":
        """One like this, with a state of its own."""
        return copy.deepcopy(self)


class Dense(Compressor):
    """No compression: the mean as it is.

    >>> Dense()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    linear = True

    def rounds(self, flat, shapes):
        """One all-reduce."""
        return Sent((yield Mean(flat)), flat)


class Gathered(Compressor):
    """A compressor whose messages cannot be added: everyone gets all of them.

    What derives from it has `encode(flat, rank)`, the message, and `add(message, into)`, which adds
    what a message stands for to a vector.
    """

    def encode(self, flat: torch.Tensor, rank: int) -> Message:
        """The message of a vector that is not empty."""
        raise NotImplementedError

    def add(self, message: Message, into: torch.Tensor) -> None:
        """What the message stands for, added to `into`."""
        raise NotImplementedError

    def rounds(self, flat, shapes):
        """One all-gather, then as many additions as there are ranks."""
        rank, P = yield Who()
        message = self.encode(flat, rank)
        total = torch.zeros_like(flat)
        for each in (yield Gather(message)):
            self.add(each, total)
        return Sent(total.div_(P), self.decoded(message, flat))

    def decoded(self, message: Message, like: torch.Tensor) -> torch.Tensor:
        """What a message stands for, as a vector like another."""
        vector = torch.zeros_like(like)
        self.add(message, vector)
        return vector


def linearity_defect(compressor: Compressor, x: torch.Tensor, y: torch.Tensor) -> float:
    """How far C(x + y) is from C(x) + C(y), over |x + y|, each from the same state.

    Zero, up to rounding, for whoever may be all-reduced.

    >>> linearity_defect(Dense(), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    0.0
    """
    of_x, of_y, of_sum = (compressor.fresh()(each) for each in (x, y, x + y))
    return float((of_sum - of_x - of_y).norm() / (x + y).norm())


def contraction(compressor: Compressor, x: torch.Tensor) -> float:
    """Which share of |x|^2 a compressor keeps: delta of one vector, 1 - |C(x) - x|^2 / |x|^2."""
    return 1 - float(((compressor(x) - x).norm() / x.norm()) ** 2)


def moments(
    compressor: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, draws: int
) -> tuple[torch.Tensor, float]:
    """Mean of C(x) and mean of |C(x) - x|^2 / |x|^2 over so many draws: bias and omega of one x."""
    total, square = torch.zeros_like(x), 0.0
    for _ in range(draws):
        found = compressor(x)
        total += found
        square += float(((found - x).norm() / x.norm()) ** 2)
    return total / draws, square / draws


def finite(x: torch.Tensor) -> bool:
    """Whether every number is: the least and the largest show it, in one pass and no memory.

    >>> finite(torch.tensor([1.0, 2.0])), finite(torch.tensor([1.0, torch.nan]))
    (True, False)
    """
    if not x.numel():
        return True
    low, high = x.aminmax()
    return bool(torch.isfinite(low) & torch.isfinite(high))


def _checked(flat: Any) -> torch.Tensor:
    if flat.layout != torch.strided:
        raise TypeError(
            f"a gradient of shape {tuple(flat.shape)} is sparse already, and a compressor takes "
            "dense ones; the module must give such (sparse=False)"
        )
    if not flat.is_floating_point():
        raise TypeError(f"dtype = {flat.dtype}; a compressor takes floats")
    return flat.detach()
