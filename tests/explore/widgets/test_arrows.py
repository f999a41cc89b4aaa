"""The board of arrows: the page plays what the placements say, as products of matrices do."""

import itertools

import numpy as np
import pytest
from page import opened
from scripts import Scripts

from dtlib.drawing.svg import called
from dtlib.explore import Arrows, Task
from dtlib.explore.arrows.arrows import ARROWS, RANKS
from dtlib.explore.kit.still import still

TASK = Task(
    "make it", "all_reduce == 1 and middle == 1",
    {"first": "reduce-scatter", "then": "all-gather"}, "Made.",
)  # fmt: skip


def board(**options) -> Arrows:
    return Arrows(**{"first": "broadcast", "title": "Who holds what?"} | options)


def matrix(primitive, P, chunk):
    """From scratch: everyone who wants the chunk gets the sum over its holders."""
    before, after = (place.table(P, P)[:, chunk] for place in (primitive.before, primitive.after))
    return np.array([[int(wants and holds) for holds in before] for wants in after])


@pytest.fixture(scope="module")
def model():
    return Scripts("arrows/model.js")


@pytest.mark.parametrize(("first", "then"), list(itertools.product(ARROWS, repeat=2)))
def test_the_page_plays_two_collectives_as_the_product_of_their_matrices(model, first, then):
    spec = board().spec
    arrows = [spec["arrows"][name] for name in (first, then)]
    fits = ARROWS[first].after == ARROWS[then].before
    for P in RANKS:
        tables = spec["tables"][str(P)]
        states = model("played(tables, arrows)", tables=tables, arrows=arrows)
        assert (states is not None) == fits
        if not fits:
            assert model("together(tables, arrows)", tables=tables, arrows=arrows) is None
            continue
        times = model("together(tables, arrows).times", tables=tables, arrows=arrows)
        for chunk in range(P):
            product = matrix(ARROWS[then], P, chunk) @ matrix(ARROWS[first], P, chunk)
            counts = [row[chunk] or [0] * P for row in states[-1]]
            assert np.array_equal(counts, product)
            assert product.max() == times


def test_the_transpose_of_every_arrow_is_an_arrow_of_the_board():
    for name, arrow in board().spec["arrows"].items():
        other = arrow["adjoint"]
        for P in RANKS:
            for chunk in range(P):
                pair = matrix(ARROWS[name], P, chunk), matrix(ARROWS[other], P, chunk)
                assert np.array_equal(pair[0], pair[1].T)


def test_a_sum_is_written_with_its_letters(model):
    assert model("letters([1, 0, 1])") == "ac"
    assert model("letters([3, 3, 3])") == "3·abc"
    assert model("letters(null)") == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"first": "all-to-all"}, "first: 'all-to-all', but must be one of broadcast, reduce"),
        ({"P": 6}, "P: 6, but must be one of 2, 3, 4, 5"),
        ({"task": Task("", "times == 0", {})}, "is met already at the start"),
        ({"task": Task("", "times > 9", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are P"),
    ],
)
def test_a_board_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        board(**options)


def test_what_two_are_together_is_said_and_drawn():
    two = still(board(first="reduce-scatter", then="all-gather"))
    assert two["said"] == "Reduce-scatter, then all-gather: together all-reduce."
    assert two["figures"][1].count(">abcd<") == 4 + 16
    none = still(board(first="gather", then="scatter"))["figures"][0]
    assert "stroke-dasharray" not in none
    refused = still(board(first="gather", then="all-gather"))
    assert refused["said"].startswith(
        "No fit: gather leaves the pieces with rank 0, and all-gather"
    )
    assert "stroke-dasharray" in refused["figures"][0] and refused["names"]["times"] == 0


@pytest.mark.parametrize(
    ("state", "name", "brings"),
    [
        (("gather", None), "gather", {"first": "scatter"}),
        (("gather", None), "broadcast", {"then": "broadcast"}),
        (("gather", "broadcast"), "broadcast", {"then": "reduce"}),
        (("gather", "broadcast"), "scatter", {"first": "scatter", "then": None}),
        (("all-reduce", None), "all-reduce", {"then": "all-reduce"}),
    ],
)
def test_a_press_turns_the_last_one_round_or_adds_one_or_begins_anew(state, name, brings):
    widget = board()
    script = widget._esm.replace("export default widget(", "widget(")
    first, then = state
    found = called(
        script, "pressed(spec, { first, then }, name)",
        spec=widget.spec, first=first, then=then, name=name,
    )  # fmt: skip
    assert found == brings


def test_by_keys_two_arrows_become_an_all_reduce_and_a_chunk_is_followed(browser, tmp_path):
    options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    with opened(browser, tmp_path, board(task=TASK, first="reduce-scatter"), **options) as tab:
        tab.get_by_role("button", name="all-gather, from the owners").press("Enter")
        tab.wait_for_selector(".dt-task.is-met")
        assert tab.locator(".dt-way").count() == 0
        tab.get_by_role("button", name="chunk 3").press("Enter")
        assert tab.locator(".dt-widget .dt-way").count() == 4 + 4
        tab.locator(".dt-reset").click()
        assert tab.locator(".dt-task.is-met").count() == 0
