"""A plan as the file of a training program, and such a file as a plan.

The programs are `PROGRAMS`: torchtitan, Megatron-Core and DeepSpeed, each a table of its own.
"""

from dtlib.composition.planner.configurations.deepspeed import DEEPSPEED
from dtlib.composition.planner.configurations.megatron import MEGATRON
from dtlib.composition.planner.configurations.runs import (
    Configuration,
    Options,
    PlannedRun,
    Program,
)
from dtlib.composition.planner.configurations.torchtitan import TORCHTITAN
from dtlib.formulas.require import require, require_count
from dtlib.layout import Layout
from dtlib.models.spec import TransformerSpec

PROGRAMS = {program.name: program for program in (TORCHTITAN, MEGATRON, DEEPSPEED)}


def write_configuration(
    kind: str, spec: TransformerSpec, layout: Layout, *, batch: int, seq: int
) -> Configuration:
    """The file that makes a program run a model in a layout, and what it cannot say.

    Arguments: `kind`, a name in `PROGRAMS`; `batch` sequences of `seq` tokens in a step of all
    replicas. What is not of the layout (data, optimizer, checkpoints) is left to the reader.
    Raises ValueError for another kind, and for sequences or layers that the layout does not
    divide.
    Source: the options of each program at the commit that its table names.

    >>> from dtlib.models.published import published_models
    >>> spec = published_models["llama-3.1-8b"]
    >>> made = write_configuration("torchtitan", spec, Layout(dp=8, zero=1), batch=64, seq=8192)
    >>> [line for line in made.text.splitlines() if "shard_degree" in line]
    ['    config.parallelism.data_parallel_shard_degree = 8']
    >>> made.left_out
    ('zero 1: FSDP divides gradients as well; whole weights between passes are stage 2',)
    """
    program = _program("write_configuration", kind)
    require_count("write_configuration", batch=batch, seq=seq)
    run = PlannedRun(layout, batch, seq, spec)
    layout.micro_batches(batch)
    layout.stage_layers(spec.layers)
    options, lost, noted = {}, {}, {}
    for row in program.rows:
        options |= row.write(run)
        lost |= row.lost(run)
        noted |= row.noted(run)
    text = program.render(run, options)
    return Configuration(kind, text, _sentences(run, lost), _sentences(run, noted))


def read_configuration(
    kind: str, text: str, *, gpus: int | None = None, spec: TransformerSpec | None = None
) -> PlannedRun:
    """The layout, the batch and the sequence length that a program's file says.

    Arguments: `gpus` of the run, where the file does not say them (the data axis of Megatron-Core
    is what they leave over); `spec`, where what the file says depends on the model's layers.
    Returns a `PlannedRun`; what the file does not say is None, or as in `Layout()`. Equal stages
    are read as no stages given.
    Raises ValueError, naming program, option and value, for an option that is not known or of
    another version, for a value that no layout has, and for another number of GPUs.

    >>> said = "--tensor-model-parallel-size 8 --micro-batch-size 2"
    >>> read_configuration("megatron", said, gpus=32).layout
    Layout(tp=8, dp=4, micro_batch=2)
    >>> read_configuration("deepspeed", '{"zero_optimization": {"cpu_offload": true}}')
    Traceback (most recent call last):
    ValueError: DeepSpeed 0.19.6: zero_optimization.cpu_offload is True, but that is of another \
version: now zero_optimization.offload_optimizer.device
    """
    program = _program("read_configuration", kind)
    if gpus is not None:
        require_count("read_configuration", gpus=gpus)
    values, said = program.parse(text)
    program.refuse_unknown(values)
    ranks = said.get("gpus", gpus)
    layers = said.get("layers", spec.layers if spec else None)
    options = Options(program.version, values, gpus or ranks, layers)
    found = {}
    for row in program.rows:
        found |= row.read(options)
    batch, seq = found.pop("batch", None), found.pop("seq", None)
    layout = Layout(**found)
    for number in (gpus, ranks):
        allowed = f"{layout.ranks}: the file says {layout}"
        require(number in (None, layout.ranks), program.version, "gpus", number, allowed)
    return PlannedRun(layout, batch, seq, spec)


def _sentences(run: PlannedRun, why: dict[str, str]) -> tuple[str, ...]:
    values = vars(run.layout) | {"model": run.spec.name, "batch": run.batch, "seq": run.seq}
    return tuple(f"{name} {values[name]}: {reason}" for name, reason in why.items())


def _program(owner: str, kind: str) -> Program:
    require(kind in PROGRAMS, owner, "kind", kind, f"one of {', '.join(PROGRAMS)}")
    return PROGRAMS[kind]
