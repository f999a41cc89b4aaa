"""Every property is tried on the same examples in every run: a failure can be repeated.

`--examples N` tries more of them, `--hypothesis-seed N` others.
"""

import pytest
from hypothesis import Phase, given, settings
from site_server import served_site

from dtlib.runtime import launch

# It has no doctests, and by the time they are looked for a folder's own conftest has its name.
# The scripts are programs of a user: they are run, never imported.
collect_ignore = ["conftest.py", "composition/planner/scripts"]


def pytest_addoption(parser):
    parser.addoption(
        "--examples",
        type=int,
        metavar="N",
        help="random examples of each property (default: few, each suite its own number)",
    )


def pytest_configure(config):
    wanted = config.getoption("examples")
    settings.register_profile(
        "book",
        deadline=None,
        derandomize=config.getoption("hypothesis_seed", None) is None,
        **({} if wanted is None else {"max_examples": wanted}),
    )
    settings.load_profile("book")


@pytest.fixture(scope="module")
def home():
    """The address of the built site."""
    yield from served_site()


@pytest.fixture(scope="module")
def eight():
    """Eight ranks, kept for the tests of a file."""
    with launch(8, timeout=120) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def examples(pytestconfig):
    """`examples(strategy, few)`: a list of so many draws, or of as many as `--examples` says.

    For properties whose examples go to the ranks together, since one run judges them all.
    """

    def draw(strategy, few: int) -> list:
        drawn = []
        wanted = pytestconfig.getoption("examples") or few

        @settings(max_examples=wanted, phases=[Phase.generate], database=None)
        @given(strategy)
        def keep(example):
            drawn.append(example)

        keep()
        return drawn

    return draw
