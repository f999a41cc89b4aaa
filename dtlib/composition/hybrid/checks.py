"""What a layout asks of a model, a mesh and a schedule: said on every rank, before any message."""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature

from dtlib.composition.hybrid.places import check_sizes
from dtlib.formulas.require import require, require_divisor
from dtlib.layout import POLICIES, Layout
from dtlib.mesh import Mesh
from dtlib.models.protocols import DecoderModel, require_parts
from dtlib.parallelism.pipeline.builders import interleaved, one_f_one_b
from dtlib.parallelism.pipeline.schedule import PipelineSchedule
from dtlib.parallelism.sequence.model import ATTENTIONS

OWNER = "parallelize"


def check(model, mesh: Mesh, layout: Layout, attention: str) -> None:
    """Raise what `parallelize` raises, from what every rank knows."""
    require_parts(OWNER, DecoderModel, model)
    check_sizes(mesh, layout)
    require(attention in ATTENTIONS, OWNER, "attention", attention, f"one of {list(ATTENTIONS)}")
    check_memory(layout)
    check_model(model.spec, layout)


def check_model(spec, layout: Layout) -> None:
    """Raise ValueError for what the layout's ranks cannot share of a model."""
    require_divisor(OWNER, "tp", layout.tp, "heads", spec.heads)
    require_divisor(OWNER, "tp", layout.tp, "the vocabulary", spec.vocab)
    if spec.moe is None:
        require(layout.ep == 1, OWNER, "ep", layout.ep, "1: the model has no experts")
    else:
        require_divisor(OWNER, "ep", layout.ep, "experts", spec.moe.experts)
        require_divisor(OWNER, "tp", layout.tp, "the width of an expert", spec.moe.ffn)
    apart = "below 3: a table of the first stage and the last would lie in pieces of two stages"
    require(layout.zero < 3 or layout.pp == 1 or not spec.tied, OWNER, "zero", layout.zero, apart)


def check_memory(layout: Layout) -> None:
    """Raise ValueError for ways to save memory that are not run here, or not together."""
    plain = isinstance(layout.recompute, str)
    allowed = f"one of {', '.join(POLICIES)}: tensors by name are an account's"
    require(plain, OWNER, "recompute", layout.recompute, allowed)
    require(not layout.offload, OWNER, "offload", layout.offload, "(): nothing waits elsewhere")
    alone = "below 3: an expert has other replicas than the weights around it"
    require(layout.zero < 3 or layout.ep == 1, OWNER, "zero", layout.zero, alone)
    inside = "1 with zero 3: a layer's weights are gathered for the layer alone"
    require(layout.zero < 3 or layout.segment == 1, OWNER, "segment", layout.segment, inside)


def by_micro_batches(
    schedule: Callable | None, layout: Layout
) -> Callable[[int], PipelineSchedule]:
    """The schedule of a layout's stages as a function of m, the number of micro-batches.

    `schedule` is a builder of (p, m), or of (p, m, v) with the layout's `interleave` for v; None is
    1F1B, interleaved where the layout says so. Raises ValueError for one that gives the ranks
    another number of stages than the layout does.

    >>> from dtlib.parallelism.pipeline import zb_v
    >>> by_micro_batches(None, Layout(pp=2, interleave=2))(4)
    interleaved 1F1B, v = 2: 2 ranks, 4 stages, 4 micro-batches
    >>> by_micro_batches(zb_v, Layout(pp=2))
    Traceback (most recent call last):
    ValueError: parallelize: interleave is 1, but must be 2, as many stages as ZB-V gives each rank
    """
    if schedule is None:
        schedule = interleaved if layout.interleave > 1 else one_f_one_b
    v = signature(schedule).parameters.get("v")
    wanted = v is not None and v.default is Parameter.empty
    build = partial(schedule, layout.pp, **({"v": layout.interleave} if wanted else {}))
    made = build(2 * layout.pp)
    allowed = f"{made.v}, as many stages as {made.name} gives each rank"
    require(made.v == layout.interleave, OWNER, "interleave", layout.interleave, allowed)
    return build


def stage_layers(layout: Layout, schedule: PipelineSchedule, layers: int) -> list[int]:
    """Layers of each of a schedule's stages: a rank's layers in as many parts as it has stages.

    Raises ValueError, as `Layout.stage_layers` does, for layers that do not divide.

    >>> from dtlib.parallelism.pipeline import interleaved, zb_v
    >>> uneven = Layout(pp=2, interleave=2, stages=[6, 2])
    >>> [stage_layers(uneven, build, 8) for build in (interleaved(2, 4, 2), zb_v(2, 4))]
    [[3, 1, 3, 1], [3, 1, 1, 3]]
    """
    of_rank = layout.stage_layers(layers)
    ranks = [schedule.rank_of(stage, 0) for stage in range(schedule.stages)]
    return [of_rank[rank] // layout.interleave for rank in ranks]
