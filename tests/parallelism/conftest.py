"""What several files of this folder share."""

import pytest

from dtlib.runtime import launch


@pytest.fixture(scope="module")
def four():
    """Four ranks, kept for the tests of a file."""
    with launch(4, timeout=60) as ranks:
        yield ranks
