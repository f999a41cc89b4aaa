"""The figure of three rulers says what the library says, and its task needs a share."""

import pytest

from dtlib.explore import Rulers, Task
from dtlib.explore.kit.still import still
from dtlib.scaling_laws import at_least, exact_match_of_scale, rise_factor


@pytest.fixture(scope="module")
def widget():
    return Rulers(title="One line, three rulers")


def test_the_points_are_the_librarys_exact_match(widget):
    values = widget.values("all", 20, 0.5)
    for i in (0, 4, 9, 16):
        due = exact_match_of_scale(10 ** (i / 2), answer_loss=2.302585093, fall=0.5, in_a_row=20)
        assert values[i] == pytest.approx(due, rel=1e-6)


def test_a_share_of_a_thousand_answers_is_summed_alike_in_the_page(widget):
    seen = still(widget, metric="most", k=1000)
    values = widget.values("most", 1000, 0.5)
    assert seen["names"]["needed"] == 900
    assert seen["names"]["hidden"] == sum(value * 100 < 3 for value in values)
    assert values[4] == at_least(2.718281828459045 ** (-2.302585092994046 / 10), 900, 1000)


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_no_number_of_answers_in_a_row_does_the_task(widget, k):
    assert 10 ** widget.rise("all", k, 0.5) == pytest.approx(rise_factor(0.5))
    assert widget.rise("all", k, 0.5) > 0.5 >= widget.rise("most", 1000, 0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "best"}, "metric is 'best', but must be one of one, all, most"),
        ({"k": 3}, "k: 3, but must be one of 1, 2, 5"),
        ({"task": Task("", "rise > 1", {})}, "met already"),
        ({"task": Task("", "rise < 0.1", {"k": 100})}, "is not met by its solution"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        Rulers(title="One line, three rulers", **options)
