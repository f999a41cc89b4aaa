"""The prefetcher of the page runs as the library's does, and its task can be done."""

from itertools import pairwise

import pytest
from scripts import Scripts

from dtlib.explore import Prefetcher, Task
from dtlib.explore.kit.still import still
from dtlib.explore.prefetcher.prefetcher import DEPTHS, SPREADS, WORKERS
from dtlib.foundations import area_under, count_trace, format_quantity, prefetch

TASK = Task(
    "Bring it above 95 % at spread 2.",
    "spread == 2 and busy >= 0.95 and workers <= 4",
    {"spread": 2, "workers": 4, "depth": 24, "in_order": False},
)


def widget(**options):
    return Prefetcher(2.0, 0.5, title="Feed the GPU", **{"task": TASK} | options)


@pytest.fixture(scope="module")
def scripts():
    return Scripts("prefetcher/model.js")


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("spread", SPREADS)
def test_the_page_runs_the_loader_of_the_library(scripts, spread, in_order):
    feeder = widget(task=None, batches=300)
    for workers in (1, 4, 12):
        for depth in (1, 4, 32):
            state = {"spread": spread, "workers": workers, "depth": depth, "in_order": in_order}
            run = feeder.run(**state)
            fetches = [2.0 * draw for draw in feeder.spec["draws"][SPREADS.index(spread)]]
            batches = scripts(
                "runPrefetch(fetches, 0.5, workers, depth, inOrder)",
                fetches=fetches, workers=workers, depth=depth, inOrder=in_order,
            )  # fmt: skip
            for name in ("asked", "begun", "ready", "taken", "worker"):
                assert [b[name] for b in batches] == pytest.approx(list(getattr(run, name)))
            busy = scripts("busyShare(batches, 0.5)", batches=batches)
            assert busy == pytest.approx(run.busy_fraction, rel=1e-12)


def test_the_trace_of_ready_batches_is_the_library_s(scripts):
    fetches = [3, 1, 4, 1, 5, 9, 2, 6]
    run = prefetch(fetches, 2, 3, 4)
    batches = scripts("runPrefetch(fetches, 2, 3, 4, true)", fetches=fetches)
    whole = scripts("readyTrace(batches, 0, 100)", batches=batches)
    area = sum(n * (b - a) for (a, n), (b, _) in pairwise(whole))
    assert area == area_under(*count_trace(run.ready, run.taken))
    part = scripts("readyTrace(batches, 5, 8)", batches=batches)
    assert part[0][0] == 5 and part[-1][0] == 8


def test_what_is_shown_as_a_stall_is_what_is_not_a_step(scripts):
    fetches = [3, 1, 4, 1, 5, 9, 2, 6]
    run = prefetch(fetches, 2, 2, 2)
    batches = scripts("runPrefetch(fetches, 2, 2, 2, true)", fetches=fetches)
    waits = scripts("stalls(batches, 2)", batches=batches)
    lost = sum(to - start for start, to in waits)
    assert lost == run.stopped - run.started - 2 * len(fetches)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 7}, "workers: 7, but must be one of 1, 2"),
        ({"spread": 3}, "spread: 3"),
        ({"depth": 0}, "depth: 0"),
        ({"task": Task("", "busy > 0", {})}, "met already"),
        ({"task": Task("", "busy > 1", {"workers": 8})}, "is not met by its solution"),
        ({"task": Task("", "gpus > 1", {})}, "no 'gpus'"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        widget(**options)


def test_in_order_no_choice_of_the_sliders_does_the_task():
    feeder = widget()
    best = max(
        feeder.run(spread=2, workers=workers, depth=DEPTHS[-1], in_order=True).busy_fraction
        for workers in WORKERS
    )
    assert best < 0.95


def test_another_part_of_the_run_is_shown_up_to_its_end():
    first, last = (still(widget(), part=part)["figures"][0] for part in (0, 100))
    assert "From 0 s to 40 s" in first and "From 0 s" not in last
    run = widget().run(spread=1, workers=4, depth=4, in_order=True)
    assert f"to {format_quantity(run.stopped, 's', 3)} the GPU" in last
