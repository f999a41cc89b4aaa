"""The offload lab shows the simulation of the library, and its task needs latency."""

from fractions import Fraction
from itertools import accumulate, product

import pytest
from scripts import Scripts

from dtlib.explore import OffloadLab, Task
from dtlib.explore.offload_lab.offload_lab import (
    BUFFERS,
    COMPUTING,
    JITTERS,
    LATENCIES,
    RATIOS,
    SHOWN,
    WINDOW,
    transfers,
)
from dtlib.memory import simulate_offload, streamed_layer_time

STATES = list(product(BUFFERS, RATIOS, JITTERS, LATENCIES))


def widget(**options):
    return OffloadLab(title="Buffers", **options)


@pytest.fixture(scope="module")
def lab():
    return widget()


def state_of(buffers, ratio, jitter, latency):
    return {"buffers": buffers, "ratio": ratio, "jitter": jitter, "latency": latency}


def test_every_stored_run_is_the_library_s_and_the_script_unpacks_it(lab):
    scripts = Scripts("offload_lab/model.js")
    spec = lab.spec
    for state in STATES[::7]:
        b, r, j, latency = (
            values.index(v)
            for values, v in zip((BUFFERS, RATIOS, JITTERS, LATENCIES), state, strict=True)
        )
        fetches = spec["fetches"][r][j]
        assert fetches == transfers(state[1], state[2])[:SHOWN]
        run = simulate_offload(SHOWN, COMPUTING, fetches, alpha=state[3], lookahead=state[0] - 1)
        seen = [i for i in range(SHOWN) if run.began[i] < WINDOW]
        time, *steps = spec["runs"][b][r][j][latency]
        assert [list(accumulate(times)) for times in steps] == [
            [run.began[i] for i in seen],
            [run.start[i] for i in seen],
        ]
        found = scripts(
            "unpackRun(run, fetches, computing, latency)",
            run=[time, *steps], fetches=fetches, computing=COMPUTING, latency=state[3],
        )  # fmt: skip
        assert found["time"] == pytest.approx(lab.time(**state_of(*state)), abs=1e-3)
        for layer in found["layers"]:
            i = layer.pop("i")
            assert layer == {
                name: getattr(run, name)[i] for name in ("began", "left", "ready", "start", "stop")
            }


def test_without_jitter_every_time_is_the_law_exactly(lab):
    for buffers, ratio, jitter, latency in STATES:
        if jitter == 0:
            law = streamed_layer_time(
                Fraction(COMPUTING), Fraction(round(COMPUTING * ratio)), latency, buffers - 1
            )
            assert lab.time(**state_of(buffers, ratio, jitter, latency)) == float(law)


def test_one_more_buffer_never_hurts_and_none_beats_link_or_arithmetic(lab):
    for ratio, jitter, latency in product(RATIOS, JITTERS, LATENCIES):
        times = [lab.time(**state_of(b, ratio, jitter, latency)) for b in BUFFERS]
        assert times == sorted(times, reverse=True)
        assert times[-1] >= COMPUTING - 1e-9


def test_without_jitter_and_latency_the_third_buffer_gains_nothing(lab):
    for ratio in RATIOS:
        two, three = (lab.time(**state_of(b, ratio, 0, 0)) for b in (2, 3))
        assert two == three == max(COMPUTING, COMPUTING * ratio)


def test_the_task_needs_latency(lab):
    assert not any(
        lab.time(**state_of(2, ratio, 0, 0)) >= 1.25 * lab.time(**state_of(3, ratio, 0, 0))
        for ratio in RATIOS
    )


def test_jitter_moves_single_transfers_and_not_their_mean():
    for ratio, jitter in product(RATIOS, JITTERS):
        times = transfers(ratio, jitter)
        assert sum(times) == len(times) * round(ratio * COMPUTING)
        assert len(set(times)) == (2 if jitter else 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"buffers": 9}, "buffers: 9, but must be one of 1, 2"),
        ({"ratio": 0.5}, "ratio: 0.5"),
        ({"latency": -1}, "latency: -1"),
        ({"task": Task("", "time > 0", {})}, "met already"),
        ({"task": Task("", "time < 50", {"buffers": 8})}, "is not met by its solution"),
        ({"task": Task("", "gpus > 1", {})}, "no 'gpus'"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        widget(**options)
