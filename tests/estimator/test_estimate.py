"""An estimate composes formulas, keeps their laws, and is held against published runs."""

import math
from dataclasses import replace
from statistics import mean

import pytest

from dtlib.estimator import estimate
from dtlib.formulas.sheet import Sheet
from dtlib.formulas.units import day, hour
from dtlib.foundations import (
    Cluster,
    TransformerSpec,
    UnitError,
    catalog,
    published_models,
    total,
    training_time,
)
from dtlib.foundations.cost.published_runs import (
    SELENE,
    bloom_run,
    sharded_runs,
    weak_scaling_runs,
)
from dtlib.foundations.roofline.pace import PaceModel, products_time
from dtlib.layout import Layout
from dtlib.memory import model_state_bytes

THIRTY = TransformerSpec("30B", layers=60, hidden=6400, heads=64, vocab=32000, context=4096)
SIXTEEN = Cluster(catalog["dgx-h100"], 16)
SPLIT = {"tp": 2, "pp": 4, "micro_batch": 1, "recompute": "selective"}


def of(**options):
    return estimate(THIRTY, SIXTEEN, **{"batch": 1024} | options)


def test_with_an_mfu_the_step_is_the_work_over_the_useful_rate():
    run = of(zero=3, mfu=0.45)
    work = THIRTY.flops_per_token(4096) * 1024 * 4096
    assert run["step"] == pytest.approx(work / (128 * 989e12 * 0.45))
    matrices = training_time(THIRTY.matmul_params(), 1024 * 4096, 128, 989e12, 0.45)
    assert run["step"] / matrices == pytest.approx(1 + 3 * THIRTY.score_flops(4096) / 6
                                                   / THIRTY.matmul_params())  # fmt: skip


# On paper: every line of two runs, by plain arithmetic and the numbers of the book's cluster.

TOKENS = 1024 * 4096
SCORES = 2 * 4096 * 6400 * 60  # FLOP of a token forward: half of 4 s h in each layer
RING = 0.8 * 50e9, 2e-6  # bytes/s of one port, at the share that collectives reach; seconds


def compared(run, paper):
    """The lines whose value is not that on paper, with both."""
    return {name: (run[name], x) for name, x in paper.items() if run[name] != pytest.approx(x)}


def split_on_paper():
    """tp 2, pp 4, dp 16, two sequences at a time, stages of five parts, scores repeated."""
    port, latency = RING
    m, layers, params = 1024 / (16 * 2), 60, THIRTY.params() / (2 * 4)
    rows, inside = 2 * 4096 * 6400 * 2, 0.8 * 450e9
    products = sum(products_time(THIRTY, 2 * 4096, catalog["h100-sxm"], tp=2)) * m / 4
    attention = 4 * SCORES * TOKENS / (128 * 989e12 * 0.4)
    kept = 2 * 4096 * 6400 * (10 + 24 / 2) * layers
    streams = 8 * THIRTY.activation_bytes(4096, 2, 2) * m / 4 / (3.35e12 * 0.86)
    gaps = 5e-4 * 3 * 15 * m
    computing = products + attention + streams + gaps
    tensor = 4 * 15 * m * (2 * 1e-6 + rows / inside)
    bubble = 3 / (5 * m) * (computing + tensor)
    sends = 2 * m * (latency + rows / port)
    exchange = 30 * latency + 30 / 16 * 2 * params / (4 * port)
    exposed = exchange - 0.5 * exchange
    step = computing + tensor + bubble + sends + exposed
    work = (6 * THIRTY.matmul_params() + 3 * SCORES) * TOKENS
    return {
        "rank_params": params, "m": m, "state": 16 * params, "kept": kept,
        "activations": kept / 4 * (4 * 5 + 3) / 5, "logits": 6 * 2 * 4096 * 32000 / 2,
        "matrix_work": 6 * THIRTY.matmul_params() * TOKENS, "attention_work": 3 * SCORES * TOKENS,
        "work": work, "attention_done": 4 * SCORES * TOKENS, "products": products,
        "attention": attention, "streams": streams, "gaps": gaps, "computing": computing,
        "layer_output": rows, "stage_output": rows, "tensor": tensor, "busy": computing + tensor,
        "bubble": bubble, "sends": sends, "gradients": 2 * params, "exchange": exchange,
        "last_backward": 2 / 3 * computing / m, "exposed": exposed, "step": step,
        "mfu": work / (step * 128 * 989e12), "speed": TOKENS / step,
        "run": 600e9 / TOKENS * step, "cost": 600e9 / TOKENS * step * 128 * 2 / 3600,
    }  # fmt: skip


def sharded_on_paper():
    """128 replicas in stage 3, one sequence at a time, every layer repeated."""
    port, latency = RING
    m, params = 8, THIRTY.params()
    forward, backward = products_time(THIRTY, 4096, catalog["h100-sxm"])
    one_layer = THIRTY.activation_bytes(4096, 1, 1) / 60
    products, attention = (2 * forward + backward) * m, 4 * SCORES * TOKENS / (128 * 989e12 * 0.4)
    streams = 8 * 4 / 3 * 60 * one_layer * m / (3.35e12 * 0.86)
    gaps = 5e-4 * 4 * 60 * m
    computing = products + attention + streams + gaps
    exchange = 3 * m * (60 * 127 * latency + 127 / 128 * 2 * params / (8 * port))
    exposed = exchange - 0.5 * exchange
    memory = {
        "state": 16 * params / 128, "activations": 2 * 4096 * 6400 * 60,
        "logits": 6 * 4096 * 32000, "at_work": one_layer, "gathered": 2 * 2 * params / 60,
    }  # fmt: skip
    return memory | {
        "memory": sum(memory.values()), "products": products, "attention": attention,
        "streams": streams, "gaps": gaps, "computing": computing, "exchange": exchange,
        "exposed": exposed, "step": computing + exposed,
    }  # fmt: skip


COSTS = {"tokens": 600e9, "price": 2 / 3600}
PAPER = [
    (SPLIT | COSTS | {"micro_batch": 2, "interleave": 5}, split_on_paper),
    ({"zero": 3, "recompute": "full"}, sharded_on_paper),
]


@pytest.mark.parametrize(("options", "paper"), PAPER, ids=["split", "sharded"])
def test_every_line_of_a_run_is_what_it_is_on_paper(options, paper):
    assert not compared(of(**options), paper())


def test_sabotage_on_paper_a_third_more_of_the_gaps_is_seen():
    pace = PaceModel(idle=5e-4 * 4 / 3)
    assert {"gaps", "step", "cost"} <= set(compared(of(**PAPER[0][0], pace=pace), split_on_paper()))


def test_a_batch_in_tokens_is_the_same_run_as_in_sequences():
    in_tokens = estimate(THIRTY, SIXTEEN, batch_tokens=1024 * 2048, seq=2048)
    assert dict(in_tokens) == dict(estimate(THIRTY, SIXTEEN, batch=1024, seq=2048))


def test_a_layout_and_its_fields_by_name_are_the_same_run():
    layout = Layout(tp=2, pp=4, zero=1, recompute="selective")
    fields = {"tp": 2, "pp": 4, "zero": 1, "recompute": "selective"}
    assert dict(of(layout=layout)) == dict(of(**fields)) == dict(of(layout=layout.on(128)))
    assert dict(of(layout=layout, tp=4)) == dict(of(**fields | {"tp": 4})) != dict(of(**fields))


def test_to_repeat_everything_is_a_fourth_pass_over_streams_and_gaps():
    run, full = of(), of(recompute="full")
    assert run["touches"] == PaceModel().touches
    for line in ("gaps", "streams"):
        assert full[line] / run[line] == pytest.approx(4 / 3, rel=1e-12)


def test_each_option_of_what_is_kept_has_its_effect():
    """Two ranks share a layer; of flash attention one number of 4 bytes is kept for each row."""
    stream, scores, rows = 4096 * 6400 * 60, 64 * 4096**2 * 60, 64 * 4096 * 60
    plain = (10 + 24 / 2) * stream + 4 * rows / 2
    for options, kept in (
        ({}, plain),
        ({"sequence_parallel": True}, plain - 10 * stream / 2),
        ({"flash": False}, plain + (5 * scores - 4 * rows) / 2),
        ({"recompute": "selective"}, (10 + 24 / 2) * stream),
        ({"recompute": "full"}, 2 * stream),
    ):
        assert of(tp=2, **options)["kept"] == kept


def test_products_and_attention_run_at_the_peak_of_their_type():
    run, narrow = of(), of(dtype="fp8")
    assert (run["peak"], narrow["peak"]) == (989e12, 1979e12)
    assert run["attention"] / narrow["attention"] == pytest.approx(1979 / 989)
    assert narrow["products"] < 0.6 * run["products"]


def test_every_constant_of_the_pace_reaches_its_line():
    slow = PaceModel(attention_fraction=0.2, touches=16, idle=1e-3, line_fraction=0.4)
    run, other = of(zero=3), of(zero=3, pace=slow)
    for line in ("attention", "streams", "gaps"):
        assert other[line] == pytest.approx(2 * run[line])
    assert other["dp_beta"] == run["dp_beta"] / 2 and other["products"] == run["products"]


def test_a_group_leaves_its_node_through_the_ports_of_its_members_there():
    """Of 128 ranks in nodes of eight: how many ports, and how fast with what protocols leave."""
    links = {tp: of(tp=tp).given["dp_beta"] for tp in (1, 2, 8)}
    assert {tp: round(link.value / 0.8 / 1e9, 9) for tp, link in links.items()} == {
        1: 400, 2: 200, 8: 50
    }  # fmt: skip
    assert [link.label for link in links.values()] == [
        f"bandwidth of {name}" for name in ("8 x ib-ndr400", "4 x ib-ndr400", "ib-ndr400")
    ]
    ports = Cluster(replace(catalog["dgx-h100"], nics=16), 16)
    inside = estimate(THIRTY, ports, batch=1024)["dp_beta"]
    assert inside == pytest.approx(0.8 * 450e9), "never faster than inside a node"
    one_node = estimate(THIRTY, Cluster(catalog["dgx-h100"], 1), batch=1024)
    assert one_node.given["dp_alpha"].label == "latency of nvlink4"


def test_thirty_billion_on_128_gpus_hold_a_128th_of_16_bytes_each():
    assert of(zero=3)["state"] == pytest.approx(16 * THIRTY.params() / 128)
    assert model_state_bytes(30e9, 3, 128) == 3.75e9


@pytest.mark.parametrize("options", [{}, {"zero": 3}, SPLIT, {"efficiency": 0.6, **SPLIT}])
def test_the_step_and_the_memory_are_the_sums_of_their_parts(options):
    run = of(**options)
    for name in ("memory", "step"):
        assert run[name] == pytest.approx(sum(run[part] for part in run.lines[name].parts))
        assert sum(run.shares(name).values()) == pytest.approx(1)


@pytest.mark.parametrize("options", [{"zero": 3}, SPLIT, {"efficiency": 0.6, **SPLIT}])
def test_the_mfu_is_the_models_work_over_everything_that_the_step_holds(options):
    run = of(**options)
    rate = 128 * 989e12 * run["step"]
    assert run["mfu"] == pytest.approx(THIRTY.flops_per_token(4096) * 1024 * 4096 / rate)
    assert run["mfu"] < options.get("efficiency", 1)


SECONDS = {"s": 1, "B/s": -1, "FLOP/s": -1, "tok/s": -1}


@pytest.mark.parametrize(
    "options", [{"mfu": 0.4}, {"zero": 3}, SPLIT, {"efficiency": 0.5, **SPLIT}]
)
def test_the_exponents_of_all_that_has_seconds_in_its_unit_add_up_to_those_of_the_result(options):
    """Measure every time in other units, and the step must change as a time does."""
    run = of(**options)
    powers = {name: SECONDS.get(given.unit, 0) for name, given in run.given.items()}
    weighted = sum(powers[name] * x for name, x in run.exponents("step").items())
    assert weighted == pytest.approx(1, abs=1e-6)


def test_sabotage_an_input_that_is_left_out_breaks_that_sum():
    run = of(**SPLIT)
    exponents = run.exponents("step")
    weighted = sum(
        SECONDS.get(run.given[n].unit, 0) * x for n, x in exponents.items() if n != "peak"
    )
    assert weighted != pytest.approx(1, abs=1e-3)


def test_what_work_depends_on_has_exponent_one_and_what_was_forgotten_zero():
    run = of(mfu=0.45, tokens=600e9)
    exponents = run.exponents("run")
    assert exponents["tokens"] == pytest.approx(1) and exponents["mfu"] == pytest.approx(-1)
    assert exponents["batch_tokens"] == pytest.approx(0, abs=1e-6)
    assert "hbm" not in exponents


@pytest.mark.parametrize("name", ["zero", "tp", "pp"])
def test_dividing_more_never_needs_more_memory_for_the_state(name):
    values = {"zero": (0, 1, 2, 3), "tp": (1, 2, 4, 8), "pp": (1, 2, 4)}[name]
    states = [of(**{name: value})["state"] for value in values]
    assert states == sorted(states, reverse=True) and states[0] > states[-1]


def test_a_bubble_is_p_minus_one_over_m_and_interleaving_divides_it():
    assert of(**SPLIT | {"pp": 2}, interleave=2)["bubble"] > 0
    plain, twice = of(**SPLIT), of(**SPLIT, interleave=3)
    assert plain["bubble"] == pytest.approx(3 / plain["m"] * plain["busy"])
    assert plain["bubble"] == pytest.approx(3 * twice["bubble"])


def test_more_overlap_hides_more_and_never_all_that_is_longer_than_the_arithmetic():
    exposed = [of(zero=3, overlap=share)["exposed"] for share in (0, 0.5, 1)]
    assert exposed == sorted(exposed, reverse=True)
    assert exposed[0] == of(zero=3)["exchange"]
    slow = Cluster(SELENE, 16)
    short = estimate(THIRTY, slow, batch=128, seq=256, overlap=1)
    assert short["exposed"] == pytest.approx(short["exchange"] - short["last_backward"])


def test_gpt_3_on_1024_gpus_takes_the_published_34_days():
    """Narayanan et al. 2021, section 5.1: 140 TFLOP/s per GPU, all repeats counted: 34 days."""
    run = estimate(
        published_models["gpt-3"], Cluster(SELENE, 128), batch=1536, tp=8, pp=1, dp=128,
        micro_batch=1, recompute="full", efficiency=140 / 312, tokens=300e9, overlap=1,
    )  # fmt: skip
    days = run["computing"] / run["step"] * run["run"] / day
    assert days == pytest.approx(34, rel=0.02)


def test_llama_2_70b_took_the_gpu_hours_that_45_percent_predict():
    """Touvron et al. 2023, table 2: 1,720,320 GPU-hours on A100s for 2 T tokens."""
    run = estimate(published_models["llama-2-70b"], Cluster(SELENE, 256), batch=1024, seq=4096,
                   tp=8, mfu=0.45, tokens=2e12)  # fmt: skip
    hours = run["run"] * 2048 / hour
    assert 1_720_320 / hours == pytest.approx(1, abs=0.06)


def errors(runs, predict):
    return mean(abs(predict(run) / run.seconds - 1) for run in runs)


def predicted(run):
    return estimate(run.spec, run.cluster, run.layout, batch=run.batch)["step"]


def test_published_parameter_counts_are_those_of_the_specs():
    for run in weak_scaling_runs:
        assert run.spec.params() / 1e9 == pytest.approx(float(run.name.split()[0]), rel=0.03)


def test_on_the_weak_scaling_runs_the_estimate_beats_the_best_single_share_of_the_peak():
    baseline = min(
        errors(weak_scaling_runs, lambda run, share=share / 100: run.baseline(share))
        for share in range(30, 70)
    )
    assert errors(weak_scaling_runs, predicted) < 0.08 < baseline


def through_one_port(run):
    cluster = Cluster(replace(run.node, nics=1), run.cluster.nodes)
    return estimate(run.spec, cluster, run.layout, batch=run.batch)["step"]


def test_border_of_truth_on_sharded_runs_of_2021_the_estimate_loses_to_one_share_of_the_peak():
    ratios = [predicted(run) / run.seconds for run in sharded_runs]
    assert max(ratios) < 0.75 and min(ratios) < 0.3
    assert errors(sharded_runs, predicted) > 0.5 > errors(sharded_runs, lambda r: r.baseline(0.45))


def test_with_the_rate_of_one_port_the_same_constants_explain_the_sharded_runs():
    assert errors(sharded_runs, through_one_port) < 0.08


def test_border_of_truth_one_port_does_not_explain_sharded_runs_of_another_library():
    """MosaicML 2023: 307,209 tokens a second of 13 B parameters on 64 H100s."""
    spec = TransformerSpec("13B", 40, 5120, 40, 50368, tied=True, positions=2048, bias=False,
                           dropout=False)  # fmt: skip
    measured = 128 * 2048 / 307_209
    ratios = [
        estimate(spec, Cluster(replace(catalog["dgx-h100"], nics=ports), 8), batch=128, seq=2048,
                 micro_batch=2, zero=3)["step"] / measured
        for ports in (8, 1)
    ]  # fmt: skip
    assert 0.7 < ratios[0] < 1 and ratios[1] > 2


def test_the_logged_step_of_bloom_lies_between_the_estimate_and_the_baseline():
    """BigScience Workshop 2022, log of the training: 105 s, at 149 TFLOP/s for each GPU."""
    assert bloom_run.seconds == pytest.approx(105.2, abs=0.3)
    assert predicted(bloom_run) < bloom_run.seconds < bloom_run.baseline(0.45)
    assert errors([bloom_run], predicted) < 0.2


def test_stage_3_starts_a_ring_for_every_layer():
    fast, slow = (
        estimate(THIRTY, Cluster(replace(node, nic=replace(node.nic, alpha=alpha)), 16),
                 batch=1024, zero=3)["exchange"]
        for node in [catalog["dgx-h100"]] for alpha in (0, 2e-6)
    )  # fmt: skip
    assert slow - fast == pytest.approx(3 * 8 * 60 * 127 * 2e-6)


BAD = [
    ({"tp": 3}, "tp is 3, but must be a divisor of the ranks, which is 128"),
    ({"pp": 8}, "pp is 8, but must be a divisor of the 60 layers"),
    ({"dp": 64}, "dp is 64, but must be 128: 128 ranks in replicas of 1"),
    ({"batch": 1000}, "batch is 1000, but must be a multiple of dp x micro_batch, which is 128"),
    ({"batch": None}, "batch is None and batch_tokens is None, but exactly one"),
    ({"batch_tokens": 4096}, "batch is 1024 and batch_tokens is 4096, but exactly one"),
    ({"zero": 4}, "zero is 4, but must be a stage: 0, 1, 2 or 3"),
    ({"recompute": "some"}, "recompute is 'some'"),
    ({"mfu": 1.2}, "mfu is 1.2, but must be a share"),
    ({"mfu": 0.4, "efficiency": 0.5}, "give at most one"),
    ({"overlap": 2}, "overlap is 2"),
    ({"dtype": "int3"}, "dtype is 'int3'"),
    ({"micro_batch": 0}, "micro_batch is 0"),
    ({"tokens": -1}, "tokens is -1, but must be a positive number"),
    ({"price": 1.0}, "tokens is None, but must be given, where price is"),
    (
        {"pp": 4, "interleave": 7},
        "interleave is 7, but must be a divisor of the layers of each stage",
    ),
    ({"interleave": 2}, "interleave is 2, but must be 1 where pp is 1"),
    ({"batch": True}, "batch is True, but must be a whole number"),
    ({"batch": None, "batch_tokens": "4e6"}, "batch_tokens is '4e6', but must be a positive mult"),
    ({"batch": None, "batch_tokens": math.nan}, "batch_tokens is nan, but must be a positive"),
    ({"efficiency": 0}, "efficiency is 0, but must be a share above 0, to 1"),
    ({"tokens": 1e12, "price": 0}, "price is 0, but must be a positive number"),
    ({"interleave": 0, "pp": 4}, "interleave is 0, but must be a whole number"),
    ({"seq": 0}, "seq is 0, but must be a whole number"),
    ({"mfu": "45 %"}, "mfu is '45 %', but must be a share"),
    ({"overlap": None}, "overlap is None, but must be a share"),
    ({"zero": True}, "zero is True, but must be a stage"),
    ({"cp": 2}, "estimate: cp is 2, but must be 1: nothing else is counted here"),
    ({"recompute": ["keys"]}, "recompute is .*, but must be 'none', 'selective' or 'full'"),
    ({"tokens": "2T"}, "tokens is '2T', but must be a positive number"),
]
KINDS = [
    ({"flash": "no"}, "flash is 'no', but must be a bool"),
    ({"sequence_parallel": 1}, "sequence_parallel is 1, but must be a bool"),
    ({"layout": {"tp": 2}}, "layout is {'tp': 2}, but must be a Layout"),
    ({"stage": 3}, "no field 'stage'; there are tp, cp, pp, dp, ep, zero"),
    ({"pace": {"idle": 0}}, "pace is {'idle': 0}, but must be a PaceModel"),
]


@pytest.mark.parametrize(("options", "says"), BAD, ids=[says[:24] for _, says in BAD])
def test_bad_input_is_named_with_its_value_and_its_rule(options, says):
    with pytest.raises(ValueError, match=says):
        of(**options)


@pytest.mark.parametrize(("options", "says"), KINDS, ids=[says[:24] for _, says in KINDS])
def test_what_is_of_another_kind_is_named_too(options, says):
    with pytest.raises(TypeError, match=says):
        of(**options)
    with pytest.raises(TypeError, match="spec is 'gpt-3', but must be a TransformerSpec"):
        estimate("gpt-3", SIXTEEN, batch=1024)
    with pytest.raises(TypeError, match=r"cluster is Node.*, but must be a Cluster"):
        estimate(THIRTY, catalog["dgx-h100"], batch=1024)


def test_heads_must_be_divisible_by_the_ranks_that_share_them():
    odd = TransformerSpec("odd", layers=4, hidden=1000, heads=10, vocab=1000, context=512)
    with pytest.raises(ValueError, match="tp is 4, but must be a divisor of heads, which is 10"):
        estimate(odd, SIXTEEN, batch=1024, tp=4)


def test_a_spec_without_context_asks_for_the_length_of_a_sequence():
    spec = TransformerSpec("open", layers=60, hidden=6400, heads=64, vocab=32000)
    with pytest.raises(ValueError, match="seq is None, but must be given, as the spec has no cont"):
        estimate(spec, SIXTEEN, batch=1024)
    given = estimate(spec, SIXTEEN, batch=1024, seq=4096)
    assert given["step"] == of()["step"]


def test_learned_positions_end_somewhere():
    with pytest.raises(ValueError, match="seq is 4096, but must be at most the model's 1024"):
        estimate(published_models["gpt2"], SIXTEEN, batch=128, seq=4096)
    assert estimate(published_models["gpt2"], SIXTEEN, batch=128, seq=1024)["seq"] == 1024


def test_it_prints_as_tables_with_every_line_its_formula_and_the_largest_part():
    text = repr(of(zero=3, tokens=600e9, price=2 / 3600))
    assert text.startswith("30B on 128 x h100-sxm: dp 128, ZeRO stage 3; 1,024 seq")
    assert "model_state_bytes(params=rank_params, zero, dp)" in text
    assert "the largest" in text and "USD" in text and "within 85.9 GB" in text
    page = of(zero=3)._repr_markdown_()
    assert r"$M_\text{state} = 2\,\frac{\Psi}{N_w}" in page and "model_state_bytes" not in page


def test_bytes_and_work_never_meet_in_an_estimate_either():
    run = of(mfu=0.45)
    with pytest.raises(UnitError, match=r"'work' \(FLOP\) and 'memory' \(B\)"):
        Sheet(run.given, run.lines | {"all": total("work", "memory")})


def test_an_interval_of_the_estimate_holds_it():
    run = of(zero=3)
    low, high = run.interval(
        "step", {"products_micro": 1.2, "dp_beta": 1.5, "overlap_fraction": 1.3}
    )
    assert low < run["step"] < high and math.log(high / low) < math.log(1.2**2 * 1.5)
