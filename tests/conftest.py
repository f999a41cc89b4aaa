"""Every property is tried on the same examples in every run: a failure can be repeated.

With several workers (`--dist loadgroup`), the tests of a file stay on one, which shares what they
set up, unless a test names its own group.
"""

import pytest
from hypothesis import settings

settings.register_profile("book", derandomize=True, deadline=None)
settings.load_profile("book")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
