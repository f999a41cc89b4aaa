"""The benchmark of the memory equation: how it reads runs, on rows made up for the purpose."""

from dataclasses import replace

import pytest

from benchmarks.memory import memory_account, memory_nested, runs
from dtlib.foundations import GiB, TransformerSpec
from dtlib.memory import AllocatorModel, rank_memory

LLAMA = {"gated": True, "norm": "rms", "bias": False}
SMALL = TransformerSpec("1B", 16, 2048, 32, 131072, ffn=8192, tied=True, **LLAMA)
ROW = {
    "model": "1B", "nodes": "1", "mbs": "2", "grad_acc": "4", "gbs": "8", "dp": "1", "pp": "4",
    "tp": "2", "zero": "1", "mem_gb": "10.0", "status": "ok", "layers": "16", "hidden": "2048",
    "ffn": "8192", "heads": "32", "seq": "4096", "vocab": "131072",
}  # fmt: skip


@pytest.mark.parametrize("pp", [1, 2, 4, 8, 16])
def test_stages_by_arithmetic_hold_every_layer_once(pp):
    stages = runs.balanced_stages(SMALL, pp)
    assert len(stages) == pp and sum(stages) == SMALL.layers


def test_the_head_counts_as_four_layers_so_the_first_stage_has_three_of_sixteen():
    """20 shares on 8 stages are 2.5 each, and a stage ends once it has more than is due."""
    assert runs.balanced_stages(SMALL, 8) == [3, 3, 2, 3, 2, 3, 0, 0]
    assert runs.balanced_stages(SMALL, 2) == [11, 5]


def test_a_row_becomes_the_arguments_of_the_account():
    (run,) = runs.nanotron([ROW, ROW | {"status": "failed_or_oom", "mem_gb": ""}])
    assert run.spec == SMALL and run.bytes == 10 * GiB
    same = rank_memory(
        SMALL, seq=4096, micro_batch=2, micro_batches=4, tp=2, pp=4, zero=1, recipe="passing",
        stages=runs.balanced_stages(SMALL, 4), sequence_parallel=True,
        allocator=AllocatorModel(),
    )  # fmt: skip
    assert run.account(AllocatorModel()) == same["memory"]


def test_the_fit_finds_constants_that_made_the_runs():
    rows = [ROW | {"tp": tp, "pp": "1", "mbs": mbs} for tp in ("1", "2", "8") for mbs in ("1", "4")]
    true = AllocatorModel(reserve_fraction=0.2, ahead_bytes=3)
    made = []
    for run in runs.nanotron(rows):
        peak = run.account(true)
        made.append(replace(run, bytes=peak))
    share, ahead, missed = memory_account.fit(made)
    assert (share, ahead) == pytest.approx((0.2, 3)) and missed < 1e-12


def test_a_halves_rule_is_fixed_and_splits():
    tried = [run for nodes in range(100) for run in runs.nanotron([ROW | {"nodes": str(nodes)}])]
    halves = [run.fitted for run in tried]
    assert 30 < sum(halves) < 70 and halves == [run.fitted for run in tried]


def test_parts_that_choose_the_terms_themselves_find_the_account_that_made_the_runs():
    """Peaks with 32-bit sums alone and 6 bytes a logit: every part finds that, and misses none."""
    rows = [
        ROW | {"model": model, "tp": tp, "pp": pp, "mbs": mbs, "nodes": tp, "ffn": ffn}
        for model, ffn in (("1B", "8192"), ("3B", "12288"))
        for tp, pp in (("1", "1"), ("2", "4"), ("8", "1"), ("8", "4"))
        for mbs in ("1", "4")
    ]
    made = []
    for run in runs.nanotron(rows):
        options = run.options | {"logit_bytes": 6, "allocator": AllocatorModel(0.2, 3)}
        peak = rank_memory(run.spec, run.layout, **options | {"recipe": "32-bit sums"})["memory"]
        made.append(replace(run, bytes=peak))
    found = list(memory_nested.nested(made))
    assert len(found) >= 6
    for _, _, chosen, own, others in found:
        assert (chosen["passing"], chosen["logits"]) == (0, 6)
        assert own < 1e-12 and (others < 1e-12 or chosen["ahead"] != 3 or not chosen["sequence"])


def test_a_case_of_simumax_says_its_layout_and_the_program_pads_its_tables():
    name = "llama3_70b_l12_tp2_cp4_pp1_dp1_seq32768_mbc4_cef"
    (run,) = runs.simumax([{"case": name, "real_alloc_gib": "68.43"}])
    assert (run.spec.layers, run.spec.vocab) == (12, 128512)
    assert (run.layout.tp, run.layout.cp, run.layout.dp, run.layout.zero) == (2, 4, 1, 1)
    assert run.options["seq"] == 32768 and run.options["program"] == "megatron"
    assert abs(run.account(None) / run.bytes - 1) < 0.001 < abs(run.general() / run.bytes - 1)
