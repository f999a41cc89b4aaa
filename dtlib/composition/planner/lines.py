"""The lines of a step: from the passes of a micro-batch through all layers to seconds by cause.

A kind of work has seconds forward (`f_`) and backward (`b_`), and for a micro-batch (`micro_`); a
cause is what a rank spends on it in a step.
"""

from dataclasses import replace

import numpy as np

from dtlib.composition.planner.formulas import (
    hiding_time,
    host_time,
    passes_time,
    pipeline_wait_time,
    replicas_exchange_time,
    slowest_stage_time,
    stage_sends_time,
    starving_time,
    straggling_time,
)
from dtlib.composition.planner.layer import Passes
from dtlib.formulas.sheet import Given, Line, line, total
from dtlib.foundations.roofline.pace import stage_time, streaming_time, sustained_time
from dtlib.parallelism import exposed_time

COMPUTING = ("compute", "attention", "streams", "host")
CAUSES = (
    *COMPUTING, "tensor", "context", "experts", "bubble", "sends", "exchange", "optimizer",
)  # fmt: skip
_KINDS = {
    "products": "products", "attention": "attention", "streams": "streams",
    "tensor": "sums within layers", "context": "keys and values sent",
    "experts": "tokens sent to experts",
}  # fmt: skip
_DIRECTIONS = {"f": "forward", "b": "backward"}
EXCHANGED = {
    "reduced_time": "all gradients reduced",
    "scattered_time": "all gradients reduced and scattered",
    "gathered_time": "all weights gathered",
}


def pass_quantities(passes: Passes) -> dict[str, Given]:
    """What the lines start from: counts of the layouts, constants, and seconds of the passes."""
    of, spec, software = passes.layouts, passes.spec, passes.software
    gpu, kernels = passes.machine.gpu, software.kernels
    touches = kernels.forward_touches * software.unfused
    twice = of.is_selective & software.every_second
    back = (kernels.backward_touches + twice * kernels.forward_touches) * software.unfused
    core = passes.kept[1] * (of.is_selective & ~twice)
    return {
        "layers": Given(spec.layers, "", "layers"),
        "p": Given(of.pp, "", "pipeline stages"),
        "v": Given(of.interleave, "", "parts of a stage"),
        "P": Given(of.ranks * 1.0, "", "ranks"),
        "zero": Given(of.zero, "", "ZeRO stage"),
        "again": Given(of.is_full * 1.0, "", "forward passes done again"),
        "bandwidth": Given(gpu.hbm_bandwidth, "B/s", f"memory of one {gpu.name}", gpu.source),
        "bandwidth_fraction": Given(
            kernels.bandwidth_fraction, "", "share of its bandwidth", "fitted to products"
        ),
        "f_touches": Given(touches, "", "touches of a byte, forward", "fitted"),
        "b_touches": Given(back, "", "touches of a byte, backward", "fitted"),
        "kept_bytes": Given(passes.kept[0], "B", "bytes that stream in a pass", "counted"),
        "core_bytes": Given(core, "B", "bytes that stream once more", "counted"),
        "sums": Given(passes.sums, "s", "adding gradients", "counted"),
        "sustained": Given(
            passes.machine.sustained, "", "share of products' speed that a step keeps", "fitted"
        ),
        **_kind_seconds(passes, twice),
        **_host_seconds(passes),
    }


def _kind_seconds(passes: Passes, twice: np.ndarray) -> dict[str, Given]:
    """Seconds of every kind in a pass through all layers, but for what streams.

    Products are timed one by one (`alone`). Where the core of attention is computed again, or every
    second product (`twice`), that is a part of the backward pass.
    """
    products, attention = passes.products_alone[:2].copy(), passes.attention.copy()
    products[1] += twice * products[0] / 2
    attention[1] += np.where(passes.layouts.is_selective & ~twice, attention[0], 0.0)
    seconds = {
        "alone": (products, "gemm_time"), "attention": (attention, "a share of the peak"),
        "tensor": (passes.tensor, "collective_time"), "context": (passes.context, "send_time"),
        "experts": (passes.experts, "collective_time"),
    }  # fmt: skip
    words = {**_KINDS, "alone": "products by themselves"}
    return {
        f"{direction}_{kind}": Given(row, "s", f"{words[kind]}, {word}", source)
        for kind, (rows, source) in seconds.items()
        for (direction, word), row in zip(_DIRECTIONS.items(), rows, strict=True)
    }


def _host_seconds(passes: Passes) -> dict[str, Given]:
    """What the host needs to start a pass, and once in a step."""
    software, calls = passes.software, passes.calls
    name = f"profile {software.name!r}"
    return {
        "layer_host": Given(software.layer_host, "s", "host, a layer forward", name),
        "layer_host_back": Given(2 * software.layer_host, "s", "host, a layer backward", name),
        "call_host": Given(software.call_host, "s", "host, a collective", name),
        "step_host": Given(software.step_host, "s", "host, once a step", name),
        "f_calls": Given(calls[0], "", "collectives of a layer, forward"),
        "b_calls": Given(calls[1], "", "collectives of a layer, backward"),
        "sharpness": Given(software.kernels.sharpness, "", "sharpness of a maximum", "fitted"),
        "spread": Given(passes.machine.spread, "", "spread of the pace of ranks", "fitted"),
    }


def step_lines(*, alone: bool, experts: bool) -> dict[str, Line]:
    """All lines, the step last; `alone` if nobody has a pipeline; `experts` if there are any."""
    return {
        **_products_lines(),
        **_streams_lines(),
        **_pass_lines(),
        **_stage_lines(alone),
        **_exchange_lines(experts),
        "stepping": line(
            streaming_time, touches=1, kept_bytes="stepped_bytes", m=1, p=1,
            label="optimizer on the GPU",
        ),
        "optimizer": total("stepping", "step_host", label="the optimizer's step"),
        "step": total(*CAUSES),
    }  # fmt: skip


def _products_lines() -> dict[str, Line]:
    return {
        f"{direction}_products": line(
            sustained_time, label=f"products, {word}", alone_time=f"{direction}_alone"
        )
        for direction, word in _DIRECTIONS.items()
    }


def _streams_lines() -> dict[str, Line]:
    def stream(touches, kept_bytes, label):
        feeds = {"touches": touches, "kept_bytes": kept_bytes, "m": 1, "p": 1}
        return line(streaming_time, label=label, **feeds)

    return {
        "f_streams": stream("f_touches", "kept_bytes", "streams, forward"),
        "b_kept": stream("b_touches", "kept_bytes", "streams of activations, backward"),
        "b_again": stream("f_touches", "core_bytes", "streams that are done again"),
        "b_streams": total("b_kept", "b_again", "sums", label="streams, backward"),
    }


def _pass_lines() -> dict[str, Line]:
    """A pass takes as long as GPU or host; a micro-batch all its passes, a step all of those."""
    lines = {}
    for direction, word in _DIRECTIONS.items():
        host = "layer_host" if direction == "f" else "layer_host_back"
        lines |= {
            f"{direction}_gpu": total(
                *(f"{direction}_{kind}" for kind in _KINDS), label=f"the GPU, {word}"
            ),
            f"{direction}_starting": line(
                host_time, layer_host=host, calls=f"{direction}_calls", label=f"the host, {word}"
            ),
            f"{direction}_host": line(
                starving_time, computing=f"{direction}_gpu", host=f"{direction}_starting",
                label=f"waiting for the host, {word}",
            ),
        }  # fmt: skip
    words = {**_KINDS, "host": "waiting for the host"}
    for kind, word in words.items():
        label = f"{word} of a micro-batch"
        lines[f"micro_{kind}"] = line(passes_time, f=f"f_{kind}", b=f"b_{kind}", label=label)
    lines["micro_work"] = total("micro_products", "tables", label="products, with the tables'")
    lines["micro_time"] = total(
        *(f"micro_{kind}" for kind in words), label="layers, one micro-batch"
    )
    lines["compute"] = line(stage_time, micro_time="micro_work", label="products")
    for kind, word in words.items():
        if kind != "products":
            lines[kind] = line(stage_time, micro_time=f"micro_{kind}", label=word)
    return lines


def _stage_lines(alone: bool) -> dict[str, Line]:
    """The slowest stage sets the pace, and the others wait; one that is alone never does."""
    slowest = total("micro_time", "tables") if alone else line(slowest_stage_time)
    return {
        "slowest_layers": replace(slowest, label="slowest stage, layers and tables"),
        "one_sends": line(stage_sends_time, m=1, label="its messages"),
        "slowest_stage": total(
            "slowest_layers", "one_sends", label="slowest stage, one micro-batch"
        ),
        "stages_sends": line(stage_sends_time, m="p", label="messages of all stages"),
        "all_stages": total(
            "micro_time", "tables", "stages_sends", label="all stages, one micro-batch"
        ),
        "bubble": line(pipeline_wait_time, label="waiting in the pipeline"),
        "sends": line(stage_sends_time, label="messages between stages"),
    }


def _exchange_lines(experts: bool) -> dict[str, Line]:
    """What the replicas send, and how much of it no arithmetic hides; experts have their own."""
    lines = {"comm": line(replicas_exchange_time, label="exchange of the replicas")}
    if experts:
        feeds = {name: f"experts_{name}" for name in EXCHANGED}
        lines = {
            "shared_comm": line(replicas_exchange_time, label="exchange of what all share"),
            "experts_comm": line(replicas_exchange_time, label="exchange of experts", **feeds),
            "comm": total("shared_comm", "experts_comm", label="exchange of the replicas"),
        }
    return lines | {
        "hiding": line(hiding_time, label="arithmetic that can hide it"),
        "exposed": line(exposed_time, label="exchange that is not hidden"),
        "straggling": line(straggling_time, label="waiting for the slowest rank"),
        "exchange": total("exposed", "straggling", label="exchange and waiting"),
    }
