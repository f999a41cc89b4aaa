"""``python -m dtlib plan``: the five best layouts of a run and why, from a terminal or a build.

python -m dtlib plan --model llama-3-8b --gpus 64 --gpu h100     the best layouts, and reasons
    --batch 512 --seq 8192      sequences of a step (4 Mi tokens), tokens of each (the context)
    --software megatron         the profile of what runs it
    --why tp=8,pp=2             why the best layout with these changes is not the first
    --write megatron            the best one as a file of a program (torchtitan, deepspeed)
    --read megatron FILE        why the layout of such a file is not the first
    --json                      the same as data
    --assert 'memory < 75 GB' 'mfu > 0.4'    exit status 1 where the best layout does not hold it
python -m dtlib plan --script train.py --gpus 64 --gpu h100
                                what an unmodified script computes, holds and sends, its price, and
                                which layouts of its model would be faster than its own
    --args '--tp 8'             the script's own arguments
    --model NAME, --config FILE     its model, where the step does not show it: a known one, or a
                                config.json; --software (fsdp), --why, --write, --json, --assert as
                                above, the assertions of the script's own layout

Exit status: 0, or 1 where an assertion fails, or 2 for what is not understood or cannot be.
"""

import argparse
import json
import operator
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from dtlib.composition.planner.configurations.exchange import (
    read_configuration,
    write_configuration,
)
from dtlib.composition.planner.plans import Plan, Plans, plan
from dtlib.composition.planner.script.comparison import ScriptComparison, compare_script
from dtlib.composition.planner.script.config_file import read_model
from dtlib.composition.planner.script.prices import ScriptPrice, script_price
from dtlib.composition.planner.script.reader import ScriptError, read_script
from dtlib.formulas.units import format_quantity, parse_quantity
from dtlib.foundations import catalog
from dtlib.machines.machine import GPU, Cluster, Node
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

STEP_TOKENS = 2**22
FACTS = {"memory": "B", "time": "s", "mfu": "", "tokens_per_second": ""}
SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_ASSERTION = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*(.+)")


def _before(name: str, later: str) -> TransformerSpec:
    return replace(published_models[later], name=name, context=8192)


# Llama 3 has the shapes of 3.1 and was trained with sequences of 8,192 tokens.
MODELS = {
    **published_models,
    **{
        f"llama-3-{size}": _before(f"llama-3-{size}", f"llama-3.1-{size}") for size in ("8b", "70b")
    },
}
PORTS = {"a100-sxm": "ib-hdr200", "b200-sxm": "ib-ndr400", "v100-sxm": "ethernet-100"}


def plan_command(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    asked = _parser().parse_args(arguments)
    try:
        claims = [read_assertion(text) for text in asked.claims]
        price, script = _script(asked) if asked.script else (None, None)
        plans = script.plans if script else _plans(asked)
        said = [plans.why_not(**_changes(asked.why))] if asked.why else []
        said += [_judged(plans, *asked.read)] if asked.read else []
        if asked.write:
            return _written(plans, asked.write)
    except (ValueError, KeyError, TypeError, OSError, ScriptError) as wrong:
        print(f"plan: {_words(wrong)}", file=sys.stderr)
        return 2
    judged = script.own if script else plans[0]
    broken = [said_false for claim in claims if (said_false := claim(judged))]
    if asked.json:
        told = as_data(plans, broken) | (script_data(price, script) if script else {})
        print(json.dumps(told, indent=2))
    else:
        print(_script_text(price, script, said) if script else _text(plans, said))
    for sentence in broken:
        print(f"plan: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def read_assertion(text: str):
    """A claim such as 'memory < 75 GB' as a function of a plan: what is false of it, or nothing.

    Raises ValueError, naming what is wrong, for a claim that cannot be read.

    >>> read_assertion("memory under 75 GB")
    Traceback (most recent call last):
    ValueError: assert 'memory under 75 GB': expected a name, one of <=, >=, <, > and a quantity
    """
    match = _ASSERTION.fullmatch(text)
    signs = "a name, one of <=, >=, <, > and a quantity"
    if not match:
        raise ValueError(f"assert {text!r}: expected {signs}")
    name, sign, bound = match.groups()
    if name not in FACTS:
        raise ValueError(f"assert {text!r}: no {name!r} of a plan; there are {', '.join(FACTS)}")
    quantity = parse_quantity(bound)
    if quantity.unit != FACTS[name]:
        unit = FACTS[name] or "a plain number"
        raise ValueError(f"assert {text!r}: {name} is in {unit}, but {bound!r} is not")

    def false_of(plan: Plan) -> str:
        value = getattr(plan, name)
        holds = SIGNS[sign](value, quantity.value)
        found = format_quantity(value, FACTS[name], 3) if FACTS[name] else f"{value:.4g}"
        return "" if holds else f"{text} does not hold: {name} of the best layout is {found}"

    return false_of


def as_data(plans: Plans, broken: Sequence[str] = (), count: int = 5) -> dict:
    """The best plans as data: seconds, bytes, shares; fields of a layout by name."""
    question = plans.question
    return {
        "model": question.work.spec.name,
        "gpus": question.cluster.ranks,
        "gpu": question.cluster.node.gpu.name,
        "batch": question.work.batch,
        "seq": question.work.seq,
        "software": question.software,
        "limit_bytes": question.limit,
        "funnel": dict(plans.funnel),
        "plans": [_plan_data(one) for one in plans[:count]],
        "broken_assertions": list(broken),
    }


def script_data(price: ScriptPrice, script: ScriptComparison) -> dict:
    """What a script's step shows, what it costs, and how many layouts are faster, as data."""
    reading, spec = script.reading, script.plans.question.work.spec
    sizes = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "gated", "tied", "positions")
    near = script.nearest
    return {
        "script": reading.script,
        "model_sizes": {name: getattr(spec, name) for name in sizes} | {"params": spec.params()},
        "model_is_read": script.described,
        "read": {
            "params": reading.param_count, "flops": reading.flops, "held_bytes": reading.held,
            "kept_bytes": reading.kept_bytes, "micro_batches": reading.micro_batches,
            "reason": reading.reason,
        },
        "price": {
            "computing": price.computing,
            "sending": [
                {"phase": phase, "operation": operation, "ranks": ranks, "seconds": seconds}
                for (phase, operation, ranks), seconds in price.sending.items()
            ],
            "unpriced": price.unpriced,
        },
        "own": _plan_data(script.own) | {"fits": script.own.memory <= script.plans.question.limit},
        "faster": len(script.faster),
        "one_other_choice": near and _plan_data(near),
    }  # fmt: skip


def _plan_data(one: Plan) -> dict:
    return {
        "layout": {name: getattr(one.layout, name) for name in _FIELDS},
        "seconds": one.time,
        "bytes": one.memory,
        "mfu": one.mfu,
        "tokens_per_second": one.tokens_per_second,
        "parts": one.parts,
    }


def cluster_of(gpu: str, gpus: int) -> Cluster:
    """So many GPUs of a kind, in nodes of eight with a port for each, or in one smaller node.

    Raises ValueError for a GPU that is not known, and for nodes that are not full.

    >>> cluster_of("h100", 64), cluster_of("h100", 4).node.gpus
    (Cluster(8 x dgx-h100, 64 GPUs), 4)
    """
    names = [name for name, found in catalog.items() if isinstance(found, GPU)]
    name = gpu if gpu in names else f"{gpu}-sxm"
    if name not in names:
        raise ValueError(f"--gpu {gpu!r}: not in the catalog; known are {', '.join(names)}")
    full = next((x for x in catalog.values() if isinstance(x, Node) and x.gpu.name == name), None)
    port = catalog[PORTS.get(name, "ib-ndr400")]
    node = full or Node(f"8 x {name}", catalog[name], 8, port, 8, "assumed: a port a GPU", "2026")
    if gpus < node.gpus:
        return Cluster(replace(node, gpus=gpus, nics=gpus), 1)
    if gpus % node.gpus:
        raise ValueError(
            f"--gpus {gpus}: must be below or a multiple of {node.gpus}, a node's GPUs"
        )
    return Cluster(node, gpus // node.gpus)


def _plans(asked) -> Plans:
    spec, cluster = _model(asked), cluster_of(asked.gpu, asked.gpus)
    if spec is None:
        raise ValueError(f"--model: must be given, one of {', '.join(MODELS)}; or --script")
    seq = spec.context if asked.seq is None else asked.seq
    if seq is None:
        raise ValueError(f"--seq: must be given, as {spec.name!r} has no context")
    batch = max(1, STEP_TOKENS // max(1, seq)) if asked.batch is None else asked.batch
    software = asked.software or "megatron"
    return plan(spec, cluster, batch=batch, seq=seq, software=software)


def _model(asked) -> TransformerSpec | None:
    """The model that was named or described by a file, or None."""
    if asked.config:
        return read_model(asked.config)
    if asked.model is not None and asked.model not in MODELS:
        near = get_close_matches(asked.model, MODELS, n=3, cutoff=0.3) or list(MODELS)
        raise ValueError(f"--model {asked.model!r}: not known; near are {', '.join(near)}")
    return MODELS.get(asked.model)


def _script(asked) -> tuple[ScriptPrice, ScriptComparison]:
    """Read a script as rank 0 of all GPUs; what its step takes, beside its model's layouts.

    What was read is printed also where the comparison cannot be made.
    """
    for name in ("batch", "seq"):
        value = getattr(asked, name)
        if value is not None:
            raise ValueError(f"--{name} {value}: a script has its own; leave it out")
    model, cluster = _model(asked), cluster_of(asked.gpu, asked.gpus)
    reading = read_script(asked.script, asked.gpus, shlex.split(asked.args))
    price = script_price(reading, cluster)
    try:
        return price, compare_script(reading, cluster, model, software=asked.software or "fsdp")
    except (ScriptError, ValueError):
        if not asked.json:
            print(f"{reading}\n\n{price!r}")
        raise


def _written(plans: Plans, program: str) -> int:
    """Print the best layout as a program's file, and below it what that file cannot say."""
    work = plans.question.work
    file = write_configuration(program, work.spec, plans[0].layout, batch=work.batch, seq=work.seq)
    print(file.text)
    for sentence in (*file.left_out, *file.noted):
        print(f"plan: {sentence}", file=sys.stderr)
    return 0


def _judged(plans: Plans, program: str, path: str) -> str:
    """Why the layout in a program's file is not the first."""
    text = Path(path).read_text(encoding="utf-8")
    run = read_configuration(program, text, gpus=plans.question.cluster.ranks)
    return plans.why_not(run.layout)


def _changes(text: str) -> dict:
    """Fields of a layout from 'tp=8,recompute=full'."""
    found = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--why {text!r}: expected fields such as tp=8,recompute=full")
        whole = value.strip().lstrip("-").isdigit()
        found[name.strip()] = int(value) if whole else value.strip()
    return found


def _text(plans: Plans, said: Sequence[str]) -> str:
    counts = " → ".join(f"{count:,} {name}" for name, count in plans.funnel.items())
    return "\n\n".join([repr(plans), f"What each rule left: {counts}", plans[0].explain(), *said])


def _script_text(price: ScriptPrice, script: ScriptComparison, said: Sequence[str]) -> str:
    return "\n\n".join([str(script.reading), repr(price), repr(script), *said])


def _words(wrong: Exception) -> str:
    return str(wrong.args[0] if isinstance(wrong, KeyError) else wrong)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dtlib plan", usage="%(prog)s --model NAME --gpus N [options]",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    hidden = argparse.SUPPRESS
    parser.add_argument("--model", help=hidden)
    parser.add_argument("--config", help=hidden)
    parser.add_argument("--script", help=hidden)
    parser.add_argument("--args", default="", help=hidden)
    parser.add_argument("--gpus", type=int, required=True, help=hidden)
    parser.add_argument("--gpu", default="h100", help=hidden)
    parser.add_argument("--batch", type=int, help=hidden)
    parser.add_argument("--seq", type=int, help=hidden)
    parser.add_argument("--software", help=hidden)
    parser.add_argument("--why", help=hidden)
    parser.add_argument("--write", help=hidden)
    parser.add_argument("--read", nargs=2, help=hidden)
    parser.add_argument("--json", action="store_true", help=hidden)
    parser.add_argument("--assert", dest="claims", nargs="+", default=[], help=hidden)
    return parser


_FIELDS = (
    "tp", "pp", "cp", "dp", "ep", "zero", "interleave", "micro_batch", "sequence_parallel",
    "recompute",
)  # fmt: skip
