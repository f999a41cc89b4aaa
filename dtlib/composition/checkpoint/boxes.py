"""Which part of a tensor lies where: boxes of half-open intervals, and how they meet.

The nouns:

- **Box**: a stretch (start, stop) along each dimension of a whole tensor. Tensor parallelism has
  boxes, and so have stages and replicas.
- **Run**: a stretch of a tensor that is flattened row by row, as ZeRO cuts it. A run is a few
  boxes, one after the other: the rest of a row, whole rows, the beginning of a row.

With that, to load a checkpoint under another layout is one operation: the intersection of boxes.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from dtlib.formulas.require import require

Box = tuple[tuple[int, int], ...]


def whole_box(shape: Sequence[int]) -> Box:
    """The box of all of a tensor.

    >>> whole_box((2, 3))
    ((0, 2), (0, 3))
    """
    return tuple((0, size) for size in shape)


def sizes(box: Box) -> tuple[int, ...]:
    """The shape of what a box holds.

    >>> sizes(((2, 5), (0, 4)))
    (3, 4)
    """
    return tuple(stop - start for start, stop in box)


def volume(box: Box) -> int:
    """How many numbers a box holds.

    >>> volume(((2, 5), (0, 4))), volume(())
    (12, 1)
    """
    return prod(sizes(box))


def common(one: Box, other: Box) -> Box | None:
    """What two boxes of a tensor share, None if nothing.

    >>> common(((0, 4), (0, 2)), ((3, 6), (1, 9)))
    ((3, 4), (1, 2))
    >>> common(((0, 4),), ((4, 8),)) is None
    True
    """
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return shared if all(start < stop for start, stop in shared) else None


def within(box: Box, outer: Box) -> tuple[slice, ...]:
    """Where a box lies in a tensor that holds the outer one.

    >>> within(((3, 4), (1, 2)), ((3, 6), (0, 9)))
    (slice(0, 1, None), slice(1, 2, None))
    """
    return tuple(
        slice(start - first, stop - first)
        for (start, stop), (first, _) in zip(box, outer, strict=True)
    )


def moved(box: Box, outer: Box) -> Box:
    """The box in the whole tensor of a box that is counted from the outer one's corner.

    >>> moved(((0, 1), (1, 2)), ((3, 6), (0, 9)))
    ((3, 4), (1, 2))
    """
    return tuple(
        (first + start, first + stop) for (start, stop), (first, _) in zip(box, outer, strict=True)
    )


def boxes_of_run(shape: Sequence[int], start: int, stop: int) -> Iterator[Box]:
    """The boxes of the numbers `start` to `stop - 1` of a tensor flattened row by row, in order.

    Each of them lies in one stretch of the run. Raises ValueError for a run that is not inside.

    >>> list(boxes_of_run((4, 3), 2, 10))
    [((0, 1), (2, 3)), ((1, 3), (0, 3)), ((3, 4), (0, 1))]
    """
    inside = 0 <= start <= stop <= prod(shape)
    require(inside, "a run", "(start, stop)", (start, stop), f"within 0 to {prod(shape)}")
    if start == stop:
        return
    if len(shape) <= 1:
        yield ((start, stop),) if shape else ()
        return
    row = prod(shape[1:])
    first, last = -(-start // row), stop // row
    if first > last:  # all of it within one row
        yield from _in_row(shape, last, start - last * row, stop - last * row)
        return
    if start < first * row:
        yield from _in_row(shape, first - 1, start - (first - 1) * row, row)
    if first < last:
        yield ((first, last), *whole_box(shape[1:]))
    if last * row < stop:
        yield from _in_row(shape, last, 0, stop - last * row)


def _in_row(shape: Sequence[int], row: int, start: int, stop: int) -> Iterator[Box]:
    for box in boxes_of_run(shape[1:], start, stop):
        yield ((row, row + 1), *box)


def missing_from(shape: Sequence[int], boxes: Iterable[Box]) -> Box | None:
    """A box of the tensor that none of these boxes has, None if they have all of it.

    Boxes may overlap, as those of copies do.

    >>> missing_from((4, 4), [((0, 4), (0, 2)), ((1, 4), (2, 4))])
    ((0, 1), (2, 4))
    """
    left = [whole_box(shape)]
    for box in dict.fromkeys(boxes):
        left = [rest for one in left for rest in _without(one, box)]
    return next((one for one in left if volume(one)), None)


def _without(one: Box, box: Box) -> Iterator[Box]:
    """The box in boxes, less what it shares with another."""
    shared = common(one, box)
    if shared is None:
        yield one
        return
    for dim, ((start, stop), (a, b)) in enumerate(zip(one, shared, strict=True)):
        for edge in ((start, a), (b, stop)):
            if edge[0] < edge[1]:
                yield (*shared[:dim], edge, *one[dim + 1 :])
