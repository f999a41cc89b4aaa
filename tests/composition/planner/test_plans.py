"""A plan is the best of all layouts, and what it says of the others is true."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from dtlib.__main__ import main
from dtlib.composition import plan, rank_memories, step_times
from dtlib.composition.planner import costs as costs_module
from dtlib.composition.planner.command import cluster_of, read_assertion
from dtlib.composition.planner.costs import Costs, Question
from dtlib.composition.planner.plans import Plans
from dtlib.composition.planner.reasons import CHOICES
from dtlib.foundations import Cluster, TransformerSpec, catalog, published_models
from dtlib.layout import Layout
from dtlib.layouts import Layouts

LLAMA, NODES = published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 4)
OF = {"batch": 128, "seq": 8192}
FIELDS = (*CHOICES, "dp")


@pytest.fixture(scope="module")
def plans() -> Plans:
    return plan(LLAMA, NODES, **OF)


def test_the_first_is_the_best_of_all_priced_one_by_one(plans):
    """A loop over the same layouts, each alone, finds the same first one, time and memory."""
    every = [
        *(plans.costs.layouts[i] for i in range(len(plans))),
        *(plans.too_large.layouts[i] for i in range(len(plans.too_large.layouts))),
    ]
    assert len(every) == plans.funnel["rounds"]
    best = None
    for layout in every[::7] + every[:5]:
        alone = Layouts.of([layout], LLAMA.layers)
        seconds = step_times(LLAMA, NODES, alone, **OF)[0]
        held = rank_memories(LLAMA, alone, **OF, recipe="32-bit sums", program="megatron")[0]
        score = seconds * (1.15 if layout.pp > 1 else 1)
        if held <= 0.9 * catalog["h100-sxm"].hbm_bytes and (best is None or score < best[0]):
            best = score, layout, seconds, held
    assert best[1] == plans[0].layout
    assert (plans[0].time, plans[0].memory) == pytest.approx(best[2:], rel=1e-12)


def test_causes_add_up_and_the_order_is_the_score(plans):
    assert sum(plans[3].parts.values()) == pytest.approx(plans[3].time, rel=1e-12)
    scores = plans.question.score(plans.costs)
    assert (np.diff(scores) >= 0).all()
    assert plans.costs.bytes.max() <= plans.question.limit < plans.too_large.bytes.min()


def test_the_pareto_set_is_what_nothing_beats_in_both(plans):
    seconds, held = plans.costs.seconds, plans.costs.bytes
    beaten = np.array(
        [
            ((seconds <= s) & (held <= b) & ((seconds < s) | (held < b))).any()
            for s, b in zip(seconds, held, strict=True)
        ]
    )
    found = plans.pareto
    assert {(one.time, one.memory) for one in found} == set(
        zip(seconds[~beaten], held[~beaten], strict=True)
    )
    assert [one.time for one in found] == sorted(one.time for one in found)


def explained(plans: Plans) -> str:
    """A sentence on each line."""
    return plans[0].explain().replace("\n    ", " ")


def test_rivals_are_the_best_with_another_value(plans):
    said = [line for line in explained(plans).splitlines() if line.startswith("Another ")]
    named = {name for line in said for name in CHOICES if re.search(rf"\b{name}\b.*:", line)}
    here = plans[0].layout
    for name in named:
        rival = next(p.layout for p in plans if getattr(p.layout, name) != getattr(here, name))
        line = next(line for line in said if name in line.split(":")[0])
        told = dict(re.findall(r"(\w+) (\w+)(?:,| is)", line.split(": ", 1)[1].split(" (")[0]))
        told = {name: int(x) if x.isdigit() else x for name, x in told.items() if name in FIELDS}
        assert here | told | {"sequence_parallel": (here | told).tp > 1} == rival
    assert {"tp", "zero", "micro_batch"} <= named


def scaled(plans: Plans, cause: str, factor: float) -> np.ndarray:
    """The scores with one cause so many times as long."""
    parts = dict(plans.costs.parts)
    parts[cause] = parts[cause] * factor
    return plans.question.score(Costs(plans.costs.layouts, parts, plans.costs.bytes))


def place_of(plans: Plans, layout: Layout) -> int:
    layout |= {"sequence_parallel": layout.tp > 1}
    return next(one.place for one in plans if one.layout == layout)


def test_the_factor_of_a_risk_is_where_two_change_places(plans):
    """Just below it the plan is before the other, just above it behind."""
    text = explained(plans)
    risks = re.findall(r"Were (\w+) ([\d.]+) times as long, (.+) would be before it", text)
    assert risks
    for cause, factor, other in risks:
        told = [pair.split() for pair in other.split(", ")]
        changes = {name: int(x) if x.isdigit() else x for name, x in told}
        place, factor = place_of(plans, plans[0].layout | changes), float(factor)
        nearer, beyond = ((1 + sign * (factor - 1)) for sign in (0.9, 1.1))
        first, second = (scaled(plans, cause, k) for k in (nearer, beyond))
        assert first[0] <= first[place] and second[place] < second[0]


def test_why_a_layout_is_not_the_first(plans):
    assert "not legal: the sequences divide among" in plans.why_not(Layout(dp=32, micro_batch=8))
    assert re.search(r"does not fit: .* needs [\d.]+ GB", plans.why_not(Layout(dp=32)))
    slow = plans[len(plans) // 2]
    percent = slow.time / plans[0].time - 1
    assert f"is {percent:.1%} slower" in plans.why_not(slow.layout)
    assert plans.why_not() == f"{plans[0].layout} is as good as the first."
    with pytest.raises(ValueError, match="the ranks of layout is 8, but must be 32"):
        plans.why_not(Layout(dp=8))


def test_what_cannot_be_planned_says_why():
    with pytest.raises(ValueError, match="none of 90 legal layouts fits: the smallest needs"):
        plan(published_models["llama-3.1-405b"], NODES, gpus=2, **OF)
    with pytest.raises(ValueError, match="plan: gpus is 12, but must be at most 32, and below"):
        plan(LLAMA, NODES, gpus=12, **OF)
    with pytest.raises(ValueError, match=r"plan: usable is 1\.5"):
        plan(LLAMA, NODES, usable=1.5, **OF)
    with pytest.raises(ValueError, match=r"plan: margin is 0\.9"):
        plan(LLAMA, NODES, margin=0.9, **OF)
    with pytest.raises(ValueError, match="plan: seq is None"):
        plan(replace(LLAMA, context=None), NODES, batch=8)
    with pytest.raises(ValueError, match="left by the rule 'batch'"):
        plan(LLAMA, NODES, batch=3, seq=8192, micro_batch=(2,))
    with pytest.raises(TypeError, match="spec"):
        plan("llama", NODES, **OF)


def test_sabotage_an_order_without_time_is_found(monkeypatch, plans):
    """With the engine's times turned round, the first is no longer the best one by one."""
    right = costs_module.step_parts
    wrong = lambda *args, **options: {  # noqa: E731
        cause: -seconds for cause, seconds in right(*args, **options).items()
    }
    monkeypatch.setattr(costs_module, "step_parts", wrong)
    assert plan(LLAMA, NODES, **OF)[0].layout != plans[0].layout


def test_the_margin_is_what_a_pipeline_pays():
    free, dear = (plan(LLAMA, NODES, margin=margin, **OF) for margin in (1.0, 100.0))
    first_pipeline = next(i for i, one in enumerate(dear) if one.layout.pp > 1)
    assert all(one.layout.pp == 1 for one in dear[:first_pipeline])
    assert (np.diff(free.costs.seconds) >= 0).all()


RUN = ["plan", "--model", "llama-3-8b", "--gpus", "32", "--gpu", "h100", "--batch", "128"]


def test_a_plan_from_a_terminal(capsys):
    assert main([*RUN, "--json", "--assert", "memory < 75 GB", "mfu > 0.1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seq"] == 8192 and len(told["plans"]) == 5 and told["broken_assertions"] == []
    first = told["plans"][0]
    assert first["seconds"] == pytest.approx(sum(first["parts"].values()))
    assert Layout(**first["layout"]).ranks == 32
    assert main([*RUN, "--why", "micro_batch=16,tp=1,cp=1"]) == 0
    printed = capsys.readouterr().out
    assert "What each rule left" in printed and "is not legal: the sequences divide" in printed


def test_a_plan_is_written_and_read_back(capsys, tmp_path):
    assert main([*RUN, "--write", "megatron"]) == 0
    text = capsys.readouterr().out
    assert "--tensor-model-parallel-size" in text
    file = tmp_path / "run.sh"
    file.write_text(text)
    assert main([*RUN, "--read", "megatron", str(file)]) == 0
    assert "is as good as the first" in capsys.readouterr().out


def test_an_assertion_that_does_not_hold_is_exit_status_1(capsys):
    assert main([*RUN, "--assert", "time < 1 ms"]) == 1
    assert "time < 1 ms does not hold: time of the best layout is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "llama-3-9b"], "--model 'llama-3-9b': not known; near are llama-3-8b"),
        (["--gpu", "h900"], "--gpu 'h900': not in the catalog"),
        (["--gpus", "12"], "--gpus 12: must be below or a multiple of 8"),
        (["--assert", "speed > 3"], "no 'speed' of a plan; there are memory, time"),
        (["--assert", "memory < 3 s"], "memory is in B, but '3 s' is not"),
        (["--software", "paper"], "paper"),
        (["--why", "tp"], "expected fields such as tp=8"),
        (["--why", "width=3"], "no field 'width'"),
        (["--batch", "0"], "batch is 0"),
        (["--write", "paper"], "paper"),
        (["--read", "megatron", "nowhere.sh"], "nowhere.sh"),
        (["--script", "nowhere.py"], "--batch 128: a script has its own; leave it out"),
        (["--why", "tp=3"], "the ranks of layout is 30, but must be 32"),
    ],
)
def test_bad_input_is_exit_status_2_and_one_line(capsys, arguments, said):
    assert main([*RUN, *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("plan: ") and err.count("\n") == 1


def test_nodes_of_a_kind_that_no_vendor_sells_have_a_port_a_gpu():
    cluster = cluster_of("b200", 16)
    assert (cluster.nodes, cluster.node.nics, cluster.node.gpu.name) == (2, 8, "b200-sxm")
    assert read_assertion("mfu >= 0")(type("Any", (), {"mfu": 0.0})()) == ""


def test_a_model_with_one_replica_has_no_stage_of_zero():
    small = TransformerSpec("small", layers=2, hidden=64, heads=4, vocab=128, context=128)
    found = plan(small, NODES, gpus=1, batch=4)
    assert {one.layout.zero for one in found} == {0}
    assert isinstance(found.question, Question)
