"""What a schedule of recomputation costs on a chain: bytes that are kept, and work done again.

The nouns are `LayerCost`, what one layer keeps and computes, and `Chain`, the layers with the bytes
of the chain's output. A byte counts while a slot holds it or a tape does, as the meter counts: not
the running state itself, nor gradients. A state that a slot and a tape hold is one storage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dtlib.formulas.require import (
    require,
    require_count,
    require_not_negative,
    require_type,
)
from dtlib.memory.recompute.schedule import RecomputeSchedule, check_recompute


@dataclass(frozen=True)
class LayerCost:
    """One layer: `state_bytes` of its input, `interior_bytes` that its tape holds besides.

    `keeps_input` and `keeps_output` say whether its tape also holds its input and its output;
    `workspace_bytes` what its backward pass holds for a while on top of the tape (a layer that
    recomputes a part of itself); `flops` the work of its forward pass.
    """

    state_bytes: int
    interior_bytes: int
    flops: int = 1
    keeps_input: bool = True
    keeps_output: bool = False
    workspace_bytes: int = 0

    def __post_init__(self):
        names = "state_bytes", "interior_bytes", "flops", "workspace_bytes"
        require_not_negative("LayerCost", **{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class Chain:
    """Layers and the bytes of their last output.

    >>> chain = Chain.equal(4, state_bytes=2, interior_bytes=32)
    >>> chain.kept_bytes, chain.flops
    (136, 4)
    """

    layers: tuple[LayerCost, ...]
    output_bytes: int = 0

    def __post_init__(self):
        require_type("Chain", Sequence, layers=self.layers)
        require_type("Chain", LayerCost, **{f"layer {i}": x for i, x in enumerate(self.layers)})
        require_not_negative("Chain", output_bytes=self.output_bytes)
        require(len(self.layers) > 0, "Chain", "layers", self.layers, "at least one LayerCost")

    @classmethod
    def equal(cls, layers: int, state_bytes=1, interior_bytes=0, flops=1) -> "Chain":
        """A chain of equal layers. Raises ValueError for less than one layer."""
        require_count("Chain", layers=layers)
        return cls((LayerCost(state_bytes, interior_bytes, flops),) * layers, state_bytes)

    def state(self, number: int) -> int:
        """The bytes of one state."""
        ends = number == len(self.layers)
        return self.output_bytes if ends else self.layers[number].state_bytes

    def held(self, kept, taped) -> int:
        """The bytes that these slots and these tapes hold together."""
        states = set(kept)
        states |= {i for i in taped if self.layers[i].keeps_input}
        states |= {i + 1 for i in taped if self.layers[i].keeps_output}
        return sum(map(self.state, states)) + sum(self.layers[i].interior_bytes for i in taped)

    @property
    def kept_bytes(self) -> int:
        """What a plain run keeps: all tapes."""
        return self.held((), range(len(self.layers)))

    @property
    def flops(self) -> int:
        """The work of one forward pass."""
        return sum(layer.flops for layer in self.layers)


@dataclass(frozen=True)
class Recomputation:
    """What a schedule costs: see `simulate_recompute`."""

    peak_bytes: int
    forward_bytes: int
    peak_slots: int
    forwards: tuple[int, ...]
    extra_flops: int
    curve: tuple[int, ...]

    @property
    def extra_forwards(self) -> int:
        """Forward passes of layers beyond one for each."""
        return sum(self.forwards) - len(self.forwards)


def simulate_recompute(schedule: RecomputeSchedule, chain: Chain | None = None) -> Recomputation:
    """Follow a schedule through a chain and count.

    Arguments: `schedule`; `chain`, by default states of 1 byte, nothing else, and work 1 a layer.
    Returns a Recomputation: `peak_bytes`, the most that slots and tapes hold at once;
    `forward_bytes`, what they hold when the forward pass is over; `peak_slots`; `forwards`, how
    often each layer runs forward; `extra_flops`, work beyond one forward pass; `curve`, the bytes
    after every action, and within T and B after every layer.
    Raises RecomputeError for a schedule that cannot run, ValueError for a chain of other length.

    >>> from dtlib.memory.recompute.schedule import uniform
    >>> cost = simulate_recompute(uniform(9, 3), Chain.equal(9, state_bytes=2, interior_bytes=32))
    >>> cost.peak_bytes, cost.peak_slots, cost.extra_forwards
    (106, 2, 6)
    """
    require_type("simulate_recompute", RecomputeSchedule, schedule=schedule)
    chain = Chain.equal(schedule.layers) if chain is None else chain
    require_type("simulate_recompute", Chain, chain=chain)
    found = len(chain.layers)
    require(
        found == schedule.layers,
        "simulate_recompute",
        "the length of chain",
        found,
        f"{schedule.layers}, as of {schedule.name!r}",
    )
    check_recompute(schedule)
    kept, taped, runs = set(), set(), [0] * found
    curve, peak, slots, after_forward = [], 0, 0, 0

    def note():
        nonlocal peak
        curve.append(chain.held(kept, taped))
        peak = max(peak, curve[-1])

    for number, (kind, start, stop) in enumerate(schedule.actions, 1):
        layers = range(start, stop)
        if kind in "AT":
            for layer in layers:
                runs[layer] += 1
        if kind in "KRDA":
            kept = kept | {start} if kind == "K" else kept - {start} if kind == "D" else kept
            note()
        for layer in layers if kind == "T" else ():
            taped.add(layer)
            note()
        for layer in reversed(layers) if kind == "B" else ():
            peak = max(peak, chain.held(kept, taped) + chain.layers[layer].workspace_bytes)
            taped.discard(layer)
            note()
        slots = max(slots, len(kept))
        if number == schedule.forward_actions:
            after_forward = curve[-1]
    work = sum(n * layer.flops for n, layer in zip(runs, chain.layers, strict=True))
    extra = work - chain.flops
    return Recomputation(peak, after_forward, slots, tuple(runs), extra, tuple(curve))
