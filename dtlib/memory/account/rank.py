r"""The memory equation of one rank: every term a line of a `Sheet`, each a formula of the library.

    >>> from dtlib.foundations import catalog, format_quantity, published_models
    >>> rank = rank_memory(published_models["llama-3.1-8b"], seq=8192, tp=4, dp=8, stage=1,
    ...                    gpu=catalog["h100-sxm"])
    >>> format_quantity(rank["memory"], "B"), rank.fits, max(rank.terms(), key=rank.terms().get)
    ('25 GB', True, 'activations')

What a rank holds is its model state, and what a step takes and gives back: the activations of the
micro-batches under way, what recomputation repeats, logits, buffers. The allocator keeps some more.
`pipeline_memory` gives the account of every stage; they differ, and the first one is not always the
fullest.
"""

from collections.abc import Sequence

from dtlib.formulas.require import require, require_count, require_type
from dtlib.formulas.sheet import Given, Sheet, line, total
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.table import Tables
from dtlib.machines.hardware import GPU
from dtlib.memory.account.allocator import AllocatorModel, reserve_bytes
from dtlib.memory.account.layers import Policy
from dtlib.memory.account.lines import (
    activation_lines,
    buffer_lines,
    given_quantities,
    state_lines,
)
from dtlib.memory.account.plan import MemoryPlan, check_plan, layers_of_stages
from dtlib.memory.account.state import StateRecipe, recipes
from dtlib.models.spec import TransformerSpec


class MemoryAccount(Sheet):
    """A `Sheet` of one rank's memory. Its lines, as far as the rank has them, by name:

    `state` (`weights`, `gradients`, `passing`, `main`, `master`, `moments`, and each with `expert_`
    before it), `moving` (`activations`, `expert_activations`, `again`, `logits`, `gathered`,
    `sequence`, `ring`, `ahead`), `reserve`, and `memory`, which is all of them.
    """

    def __init__(self, plan: MemoryPlan, given, lines):
        super().__init__(given, lines)
        self.plan = plan

    @property
    def fits(self) -> bool:
        """Whether the GPU holds it. Raises ValueError for an account without a GPU."""
        require(self.plan.gpu is not None, "MemoryAccount.fits", "gpu", None, "given")
        return self["memory"] <= self["hbm"]

    def terms(self) -> dict[str, float]:
        """Bytes of every term that is not itself a sum: together they are `memory`."""
        values, found = self.values_at(), {}
        for name in self.lines["memory"].parts:
            for part in self.lines[name].parts or (name,):
                found[part] = values[part]
        return found

    def tables(self) -> Tables:
        """One table for the model state, one for what comes and goes, one for the whole."""
        rest = [n for n in ("state", "moving", "reserve", "memory") if n in self.lines]
        groups = {
            "model state": list(self.lines["state"].parts),
            "what a step takes and gives back": list(self.lines["moving"].parts),
            "one rank": rest,
        }
        return sheet_tables(self, groups)

    def _heading(self) -> str:
        plan = self.plan
        split = f"tp {plan.tp}, cp {plan.cp}, pp {plan.pp}, dp {plan.dp}, ZeRO stage {plan.stage}"
        layers = f"rank {plan.place} of its pipeline, {plan.layers[1]} layers"
        return f"{plan.spec.name}: {split}; {layers}; recipe {plan.recipe.name!r}"

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.tables()!r}"

    def _repr_markdown_(self) -> str:
        return f"{self._heading()}\n\n{self.tables()._repr_markdown_()}"


def rank_memory(
    spec: TransformerSpec,
    *,
    seq: int,
    micro_batch: int = 1,
    micro_batches: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    cp: int = 1,
    ep: int = 1,
    place: int = 0,
    stage: int = 0,
    interleave: int = 1,
    sequence_parallel: bool | None = None,
    recompute: Policy = "none",
    segment: int = 1,
    flash: bool = True,
    recipe: StateRecipe | str = "mixed",
    stages: Sequence[int] | None = None,
    in_flight: float | None = None,
    logit_bytes: float = 10,
    allocator: AllocatorModel | None = None,
    gpu: GPU | None = None,
) -> MemoryAccount:
    """What one rank must hold at the fullest moment of a step, term by term.

    Equation: model state + activations under way + what is repeated + logits + buffers + reserve.
    Arguments: `spec`; `seq` tokens in a sequence and `micro_batch` sequences at a time;
    `micro_batches` of a step (many); `tp` ranks share a layer, `cp` the tokens of a sequence, `pp`
    are stages of `interleave` parts, `dp` replicas, of which `ep` share the experts; `place` in
    the pipeline, from 0; `stage` of ZeRO, whose parts lie on the dp x cp ranks that have the same
    weights; `sequence_parallel` (with tp > 1), `recompute`, `segment` and `flash` as for
    `activation_bytes`; `recipe`, a `StateRecipe` or its name; `stages`, layers of each stage
    (equal); `in_flight`, micro-batches that this rank holds at most, as `peak_activations` of a
    schedule counts them (1F1B, or its interleaved form); `logit_bytes` for each word and token:
    2 of the product, 4 of its copy in 32 bits and 4 of their softmax, which becomes the gradient;
    `allocator`, an `AllocatorModel`, for what is reserved and not only what is in use; `gpu`.
    Not counted, each there for a moment only: in stage 3 the tables, which are gathered beside two
    layers, 2 bytes for each of their parameters; in stages 2 and 3 the whole gradient of what is
    being reduced (`ZeroStep` has it), in all stages the bucket in which gradients travel; a token's
    rows on their way to experts and back, 2 x hidden bytes for each expert and direction, and what
    uneven loads add.
    Returns a `MemoryAccount`. Raises ValueError, naming argument, value and rule, for what does
    not divide or is not there, KeyError for a recipe of another name, TypeError for another kind.
    Source: the formulas of its lines; Korthikanti et al. 2023; Rajbhandari et al. 2020.
    """
    recipe = recipes[recipe] if isinstance(recipe, str) else recipe
    for kind, given in (
        (TransformerSpec, {"spec": spec}),
        (StateRecipe, {"recipe": recipe}),
        (AllocatorModel, {} if allocator is None else {"allocator": allocator}),
        (GPU, {} if gpu is None else {"gpu": gpu}),
    ):
        require_type("rank_memory", kind, **given)
    require_count("rank_memory", tp=tp)
    sequence_parallel = tp > 1 if sequence_parallel is None else sequence_parallel
    plan = MemoryPlan(
        spec, seq, micro_batch, micro_batches, tp, pp, dp, cp, ep, place, stage, interleave,
        sequence_parallel, recompute, segment, flash, recipe, layers_of_stages(spec, pp, stages),
        in_flight, logit_bytes, allocator, gpu,
    )  # fmt: skip
    check_plan(plan)
    given, lines = given_quantities(plan), {}
    state = state_lines(plan, given, lines)
    moving = activation_lines(plan, given, lines) + buffer_lines(plan, given, lines)
    lines["state"] = total(*state, label="model state")
    lines["moving"] = total(*moving, label="comes and goes")
    parts = ["state", "moving"]
    if allocator:
        given["reserve_share"] = Given(allocator.reserve_share, "", "", allocator.source)
        lines["reserve"] = line(reserve_bytes, label="allocator's reserve", moving_bytes="moving")
        parts.append("reserve")
    lines["memory"] = total(*parts, within="hbm" if gpu else "")
    return MemoryAccount(plan, given, lines)


def pipeline_memory(spec: TransformerSpec, *, pp: int, **options) -> list[MemoryAccount]:
    """The account of every stage of a pipeline; `options` as for `rank_memory`, without `place`.

    `in_flight` may be a list, such as `peak_activations` of a simulated schedule.

    >>> from dtlib.foundations import published_models
    >>> ranks = pipeline_memory(published_models["llama-3.1-70b"], pp=4, seq=8192, tp=8)
    >>> [round(rank["activations"] / 1e9) for rank in ranks]
    [27, 20, 14, 7]
    """
    require_count("pipeline_memory", pp=pp)
    peaks = options.pop("in_flight", None)
    if isinstance(peaks, Sequence):
        allowed = f"one number for each of {pp} ranks"
        require(len(peaks) == pp, "pipeline_memory", "in_flight", list(peaks), allowed)
    else:
        peaks = [peaks] * pp
    return [
        rank_memory(spec, pp=pp, place=place, in_flight=peak, **options)
        for place, peak in enumerate(peaks)
    ]
