"""Two matrices, cut by the reader: the widget shows the library's steps and bytes."""

import pytest

from dtlib.explore import Cuts, Task
from dtlib.explore.kit.still import still
from dtlib.parallelism.tensor.splits import split_steps


def cuts(**options) -> Cuts:
    sizes = {"tokens": 4096, "hidden": 8192, "ffn": 32768}
    return Cuts(**{"title": "Where to cut?"} | sizes | options)


def test_bytes_are_those_of_the_library():
    shown = cuts()
    for case, steps in shown.spec["steps"].items():
        first, second, P = case.split()
        expected = split_steps(first, second, 8192, 32768)
        for step, seen in zip(expected, steps, strict=True):
            sent = [step.sent_bytes(way, int(P), 4096, 2) for way in ("forward", "backward")]
            assert seen["bytes"] == sent
    assert shown.names(first="columns", second="rows", P=8) == {
        "divided": 2,
        "collectives": 1,
        "sent": 4 * 7 / 8 * 4096 * 8192 * 2,
    }


def test_a_second_matrix_by_rows_takes_what_a_first_by_columns_made():
    figure, *_ = still(cuts(), second="rows")["figures"]
    assert "Z: by columns; gelu(Z): by columns; W₂: by rows; Y: summands" in figure
    assert "gelu(Z): every rank has all" in still(cuts())["figures"][0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"first": "diagonal"}, "first: 'diagonal', but must be one of columns, rows, undivided"),
        ({"P": 3}, "P: 3, but must be one of 2, 4, 8"),
        ({"task": Task("", "divided == 2", {})}, "met already at the start"),
        ({"task": Task("", "collectives == 7", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        cuts(**options)
