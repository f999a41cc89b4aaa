"""The layouts that a planner tries are exactly those that the library's own checks let pass."""

from itertools import product
from math import comb

import pytest

from dtlib.composition.planner import legal
from dtlib.composition.planner.legal import (
    RULES,
    Workload,
    broken_rules,
    candidate_layouts,
    factorisations,
    funnel,
    legal_layouts,
)
from dtlib.foundations import MoE, TransformerSpec
from dtlib.layout import Layout, even_stages
from dtlib.memory import rank_memory
from dtlib.parallelism.pipeline import interleaved

DENSE = TransformerSpec("dense", layers=12, hidden=48, heads=24, kv_heads=4, vocab=420, ffn=680)
MIXED = TransformerSpec(
    "mixed", layers=4, hidden=32, heads=8, vocab=64, moe=MoE(experts=6, active=2, ffn=64)
)
CHOICES = {"zero": (0, 1, 3), "micro_batch": (1, 2), "interleave": (1, 2, 3)}


def allowed_by_the_library(work: Workload, layout: Layout) -> bool:
    """Whether account, batch and schedule take it, each by its own checks."""
    try:
        rank_memory(work.spec, layout, seq=work.seq, place=layout.pp - 1)
        m = layout.micro_batches(work.batch)
        if layout.interleave > 1:
            layout.stage_layers(work.spec.layers)
            interleaved(layout.pp, m, layout.interleave)
    except ValueError:
        return False
    experts = work.spec.moe.experts if work.spec.moe else 1
    pieces = layout.tp * layout.cp * (2 if layout.cp > 1 else 1)
    return experts % layout.ep == 0 and work.seq % pieces == 0


def every_layout(spec: TransformerSpec, gpus: int):
    """All of them by loops over numbers, most of which do not multiply to the GPUs."""
    degrees = range(1, gpus + 1)
    experts = range(1, spec.moe.experts + 1) if spec.moe else (1,)
    for tp, pp, cp in product(degrees, degrees, degrees):
        dp, left = divmod(gpus, tp * pp * cp)
        if left or not dp or pp > spec.layers:
            continue
        for ep, zero, v, b in product(experts, (0, 1, 3), (1, 2, 3), (1, 2)):
            same = (v > 1 and pp == 1) or (zero and dp * cp == 1)
            if same or (dp * cp) % ep:
                continue
            for recompute in ("none", "full"):
                uneven = even_stages(spec.layers, pp) if spec.layers % pp else None
                yield Layout(
                    tp=tp, pp=pp, cp=cp, dp=dp, ep=ep, zero=zero, interleave=v, micro_batch=b,
                    sequence_parallel=tp > 1, recompute=recompute, stages=uneven,
                )  # fmt: skip


@pytest.mark.parametrize(
    "work", [Workload(DENSE, 24, 48), Workload(MIXED, 12, 32)], ids=["dense", "experts"]
)
def test_legal_is_what_the_library_lets_pass(work):
    wanted = {x for x in every_layout(work.spec, 12) if allowed_by_the_library(work, x)}
    columns = legal_layouts(work.spec, 12, batch=work.batch, seq=work.seq, **CHOICES)
    found = [columns[i] for i in range(len(columns))]
    assert len(found) == len(set(found))
    assert set(found) == wanted


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.name != "experts"])
def test_every_rule_is_needed(rule, monkeypatch):
    """Without it something passes that the library refuses."""
    work = Workload(DENSE, 24, 120)
    monkeypatch.setattr(legal, "RULES", [other for other in RULES if other is not rule])
    choices = CHOICES | {"interleave": (1, 2, 5)}
    columns = legal_layouts(DENSE, 120, batch=24, seq=120, **choices)
    if rule.name == "layers":
        with pytest.raises(ValueError, match="must be at most 12"):
            [columns[i] for i in range(len(columns))]
        return
    assert not all(allowed_by_the_library(work, columns[i]) for i in range(len(columns)))


def test_ways_to_write_a_power_of_two():
    for k, parts in product((0, 3, 10), (1, 3, 5)):
        ways = list(factorisations(2**k, parts))
        assert len(ways) == len(set(ways)) == comb(k + parts - 1, parts - 1)


def test_a_layout_left_out_breaks_a_rule_and_one_left_in_none():
    work, candidates = Workload(DENSE, 24, 48), candidate_layouts(DENSE, 12, **CHOICES)
    counts, kept = funnel(work, candidates)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    broken = [bool(broken_rules(work, candidates[i])) for i in range(len(candidates))]
    assert broken.count(False) == len(kept) == counts["rounds"]


def test_where_nothing_is_left_the_rule_is_named():
    with pytest.raises(ValueError, match="left by the rule 'batch': the sequences divide"):
        legal_layouts(DENSE, 12, batch=5, seq=48, micro_batch=(2,))
    with pytest.raises(ValueError, match="candidate_layouts: gpus is 0"):
        legal_layouts(DENSE, 0, batch=5, seq=48)
    with pytest.raises(ValueError, match="recompute is 'some'"):
        legal_layouts(DENSE, 8, batch=8, seq=48, recompute=["some"])
