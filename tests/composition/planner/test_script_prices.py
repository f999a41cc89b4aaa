"""What a script's step would take: each collective on its own group, arithmetic at the peak."""

import pytest

from dtlib.collectives.nccl.network import collective_time
from dtlib.composition import script_price
from dtlib.composition.planner.script.reading import ScriptCollective, ScriptReading
from dtlib.foundations import Cluster, catalog
from dtlib.layout import Layout

NODES = Cluster(catalog["dgx-h100"], 2)
EIGHT, ACROSS = tuple(range(8)), (0, 8)


def read(*collectives) -> ScriptReading:
    return ScriptReading(
        "train.py", 16, (), (), collectives, {"parameters": 10**9}, 0, {"forward": 989 * 10**12},
        (1, 8), 1, Layout(tp=8, dp=2), "a mesh",
    )  # fmt: skip


def test_every_collective_is_priced_on_its_group():
    inside = ScriptCollective("all_reduce", 2**20, EIGHT, "bfloat16", "forward")
    across = ScriptCollective("all_gather", 2**24, ACROSS, "bfloat16", "backward")
    price = script_price(read(inside, inside, across), NODES)
    assert price.sending == {
        ("forward", "all_reduce", 8): 2 * collective_time(NODES, "all_reduce", 2**20, 8, 1),
        ("backward", "all_gather", 2): collective_time(NODES, "all_gather", 2**24, 2, 8),
    }
    assert price.computing == pytest.approx(1.0, rel=1e-3) and price.fits


def test_a_group_in_another_place_has_another_price():
    """Two neighbours are on the node's link, two ranks eight apart on ports."""
    near = ScriptCollective("all_gather", 2**24, (0, 1), "bfloat16", "backward")
    far = ScriptCollective("all_gather", 2**24, ACROSS, "bfloat16", "backward")
    prices = [sum(script_price(read(each), NODES).sending.values()) for each in (near, far)]
    assert prices[0] < prices[1] / 2


def test_what_has_no_model_is_said_and_a_rank_alone_sends_nothing():
    alone = ScriptCollective("all_reduce", 2**20, (0,), "bfloat16", "step")
    told = ScriptCollective("broadcast", 2**20, EIGHT, "bfloat16", "forward")
    price = script_price(read(alone, told), NODES)
    assert price.sending == {} and price.unpriced == {"broadcast": 1}
    assert "broadcast" in repr(price) and "1 not priced" in repr(price)


def test_a_cluster_of_other_ranks_is_refused():
    with pytest.raises(ValueError, match="the ranks of cluster is 8, but must be 16"):
        script_price(read(), Cluster(catalog["dgx-h100"], 1))
