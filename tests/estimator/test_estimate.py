"""An estimate composes formulas, keeps their laws, and is held against published runs."""

import math
import random
from dataclasses import replace
from statistics import mean

import pytest

from dtlib.collectives.nccl.network import collective_time
from dtlib.composition import plan, software_profiles
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
from dtlib.foundations.roofline.pace import product_times
from dtlib.layout import Layout
from dtlib.memory import model_state_bytes, pipeline_memory

THIRTY = TransformerSpec("30B", layers=60, hidden=6400, heads=64, vocab=32000, context=4096)
SIXTEEN = Cluster(catalog["dgx-h100"], 16)
SPLIT = {"tp": 2, "pp": 4, "micro_batch": 1, "recompute": "selective"}


PLAIN = replace(software_profiles["fsdp"], name="plain", unfused=1.0, overlap=0.5, ahead=0.5)


def of(**options):
    return estimate(THIRTY, SIXTEEN, **{"batch": 1024, "software": PLAIN} | options)


LLAMA, EIGHT = published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8)


@pytest.mark.parametrize("software", list(software_profiles))
@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b"])
def test_an_estimate_is_what_the_planner_says_of_the_same_layout(name, software):
    """Every cause and the memory, for layouts of all kinds: there is one engine."""
    spec, dice = published_models[name], random.Random(6)
    plans = plan(spec, EIGHT, batch=512, seq=4096, software=software, usable=1, interleave=(1, 2))
    for place in dice.sample(range(len(plans)), 12):
        plan_of_it = plans[place]
        run = estimate(spec, EIGHT, plan_of_it.layout, batch=512, seq=4096, software=software)
        assert run["step"] == pytest.approx(plan_of_it.time, rel=1e-12)
        assert run["memory"] == pytest.approx(plan_of_it.memory, rel=1e-12)
        assert run["mfu"] == pytest.approx(plan_of_it.mfu, rel=1e-12)
        for cause, seconds in plan_of_it.parts.items():
            assert run.values_at().get(cause, 0.0) == pytest.approx(seconds, rel=1e-9, abs=1e-12)


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
STREAM = 0.86 * 3.35e12  # bytes/s
SHARE = 0.4 * 200 / (200 + 2 * 21)  # of the peak: attention with heads of 100


def compared(run, paper):
    """The lines whose value is not that on paper, with both."""
    return {name: (run[name], x) for name, x in paper.items() if run[name] != pytest.approx(x)}


def passes_on_paper(tokens, tp):
    """Seconds of a micro-batch through all layers, forward and backward, and of both tables."""
    products = product_times(THIRTY, [(tp, 1, tokens)], catalog["h100-sxm"])[:4, 0] / 0.85
    attention = SCORES * tokens / tp / 989e12 / (SHARE * 0.63)
    kept = tokens * 6400 * (10 + 24 / tp) * 60 + tokens * 64 * 4 / tp * 60
    forward = products[0] + attention + 2.5 * kept / STREAM
    backward = products[1] + 2.5 * attention + 2.9 * kept / STREAM
    waits = [
        (gpu**3.5 + (60 * passes * 7.3e-4) ** 3.5) ** (1 / 3.5) - gpu
        for gpu, passes in ((forward, 1), (backward, 2))
    ]
    streams = 4 * 2 * tokens * 6400, 12 * tokens * 32000 / tp
    tables = streams[0] / STREAM, streams[1] / STREAM + products[2] + products[3]
    causes = {
        "products": products[:2], "attention": (attention, 2.5 * attention),
        "streams": (2.5 * kept / STREAM, 2.9 * kept / STREAM), "host": waits,
    }  # fmt: skip
    return causes, tables


def sharded_on_paper():
    """128 replicas in stage 3, one sequence at a time, every layer repeated."""
    m, params = 8, THIRTY.params()
    causes, tables = passes_on_paper(4096, 1)
    micro = {name: 2 * f + b for name, (f, b) in causes.items()}
    stage = sum(micro.values()) + sum(tables)
    layers = params - 2 * 32000 * 6400 - 2 * 6400
    held = layers + 2 * 32000 * 6400
    gather, scatter = (
        60 * collective_time(SIXTEEN, operation, width * held / 60, 128)
        for operation, width in (("all_gather", 2), ("reduce_scatter", 4))
    )
    comm = m * (scatter + 2 * gather)
    exposed = comm - 0.5 * min(comm, m * stage)
    straggling = m * stage * 0.012 * math.sqrt(2 * math.log(128))
    optimizer = 30 * held / 128 / STREAM + 1.4e-3
    one_layer = 4096 * (34 * 6400 + 4 * 64)
    memory = {
        "state": 16 * params / 128, "activations": 2 * 4096 * 6400 * 60,
        "logits": 4096 * (10 * 32000 + 4 * 6400), "repeated": one_layer - 2 * 4096 * 6400,
        "gathered": 2 * 2 * layers / 60,
    }  # fmt: skip
    step = m * stage + exposed + straggling + optimizer
    work = (6 * THIRTY.matmul_params() + 3 * SCORES) * TOKENS
    return memory | {
        "compute": m * (micro["products"] + sum(tables)), "attention": m * micro["attention"],
        "streams": m * micro["streams"], "host": m * micro["host"], "comm": comm,
        "exposed": exposed, "straggling": straggling, "optimizer": optimizer, "step": step,
        "memory": sum(memory.values()), "work": work, "mfu": work / (step * 128 * 989e12),
        "speed": TOKENS / step, "run": 600e9 / TOKENS * step,
        "cost": 600e9 / TOKENS * step * 128 * 2 / 3600,
    }  # fmt: skip


COSTS = {"tokens": 600e9, "price": 2 / 3600}


def test_every_line_of_a_sharded_run_is_what_it_is_on_paper():
    assert not compared(of(zero=3, recompute="full", **COSTS), sharded_on_paper())


def test_a_batch_in_tokens_is_the_same_run_as_in_sequences():
    in_tokens = estimate(THIRTY, SIXTEEN, batch_tokens=1024 * 2048, seq=2048)
    assert dict(in_tokens) == dict(estimate(THIRTY, SIXTEEN, batch=1024, seq=2048))


def test_a_layout_and_its_fields_by_name_are_the_same_run():
    layout = Layout(tp=2, pp=4, zero=1, recompute="selective")
    fields = {"tp": 2, "pp": 4, "zero": 1, "recompute": "selective"}
    assert dict(of(layout=layout)) == dict(of(**fields)) == dict(of(layout=layout.on(128)))
    assert dict(of(layout=layout, tp=4)) == dict(of(**fields | {"tp": 4})) != dict(of(**fields))


def test_sabotage_on_paper_a_host_that_is_twice_as_slow_is_seen():
    slow = replace(PLAIN, layer_host=2 * PLAIN.layer_host)
    run = of(zero=3, recompute="full", software=slow, **COSTS)
    assert {"host", "step", "cost"} <= set(compared(run, sharded_on_paper()))


def test_to_repeat_everything_is_a_second_forward_pass():
    run, full = of(), of(recompute="full")
    for kind in ("products", "attention", "streams"):
        assert full[f"micro_{kind}"] - run[f"micro_{kind}"] == pytest.approx(run[f"f_{kind}"])


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
        assert of(tp=2, **options)["activations"] == kept


def test_products_run_at_the_peak_of_their_type_and_attention_in_16_bits():
    run, narrow = of(), of(dtype="fp8")
    assert (run["peak"], narrow["peak"]) == (989e12, 1979e12)
    assert run["attention"] == narrow["attention"]
    assert narrow["f_products"] < 0.6 * run["f_products"]


def test_every_constant_of_a_profile_reaches_its_line():
    kernels = replace(
        PLAIN.kernels, attention_fraction=0.2, forward_touches=5.0, backward_touches=5.8
    )
    slow = replace(PLAIN, kernels=kernels, layer_host=2 * PLAIN.layer_host)
    run, other = of(zero=3), of(zero=3, software=slow)
    for line in ("attention", "streams", "f_starting"):
        assert other[line] == pytest.approx(2 * run[line])
    assert other["comm"] == run["comm"] and other["compute"] == run["compute"]


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_replicas_exchange_layer_by_layer_as_the_network_model_says(tp):
    """Ranks of one layer have replicas that are `tp` apart: fewer ports for each of them."""
    run = of(tp=tp, zero=3)
    layer = 2 * run["stepped_bytes"] / PLAIN.optimizer_bytes * run["dp"] / 60
    one = collective_time(SIXTEEN, "all_gather", layer, 128 // tp, tp)
    assert run["gathered_time"] == pytest.approx(60 * one, rel=1e-9)


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
        SECONDS.get(run.given[n].unit, 0) * x for n, x in exponents.items() if n != "b_alone"
    )
    assert weighted != pytest.approx(1, abs=1e-3)


def test_sensitivity_has_the_exponents_of_what_is_no_count_the_largest_first():
    run = of(zero=3)
    found, exponents = run.sensitivity("step"), run.exponents("step")
    assert found == {name: exponents[name] for name in found}
    sizes = [abs(x) for x in found.values()]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) > 8
    assert {"b_alone", "overlap_fraction", "sustained"} <= set(found)
    assert not {"m", "layers", "P", "p"} & set(found)
    with pytest.raises(KeyError, match="no line 'steps'"):
        run.sensitivity("steps")


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


def test_a_pipeline_waits_less_where_stages_interleave_and_not_at_all_where_there_is_none():
    assert "bubble" not in of(tp=2)
    plain, parts = of(**SPLIT), of(**SPLIT, interleave=3)
    assert plain["bubble"] > 2 * parts["bubble"] > 0


def test_layers_that_do_not_divide_lie_on_stages_as_evenly_as_can_be():
    """Llama 3.1 405B: 126 layers on 16 stages; the ends have one less, and the tables."""
    spec, cluster = published_models["llama-3.1-405b"], Cluster(catalog["dgx-h100"], 64)
    run = estimate(spec, cluster, tp=8, pp=16, batch=128, seq=8192, sequence_parallel=True)
    assert run.run.layout.stages == (7, *[8] * 14, 7)
    assert "stages of 7 + 14 x 8 + 7 layers" in repr(run)
    assert run["slowest_layers"] >= 8 / 126 * run["micro_time"]
    held = pipeline_memory(spec, run.run.layout, seq=8192, micro_batches=32,
                           recipe="32-bit sums", program="megatron")  # fmt: skip
    assert run["memory"] == max(rank["memory"] for rank in held)


def test_stages_of_ones_own_are_estimated_and_the_largest_decides():
    even, own = (of(pp=2, stages=stages) for stages in ([30, 30], [42, 18]))
    assert own["slowest_stage"] == pytest.approx(
        42 / 60 * own["micro_time"] + own["first_tables"] + own["one_sends"]
    )
    assert own["step"] > 1.3 * even["step"] and own["memory"] > 1.3 * even["memory"]


def test_every_axis_has_its_cause_and_the_step_its_optimizer():
    mixtral = published_models["mixtral-8x7b"]
    run = estimate(mixtral, EIGHT, batch=256, seq=8192, tp=2, cp=2, pp=2, ep=4, zero=1)
    assert {"tensor", "context", "experts", "bubble", "sends", "exchange", "optimizer"} <= set(run)
    assert run["experts_comm"] > 0


def test_a_vocabulary_that_does_not_divide_is_padded_and_the_heading_says_so():
    run = estimate(published_models["gpt-3"], EIGHT, batch=64, tp=8)
    assert run["vocab"] == 51_200 and "51,200 words with padding" in repr(run)
    assert "padding" not in repr(estimate(published_models["gpt-3"], EIGHT, batch=64))


def test_more_overlap_hides_more_and_never_all_that_is_longer_than_the_arithmetic():
    runs = [of(zero=3, overlap=share).values_at() for share in (0, 0.5, 1)]
    exposed = [run.get("exposed", 0) for run in runs]
    assert exposed == sorted(exposed, reverse=True)
    assert exposed[0] == runs[0]["comm"] and exposed[2] == 0
    short = estimate(THIRTY, Cluster(SELENE, 16), batch=128, seq=256, overlap=1)
    assert short["exposed"] == pytest.approx(short["comm"] - short["hiding"])


def test_gpt_3_on_1024_gpus_takes_the_published_34_days():
    """Narayanan et al. 2021, section 5.1: 140 TFLOP/s per GPU, all repeats counted: 34 days."""
    run = estimate(
        published_models["gpt-3"], Cluster(SELENE, 128), batch=1536, tp=8, pp=1, dp=128,
        micro_batch=1, recompute="full", efficiency=140 / 312, tokens=300e9, overlap=1,
    )  # fmt: skip
    days = run["compute"] / run["step"] * run["run"] / day
    assert days == pytest.approx(34, rel=0.02)


def test_llama_2_70b_took_the_gpu_hours_that_45_percent_predict():
    """Touvron et al. 2023, table 2: 1,720,320 GPU-hours on A100s for 2 T tokens."""
    run = estimate(published_models["llama-2-70b"], Cluster(SELENE, 256), batch=1024, seq=4096,
                   tp=8, mfu=0.45, tokens=2e12)  # fmt: skip
    hours = run["run"] * 2048 / hour
    assert 1_720_320 / hours == pytest.approx(1, abs=0.06)


def errors(runs, predict):
    return mean(abs(predict(run) / run.seconds - 1) for run in runs)


def predicted(run, software=None):
    software = software or run.software
    return estimate(run.spec, run.cluster, run.layout, batch=run.batch, software=software)["step"]


def test_published_parameter_counts_are_those_of_the_specs():
    for run in weak_scaling_runs:
        assert run.spec.params() / 1e9 == pytest.approx(float(run.name.split()[0]), rel=0.03)


def test_on_the_weak_scaling_runs_the_estimate_beats_the_best_single_share_of_the_peak():
    baseline = min(
        errors(weak_scaling_runs, lambda run, share=share / 100: run.baseline(share))
        for share in range(30, 70)
    )
    assert errors(weak_scaling_runs, predicted) < 0.02 < 0.08 < baseline


def through_all_ports(run):
    """The same profile, whose rings under ZeRO 3 use one port, with all of them."""
    return predicted(run, replace(software_profiles[run.software], ports=None))


def test_border_of_truth_on_sharded_runs_of_2021_all_ports_lose_to_one_share_of_the_peak():
    ratios = [through_all_ports(run) / run.seconds for run in sharded_runs]
    assert max(ratios) < 0.75 and min(ratios) < 0.3
    baseline = errors(sharded_runs, lambda run: run.baseline(0.45))
    assert errors(sharded_runs, through_all_ports) > 0.5 > baseline


def test_with_one_port_the_same_constants_explain_the_sharded_runs():
    assert errors(sharded_runs, predicted) < 0.07


def test_border_of_truth_one_port_does_not_explain_sharded_runs_of_another_library():
    """MosaicML 2023: 307,209 tokens a second of 13 B parameters on 64 H100s."""
    spec = TransformerSpec("13B", 40, 5120, 40, 50368, tied=True, positions=2048, bias=False,
                           dropout=False)  # fmt: skip
    measured = 128 * 2048 / 307_209
    fsdp = software_profiles["fsdp"]
    ratios = [
        estimate(spec, Cluster(catalog["dgx-h100"], 8), batch=128, seq=2048, micro_batch=2,
                 zero=3, software=replace(fsdp, ports=ports))["step"] / measured
        for ports in (None, 1)
    ]  # fmt: skip
    assert 0.9 < ratios[0] < 1.1 and ratios[1] > 2


def test_the_logged_step_of_bloom_is_met_by_the_estimate_and_not_by_the_baseline():
    """BigScience Workshop 2022, log of the training: 105 s, at 149 TFLOP/s for each GPU."""
    assert bloom_run.seconds == pytest.approx(105.2, abs=0.3)
    by_share = errors([bloom_run], lambda run: run.baseline(0.45))
    assert errors([bloom_run], predicted) < 0.05 < 0.1 < by_share


BAD = [
    ({"tp": 3}, "tp is 3, but must be a divisor of the ranks, which is 128"),
    ({"pp": 64}, "pp is 64, but must be at most 60, the layers"),
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
    ({"overlap": "half"}, "overlap is 'half', but must be a share"),
    ({"zero": True}, "zero is True, but must be a stage"),
    ({"offload": ["optimizer"]}, r"offload is \('optimizer',\), but must be \(\): nothing else"),
    ({"recompute": ["keys"]}, "recompute is .*, but must be one of none, selective, full"),
    ({"ep": 2}, "ep is 2, but must be a divisor of the 1 experts"),
    ({"software": "horovod"}, "software is 'horovod', but must be a Software, or one of"),
    ({"tokens": "2T"}, "tokens is '2T', but must be a positive number"),
]
KINDS = [
    ({"flash": "no"}, "flash is 'no', but must be a bool"),
    ({"sequence_parallel": 1}, "sequence_parallel is 1, but must be a bool"),
    ({"layout": {"tp": 2}}, "layout is {'tp': 2}, but must be a Layout"),
    ({"stage": 3}, "no field 'stage'; there are tp, cp, pp, dp, ep, zero"),
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
    with pytest.raises(ValueError, match="tp is 4, but must be a divisor of the 10 heads"):
        estimate(odd, SIXTEEN, batch=1024, tp=4)


def test_a_spec_without_context_asks_for_the_length_of_a_sequence():
    spec = TransformerSpec("open", layers=60, hidden=6400, heads=64, vocab=32000)
    with pytest.raises(ValueError, match="seq is None, but must be given, as the spec has no cont"):
        estimate(spec, SIXTEEN, batch=1024)
    given = estimate(spec, SIXTEEN, batch=1024, seq=4096, software=PLAIN)
    assert given["step"] == of()["step"]


def test_learned_positions_end_somewhere():
    with pytest.raises(ValueError, match="seq is 4096, but must be at most the model's 1024"):
        estimate(published_models["gpt2"], SIXTEEN, batch=128, seq=4096)
    assert estimate(published_models["gpt2"], SIXTEEN, batch=128, seq=1024)["seq"] == 1024


def test_it_prints_as_tables_with_every_line_its_formula_and_the_largest_part():
    text = repr(of(zero=3, tokens=600e9, price=2 / 3600))
    assert text.startswith("30B on 128 x h100-sxm: dp 128, ZeRO stage 3; 1,024 seq")
    assert "held_weight_bytes(params=rank_params, element_bytes=weights_width, zero=3, dp)" in text
    assert "the largest" in text and "USD" in text and "within 85.9 GB" in text
    page = of(zero=3)._repr_markdown_()
    assert r"$T_\text{long} = \frac{" in page and "sustained_time" not in page


def test_bytes_and_work_never_meet_in_an_estimate_either():
    run = of(mfu=0.45)
    with pytest.raises(UnitError, match=r"'work' \(FLOP\) and 'memory' \(B\)"):
        Sheet(run.given, run.lines | {"all": total("work", "memory")})


def test_an_interval_of_the_estimate_holds_it():
    run = of(zero=3)
    low, high = run.interval(
        "step", {"sustained": 1.2, "gathered_time": 1.5, "overlap_fraction": 1.3}
    )
    assert low < run["step"] < high and math.log(high / low) < math.log(1.2**2 * 1.5)
