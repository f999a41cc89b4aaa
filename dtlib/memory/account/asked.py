"""What an account of memory is asked for: one rank of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dtlib.formulas.require import is_number, require, require_count, require_type
from dtlib.formulas.sheet import Sheet
from dtlib.layout import Layout
from dtlib.machines.hardware import GPU
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.layers import check_layers
from dtlib.memory.account.programs import Program
from dtlib.memory.account.state import (
    StageParams,
    StateRecipe,
    layer_kinds,
    shape_params,
    stage_params,
)
from dtlib.models.spec import TransformerSpec


class Structure(NamedTuple):
    """What decides which lines an account has; the numbers decide what they come to.

    The recompute policy; whether attention stores no scores, whether the stage has layers without
    experts (`dense`) and with them (`mixed`), is the only one, the first, the last one; whether
    ranks share the stream and the sequence, a stage has several parts, and weights are gathered.
    """

    recompute: str | tuple[str, ...]
    flash: bool
    dense: bool
    mixed: bool
    alone: bool
    first: bool
    last: bool
    shares_stream: bool
    shares_sequence: bool
    interleaves: bool
    gathers: bool


@dataclass(frozen=True)
class Asked:
    """What `rank_memory` was asked; the fields are its arguments.

    Raises ValueError, naming argument, value and rule, for what cannot be; TypeError for another
    kind of thing.
    """

    spec: TransformerSpec
    layout: Layout
    seq: int
    place: int
    micro_batches: int | None
    recipe: StateRecipe
    in_flight: float | None
    logit_bytes: float
    allocator: AllocatorModel | None
    gpu: GPU | None
    program: Program | None = None

    def __post_init__(self):
        require_type("rank_memory", TransformerSpec, spec=self.spec)
        require_type("rank_memory", StateRecipe, recipe=self.recipe)
        for name, kind in (("allocator", AllocatorModel), ("gpu", GPU), ("program", Program)):
            if getattr(self, name) is not None:
                require_type("rank_memory", kind, **{name: getattr(self, name)})
        owner, layout = f"memory of {self.spec.name!r}", self.layout
        layout.require_plain(owner, "offload")
        layout.stage_layers(self.spec.layers)
        check_layers(self.spec, self.seq, layout)
        require_count(owner, 0, place=self.place)
        require(
            self.place < layout.pp, owner, "place", self.place, f"below {layout.pp}, the stages"
        )
        if self.micro_batches is not None:
            require_count(owner, micro_batches=self.micro_batches)
            check_interleaved(owner, layout, self.micro_batches)
        for name in ("in_flight", "logit_bytes"):
            value = getattr(self, name)
            good = value is None or (is_number(value) and value > 0)
            require(good, owner, name, value, "a positive number")

    @property
    def layers(self) -> tuple[int, int]:
        """First layer and number of layers."""
        stages = self.layout.stage_layers(self.spec.layers)
        return sum(stages[: self.place]), stages[self.place]

    @property
    def kinds(self) -> tuple[int, int]:
        """How many layers without experts, and with them."""
        return layer_kinds(self.spec, *self.layers)

    @property
    def structure(self) -> Structure:
        """What decides which lines the account has."""
        layout, (dense, mixed) = self.layout, self.kinds
        return Structure(
            recompute=layout.recompute, flash=layout.flash, dense=dense > 0, mixed=mixed > 0,
            alone=layout.pp == 1, first=self.place == 0, last=self.place == layout.pp - 1,
            shares_stream=self.stream_ranks > 1, shares_sequence=layout.cp > 1,
            interleaves=layout.interleave > 1, gathers=layout.zero == 3,
        )  # fmt: skip

    @property
    def params(self) -> StageParams:
        """The parameters that the rank holds."""
        layout, pp = self.layout, self.layout.pp
        ends = {"first": self.place == 0, "last": self.place == pp - 1}
        return stage_params(self.spec, *self.layers, **ends, tp=layout.tp, ep=layout.ep)

    @property
    def shape_params(self) -> int:
        """The rank's part of one matrix of each shape that its layers have."""
        kinds = (int(self.structure.dense), int(self.structure.mixed))
        return shape_params(self.spec, *kinds, self.layout.tp)

    @property
    def stream_ranks(self) -> int:
        """How many ranks divide what is between the matrices of a layer."""
        return self.layout.tp if self.layout.sequence_parallel else 1

    @property
    def segment(self) -> int:
        """Of how many layers that are computed again only the first keeps its input."""
        return self.layout.segment

    @staticmethod
    def fullest(candidates: Mapping, given: Mapping, lines: Mapping) -> str:
        """Which of the lines needs most."""
        values = Sheet(given, lines | candidates)
        return max(candidates, key=lambda name: values[name])


def check_interleaved(owner: str, layout: Layout, micro_batches: int) -> None:
    """Raise ValueError unless whole groups of micro-batches pass the parts of a stage."""
    good = layout.interleave == 1 or micro_batches % layout.pp == 0
    allowed = f"a multiple of pp, which is {layout.pp}, where stages have several parts"
    require(good, owner, "micro_batches", micro_batches, allowed)
