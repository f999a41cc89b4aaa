r"""The time of a training step, cause by cause, for one layout or for many at once.

    >>> from dtlib.foundations import Cluster, catalog, published_models
    >>> cluster = Cluster(catalog["dgx-h100"], 8)
    >>> some = Layouts.of([Layout(tp=2, dp=32, zero=1), Layout(tp=8, pp=2, dp=4)], 32)
    >>> llama = published_models["llama-3.1-8b"]
    >>> step_times(llama, cluster, some, batch=512, seq=8192).round(1)
    array([ 7.6, 12. ])

A step is a `Sheet`: with one layout it prints itself, with many each line is a column.
"""

import numpy as np

from dtlib.composition.planner.formulas import (
    hiding_time,
    host_time,
    passes_time,
    pipeline_wait_time,
    slowest_stage_time,
    stage_sends_time,
    starving_time,
    straggling_time,
)
from dtlib.composition.planner.layer import Passes, check_shapes
from dtlib.composition.planner.machine import machine_of
from dtlib.composition.planner.software import Software, software_named
from dtlib.composition.planner.stages import exchange_quantities, stage_quantities
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
        "kept_bytes": Given(passes.kept[0], "B", "what streams in a pass", "counted"),
        "core_bytes": Given(
            passes.kept[1] * (of.is_selective & (not software.every_second)),
            "B",
            "what streams once more",
            "counted",
        ),
        "step_host": Given(software.step_host, "s", "host, once a step", software.name),
        "sums": Given(passes.sums, "s", "adding gradients", "counted"),
        **_pass_seconds(passes),
        **stage_quantities(passes),
        **exchange_quantities(passes, m),
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
        "layer_host_back": Given(2 * software.layer_host, "s", "host, layer back", software.name),
        "call_host": Given(software.call_host, "s", "host, collective", software.name),
        "f_calls": Given(calls[0], "", "collectives of a layer, forward"),
        "b_calls": Given(calls[1], "", "collectives of a layer, backward"),
    }
    for name, seconds in (
        ("tensor", passes.tensor), ("context", passes.context), ("experts", passes.experts),
    ):  # fmt: skip
        for direction, time in zip("fb", seconds, strict=True):
            given[f"{direction}_{name}"] = Given(time, "s", f"{name}, {direction}")
    return given


def _lines() -> dict[str, Line]:
    """The lines of a step, from passes to causes."""
    lines = {
        "f_streams": line(streaming_time, touches="f_touches", m=1, p=1, label="streams, forward"),
        "b_kept": line(streaming_time, touches="b_touches", m=1, p=1, label="streams, backward"),
        "b_again": line(
            streaming_time,
            touches="f_touches",
            kept_bytes="core_bytes",
            m=1,
            p=1,
            label="streams that are done again",
        ),
        "b_streams": total("b_kept", "b_again", "sums"),
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
        "stepping": line(
            streaming_time,
            touches=1,
            kept_bytes="stepped_bytes",
            m=1,
            p=1,
            label="optimizer on the GPU",
        ),
        "optimizer": total("stepping", "step_host"),
        "step": total(*CAUSES),
    }
