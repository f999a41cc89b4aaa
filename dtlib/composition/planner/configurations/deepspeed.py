"""DeepSpeed's configuration: a JSON file, as a table.

It says how state, batch, tensors and experts are divided; the model, its pipeline and what is
computed again are the program's. Source: deepspeedai/DeepSpeed (0.19.6) at edaa722 of 22 August
2026, runtime/config.py, runtime/zero/config.py, runtime/tensor_parallel/config.py,
module_inject/auto_ep_folding.py, runtime/pipe/engine.py and __init__.py.
"""

import json
from collections.abc import Mapping

from dtlib.composition.planner.configurations.others import FORMER, PASSED_OVER
from dtlib.composition.planner.configurations.python_text import flat
from dtlib.composition.planner.configurations.runs import (
    Options,
    PlannedRun,
    Program,
    Row,
    expert_ranks,
    noted_experts,
    unsaid,
)

NAME = "deepspeed"
VERSION = "DeepSpeed 0.19.6"
SOURCE = "https://github.com/deepspeedai/DeepSpeed/tree/edaa7221267243c7be7fb49c5d5f5c4fb97b4641"

BATCH, MICRO = "train_batch_size", "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
ZERO = "zero_optimization.stage"
OPTIMIZER_AWAY = "zero_optimization.offload_optimizer.device"
WEIGHTS_AWAY = "zero_optimization.offload_param.device"
TP = "tensor_parallel.autotp_size"
CP, DP = "sequence_parallel_size", "data_parallel_size"
EXPERTS, EP = "expert_parallel.enabled", "expert_parallel.autoep_size"
INTERVAL = "pipeline.activation_checkpoint_interval"
INPUTS_AWAY = "activation_checkpointing.cpu_checkpointing"


def _cp(run: PlannedRun) -> int:
    """Ulysses has a mesh of replicas and tokens, in which ranks of a layer have no place."""
    return run.layout.cp if run.layout.tp == 1 else 1


def _write_tokens(run: PlannedRun) -> dict:
    return {CP: _cp(run), DP: run.layout.dp} if _cp(run) > 1 else {}


def _lost_tokens(run: PlannedRun) -> dict:
    lost = run.layout.cp > 1 and run.layout.tp > 1
    return (
        {"cp": "its mesh of replicas and tokens has no place for the ranks of tp"} if lost else {}
    )


def _noted_tokens(run: PlannedRun) -> dict:
    why = "tokens change places with heads (Ulysses): cp must divide the heads"
    return {"cp": why} if _cp(run) > 1 else {}


def _write_batch(run: PlannedRun) -> dict:
    found = {MICRO: run.layout.micro_batch, STEPS: run.micro_batches}
    return ({BATCH: run.batch} if run.layout.tp == 1 else {}) | found


def _read_batch(options: Options) -> dict:
    micro, steps = options.count(MICRO), options.count(STEPS)
    batch, tp = options.count(BATCH), options.count(TP, 1, 0) or 1
    said = [value is not None for value in (batch, micro, steps)]
    options.require(any(said[:2]), MICRO, f"given, or {BATCH}")
    if tp == 1 and all(said):
        allowed = f"a multiple of {MICRO} x {STEPS}, which is {micro * steps}"
        options.require(batch % (micro * steps) == 0, BATCH, allowed)
        dp = batch // (micro * steps)
    else:
        dp = options.count(DP) or options.replicas(TP, CP) if tp > 1 or CP in options else 0
        dp = dp or options.replicas()
        batch = None if tp > 1 and all(said) else batch
    micro, steps, batch = _completed(options, dp, micro, steps, batch)
    return {"dp": dp, "micro_batch": micro, "batch": batch}


def _completed(options: Options, dp: int, micro, steps, batch) -> tuple[int, int, int]:
    """The third of micro-batch, accumulation and batch, as DeepSpeed itself completes them."""
    if batch is None:
        return micro, steps or 1, micro * (steps or 1) * dp
    if micro is None:
        micro = batch // (dp * (steps or 1))
    steps = steps or batch // (dp * micro) if micro else 0
    allowed = f"a multiple of {dp} replicas, a micro-batch and the steps of accumulation"
    options.require(micro * steps * dp == batch, BATCH, allowed)
    return micro, steps, batch


def _noted_batch(run: PlannedRun) -> dict:
    why = "the ranks of tp would count in train_batch_size: steps of accumulation say it"
    return {"batch": why} if run.layout.tp > 1 else {}


def _read_tensor(options: Options) -> dict:
    return {"tp": options.count(TP, 1, 0) or 1, "cp": options.count(CP, 1)}


def _may_offload(run: PlannedRun) -> bool:
    return run.layout.zero > 0 and not (_expert_degree(run) > 1 and run.layout.tp > 1)


def _write_zero(run: PlannedRun) -> dict:
    away = "optimizer" in run.layout.offload and _may_offload(run)
    return {ZERO: run.layout.zero} | ({OPTIMIZER_AWAY: "cpu"} if away else {})


def _read_zero(options: Options) -> dict:
    away = options.choice(OPTIMIZER_AWAY, {"none": False, "cpu": True}, "none")
    options.choice(WEIGHTS_AWAY, {"none": False}, "none")
    inputs = options.flag(INPUTS_AWAY)
    names = {"optimizer": away, "activations": inputs}
    zero = options.choice(ZERO, {stage: stage for stage in range(4)}, 0)
    return {"zero": zero, "offload": [name for name, there in names.items() if there]}


def _lost_offload(run: PlannedRun) -> dict:
    away, said = run.layout.offload, []
    if "optimizer" in away and not _may_offload(run):
        said.append("the optimizer stays without ZeRO, or with experts beside tp")
    if "activations" in away and run.layout.recompute != "full":
        said.append("only inputs of layers that are repeated can go, and none are")
    return {"offload": "; ".join(said)} if said else {}


def _noted_offload(run: PlannedRun) -> dict:
    away = "activations" in run.layout.offload and run.layout.recompute == "full"
    why = "inputs go where the program checkpoints with deepspeed.checkpointing"
    return {"offload": why} if away else {}


def _expert_degree(run: PlannedRun) -> int:
    layout = run.layout
    refused = layout.zero == 3 and max(layout.tp, _cp(run)) > 1
    inside = (layout.dp * _cp(run)) % layout.ep == 0
    return layout.ep * layout.tp if layout.ep > 1 and inside and not refused else 1


def _write_experts(run: PlannedRun) -> dict:
    ranks = _expert_degree(run)
    return {EXPERTS: True, EP: ranks} if ranks > 1 else {}


def _read_experts(options: Options) -> dict:
    tp = options.count(TP, 1, 0) or 1
    ranks = options.count(EP, 1) if options.flag(EXPERTS) else 1
    return expert_ranks(options, EP, ranks, TP, tp)


def _lost_experts(run: PlannedRun) -> dict:
    lost = run.layout.ep > 1 and _expert_degree(run) == 1
    why = "AutoEP refuses ZeRO stage 3 beside tp or cp, and divides experts among dp x cp"
    return {"ep": why} if lost else {}


def _noted_experts(run: PlannedRun) -> dict:
    return noted_experts(run, _expert_degree(run))


def _write_recompute(run: PlannedRun) -> dict:
    full = run.layout.recompute == "full"
    found = {INTERVAL: run.layout.segment} if full and run.layout.pp > 1 else {}
    away = full and "activations" in run.layout.offload
    return found | ({INPUTS_AWAY: True} if away else {})


def _read_recompute(options: Options) -> dict:
    each = options.count(INTERVAL, 0, 0)
    return {"recompute": "full", "segment": each} if each else {}


def _lost_recompute(run: PlannedRun) -> dict:
    policy = run.layout.recompute
    if policy == "none" or (policy == "full" and run.layout.pp > 1):
        return {}
    why = "the program switches it on; the JSON only for whole layers of a pipeline"
    segment = {"segment": "it goes with recompute"} if run.layout.segment > 1 else {}
    return {"recompute": why} | segment


def _lost_pipeline(run: PlannedRun) -> dict:
    if run.layout.pp == 1:
        return {}
    refused = ", which refuses ZeRO above 1" if run.layout.zero > 1 else ""
    return {"pp": f"the program builds the pipeline (PipelineModule){refused}"}


def _lost_stages(run: PlannedRun) -> dict:
    why = "the program divides layers among stages (partition_method)"
    return {"stages": why} if not run.is_even else {}


def _lost_always(run: PlannedRun) -> dict:
    return {
        "model": "the program builds the model",
        "seq": "the length of a sequence is not in its JSON, but in the program",
    }


ROWS = (
    Row((BATCH, MICRO, STEPS), _write_batch, _read_batch, noted=_noted_batch),
    Row((TP,), lambda run: {TP: run.layout.tp} if run.layout.tp > 1 else {}, _read_tensor),
    Row((CP, DP), _write_tokens, lost=_lost_tokens, noted=_noted_tokens),
    Row(
        (ZERO, OPTIMIZER_AWAY, WEIGHTS_AWAY), _write_zero, _read_zero, _lost_offload, _noted_offload
    ),
    Row((EXPERTS, EP), _write_experts, _read_experts, _lost_experts, _noted_experts),
    Row((INTERVAL, INPUTS_AWAY), _write_recompute, _read_recompute, _lost_recompute),
    Row(("bf16.enabled",), lambda run: {"bf16.enabled": True}),
    Row(lost=_lost_pipeline),
    Row(lost=_lost_stages),
    unsaid("interleave", "its pipeline runs 1F1B with one part for each stage"),
    unsaid("sequence_parallel", "AutoTP keeps what lies between the matrices whole"),
    unsaid("flash", "the attention kernel is the model's own"),
    Row(lost=_lost_always),
)


def _render(run: PlannedRun, options: Mapping) -> str:
    sections: dict = {}
    for name, value in options.items():
        *path, last = name.split(".")
        inner = sections
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return json.dumps(sections, indent=2) + "\n"


def _parse(text: str) -> tuple[dict, dict]:
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"{VERSION}: line {error.lineno} is no JSON: {error.msg}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{VERSION}: the file is {found!r}, but must be an object")
    return dict(flat(found)), {}


def _once(pairs: list) -> dict:
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{VERSION}: {twice[0]} stands twice")
    return dict(pairs)


DEEPSPEED = Program(
    NAME,
    VERSION,
    SOURCE,
    ROWS,
    _render,
    _parse,
    PASSED_OVER[NAME],
    FORMER[NAME],
)  # fmt: skip
