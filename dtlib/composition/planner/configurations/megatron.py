"""Megatron-Core's configuration: the arguments of `pretrain_gpt.py`, as a table.

The number of replicas is no argument: it is what the other degrees leave of the GPUs, which the
launcher counts. Source: NVIDIA/Megatron-LM (Megatron-Core 0.20) at d98e8a6 of 22 August 2026,
training/arguments.py, training/argument_utils.py, core/transformer/transformer_config.py and
core/transformer/pipeline_parallel_layer_layout.py.
"""

import re
import shlex
from collections.abc import Mapping
from math import gcd
from string import Template

from dtlib.composition.planner.configurations.megatron_model import (
    LAYERS,
    MODEL_OPTIONS,
    model_options,
)
from dtlib.composition.planner.configurations.others import FORMER, PASSED_OVER
from dtlib.composition.planner.configurations.runs import (
    Options,
    PlannedRun,
    Program,
    Row,
    degree,
    lost_sequence,
    stages_of,
)

NAME = "megatron"
VERSION = "Megatron-Core 0.20"
SOURCE = "https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553"

NODES, PER_NODE = "--nnodes", "--nproc-per-node"
TP = "--tensor-model-parallel-size"
CP = "--context-parallel-size"
PP = "--pipeline-model-parallel-size"
EP = "--expert-model-parallel-size"
EXPERT_TP = "--expert-tensor-parallel-size"
SEQUENCE = "--sequence-parallel"
ZERO_1 = "--use-distributed-optimizer"
FSDP = "--use-megatron-fsdp"
SHARDING = "--data-parallel-sharding-strategy"
FORMAT = "--ckpt-format"
FSDP2, KEEPS = "--use-torch-fsdp2", "--torch-fsdp2-no-reshard-after-forward"
PARTS = "--num-virtual-stages-per-pipeline-rank"
PART_LAYERS = "--num-layers-per-virtual-pipeline-stage"
LAYOUT = "--pipeline-model-parallel-layout"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
MICRO, BATCH, SEQ = "--micro-batch-size", "--global-batch-size", "--seq-length"
ATTENTION = "--attention-backend"
RECOMPUTE = "--recompute-granularity"
METHOD, EACH = "--recompute-method", "--recompute-num-layers"
MODULES, SHORT = "--recompute-modules", "--recompute-activations"
OPTIMIZER_AWAY, PRECISION = "--optimizer-cpu-offload", "--use-precision-aware-optimizer"
FRACTION = "--optimizer-offload-fraction"
ACTIVATIONS_AWAY, AWAY_MODULES = "--fine-grained-activation-offloading", "--offload-modules"

_AWAY = "attn_norm qkv_linear core_attn attn_proj mlp_norm"
_STRATEGIES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def _write_gpus(run: PlannedRun) -> dict:
    ranks = run.layout.ranks
    per_node = gcd(ranks, 8)
    return {NODES: ranks // per_node, PER_NODE: per_node}


def _read_gpus(options: Options) -> dict:
    return {"dp": options.replicas(TP, CP, PP)}


def _write_zero(run: PlannedRun) -> dict:
    zero = run.layout.zero
    if zero < 2:
        return {ZERO_1: True} if zero else {}
    strategy = {stage: name for name, stage in _STRATEGIES.items()}[zero]
    return {FSDP: True, SHARDING: strategy, FORMAT: "fsdp_dtensor"}


def _read_zero(options: Options) -> dict:
    if options.flag(FSDP):
        return {"zero": options.choice(SHARDING, _STRATEGIES, "optim_grads_params")}
    if options.flag(FSDP2):
        return {"zero": 2 if options.flag(KEEPS) else 3}
    return {"zero": int(options.flag(ZERO_1))}


def _write_stages(run: PlannedRun) -> dict:
    if run.layout.pp == 1:
        return {}
    if run.is_even:
        return {PARTS: run.layout.interleave} if run.layout.interleave > 1 else {}
    parts = [f"t*{count}" if count > 1 else "t" * count for count in run.chunks]
    return {LAYOUT: "|".join(["E" + parts[0], *parts[1:-1], parts[-1] + "L"])}


def _noted_stages(run: PlannedRun) -> dict:
    refused = run.layout.interleave > 1 and run.micro_batches % run.layout.pp
    why = f"it refuses {run.micro_batches} micro-batches, which are no multiple of pp"
    return {"interleave": why} if refused else {}


def _read_stages(options: Options) -> dict:
    pp = options.count(PP, 1)
    if LAYOUT in options:
        sizes = _layers_of_parts(options)
        options.require(len(sizes) % pp == 0, LAYOUT, f"a multiple of {pp} parts")
        return stages_of(options, LAYOUT, sizes, pp)
    found = {"interleave": options.count(PARTS, 1)}
    if PART_LAYERS in options:
        each = pp * options.count(PART_LAYERS)
        layers = options.layers(PART_LAYERS)
        options.require(layers % each == 0, PART_LAYERS, f"a divisor of {layers} layers over {pp}")
        found["interleave"] = layers // each
    if FIRST in options or LAST in options:
        found["stages"] = _uneven(options, pp)
    return found


def _layers_of_parts(options: Options) -> list[int]:
    """Layers of each part of a layout such as 'Et*3|(t*4|)*2L'."""
    said = str(options.value(LAYOUT)).replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        said = re.sub(pattern, lambda found: found[1] * int(found[2]), said)
    known = set(said) <= set("EtL|")
    options.require(known, LAYOUT, "of E, t, L, |, with a star and a number for repeats")
    return [part.count("t") for part in said.split("|")]


def _uneven(options: Options, pp: int) -> list[int]:
    """The layers of stages whose ends are given: what is between them is divided evenly."""
    layers = options.layers("what the ends leave")
    ends = [options.count(name) for name in (FIRST, LAST)]
    left = layers - sum(end or 0 for end in ends)
    between = pp - sum(end is not None for end in ends)
    name = FIRST if ends[0] is not None else LAST
    whole = between > 0 and left % between == 0
    options.require(whole, name, f"such that {between} stages share the other {left} layers")
    middle = left // between
    return [ends[0] or middle, *[middle] * (pp - 2), ends[1] or middle]


def _write_recompute(run: PlannedRun) -> dict:
    policy = run.layout.recompute
    if policy == "full":
        return {RECOMPUTE: "full", METHOD: "uniform", EACH: run.layout.segment}
    return {RECOMPUTE: "selective", MODULES: "core_attn"} if policy == "selective" else {}


def _read_recompute(options: Options) -> dict:
    policies = {"full": "full", "selective": "selective", "none": "none"}
    short = "selective" if options.flag(SHORT) else "none"
    policy = options.choice(RECOMPUTE, policies, short)
    options.choice(METHOD, {"uniform": True}, "uniform")
    if policy == "selective":
        options.choice(MODULES, {"core_attn": True}, "core_attn")
    return {"recompute": policy, "segment": options.count(EACH, 1) if policy == "full" else 1}


def _lost_recompute(run: PlannedRun) -> dict:
    named = not isinstance(run.layout.recompute, str)
    why = f"{MODULES} names modules, not tensors: everything is kept"
    return {"recompute": why} if named else {}


def _write_offload(run: PlannedRun) -> dict:
    away = run.layout.offload
    found = {OPTIMIZER_AWAY: True, PRECISION: True} if "optimizer" in away else {}
    if "activations" in away and not _repeats_all(run):
        more = " expert_fc1 moe_act" if run.spec.moe else ""
        found |= {ACTIVATIONS_AWAY: True, AWAY_MODULES: _AWAY + more}
    return found


def _read_offload(options: Options) -> dict:
    options.choice(FRACTION, {"1.0": True, "1": True}, "1.0")
    there = {
        "optimizer": options.flag(OPTIMIZER_AWAY),
        "activations": options.flag(ACTIVATIONS_AWAY),
    }
    return {"offload": [name for name, away in there.items() if away]}


def _repeats_all(run: PlannedRun) -> bool:
    """Whether activations are to go away from layers that are repeated as a whole."""
    return "activations" in run.layout.offload and run.layout.recompute == "full"


def _lost_offload(run: PlannedRun) -> dict:
    why = "a layer that is repeated as a whole sends nothing: its input stays"
    return {"offload": why} if _repeats_all(run) else {}


def _noted_offload(run: PlannedRun) -> dict:
    sent = "activations" in run.layout.offload and not _repeats_all(run)
    why = "what a feed-forward block keeps inside stays: only experts can send it"
    return {"offload": why} if sent else {}


def _write_experts(run: PlannedRun) -> dict:
    layout = run.layout
    return {EP: layout.ep, EXPERT_TP: layout.tp} if layout.ep > 1 else {EP: 1}


def _read_experts(options: Options) -> dict:
    tp = options.count(TP, 1)
    allowed = f"{TP}, which is {tp}: a Layout has no other"
    options.require(options.count(EXPERT_TP, tp) == tp, EXPERT_TP, allowed)
    return {"ep": options.count(EP, 1)}


def _read_batch(options: Options) -> dict:
    options.require(MICRO in options, MICRO, "given, as Megatron-Core itself demands")
    micro = options.count(MICRO)
    batch = options.count(BATCH, micro * _read_gpus(options)["dp"])
    return {"micro_batch": micro, "batch": batch, "seq": options.count(SEQ)}


def _write_attention(run: PlannedRun) -> dict:
    return {ATTENTION: "flash" if run.layout.flash else "unfused"}


def _read_attention(options: Options) -> dict:
    stored = {"flash": True, "fused": True, "auto": True, "unfused": False, "local": False}
    return {"flash": options.choice(ATTENTION, stored, "auto")}


def _noted_sequence(run: PlannedRun) -> dict:
    alone = run.spec.moe and run.layout.tp > 1 and not run.layout.sequence_parallel
    return {"sequence_parallel": "it refuses experts beside tp without it"} if alone else {}


def _sequence(options: Options) -> dict:
    return {"sequence_parallel": options.flag(SEQUENCE) and options.count(TP, 1) > 1}


ROWS = (
    Row((NODES, PER_NODE), _write_gpus, _read_gpus),
    Row(MODEL_OPTIONS, lambda run: model_options(run.spec, run.seq)),
    degree("tp", TP),
    Row((SEQUENCE,), lambda run: {SEQUENCE: True} if run.layout.sequence_parallel else {},
        _sequence, lost_sequence, _noted_sequence),
    degree("cp", CP),
    degree("pp", PP),
    Row((PARTS, PART_LAYERS, LAYOUT, FIRST, LAST), _write_stages, _read_stages,
        noted=_noted_stages),
    Row((EP, EXPERT_TP), _write_experts, _read_experts),
    Row((ZERO_1, FSDP, SHARDING, FORMAT, FSDP2, KEEPS), _write_zero, _read_zero),
    Row((MICRO, BATCH, SEQ), lambda run: {
        MICRO: run.layout.micro_batch, BATCH: run.batch, SEQ: run.seq}, _read_batch),
    Row((ATTENTION,), _write_attention, _read_attention),
    Row((RECOMPUTE, METHOD, EACH, MODULES, SHORT), _write_recompute, _read_recompute,
        _lost_recompute),
    Row((OPTIMIZER_AWAY, PRECISION, FRACTION, ACTIVATIONS_AWAY, AWAY_MODULES), _write_offload,
        _read_offload, _lost_offload, _noted_offload),
    Row(("--bf16",), lambda run: {"--bf16": True}),
)  # fmt: skip


def _render(run: PlannedRun, options: Mapping) -> str:
    """A script: the launcher's own options stand before the program."""
    said = {
        name: name if value is True else f"{name} {_quoted(name, value)}"
        for name, value in options.items()
    }
    launcher = "".join(said.pop(name) + " " for name in (NODES, PER_NODE) if name in said)
    ordered = run.layout.tp * run.layout.cp > 1 and run.layout.zero < 2
    lines = [
        "#!/bin/bash",
        f"# {run.spec.name} on {run.layout.ranks} GPUs.",
        f"# {run.layout}.",
        f"# For {VERSION}, {SOURCE}",
        "# Data, tokenizer, optimizer, schedule and checkpoints are to be added.",
        *(["export CUDA_DEVICE_MAX_CONNECTIONS=1"] if ordered else []),
        f"torchrun {launcher}pretrain_gpt.py \\",
        " \\\n".join(f"    {line}" for line in said.values()),
    ]
    return "\n".join(lines) + "\n"


def _quoted(name: str, value) -> str:
    return str(value) if name == AWAY_MODULES else shlex.quote(str(value))


def _parse(text: str) -> tuple[dict, dict]:
    """The options of a script or of a list of arguments; variables it sets itself are put in."""
    try:
        words = shlex.split(_with_variables(text))
    except ValueError as error:
        raise ValueError(f"{VERSION}: the text is no list of arguments: {error}") from None
    found, name = {}, None
    for word in words:
        if word.startswith("--"):
            name, *value = re.split("[= ]", word, maxsplit=1)
            name = PER_NODE if name == "--nproc_per_node" else name
            found[name] = value[0] if value else True
        elif word.endswith(".py"):
            name = None
        elif name and not re.fullmatch(r"\w+=\(?.*|[()]|.*\[@\].*|torchrun|export", word):
            found[name] = word if found[name] is True else f"{found[name]} {word}"
    options = Options(VERSION, found, None, None)
    said = {"layers": options.count(LAYERS)} if LAYERS in found else {}
    if NODES in found and PER_NODE in found:
        said["gpus"] = options.count(NODES) * options.count(PER_NODE)
    return found, said


def _with_variables(text: str) -> str:
    """A script in one line for each command, with the values of the variables that it sets."""
    text = re.sub(r"(?m)(^|\s)#.*$", "", text.replace("\\\n", " "))
    assignment = r"(?m)^\s*(?:export\s+)?(\w+)=([^\s(]+)\s*$"
    plain = {name: value for name, value in re.findall(assignment, text) if "$" not in value}
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: plain.get(found[1], found[2]), text)
    return Template(text).safe_substitute(dict(re.findall(assignment, text)))


MEGATRON = Program(
    NAME,
    VERSION,
    SOURCE,
    ROWS,
    _render,
    _parse,
    PASSED_OVER[NAME],
    FORMER[NAME],
)  # fmt: skip
