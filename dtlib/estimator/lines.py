"""The lines of an estimate: part 5's account of the fullest rank, the planner's step, the run."""

from dtlib.composition.planner.step import step_sheet
from dtlib.estimator.run import TrainingRun
from dtlib.formulas.sheet import Given, Line, Sheet, line, total
from dtlib.formulas.sheet_parts import renamed, settled, without_zeros
from dtlib.foundations.cost.steps import (
    all_steps_cost,
    all_steps_time,
    step_flops,
    tokens_per_second,
)
from dtlib.foundations.roofline.pace import arithmetic_time
from dtlib.memory import pipeline_memory
from dtlib.models.work import model_flops_utilisation, training_flops
from dtlib.parallelism import micro_batch_count

_COUNTED = "counted by the spec"
_RANKS_OWN = {"layers": "rank_layers", "again": "repeated", "work": "backward_work"}

_CHOICES = ("zero", "again")


def memory_lines(run: TrainingRun) -> tuple[dict[str, Given], dict[str, Line]]:
    """The account of the rank that holds most, with its terms as parts of one sum.

    What a stage has under a name of the whole model gets another one.
    """
    software = run.software
    accounts = pipeline_memory(
        run.spec, run.layout, seq=run.seq, micro_batches=run.micro_batches, gpu=run.gpu,
        recipe=software.recipe, program=software.program,
    )  # fmt: skip
    fullest = max(accounts, key=lambda one: one["memory"])
    account = settled(renamed(fullest, **_RANKS_OWN), *_CHOICES)
    given = _but_m(account.given) | {"replicas": Given(run.layout.dp, "", "replicas")}
    sums = [name for name in account.lines["memory"].parts if name != "state"]
    terms = [term for name in sums for term in account.lines[name].parts]
    lines = {name: one for name, one in account.lines.items() if name not in sums}
    return given, {
        "m": line(micro_batch_count, label="micro-batches of one rank", dp="replicas"),
        **lines,
        "memory": total("state", *terms, within="hbm"),
    }


def _but_m(given: dict[str, Given]) -> dict[str, Given]:
    """What is given, without the micro-batches, which an estimate has a line for."""
    return {name: entry for name, entry in given.items() if name != "m"}


def work_lines(run: TrainingRun) -> tuple[dict[str, Given], dict[str, Line]]:
    """The arithmetic of the model, which no layout changes."""
    spec, gpu = run.spec, run.gpu
    scores = 3 * spec.score_flops(run.seq)
    given = {
        "params": Given(spec.params(), "", "parameters", _COUNTED),
        "matmul_params": Given(spec.matmul_params(), "", "parameters that multiply", _COUNTED),
        "batch_tokens": Given(run.batch * run.seq, "", "tokens of a step"),
        "attention_flops": Given(scores, "FLOP", "attention of one token", _COUNTED),
        "P": Given(run.cluster.ranks, "", "ranks"),
        "peak": Given(gpu.peak(run.dtype), "FLOP/s", f"peak of one {gpu.name}", gpu.source),
    }
    return given, {
        "matrix_work": line(
            training_flops, label="work of the matrices",
            params="matmul_params", tokens="batch_tokens",
        ),
        "attention_work": line(
            step_flops, label="work of the attention scores", token_flops="attention_flops"
        ),
        "work": total("matrix_work", "attention_work", label="work of the model"),
    }  # fmt: skip


def step_lines(run: TrainingRun) -> tuple[dict[str, Given], dict[str, Line]]:
    """A step: from an MFU a single line, else the planner's, as far as the run has them."""
    if run.mfu is not None:
        label = "step, all that an MFU contains"
        by_mfu = line(arithmetic_time, label=label, flops="work", peak_fraction="mfu")
        return {"mfu": Given(run.mfu, "", "MFU", "assumed")}, {"step": by_mfu}
    sheet = step_sheet(
        run.spec, run.cluster, run.layout, batch=run.batch, seq=run.seq, software=run.software,
        dtype=run.dtype,
    )  # fmt: skip
    given = dict(sheet.given)
    if run.overlap is not None:
        given["overlap_fraction"] = Given(run.overlap, "", "share of it that hides", "assumed")
    sheet = Sheet(given, sheet.lines)
    if run.efficiency is not None:
        sheet = _at_efficiency(run, sheet)
    sheet = without_zeros(settled(sheet, *_CHOICES), "step")
    utilised = line(model_flops_utilisation, label="MFU", flops="work", time="step")
    return _but_m(sheet.given), sheet.lines | {"mfu": utilised}


def _at_efficiency(run: TrainingRun, sheet: Sheet) -> Sheet:
    """The same step in which all arithmetic runs at one share of the peak, and nothing else works.

    Each pass is its FLOP over the rate of the ranks that share it; the head's are the last stage's.
    """
    spec, layout, tokens = run.spec, run.layout, run.layout.micro_batch * run.seq
    head = sum(w.size * w.multiplied for w in spec.weights() if w.part == "head")
    scores = spec.score_flops(run.seq)
    forward = 2 * (spec.matmul_params() - head) + scores
    repeated = scores if layout.recompute == "selective" else 0
    work = {
        "f_products": (forward, "products and attention, forward"),
        "b_products": (2 * forward + repeated, "products and attention, backward"),
        "last_tables": (6 * head, "head"),
    }
    given = {
        name: Given(0.0, entry.unit, entry.label) if name in _OF_KERNELS else entry
        for name, entry in sheet.given.items()
        if name not in (*work, "tables", "sustained", "f_alone", "b_alone")
    }
    lines = {}
    for name, (flops, label) in work.items():
        given[f"{name}_flops"] = Given(flops * tokens, "FLOP", f"{label}, a micro-batch", _COUNTED)
        lines[name] = line(
            arithmetic_time, label=label, flops=f"{name}_flops", P="sharers",
            peak_fraction="efficiency",
        )  # fmt: skip
    given |= {
        "sharers": Given(layout.tp * layout.cp, "", "ranks that share a layer"),
        "peak": Given(run.gpu.peak(run.dtype), "FLOP/s", f"peak of one {run.gpu.name}"),
        "efficiency": Given(run.efficiency, "", "share of the peak", "assumed"),
    }
    lines["tables"] = total("last_tables", label="tables at both ends")
    others = {name: entry for name, entry in sheet.lines.items() if name not in lines}
    return Sheet(given, lines | others)


_OF_KERNELS = (
    "f_attention", "b_attention", "kept_bytes", "core_bytes", "sums", "first_tables",
    "layer_host", "layer_host_back", "call_host", "step_host",
)  # fmt: skip


def run_lines(run: TrainingRun) -> tuple[dict[str, Given], dict[str, Line]]:
    """Speed, and where tokens and a price are known, duration and cost."""
    given, lines = {}, {"speed": line(tokens_per_second)}
    if run.tokens is not None:
        given["tokens"] = Given(run.tokens, "", "tokens of the run")
        lines["run"] = line(all_steps_time, label="the whole run")
        if run.price is not None:
            given["price"] = Given(run.price, "USD/s", "price of one GPU")
            lines["cost"] = line(all_steps_cost)
    return given, lines
