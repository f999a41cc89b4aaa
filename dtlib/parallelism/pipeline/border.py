"""What crosses a border between two stages, and the header that says it.

A stage gives one tensor, or several. Only the stage knows their shapes and dtypes (under autocast
not even its weights tell), and the rank that receives them needs both. So the first message across
a border comes after a header, one small tensor of whole numbers. The next ones need none: what a
stage makes of inputs of the same shape has the same shape.

The gradients that come back have the shapes and dtypes of what went forward. Whole numbers and
truth values, such as a mask that is passed on, have none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

HEADER = 64
DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


class Layout(NamedTuple):
    """The dtype and the shape of a tensor at a border."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def differentiable(self) -> bool:
        """Whether a gradient comes back for it."""
        return self.dtype.is_floating_point or self.dtype.is_complex

    def empty(self, device) -> torch.Tensor:
        """Memory for such a tensor."""
        return torch.empty(self.shape, dtype=self.dtype, device=device)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


def layouts_of(tensors: Sequence[torch.Tensor]) -> tuple[Layout, ...]:
    """Those of a stage's tensors, in order."""
    return tuple(Layout(x.dtype, tuple(x.shape)) for x in tensors)


def header_of(layouts: Sequence[Layout]) -> torch.Tensor:
    """`HEADER` whole numbers: how many tensors; of each its dtype, dimensions, and shape.

    Raises ValueError for a dtype that no message has, and for more than fits.

    >>> header_of([Layout(torch.float32, (2, 5))])[:5].tolist()
    [1, 1, 2, 2, 5]
    """
    numbers = [len(layouts)]
    for dtype, shape in layouts:
        if dtype not in DTYPES:
            raise ValueError(f"a stage gives a tensor of {dtype}, which is not among {DTYPES}")
        numbers += [DTYPES.index(dtype), len(shape), *shape]
    if len(numbers) > HEADER:
        raise ValueError(
            f"a stage gives {len(layouts)} tensors, whose shapes take {len(numbers)} numbers; a "
            f"header has {HEADER}: join some of them into one"
        )
    return torch.tensor(numbers + [0] * (HEADER - len(numbers)))


def blank_header() -> torch.Tensor:
    """Memory for a header."""
    return torch.zeros(HEADER, dtype=torch.int64)


def read_header(header: torch.Tensor) -> tuple[Layout, ...]:
    """The layouts that a header says.

    >>> layouts = Layout(torch.bfloat16, (2, 3, 4)), Layout(torch.bool, ())
    >>> read_header(header_of(layouts)) == layouts
    True
    """
    count, *numbers = header.tolist()
    layouts = []
    for _ in range(count):
        dtype, dimensions, *numbers = numbers
        layouts.append(Layout(DTYPES[dtype], tuple(numbers[:dimensions])))
        numbers = numbers[dimensions:]
    return tuple(layouts)
