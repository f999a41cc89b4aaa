"""The arithmetic of boxes and runs, held against torch's own slicing and flattening."""

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dtlib.composition.checkpoint.boxes import (
    boxes_of_run,
    common,
    missing_from,
    moved,
    sizes,
    volume,
    whole_box,
    within,
)

SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=4).map(tuple)


def place(box):
    return tuple(slice(*stretch) for stretch in box)


@st.composite
def shapes_and_runs(draw):
    shape = draw(SHAPES)
    start, stop = sorted(draw(st.integers(0, prod(shape))) for _ in range(2))
    return shape, start, stop


@st.composite
def boxes_within(draw, shape):
    ends = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    return tuple(map(tuple, ends))


@st.composite
def shapes_and_boxes(draw, count):
    shape = draw(SHAPES)
    return shape, [draw(boxes_within(shape)) for _ in range(count)]


@given(shapes_and_runs())
def test_the_boxes_of_a_run_are_its_numbers_in_their_order(case):
    shape, start, stop = case
    whole = torch.arange(prod(shape)).view(shape)
    found = [whole[place(box)].reshape(-1) for box in boxes_of_run(shape, start, stop)]
    assert torch.equal(torch.cat([torch.empty(0, dtype=torch.int64), *found]),
                       torch.arange(start, stop))  # fmt: skip
    assert len(found) <= max(1, 2 * len(shape) - 1)


@given(shapes_and_boxes(2))
def test_what_two_boxes_share_is_what_both_mark(case):
    shape, (one, other) = case
    marked = torch.zeros(shape, dtype=torch.int64)
    marked[place(one)] += 1
    marked[place(other)] += 1
    shared = common(one, other)
    assert int((marked == 2).sum()) == (volume(shared) if shared is not None else 0)
    if shared is not None:
        whole = torch.arange(prod(shape)).view(shape)
        assert torch.equal(whole[place(one)][within(shared, one)], whole[place(shared)])
        inner = tuple((s.start, s.stop) for s in within(shared, one))
        assert moved(inner, one) == shared and sizes(inner) == sizes(shared)


@given(shapes_and_boxes(3))
def test_a_hole_is_found_if_there_is_one(case):
    shape, boxes = case
    marked = torch.zeros(shape, dtype=torch.bool)
    for box in boxes:
        marked[place(box)] = True
    hole = missing_from(shape, boxes)
    assert (hole is None) == bool(marked.all())
    assert hole is None or not marked[place(hole)].any()


@pytest.mark.parametrize("parts", [3, 4, 8])
def test_parts_of_torch_chunk_have_no_hole_and_each_is_needed(parts):
    ends = [len(part) for part in torch.arange(13).chunk(parts)]
    boxes = [((sum(ends[:i]), sum(ends[: i + 1])),) for i in range(len(ends))]
    assert missing_from((13,), boxes) is None
    for left_out in boxes:
        assert missing_from((13,), [b for b in boxes if b != left_out]) == left_out


def test_a_run_outside_is_refused():
    with pytest.raises(ValueError, match=r"\(start, stop\) is \(2, 9\), but must be within 0 to 8"):
        list(boxes_of_run((2, 4), 2, 9))
    assert list(boxes_of_run((2, 4), 3, 3)) == [] and whole_box(()) == ()
