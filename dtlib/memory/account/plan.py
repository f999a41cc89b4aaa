"""What an account of memory is asked for: its arguments, and what they must fulfil."""

from collections.abc import Sequence
from dataclasses import dataclass

from dtlib.formulas.require import is_number, require, require_count, require_type
from dtlib.machines.hardware import GPU
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.layers import Policy, check_layers, layer_kinds
from dtlib.memory.account.state import StateRecipe, check_stage
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True)
class MemoryPlan:
    """What `rank_memory` was asked, checked; its fields are the arguments."""

    spec: TransformerSpec
    seq: int
    micro_batch: int
    micro_batches: int | None
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    place: int
    stage: int
    interleave: int
    sequence_parallel: bool
    recompute: Policy
    segment: int
    flash: bool
    recipe: StateRecipe
    stages: tuple[int, ...]
    in_flight: float | None
    logit_bytes: float
    allocator: AllocatorModel | None
    gpu: GPU | None

    @property
    def layers(self) -> tuple[int, int]:
        """First layer and number of layers."""
        return sum(self.stages[: self.place]), self.stages[self.place]

    @property
    def last(self) -> bool:
        return self.place == self.pp - 1

    @property
    def stream_ranks(self) -> int:
        return self.tp if self.sequence_parallel else 1

    def kinds(self) -> list[tuple[str, bool, int]]:
        """Prefix of the names, whether experts, and how many layers, of each kind there is."""
        dense, mixed = layer_kinds(self.spec, *self.layers)
        if dense and mixed:
            return [("", False, dense), ("expert_", True, mixed)]
        return [("", mixed > 0, dense + mixed)]


def layers_of_stages(spec, pp, stages) -> tuple[int, ...]:
    """Layers of each stage; equal ones unless they are given."""
    owner = f"memory of {spec.name!r}"
    require_count(owner, pp=pp)
    if stages is None:
        good = spec.layers % pp == 0
        allowed = f"a divisor of the {spec.layers} layers, or stages given one by one"
        require(good, owner, "pp", pp, allowed)
        return (spec.layers // pp,) * pp
    require_type(owner, Sequence, stages=stages)
    require_count(owner, 0, **{f"layers of stage {i}": n for i, n in enumerate(stages)})
    good = len(stages) == pp and sum(stages) == spec.layers
    allowed = f"{pp} counts that add up to {spec.layers} layers"
    require(good, owner, "stages", list(stages), allowed)
    return tuple(stages)


def even_stages(layers: int, pp: int) -> list[int]:
    """Layers of each of `pp` stages, as equal as can be.

    Where they do not divide, the ends get a layer less, the last stage first: it has the head, and
    the first one the table of tokens. Llama 3.1 405B lies like this on its 16 stages.
    Raises ValueError for more stages than layers.

    >>> even_stages(126, 16)
    [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]
    """
    require_count("even_stages", layers=layers, pp=pp)
    require(pp <= layers, "even_stages", "pp", pp, f"at most {layers}, the layers")
    most = -(-layers // pp)
    order = sorted(range(pp), key=lambda place: (min(place, pp - 1 - place), -place))
    fewer = set(order[: most * pp - layers])
    return [most - (place in fewer) for place in range(pp)]


def check_plan(plan: MemoryPlan) -> None:
    """Raise ValueError, naming argument, value and rule, for what cannot be."""
    owner = f"memory of {plan.spec.name!r}"
    require_count(owner, tp=plan.tp, dp=plan.dp, cp=plan.cp, ep=plan.ep, interleave=plan.interleave)
    require_count(owner, 0, place=plan.place)
    require(plan.place < plan.pp, owner, "place", plan.place, f"below {plan.pp}, the stages")
    check_stage(owner, plan.stage)
    require_type(owner, bool, sequence_parallel=plan.sequence_parallel, flash=plan.flash)
    check_layers(
        plan.spec, plan.seq, plan.micro_batch, plan.tp, plan.cp, plan.sequence_parallel,
        plan.recompute, plan.segment,
    )  # fmt: skip
    if plan.micro_batches is not None:
        require_count(owner, micro_batches=plan.micro_batches)
    ranks = plan.dp * plan.cp
    allowed = f"a divisor of dp x cp, which is {ranks}: experts lie on ranks of different data"
    require(ranks % plan.ep == 0, owner, "ep", plan.ep, allowed)
    for name in ("in_flight", "logit_bytes"):
        value = getattr(plan, name)
        good = value is None or (is_number(value) and value > 0)
        require(good, owner, name, value, "a positive number")
