r"""The time of a training step, cause by cause, for one layout or for many at once.

    >>> from dtlib.foundations import Cluster, catalog, published_models
    >>> cluster = Cluster(catalog["dgx-h100"], 8)
    >>> some = Layouts.of([Layout(tp=2, dp=32, zero=1), Layout(tp=8, pp=2, dp=4)], 32)
    >>> llama = published_models["llama-3.1-8b"]
    >>> step_times(llama, cluster, some, batch=512, seq=8192).round(1)
    array([ 7.2, 11.4])

A step is a `Sheet`: with one layout it prints itself, with many each line is a column.
"""

import numpy as np

from dtlib.composition.planner.layer import (
    Passes,
    check_shapes,
    host_time,
    layer_params,
    passes_time,
    starving_time,
)
from dtlib.composition.planner.machine import machine_of
from dtlib.composition.planner.software import Software, software_named
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ln, maximum, sqrt, where
from dtlib.formulas.require import require, require_count, require_type
from dtlib.formulas.sheet import Given, Line, Sheet, line, total
from dtlib.foundations.roofline.pace import stage_time, streaming_time
from dtlib.layout import Layout
from dtlib.layouts import Layouts
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec
from dtlib.parallelism import exposed_time

CAUSES = (
    "compute", "attention", "streams", "host", "tensor", "context", "experts",
    "bubble", "sends", "exchange", "optimizer",
)  # fmt: skip
_EVEN = "stages as even as can be"


@formula(r"T_\text{slowest}", "s", "counting", _EVEN)
def slowest_stage_time(
    micro_time, layers, most_layers, first_layers, last_layers, first_tables, last_tables
):
    """The time of the stage that takes longest for one micro-batch.

    The ends have the tables on top: the first the one of the tokens, the last the head and the
    loss. Where layers do not divide, the ends have fewer of them.

    >>> slowest_stage_time(8.0, 8, 3, 3, 2, first_tables=0.25, last_tables=1.5)
    3.5
    """
    return maximum(
        most_layers * micro_time / layers,
        maximum(
            first_layers * micro_time / layers + first_tables,
            last_layers * micro_time / layers + last_tables,
        ),
    )


@formula(
    r"T_\text{wait}",
    "s",
    "Narayanan et al. 2021, with unequal stages",
    "1F1B, or its interleaved form; the slowest stage never waits once it is busy",
)
def pipeline_wait_time(p, m, v, slowest_stage, all_stages):
    """The time that the ranks of a pipeline wait, on average, in a step.

    The slowest stage does its m micro-batches, and the others fill and drain around it, in v parts;
    a rank works for m times the mean of all stages.

    >>> pipeline_wait_time(p=4, m=8, v=1, slowest_stage=3.0, all_stages=12.0)
    9.0
    """
    return m * slowest_stage + (all_stages - slowest_stage) / v - m * all_stages / p


@formula(r"T_\text{sends}", "s", "counting", "each rank sends in both directions, in v parts")
def stage_sends_time(m, v, hop_time):
    """The time that a stage's messages take in a step: one forward and one backward, v times.

    >>> stage_sends_time(m=8, v=2, hop_time=0.001)
    0.032
    """
    return 2 * m * v * hop_time


@formula(r"T_\text{hide}", "s", "counting", "a backward pass takes two thirds of the work")
def hiding_time(slowest_stage, m, zero):
    """The arithmetic under which the exchange of a step can hide.

    Up to ZeRO's stage 2 that is the backward pass of the last micro-batch; in stage 3, in which
    every pass gathers, all of them.

    >>> hiding_time(3.0, m=8, zero=1), hiding_time(3.0, m=8, zero=3)
    (2.0, 24.0)
    """
    return slowest_stage * where(zero < 3, 2 / 3, m)


@formula(
    r"T_\text{straggle}",
    "s",
    "the mean of the largest of P normal numbers, for many ranks",
    "the pace of each rank is drawn once, with a small spread, and is its pace in every step",
)
def straggling_time(slowest_stage, m, spread, P):
    """The time for which a rank of the mean pace waits in a step for the slowest of all.

    No two GPUs run at the same clock. The slowest of P is about sqrt(2 ln P) spreads behind.

    >>> round(straggling_time(slowest_stage=0.5, m=8, spread=0.01, P=512), 4)
    0.1413
    """
    return m * slowest_stage * spread * sqrt(2 * ln(P))


@formula(r"T_\text{opt}", "s", "counting", "bound by memory; what is divided is stepped once")
def optimizer_time(params, params_bytes, P, bandwidth, bandwidth_fraction):
    """The time of the optimizer's own step: state, gradients and weights through memory.

    >>> optimizer_time(1e9, params_bytes=30, P=4, bandwidth=2e12, bandwidth_fraction=0.75)
    0.005
    """
    return params * params_bytes / P / (bandwidth * bandwidth_fraction)


def step_times(
    spec: TransformerSpec,
    cluster: Cluster,
    layouts: Layouts,
    *,
    batch: int,
    seq: int,
    software: str | Software = "megatron",
    dtype: str = "bf16",
) -> np.ndarray:
    """Seconds of a step, for each layout. Arguments and errors as in `step_sheet`."""
    return sum(
        step_parts(
            spec, cluster, layouts, batch=batch, seq=seq, software=software, dtype=dtype
        ).values()
    )


def step_parts(
    spec: TransformerSpec,
    cluster: Cluster,
    layouts: Layouts,
    *,
    batch: int,
    seq: int,
    software: str | Software = "megatron",
    dtype: str = "bf16",
) -> dict[str, np.ndarray]:
    """Seconds of a step by cause (`CAUSES`), each for every layout; their sum is the step.

    Arguments and errors as in `step_sheet`.
    """
    sheet = step_sheet(spec, cluster, layouts, batch=batch, seq=seq, software=software, dtype=dtype)
    found, count = sheet.values_at(), len(layouts)
    return {cause: np.broadcast_to(found[cause], count) * 1.0 for cause in CAUSES}


def step_sheet(
    spec: TransformerSpec,
    cluster: Cluster,
    layouts: Layouts | Layout,
    *,
    batch: int,
    seq: int,
    software: str | Software = "megatron",
    dtype: str = "bf16",
) -> Sheet:
    """The lines of a step: every cause, from the passes of a layer to the optimizer's step.

    Equation: m micro-batches of the slowest stage, what fills and drains the pipeline, what of the
    exchange no arithmetic hides, and the optimizer. A pass is the longer of GPU's and host's time.
    Arguments: `spec`; `cluster`, all of whose ranks each layout uses; `layouts`, columns, or one
    `Layout`, for which the sheet has numbers; `batch` sequences of a step, `seq` tokens of each;
    `software`, a profile or its name; `dtype` of the products.
    Returns a `Sheet` whose line `step` is the sum of `CAUSES`. Raises ValueError, naming argument,
    value and rule, for sizes that do not divide or ranks that the cluster has not; TypeError for a
    `spec` or `cluster` that is none.
    Source: the formulas of its lines.
    """
    require_type("step_times", TransformerSpec, spec=spec)
    require_type("step_times", Cluster, cluster=cluster)
    require_count("step_times", batch=batch, seq=seq)
    one = isinstance(layouts, Layout)
    of = Layouts.of([layouts], spec.layers) if one else layouts
    require_type("step_times", Layouts, layouts=of)
    _check(spec, cluster, of, seq)
    software = software_named(software)
    passes = Passes(spec, machine_of(cluster), software, of, seq, dtype)
    given = _given(passes, of.micro_batches(batch))
    if one:
        given = {name: _single(entry) for name, entry in given.items()}
    return Sheet(given, _lines())


def _check(spec: TransformerSpec, cluster: Cluster, of: Layouts, seq: int) -> None:
    require(
        of.layers == spec.layers, "step_times", "layouts.layers", of.layers,
        f"{spec.layers}, the model's layers",
    )  # fmt: skip
    check_shapes(spec, of, seq)
    wrong = np.flatnonzero(of.ranks != cluster.ranks)
    found = int(of.ranks[wrong[0]]) if len(wrong) else None
    allowed = f"{cluster.ranks}, those of the cluster"
    require(found is None, "step_times", "ranks of a layout", found, allowed)


def _single(entry: Given) -> Given:
    value = np.asarray(entry.value)
    return Given(value.reshape(-1)[0].item(), entry.unit, entry.label, entry.source)


def _given(passes: Passes, m: np.ndarray) -> dict[str, Given]:
    """What the lines start from: counts of the layouts, and the seconds of a micro-batch."""
    of, spec, software = passes.layouts, passes.spec, passes.software
    gpu, kernels = passes.machine.gpu, software.kernels
    again = of.is_selective * software.every_second
    return {
        "layers": Given(spec.layers, "", "layers"),
        "p": Given(of.pp, "", "pipeline stages"),
        "v": Given(of.interleave, "", "parts of a stage"),
        "m": Given(m, "", "micro-batches of one rank"),
        "P": Given(of.ranks * 1.0, "", "ranks"),
        "spread": Given(passes.machine.spread, "", "spread of the pace of ranks", "fitted"),
        "zero": Given(of.zero, "", "ZeRO stage"),
        "again": Given(of.is_full * 1.0, "", "forward passes done again"),
        "bandwidth": Given(gpu.hbm_bandwidth, "B/s", "memory bandwidth", gpu.source),
        "bandwidth_fraction": Given(kernels.bandwidth_fraction, "", "share of it", "products"),
        "sharpness": Given(kernels.sharpness, "", "sharpness of a maximum", "fitted"),
        "f_touches": Given(kernels.forward_touches * software.unfused, "", "", "counted"),
        "b_touches": Given(
            (kernels.backward_touches + again * kernels.forward_touches) * software.unfused,
            "",
            "",
            "counted",
        ),
        "kept_bytes": Given(passes.kept, "B", "what streams in a pass", "counted"),
        "step_host": Given(software.step_host, "s", "host, once a step", software.name),
        "sums": Given(passes.sums, "s", "adding gradients", "counted"),
        **_pass_seconds(passes),
        **_stage_counts(passes),
        **_exchange(passes, m),
    }


def _pass_seconds(passes: Passes) -> dict[str, Given]:
    """Seconds of every cause in a pass through all layers, forward (f) and backward (b)."""
    of, software = passes.layouts, passes.software
    products, attention, calls = passes.products, passes.attention, passes.calls
    selective = np.where(of.is_selective, attention[0], 0.0)
    alternate = of.is_selective * software.every_second
    selective = np.where(alternate, 0.0, selective)
    given = {
        "f_products": Given(products[0], "s", "products, forward", "gemm_time"),
        "b_products": Given(
            products[1] + alternate * products[0] / 2, "s", "products, backward", "gemm_time"
        ),
        "f_attention": Given(attention[0], "s", "attention, forward"),
        "b_attention": Given(attention[1] + selective, "s", "attention, backward"),
        "layer_host": Given(software.layer_host, "s", "host, layer forward", software.name),
        "layer_host_back": Given(
            software.backward_host * software.layer_host, "s", "host, layer back", software.name
        ),
        "call_host": Given(software.call_host, "s", "host, collective", software.name),
        "f_calls": Given(calls[0], "", "collectives of a layer, forward"),
        "b_calls": Given(calls[1], "", "collectives of a layer, backward"),
    }
    for name, seconds in (
        ("tensor", passes.tensor), ("context", passes.context), ("experts", passes.experts),
    ):  # fmt: skip
        hidden = attention if name == "context" else np.zeros((2, 1))
        for direction, time in zip("fb", np.maximum(0.0, seconds - hidden), strict=True):
            given[f"{direction}_{name}"] = Given(time, "s", f"{name}, {direction}")
    return given


def _stage_counts(passes: Passes) -> dict[str, Given]:
    """Layers of the stages, and the seconds of the tables at both ends."""
    of, spec, machine = passes.layouts, passes.spec, passes.machine
    most, missing = of.most_layers, of.most_layers * of.pp - spec.layers
    rate = machine.gpu.hbm_bandwidth * passes.software.kernels.bandwidth_fraction
    first = 4 * passes.stream / rate
    last = passes.products[2] + passes.products[3]
    last = last + 12 * passes.tokens * spec.vocab / of.tp / rate
    alone, host = of.pp == 1, passes.software.ends_host
    whole = np.maximum(first + last, host)
    first, last = np.maximum(first, host), np.maximum(last, host)
    chain = of.tp * of.cp * of.dp
    n = passes.stream / np.where(passes.software.scattered_sends | of.sequence_parallel, of.tp, 1)
    hop = machine.message(n, chain, chain * of.pp) + passes.software.send_host
    if passes.software.scattered_sends:
        gather = machine.collective("all_gather", passes.stream, of.tp, 1)
        hop = hop + np.where(of.sequence_parallel, 0.0, gather)
    return {
        "most_layers": Given(most, "", "layers of the largest stage"),
        "first_layers": Given(most - (missing >= 2), "", "layers of the first stage"),
        "last_layers": Given(most - (missing >= 1), "", "layers of the last stage"),
        "tables": Given(np.where(alone, whole, first + last), "s", "tables at both ends"),
        "first_tables": Given(np.where(alone, whole, first), "s", "table of tokens"),
        "last_tables": Given(np.where(alone, whole, last), "s", "head and loss"),
        "hop_time": Given(np.where(alone, 0.0, hop), "s", "one message between stages"),
    }


def _exchange(passes: Passes, m: np.ndarray) -> dict[str, Given]:
    """Parameters of the fullest rank, and the seconds that replicas exchange in a step."""
    of, spec, software, machine = passes.layouts, passes.spec, passes.software, passes.machine
    parts, alone = spec.parameter_parts(), of.pp == 1
    table = parts.get("embedding", 0) + parts.get("positions", 0)
    ends = np.where(alone, table + parts.get("head", 0), spec.vocab * spec.hidden)
    params = layer_params(spec, of) * of.most_layers / spec.layers + ends / of.tp
    ranks, width = of.dp * of.cp, software.gradient_bytes
    units = np.where(of.zero > 0, software.messages * of.most_layers, 1)
    times = {
        op: units * machine.collective(op, bytes_each * params / units, ranks, of.tp)
        for op, bytes_each in (("all_reduce", width), ("reduce_scatter", width), ("all_gather", 2))
    }
    divided = times["reduce_scatter"] + times["all_gather"]
    each = m * (divided + times["all_gather"])
    comm = np.select([of.zero == 0, of.zero < 3], [times["all_reduce"], divided], each)
    return {
        "params": Given(params, "", "parameters of the fullest rank", "counted"),
        "params_bytes": Given(software.optimizer_bytes, "B", "optimizer's traffic"),
        "shards": Given(np.where(of.zero > 0, ranks, 1), "", "ranks that divide its step"),
        "comm": Given(comm, "s", "exchange of the replicas"),
        "overlap_fraction": Given(software.overlap, "", "", software.name),
    }


def _lines() -> dict[str, Line]:
    """The lines of a step, from passes to causes."""
    lines = {
        "f_streams": line(streaming_time, touches="f_touches", m=1, p=1, label="streams, forward"),
        "b_kept": line(streaming_time, touches="b_touches", m=1, p=1, label="streams, backward"),
        "b_streams": total("b_kept", "sums"),
    }
    kinds = ("products", "attention", "streams", "tensor", "context", "experts")
    for direction, host in (("f", "layer_host"), ("b", "layer_host_back")):
        lines |= {
            f"{direction}_gpu": total(*(f"{direction}_{kind}" for kind in kinds)),
            f"{direction}_starting": line(host_time, layer_host=host, calls=f"{direction}_calls"),
            f"{direction}_host": line(
                starving_time, computing=f"{direction}_gpu", host=f"{direction}_starting"
            ),
        }
    for kind in (*kinds, "host"):
        lines[f"micro_{kind}"] = line(passes_time, f=f"f_{kind}", b=f"b_{kind}")
        if kind != "products":
            lines[kind] = line(stage_time, micro_time=f"micro_{kind}")
    return lines | {
        "micro_work": total("micro_products", "tables"),
        "compute": line(stage_time, micro_time="micro_work"),
        "micro_time": total(*(f"micro_{kind}" for kind in (*kinds, "host"))),
        "slowest_layers": line(slowest_stage_time),
        "one_sends": line(stage_sends_time, m=1),
        "slowest_stage": total("slowest_layers", "one_sends"),
        "stages_sends": line(stage_sends_time, m="p"),
        "all_stages": total("micro_time", "tables", "stages_sends"),
        "bubble": line(pipeline_wait_time),
        "sends": line(stage_sends_time),
        "hiding": line(hiding_time),
        "exposed": line(exposed_time),
        "straggling": line(straggling_time),
        "exchange": total("exposed", "straggling"),
        "stepping": line(optimizer_time, P="shards"),
        "optimizer": total("stepping", "step_host"),
        "step": total(*CAUSES),
    }
