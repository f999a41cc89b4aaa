"""What is shown: names, numbers and shares in the tables of hardware, prices and weights."""

from dataclasses import replace

import pytest

from dtlib.formulas.units import GB, day, format_quantity, hour, us
from dtlib.foundations import GPU, catalog, published_models
from dtlib.foundations.data.sampling import ShuffleBuffer
from dtlib.machines.axis_order import cluster_levels
from dtlib.machines.fit import fit_alpha_beta
from dtlib.machines.hardware import hardware_table
from dtlib.machines.prices import assumption_table, assumptions

TABLES = """
Links, per direction    | `nvlink4` | 450 GB/s | 1 µs
Links, per direction    | `ib-ndr400` | 50 GB/s | 2 µs
GPUs, dense arithmetic  | `h200-sxm` | 67 TFLOP/s | 494.5 TFLOP/s | 989 TFLOP/s
GPUs, dense arithmetic  | `v100-sxm` | 15.7 TFLOP/s | – | 125 TFLOP/s (no bf16)
GPUs, dense arithmetic  | `rtx-4090` | 82.6 TFLOP/s | 82.6 TFLOP/s | 165.2 TFLOP/s | 330.3 TFLOP/s
Memory                  | `h200-sxm` | 141 GiB | 4.8 TB/s | `nvlink4`
Memory                  | `v100-sxm` | 32 GiB | 897 GB/s | `nvlink2`
Memory                  | `rtx-4090` | 24 GiB | 1.008 TB/s | `pcie4-x16`
As achieved             | `h100-sxm`, bf16 | 989 TFLOP/s | 794.5 TFLOP/s | 80 %
As achieved             | `h100-sxm`, fp8 | 1.979 PFLOP/s | 1.403 PFLOP/s | 71 %
As achieved             | `nvlink4`, one direction | 450 GB/s | 370 GB/s | 82 %
Memories, reading       | `h100-hbm` | 85.9 GB | 348 ns | 3.35 TB/s
Memories, reading       | `nvme-gen4` | 7.68 TB | 80 µs | 6.5 GB/s
Nodes                   | `dgx-h100` | 8 × `h100-sxm` | 8 × `ib-ndr400`
"""
ROWS = [tuple(map(str.strip, row.split("|"))) for row in TABLES.strip().splitlines()]


def shown(title: str, name: str) -> tuple[str, ...]:
    """A row of the table; "Memory" stands for the second half of that of the GPUs."""
    if title == "Memory":
        return (name, *shown("GPUs, dense arithmetic", name)[5:])
    (table,) = [table for table in hardware_table() if table.title == title]
    (row,) = [row for row in table.rows if row[0] == name]
    return row


@pytest.mark.parametrize(("title", "name", "cells"), [(t, n, cells) for t, n, *cells in ROWS])
def test_the_appendix_shows_a_machine_with_the_digits_of_its_data_sheet(title, name, cells):
    assert [*shown(title, name)[1 : len(cells) + 1]] == cells


def test_sabotage_a_rate_of_both_directions_is_seen(monkeypatch):
    def twice(value, unit, digits=2):
        return format_quantity(2 * value, unit, digits)

    monkeypatch.setattr("dtlib.machines.hardware.format_quantity", twice)
    assert shown("Links, per direction", "`nvlink4`")[1] != "450 GB/s"


def test_the_appendix_has_a_row_for_every_entry_and_a_source_for_every_row():
    tables = {table.title: table for table in hardware_table()}
    for title, sources in (
        ("Links, per direction", "Links: where the bandwidth comes from"),
        ("GPUs, dense arithmetic", "GPUs: where it comes from"),
        ("Memories, reading", "Memories: where size and bandwidth come from"),
        ("Nodes", "Nodes: where it comes from"),
    ):
        names = [row[0] for row in tables[title].rows]
        assert names == [row[0] for row in tables[sources].rows]
        assert all(all(row) for row in tables[sources].rows)
    own = {title for title, *_ in ROWS} - {"As achieved", "Memory"}
    listed = {row[0].strip("`") for title in own for row in tables[title].rows}
    assert listed == set(catalog)


def test_prices_are_shown_as_they_are_used():
    rows = {name: cells for name, *cells in assumption_table().rows}
    values = {name: (cells[0], cells[1]) for name, cells in rows.items()}
    assert values == {
        "on demand": ("4 USD/h", "assumed"),
        "spot": ("1.5 USD/h", "assumed"),
        "DeepSeek's rent": ("2 USD/h", "cited"),
        "mean life on spot": ("20 h", "assumed"),
        "checkpoint": ("2 min", "assumed"),
        "restart": ("10 min", "assumed"),
        "GPU power": ("700 W", "cited"),
        "PUE": ("1.2", "assumed"),
        "electricity": ("0.1 USD/kWh", "assumed"),
        "purchase": ("40,000 USD", "assumed"),
        "staff and repairs": ("0.4 USD/h", "assumed"),
    }
    assert assumptions["electricity"].value * 3.6e6 == pytest.approx(0.10)
    assert assumptions["mean life on spot"].value == 20 * hour < day
    assert repr(assumptions["GPU power"]) == "Assumption(GPU power: 700 W, cited)"


GPT_WEIGHTS = """
embedding: tokens
positions: learned positions
attention: query, query bias, key, key bias, value, value bias, output, output bias
feed-forward: feed-forward up, feed-forward up bias, feed-forward down, feed-forward down bias
norms: before attention, before attention bias, before feed-forward, before feed-forward bias
norms: last, last bias
head: vocabulary
"""
DEEPSEEK_WEIGHTS = """
embedding: tokens
attention: query latent, query, key-value latent and rotary key, key and value, output
feed-forward: feed-forward gate, feed-forward up, feed-forward down
router: router
feed-forward: expert gate, expert up, expert down
feed-forward: shared expert gate, shared expert up, shared expert down
norms: before attention, before feed-forward, query latent, key-value latent, last
head: vocabulary
"""


@pytest.mark.parametrize(
    ("model", "names"), [("gpt2", GPT_WEIGHTS), ("deepseek-v3", DEEPSEEK_WEIGHTS)]
)
def test_every_weight_has_its_part_and_its_name(model, names):
    expected = [
        (part, name)
        for part, _, line in (row.partition(": ") for row in names.strip().splitlines())
        for name in line.split(", ")
    ]
    assert [(w.part, w.name) for w in published_models[model].weights()] == expected


def test_the_levels_of_a_cluster_are_what_leaves_a_gpu_a_node_and_a_tapered_pod():
    levels = cluster_levels(catalog["dgx-h100"], pod_nodes=16, taper=4)
    assert [(level.name, level.ranks, level.uplink, level.alpha) for level in levels] == [
        ("GPU", 1, 450 * GB, 1 * us),
        ("node", 8, 8 * 50 * GB, 2 * us),
        ("pod", 128, 16 * 8 * 50 * GB / 4, 2 * us),
    ]
    untapered = cluster_levels(catalog["dgx-h100"], pod_nodes=16, taper=1)
    assert untapered[-1].uplink == 16 * 8 * 50 * GB


def test_a_new_buffer_has_read_and_given_nothing():
    assert ShuffleBuffer(range(9), 3).state == {"read": 0, "given": 0, "held": []}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: replace(catalog["h100-sxm"], clock=0), "clock is 0, but must be a positive"),
        (lambda: replace(catalog["h100-sxm"], sms=0), "sms is 0, but must be a whole number"),
        (lambda: fit_alpha_beta([(1, 1.0), (2, 2.0)], level=1), "level is 1, but must lie between"),
        (lambda: fit_alpha_beta([(1, 1.0), (2, 2.0)], level=0), "level is 0, but must lie between"),
        (lambda: ShuffleBuffer(range(9), 0), "size: 0, but must be at least 1"),
    ],
)
def test_the_borders_of_what_is_allowed_are_outside(call, says):
    assert isinstance(replace(catalog["h100-sxm"], clock=None, sms=None), GPU)
    with pytest.raises(ValueError, match=says):
        call()
