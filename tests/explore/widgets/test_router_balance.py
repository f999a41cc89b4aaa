"""The page fills experts as the library does."""

import pytest
from scripts import Scripts

from dtlib.explore import RouterBalance, Task
from dtlib.explore.router_balance.router_balance import CAPACITIES
from dtlib.parallelism import fill_experts


def widget(**options):
    return RouterBalance(title="Who gets how much", **options)


def test_the_page_counts_drops_and_waste_as_the_library_does():
    scripts = Scripts("router_balance/model.js")
    for name, loads in widget().spec["loads"].items():
        experts, k, _ = name.split()
        assert len(loads) == int(experts) and sum(loads) == 4096 * int(k)
        for c in (CAPACITIES[0], CAPACITIES[2], CAPACITIES[-1]):
            found, ours = scripts("fillExperts(l, c)", l=loads, c=c), fill_experts(loads, c)
            assert found["capacity"] == ours.capacity
            for part in ("dropped", "wasted", "busiest"):
                assert found[part] == pytest.approx(getattr(ours, part), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"experts": 7}, "experts: 7, but must be one of 8, 16"),
        ({"capacity_factor": 0.5}, "capacity_factor: 0.5"),
        ({"task": Task("", "dropped < 1", {})}, "met already"),
        ({"task": Task("", "wasted > 1", {"skew": 2})}, "is not met by its solution"),
        ({"task": Task("", "gamma > 1", {})}, "no 'gamma'"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        widget(**options)
