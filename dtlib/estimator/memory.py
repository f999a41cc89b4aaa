"""What an estimate starts from, and the lines of one rank's memory."""

from dtlib.estimator.run import TrainingRun
from dtlib.formulas.sheet import Given, Line, line, total
from dtlib.memory import (
    gathered_bytes,
    logit_bytes,
    model_state_bytes,
    pipeline_activation_bytes,
    rank_params,
)
from dtlib.parallelism import micro_batch_count

_COUNTED = "counted by the spec"


def given_quantities(run: TrainingRun) -> dict[str, Given | float]:
    """The counts that several lines share."""
    spec, gpu, layout = run.spec, run.gpu, run.layout
    return {
        "params": Given(spec.params(), "", "parameters", _COUNTED),
        "matmul_params": Given(spec.matmul_params(), "", "parameters that multiply", _COUNTED),
        "layers": spec.layers,
        "rank_layers": Given(spec.layers / layout.pp, "", "layers of one rank"),
        "hidden": spec.hidden,
        "vocab": spec.vocab,
        "seq": run.seq,
        "batch_tokens": run.batch * run.seq,
        "micro_batch": layout.micro_batch,
        "P": run.cluster.ranks,
        "tp": layout.tp,
        "p": layout.pp,
        "v": layout.interleave,
        "dp": layout.dp,
        "zero": layout.zero,
        "hbm": Given(gpu.hbm_bytes, "B", f"memory of one {gpu.name}", gpu.source),
        "peak": Given(gpu.peak(run.dtype), "FLOP/s", f"peak of one {gpu.name}", gpu.source),
        "kept": Given(run.kept(layout.recompute), "B", "activations of one micro-batch", _COUNTED),
        "attention_flops": Given(
            3 * spec.score_flops(run.seq), "FLOP", "attention of one token", _COUNTED
        ),
    }


def memory_lines(run: TrainingRun, given: dict) -> dict[str, Line]:
    """State, activations, logits, and what else a rank holds at a time."""
    lines = {
        "rank_params": line(rank_params, label="parameters of one rank"),
        "m": line(micro_batch_count, label="micro-batches of one rank"),
        "state": line(
            model_state_bytes, label="weights, gradients, optimizer", params="rank_params"
        ),
        "activations": line(pipeline_activation_bytes, kept_bytes="kept"),
        "logits": line(logit_bytes),
    }
    parts = ["state", "activations", "logits"]
    if run.layout.recompute == "full":
        one_layer = run.kept("none") / run.spec.layers
        given["at_work"] = Given(one_layer, "B", "the layer that is repeated", _COUNTED)
        parts.append("at_work")
    if run.layout.zero == 3:
        given["weight_width"] = Given(2, "B", "bytes of one weight")
        lines["gathered"] = line(
            gathered_bytes, label="gathered layers",
            params="rank_params", layers="rank_layers", element_bytes="weight_width",
        )  # fmt: skip
        parts.append("gathered")
    return lines | {"memory": total(*parts, within="hbm")}
