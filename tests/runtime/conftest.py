"""Ranks to test with."""

import os

import pytest
from processes import rank_processes

from dtlib.runtime import close_pools, launch


@pytest.fixture(scope="module")
def ranks():
    """Four warm ranks, for tests that leave them in order."""
    with launch(4, timeout=60) as ranks:
        yield ranks


@pytest.fixture
def doomed():
    """Four ranks for a test that breaks them; afterwards they work, and no other is left."""
    close_pools()
    with launch(4, timeout=60) as ranks:
        yield ranks
        assert ranks.cell("one = torch.ones(1); dist.all_reduce(one); one.item()") == [4.0] * 4
        assert rank_processes() == set(ranks.run(os.getpid))
