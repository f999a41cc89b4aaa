"""torchtitan's configuration: a Python function that returns a `Trainer.Config`, as a table.

Since February 2026 torchtitan reads no TOML: a run is a function, selected with `--module` and
`--config`, which takes a configuration of its registry and sets options of it. Since 20 August
2026 its batches are counted in tokens.
Source: pytorch/torchtitan at b5bcd76 of 21 August 2026, config/configs.py, trainer.py,
distributed/pipeline_parallel.py, distributed/fsdp.py and models/*/config_registry.py.
"""

import tomllib

from dtlib.composition.planner.configurations.others import FORMER, PASSED_OVER
from dtlib.composition.planner.configurations.python_text import (
    flat,
    read_function,
    write_function,
)
from dtlib.composition.planner.configurations.runs import (
    Options,
    PlannedRun,
    Program,
    Row,
    degree,
    expert_ranks,
    lost_sequence,
    noted_experts,
    stages_of,
    unsaid,
)

NAME = "torchtitan"
VERSION = "torchtitan b5bcd76"
SOURCE = "https://github.com/pytorch/torchtitan/tree/b5bcd76c66d0acb1a08b176d9639425bc55e0b2a"

TP = "parallelism.tensor_parallel_degree"
CP = "parallelism.context_parallel_degree"
PP = "parallelism.pipeline_parallel_degree"
EP = "parallelism.expert_parallel_degree"
REPLICATE = "parallelism.data_parallel_replicate_degree"
SHARD = "parallelism.data_parallel_shard_degree"
RESHARD = "parallelism.fsdp_reshard_after_forward"
SCHEDULE = "parallelism.pipeline_parallel_schedule"
PARTS = "parallelism.module_fqns_per_model_part"
PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
FIRST_LESS = "parallelism.pipeline_parallel_first_stage_less_layers"
LAST_LESS = "parallelism.pipeline_parallel_last_stage_less_layers"
MICRO_BATCHES = "parallelism.num_pp_microbatches"
SEQUENCE = "parallelism.enable_sequence_parallel"
TOKENS = "training.num_tokens_per_microbatch_per_dp_rank"
STEP_TOKENS = "training.num_tokens_per_train_step"
CONTEXT = "training.max_context_length"
NO_GRAPHS = "training.disable_cuda_graphs"
OFFLOAD = "training.enable_cpu_offload"
RECOMPUTE = "activation_checkpoint"
SHARED_BY_CP = "the ranks of cp share the state as those of FSDP do, whatever is asked"
POLICIES = {
    "none": "None",
    "full": "FullAC.Config()",
    "selective": "SelectiveAC.Config()",
}

# Layers, width, heads and vocabulary of a model: where torchtitan's registry has it.
MODELS = {
    (32, 4096, 32, 128256): ("llama3", "llama3_8b"),
    (80, 8192, 64, 128256): ("llama3", "llama3_70b"),
    (126, 16384, 128, 128256): ("llama3", "llama3_405b"),
    (61, 7168, 128, 129280): ("deepseek_v3", "deepseek_v3_671b"),
}
# What these functions set, where that is not the default.
_LLAMA = {CONTEXT: 8192, RECOMPUTE: POLICIES["full"], TP: 8}
BASES = {
    "llama3_8b": _LLAMA | {TOKENS: 8192, TP: 1, RECOMPUTE: POLICIES["selective"]},
    "llama3_70b": _LLAMA | {TOKENS: 65536},
    "llama3_405b": _LLAMA | {TOKENS: 16384},
    "deepseek_v3_671b": {CONTEXT: 4096, TOKENS: 16384, SCHEDULE: "Interleaved1F1B", EP: 2},
    "Trainer.Config": {},
}


def _write_data(run: PlannedRun) -> dict:
    layout = run.layout
    return {
        REPLICATE: 1 if layout.zero else layout.dp,
        SHARD: layout.dp if layout.zero else 1,
        RESHARD: "always" if layout.zero == 3 else "never",
    }


def _read_data(options: Options) -> dict:
    replicate, cp = options.count(REPLICATE, 1), options.count(CP, 1)
    rest = options.value(SHARD, -1) == -1
    shard = options.replicas(REPLICATE, TP, CP, PP) if rest else options.count(SHARD)
    allowed = "1 where replicas are sharded: a Layout has one data axis"
    options.require(1 in (replicate, shard), REPLICATE, allowed)
    by_default = 2 if options.count(PP, 1) > 1 else 3
    meanings = {"default": by_default, "always": 3, "never": 2}
    stage = options.choice(RESHARD, meanings, "default")
    return {"dp": replicate * shard, "zero": stage if replicate == 1 and shard * cp > 1 else 0}


def _lost_zero(run: PlannedRun) -> dict:
    layout = run.layout
    if layout.zero == 1:
        return {"zero": "FSDP divides gradients as well; whole weights between passes are stage 2"}
    if layout.zero and layout.dp * layout.cp == 1:
        return {"zero": "one replica has nobody to share its state with"}
    if layout.zero == 0 and layout.dp == 1 and layout.cp > 1:
        return {"zero": SHARED_BY_CP}
    return {}


def _noted_zero(run: PlannedRun) -> dict:
    layout = run.layout
    return {"zero": SHARED_BY_CP} if layout.zero == 0 and layout.cp > 1 < layout.dp else {}


def _expert_degree(run: PlannedRun) -> int:
    """Ranks of cp and of the sharded data axis, with the tp ranks that come first among them."""
    layout = run.layout
    sharing = layout.cp * (layout.dp if layout.zero else 1)
    return layout.ep * layout.tp if layout.ep > 1 and sharing % layout.ep == 0 else 1


def _read_experts(options: Options) -> dict:
    return expert_ranks(options, EP, options.count(EP, 1), TP, options.count(TP, 1))


def _lost_experts(run: PlannedRun) -> dict:
    lost = run.layout.ep > 1 and _expert_degree(run) == 1
    why = "experts are divided among ranks that shard, and without ZeRO those are the ranks of cp"
    return {"ep": why} if lost else {}


def _noted_experts(run: PlannedRun) -> dict:
    return noted_experts(run, _expert_degree(run))


def _write_pipeline(run: PlannedRun) -> dict:
    if run.layout.pp == 1:
        return {}
    looped = run.layout.interleave > 1
    found = {SCHEDULE: "Interleaved1F1B" if looped else "1F1B", MICRO_BATCHES: run.micro_batches}
    if run.is_even and not looped:
        return found | {FIRST_LESS: 0, LAST_LESS: 0}
    parts, at = [], 0
    for count in run.chunks:
        parts.append([f"layers.{layer}" for layer in range(at, at + count)])
        at += count
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "lm_head"]
    return found | {PARTS: parts}


def _noted_pipeline(run: PlannedRun) -> dict:
    m, pp = run.micro_batches, run.layout.pp
    refused = run.layout.interleave > 1 and m % max(1, m // pp)
    why = f"it refuses {m} micro-batches, which do not divide into {m // pp} rounds"
    return {"interleave": why} if refused else {}


def _read_pipeline(options: Options) -> dict:
    pp = options.count(PP, 1)
    if pp == 1:
        return {}
    looped = options.choice(SCHEDULE, {"1F1B": False, "Interleaved1F1B": True}, "1F1B")
    plain = options.value(FIRST_LESS, 1) == options.value(LAST_LESS, 1) == 0
    if PARTS in options:
        parts = options.value(PARTS)
        lists = isinstance(parts, list) and all(isinstance(part, list) for part in parts)
        options.require(lists, PARTS, "lists of names")
        sizes = [sum(str(name).startswith("layers.") for name in part) for part in parts]
    elif plain and not looped:
        return {}
    else:
        sizes = _split(options, pp, looped)
    allowed = f"{'several parts' if looped else 'one part'} for each of the {pp} stages"
    whole = len(sizes) % pp == 0 and (len(sizes) > pp) == looped
    options.require(whole, PARTS, allowed, sizes)
    return stages_of(options, PARTS, sizes, pp)


def _split(options: Options, pp: int, looped: bool) -> list[int]:
    """Layers of each part where torchtitan divides them: the ends count as layers of their own."""
    layers = options.layers("how torchtitan divides them")
    first, last = options.count(FIRST_LESS, 1, 0), options.count(LAST_LESS, 1, 0)
    whole, each = layers + first + last, options.count(PER_STAGE)
    parts = pp * (2 if looped else 1) if each is None else -(-whole // each)
    sizes = [whole // parts + (place < whole % parts) for place in range(parts)]
    sizes[0] -= first
    sizes[-1] -= last
    return sizes


def _write_tokens(run: PlannedRun) -> dict:
    return {
        CONTEXT: run.seq,
        TOKENS: run.layout.micro_batch * run.seq,
        STEP_TOKENS: run.batch * run.seq,
    }


def _read_tokens(options: Options) -> dict:
    seq, tokens = options.count(CONTEXT, 2048), options.count(TOKENS, 16384)
    pp, dp = options.count(PP, 1), _read_data(options)["dp"]
    options.require(tokens % seq == 0, TOKENS, f"a multiple of {CONTEXT}, which is {seq}")
    at_once = tokens * dp * (options.count(MICRO_BATCHES, 1) if pp > 1 else 1)
    whole = at_once if options.value(STEP_TOKENS, -1) == -1 else options.count(STEP_TOKENS)
    allowed = f"a multiple of {at_once}, the tokens of all replicas at once"
    options.require(whole % at_once == 0, STEP_TOKENS, allowed)
    once = f"{at_once}: a Layout fills and drains its pipeline once in a step"
    options.require(pp == 1 or whole == at_once, STEP_TOKENS, once)
    return {"micro_batch": tokens // seq, "batch": whole // seq, "seq": seq}


def _sequence_is_shared(options: Options) -> dict:
    return {"sequence_parallel": options.flag(SEQUENCE, True) and options.count(TP, 1) > 1}


def _policy(run: PlannedRun) -> str:
    policy = run.layout.recompute
    return POLICIES[policy] if isinstance(policy, str) else POLICIES["none"]


def _lost_policy(run: PlannedRun) -> dict:
    named = not isinstance(run.layout.recompute, str)
    why = "it has no policy by tensors that are named: everything is kept"
    found = {"recompute": why} if named else {}
    return found | (
        {"segment": "the input of each layer is kept"} if run.layout.segment > 1 else {}
    )


def _noted_policy(run: PlannedRun) -> dict:
    why = "SelectiveAC keeps attention and every second product, and repeats the rest"
    return {"recompute": why} if run.layout.recompute == "selective" else {}


def _lost_offload(run: PlannedRun) -> dict:
    away = "activations" in run.layout.offload
    return {"offload": "activations stay"} if away else {}


def _noted_offload(run: PlannedRun) -> dict:
    away = "optimizer" in run.layout.offload
    return {"offload": "weights and gradients wait with the optimizer's state"} if away else {}


def _read_offload(options: Options) -> dict:
    return {"offload": ("optimizer",) if options.flag(OFFLOAD) else ()}


def _write_graphs(run: PlannedRun) -> dict:
    return {NO_GRAPHS: run.layout.pp > 1 or run.layout.ep > 1}


def _model(run: PlannedRun) -> tuple[str, str] | None:
    spec = run.spec
    return MODELS.get((spec.layers, spec.hidden, spec.heads, spec.vocab))


def _lost_model(run: PlannedRun) -> dict:
    why = "its registry has no such model: begin with a function of your own, not with llama3_8b"
    return {} if _model(run) else {"model": why}


ROWS = (
    degree("tp", TP),
    Row((SEQUENCE,), lambda run: {SEQUENCE: run.layout.sequence_parallel}, _sequence_is_shared,
        lost_sequence),
    degree("cp", CP),
    degree("pp", PP),
    Row((SCHEDULE, MICRO_BATCHES, FIRST_LESS, LAST_LESS, PER_STAGE, PARTS), _write_pipeline,
        _read_pipeline, noted=_noted_pipeline),
    Row((REPLICATE, SHARD, RESHARD), _write_data, _read_data, _lost_zero, _noted_zero),
    Row((EP,), lambda run: {EP: _expert_degree(run)}, _read_experts, _lost_experts,
        _noted_experts),
    Row((CONTEXT, TOKENS, STEP_TOKENS), _write_tokens, _read_tokens),
    Row((RECOMPUTE,), lambda run: {RECOMPUTE: _policy(run)}, lambda options: {
        "recompute": options.choice(RECOMPUTE, {v: k for k, v in POLICIES.items()},
                                    POLICIES["selective"])}, _lost_policy, _noted_policy),
    Row((OFFLOAD,), lambda run: {OFFLOAD: "optimizer" in run.layout.offload}, _read_offload,
        _lost_offload, _noted_offload),
    Row((NO_GRAPHS,), _write_graphs),
    unsaid("flash", "its attention (flex, flex_flash, varlen) never stores its scores"),
    Row(lost=_lost_model),
)  # fmt: skip


def _render(run: PlannedRun, options: dict) -> str:
    package, base = _model(run) or MODELS[32, 4096, 32, 128256]
    return write_function(
        f"{run.spec.name} on {run.layout.ranks} GPUs.\n\n{run.layout}.\nFor {SOURCE}.\n",
        f"torchtitan.models.{package}.config_registry",
        base,
        options,
    )


def _parse(text: str) -> tuple[dict, dict]:
    """The options of a function, over those of the function that it begins with."""
    _refuse_toml(text)
    base, found = read_function(VERSION, text)
    layers = {name: size[0] for size, (_, name) in MODELS.items()}
    if base not in BASES:
        for name in (TP, CP, PP, SHARD, REPLICATE, TOKENS, CONTEXT, RECOMPUTE):
            if name not in found:
                raise ValueError(
                    f"{VERSION}: {name} is not set, and what {base} sets is not known here"
                )
    known = {"layers": layers[base]} if base in layers else {}
    return BASES.get(base, {}) | found, known


def _refuse_toml(text: str) -> None:
    """Raise ValueError, with an option of it, for a file as torchtitan read it until 2026."""
    try:
        options = dict(flat(tomllib.loads(text)))
    except tomllib.TOMLDecodeError:
        return
    for name in [*(name for name in options if name in FORMER[NAME]), *options]:
        now = FORMER[NAME].get(name, "a function of Python sets it")
        raise ValueError(
            f"{VERSION}: {name} is {options[name]!r}, but that is of another version: now {now}"
        )


TORCHTITAN = Program(
    NAME,
    VERSION,
    SOURCE,
    ROWS,
    _render,
    _parse,
    PASSED_OVER[NAME],
    FORMER[NAME],
)  # fmt: skip
