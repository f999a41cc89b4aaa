"""The board of arrows: the page plays what the placements say, as products of matrices do."""

import itertools
import json

import numpy as np
import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import Arrows, Task
from dtlib.explore.arrows import ARROWS, RANKS

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
    return Scripts("js/arrows_model.js")


@pytest.mark.parametrize(("first", "then"), list(itertools.product(ARROWS, repeat=2)))
def test_the_page_plays_two_collectives_as_the_product_of_their_matrices(model, first, then):
    spec = board().spec
    names = list(ARROWS)
    arrows = [spec["arrows"][names.index(name)] for name in (first, then)]
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
    spec, names = board().spec, list(ARROWS)
    for name, arrow in zip(names, spec["arrows"], strict=True):
        other = names[arrow["adjoint"]]
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
        ({"first": "all-to-all"}, "collective 'all-to-all'; allowed are broadcast, reduce"),
        ({"P": 6}, "P = 6; allowed are 2 to 5"),
        ({"task": Task("", "times == 0", {})}, "is met already at the start"),
        ({"task": Task("", "times > 9", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are all_reduce"),
    ],
)
def test_a_board_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        board(**options)


def test_arrows_are_the_same_on_every_build_and_have_a_figure_for_print():
    first, second = board(task=TASK), board(task=TASK)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert "<td>a</td>" in first.static().html
    assert first._esm.count("export default {") == 1


@pytest.fixture(scope="module")
def tab(browser, tmp_path_factory):
    options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    with opened(browser, tmp_path_factory.mktemp("arrows"), board(task=TASK), **options) as tab:
        yield tab


def says(tab, text):
    tab.wait_for_function(
        "text => document.querySelector('.dt-summary').textContent.includes(text)", arg=text
    )


def test_from_the_keyboard_two_arrows_become_an_all_reduce(tab):
    tab.locator(".dt-reset").click()
    says(tab, "Its transpose is reduce.")
    first, then = (tab.locator("fieldset").nth(i).get_by_role("radio") for i in (0, 1))
    first.nth(list(ARROWS).index("broadcast")).focus()
    for _ in range(list(ARROWS).index("reduce-scatter")):
        tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Tab")
    for _ in range(1 + list(ARROWS).index("all-gather")):
        tab.keyboard.press("ArrowDown")
    says(tab, "Reduce-scatter, then all-gather: together all-reduce.")
    assert tab.locator(".dt-task.is-met").count() == 1
    assert then.nth(1 + list(ARROWS).index("all-gather")).is_checked()
    assert "abcd" in tab.locator("svg.dt-arrows").text_content()


def test_from_the_keyboard_a_chunk_is_followed(tab):
    tab.locator(".dt-reset").click()
    says(tab, "Its transpose is reduce.")
    lines = tab.locator("svg.dt-arrows .dt-arrow-line")
    assert lines.count() == 0
    tab.locator("svg.dt-arrows").focus()
    tab.keyboard.press("ArrowLeft")
    assert lines.count() == 4  # one piece at rank 0, four who get it
    assert tab.locator("svg.dt-arrows .dt-arrow-line.dt-c3").count() == 4
    tab.keyboard.press("ArrowRight")
    assert tab.locator("svg.dt-arrows .dt-arrow-line.dt-c0").count() == 4
    tab.locator(".dt-reset").focus()
    assert lines.count() == 0


def test_the_transpose_turns_the_order_round(tab):
    tab.locator(".dt-reset").click()
    tab.locator("fieldset").nth(0).get_by_label("gather", exact=True).check()
    tab.locator("fieldset").nth(1).get_by_label("broadcast", exact=True).check()
    says(tab, "Gather, then broadcast: together all-gather.")
    tab.get_by_role("button", name="Transpose").click()
    says(tab, "Reduce, then scatter: together reduce-scatter.")
