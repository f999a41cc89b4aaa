"""The run of a balancer on the page is the library's, and its task needs the right gamma."""

import pytest

from dtlib.explore import BiasBalance, Task
from dtlib.parallelism import balanced_by_bias


@pytest.fixture(scope="module")
def widget():
    return BiasBalance(title="Move the biases")


def test_what_is_shown_is_the_run_of_the_library(widget):
    run = balanced_by_bias(0.01, steps=301)
    for step in (0, 5, 60, 300):
        assert widget.busiest(gamma=0.01, step=step) == pytest.approx(run[step])
    assert len(str(widget.spec)) < 60_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gamma": 0.5}, "gamma: 0.5, but must be one of 0.0001"),
        ({"step": 3}, "step: 3"),
        ({"task": Task("", "busiest > 1", {})}, "met already"),
        ({"task": Task("", "busiest < 1", {"step": 300})}, "is not met by its solution"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        BiasBalance(title="Move the biases", **options)


def test_no_run_with_a_tenth_does_the_task(widget):
    assert min(widget.busiest(gamma=0.1, step=t) for t in range(0, 301, 5)) > 1.5
