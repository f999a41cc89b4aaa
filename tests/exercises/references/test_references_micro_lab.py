"""What the micro-lab's tasks compare with: torch's own buckets, and what edited logs break."""

import pytest

from dtlib.exercises.labs.micro_lab import MINI, _audit, _closed_at
from dtlib.exercises.practice.logs import BUCKETS, OTHER_MODEL, edited_logs
from dtlib.micro_lab import Encoder, encoder_specs
from dtlib.micro_lab.engines import native_bucket_bytes


@pytest.mark.parametrize("cap", [None, 0.25, 1])
def test_buckets_are_filled_as_by_torchs_own_function(cap):
    parameters = list(Encoder(encoder_specs["mini"]).parameters())
    limits = [2**20, 25 * 2**20] if cap is None else [int(cap * 2**20)]
    sizes = [p.nbytes for p in parameters[::-1]]
    assert _closed_at(sizes, limits) == native_bucket_bytes(parameters, cap)


def test_practice_logs_have_the_buckets_of_mini():
    parameters = Encoder(encoder_specs["mini"]).parameters()
    assert sum(BUCKETS) == 4 * MINI
    assert native_bucket_bytes(parameters, 0.25) == list(BUCKETS)


@pytest.mark.parametrize("name", edited_logs())
def test_an_edited_log_breaks_the_claims_that_are_said(name):
    records, broken = edited_logs()[name]
    model = BUCKETS[:5] if name == OTHER_MODEL else BUCKETS
    assert _audit(records, sum(model) // 4, len(model)) == set(broken)
