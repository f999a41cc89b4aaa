"""What an account of memory is asked for: one rank of a run."""

from dataclasses import dataclass

from dtlib.formulas.require import is_number, require, require_count, require_type
from dtlib.layout import Layout
from dtlib.machines.hardware import GPU
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.layers import check_layers, layer_kinds
from dtlib.memory.account.state import StateRecipe
from dtlib.models.spec import TransformerSpec


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

    def __post_init__(self):
        require_type("rank_memory", TransformerSpec, spec=self.spec)
        require_type("rank_memory", StateRecipe, recipe=self.recipe)
        for name, kind in (("allocator", AllocatorModel), ("gpu", GPU)):
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
    def last(self) -> bool:
        return self.place == self.layout.pp - 1

    @property
    def stream_ranks(self) -> int:
        return self.layout.tp if self.layout.sequence_parallel else 1

    def kinds(self) -> list[tuple[str, bool, int]]:
        """Prefix of the names, whether experts, and how many layers, of each kind there is."""
        dense, mixed = layer_kinds(self.spec, *self.layers)
        if dense and mixed:
            return [("", False, dense), ("expert_", True, mixed)]
        return [("", mixed > 0, dense + mixed)]
