"""The bucket lab shows the closed form and the simulated queues."""

from itertools import product

import pytest
from scripts import Scripts

from dtlib.efficiency import bucketed_backward, simulate_queues
from dtlib.explore import BucketLab
from dtlib.explore.bucket_lab.bucket_lab import BACKWARDS, GRADIENT, RATES, SHARES, STARTS

STATES = list(product((1, 4, 22), BACKWARDS, STARTS[::2], RATES[::2], SHARES[::2]))


@pytest.fixture(scope="module")
def lab():
    return BucketLab(title="Buckets")


def test_the_script_the_formula_and_the_simulated_queues_agree_in_every_state(lab):
    scripts = Scripts("bucket_lab/model.js")
    for state in STATES[::5]:
        k, backward, start, beta, share = state
        comm = 1e3 * GRADIENT / beta
        names = lab.names(k=k, backward=backward, start=start, beta=beta, share=share)
        shown = {"k": k, "backward": backward, "start": start, "share": share}
        steps = scripts("bucketSteps(state, comm)", comm=comm, state=shown)
        assert steps[-1]["over"] == pytest.approx(names["time"])
        assert steps[-1]["over"] - steps[-1]["ready"] == pytest.approx(names["exposed"])
        spans = simulate_queues(bucketed_backward(k, backward, comm, start, share)).spans
        ends = [s.stop for s in spans if s.lane == "network"]
        assert [step["over"] for step in steps] == pytest.approx(ends)


def test_what_cannot_be_hidden_is_the_last_bucket(lab):
    for k, backward, start, beta, share in STATES:
        names = lab.names(k=k, backward=backward, start=start, beta=beta, share=share)
        assert names["exposed"] >= names["last"] * (1 - 1e-9)


def test_a_start_that_is_no_choice_is_refused():
    with pytest.raises(ValueError, match="k: 7, but must be one of"):
        BucketLab(title="", k=7)
