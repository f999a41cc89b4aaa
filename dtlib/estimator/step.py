"""The lines of one step, cause by cause, and of the whole run."""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.estimator.run import TrainingRun
from dtlib.formulas.sheet import Given, Line, line, total
from dtlib.foundations.cost.steps import (
    all_steps_cost,
    all_steps_time,
    step_flops,
    tokens_per_second,
)
from dtlib.foundations.roofline.pace import (
    arithmetic_time,
    gap_time,
    products_time,
    stage_time,
    streaming_time,
)
from dtlib.memory import sharded_exchange_time, weight_bytes
from dtlib.models.work import model_flops_utilisation, training_flops
from dtlib.parallelism import (
    activation_message_bytes,
    exposed_time,
    last_backward_time,
    tensor_parallel_time,
)
from dtlib.parallelism.pipeline import pipeline_bubble_time, pipeline_send_time

_COUNTED = "counted by the spec"


def work_lines(run: TrainingRun) -> dict[str, Line]:
    """The arithmetic of the model, which no layout changes."""
    return {
        "matrix_work": line(
            training_flops, label="work of the matrices",
            params="matmul_params", tokens="batch_tokens",
        ),
        "attention_work": line(
            step_flops, label="work of the attention scores", token_flops="attention_flops"
        ),
        "work": total("matrix_work", "attention_work", label="work of the model"),
    }  # fmt: skip


def step_lines(run: TrainingRun, given: dict) -> dict[str, Line]:
    """Adds to what is given; from an MFU a single line, else a line for each cause."""
    if run.mfu is not None:
        given["mfu"] = Given(run.mfu, "", "MFU", "assumed")
        label = "step, all that an MFU contains"
        return {"step": line(arithmetic_time, label=label, flops="work", peak_fraction="mfu")}
    lines = _computing(run, given)
    busy, parts = "computing", ["computing"]
    if run.layout.tp > 1:
        lines |= _tensor(run, given)
        lines["busy"] = total("computing", "tensor", label="computing and tensor parallelism")
        busy, parts = "busy", [*parts, "tensor"]
    if run.layout.pp > 1:
        lines |= _pipeline(run, given, busy)
        parts += ["bubble", "sends"]
    if run.layout.dp > 1:
        lines |= _exchange(run, given)
        parts.append("exposed")
    lines["step"] = total(*parts)
    lines["mfu"] = line(model_flops_utilisation, label="MFU", flops="work", time="step")
    return lines


def _computing(run: TrainingRun, given: dict) -> dict[str, Line]:
    spec, pace = run.spec, run.pace
    per_token = spec.flops_per_token(run.seq, recompute=run.layout.recompute)
    if run.efficiency is not None:
        given["done_flops"] = Given(per_token, "FLOP", "work for one token, repeats included")
        given["efficiency"] = Given(run.efficiency, "", "share of the peak", "assumed")
        return {
            "done": line(step_flops, label="work, repeats included", token_flops="done_flops"),
            "computing": line(arithmetic_time, flops="done", peak_fraction="efficiency"),
        }
    forward, backward = products_time(
        spec, run.seq * run.layout.micro_batch, run.gpu, tp=run.layout.tp, dtype=run.dtype
    )
    again, passes = (forward, 4) if run.layout.recompute == "full" else (0.0, 3)
    given |= {
        "products_micro": Given(
            forward + backward + again, "s", "products of one micro-batch", "gemm_time"
        ),
        "attention_fraction": Given(pace.attention_fraction, "", "", "fitted"),
        "touches": Given(pace.touches * passes / 3, "", "", "fitted"),
        "kept_once": Given(run.kept("none"), "B", "bytes that stream", _COUNTED),
        "bandwidth": Given(run.gpu.hbm_bandwidth, "B/s", "", run.gpu.source),
        "bandwidth_fraction": Given(0.86, "", "", "fitted to products"),
        "idle": Given(pace.idle, "s", "", "fitted"),
        "passes": passes,
    }
    lines, scored = {"products": line(stage_time, micro_time="products_micro")}, "attention_work"
    if run.layout.recompute != "none":
        scores = 4 * spec.score_flops(run.seq)
        given["scores"] = Given(scores, "FLOP", "attention of one token, and again", _COUNTED)
        scored, label = "attention_done", "work of the scores, and again"
        lines[scored] = line(step_flops, label=label, token_flops="scores")
    return lines | {
        "attention": line(arithmetic_time, flops=scored, peak_fraction="attention_fraction"),
        "streams": line(streaming_time, kept_bytes="kept_once"),
        "gaps": line(gap_time),
        "computing": total("products", "attention", "streams", "gaps"),
    }


def _link(given: dict, run: TrainingRun, prefix: str, size: int, stride: int) -> dict[str, str]:
    """Gives a link's latency and bandwidth under names of its own; returns how to feed them."""
    alpha, beta, name = run.link(size, stride)
    share = f"{run.pace.line_fraction:.0%} of the line rate"
    given[f"{prefix}_alpha"] = Given(alpha, "s", f"latency of {name}", "assumed")
    given[f"{prefix}_beta"] = Given(beta, "B/s", f"bandwidth of {name}", share)
    return {"alpha": f"{prefix}_alpha", "beta": f"{prefix}_beta"}


def _tensor(run: TrainingRun, given: dict) -> dict[str, Line]:
    given["reductions"] = 6 if run.layout.recompute == "full" else 4
    feeds = _link(given, run, "tp", run.layout.tp, 1)
    return {
        "layer_output": line(activation_message_bytes, label="one layer's output"),
        "tensor": line(tensor_parallel_time, label="tensor parallelism", n="layer_output", **feeds),
    }


def _pipeline(run: TrainingRun, given: dict, busy: str) -> dict[str, Line]:
    feeds = _link(given, run, "pp", run.layout.pp, run.layout.tp * run.layout.dp)
    return {
        "bubble": line(pipeline_bubble_time, computing=busy),
        "stage_output": line(activation_message_bytes, label="one stage's output"),
        "sends": line(pipeline_send_time, label="messages of the pipeline", n="stage_output",
                      **feeds),
    }  # fmt: skip


def _exchange(run: TrainingRun, given: dict) -> dict[str, Line]:
    given["element_bytes"] = Given(2, "B", "bytes of one gradient")
    given["overlap_fraction"] = Given(run.overlap, "", "", "assumed")
    feeds = _link(given, run, "dp", run.layout.dp, run.layout.tp)
    lines = {"gradients": line(weight_bytes, params="rank_params")}
    if run.layout.zero == 3:
        exchange = line(sharded_exchange_time, n="gradients", layers="rank_layers", **feeds)
        hiding = "computing"
    else:
        exchange = line(ring_all_reduce_time, n="gradients", P="dp", **feeds)
        lines["last_backward"] = line(last_backward_time)
        hiding = "last_backward"
    lines["exchange"] = exchange
    lines["exposed"] = line(
        exposed_time, label="exchange that is not hidden", comm="exchange", hiding=hiding
    )
    return lines


def run_lines(run: TrainingRun, given: dict) -> dict[str, Line]:
    """Speed, and where tokens and a price are known, duration and cost."""
    lines = {"speed": line(tokens_per_second)}
    if run.tokens is not None:
        given["tokens"] = run.tokens
        lines["run"] = line(all_steps_time, label="the whole run")
        if run.price is not None:
            given["price"] = run.price
            lines["cost"] = line(all_steps_cost)
    return lines
