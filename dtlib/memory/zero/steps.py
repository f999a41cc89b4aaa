"""One training step in each ZeRO stage as a list of actions, and what a rank holds after each.

The nouns:

- **Action**: what all ranks do together, with one unit of the model: gather its weights, compute
  with it forward or backward, release its weights, reduce its gradients; then one update.
- **Moment**: how much of every unit's weights and gradients a rank holds after an action, the bytes
  of that, and the bytes that it has sent until then.

All ranks hold equally much and send equally much, so one moment describes each of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dtlib.formulas.require import (
    require,
    require_count,
    require_not_negative,
    require_type,
)

# What a rank may hold of a unit's weights, and of its gradients.
PART, WHOLE, STALE = "part", "whole", "stale"
NONE, OWN, SUM, PART_AND_OWN = "none", "own", "sum", "part and own"


class ZeroAction(NamedTuple):
    """What is done, with which unit (-1: all of them), in which micro-batch (-1: after them)."""

    kind: str
    unit: int = -1
    micro_batch: int = -1

    def __str__(self) -> str:
        return self.kind if self.unit < 0 else f"{self.kind} {self.unit}"


class Moment(NamedTuple):
    """After an action (None: before the first): what a rank holds of each unit, and bytes."""

    action: ZeroAction | None
    weights: tuple[str, ...]
    gradients: tuple[str, ...]
    held: float
    sent: float


@dataclass(frozen=True)
class ZeroStep:
    """One step of training in a ZeRO stage: its actions, and what a rank holds after each.

    Arguments: `zero` 0 to 3; `P` ranks; `units`, the parameters of each unit, in the order of the
    forward pass; `micro_batches`; `prefetch`, how many units ahead stage 3 gathers; `element_bytes`
    of weights and gradients, `optimizer_bytes` of the optimizer's state for each parameter.
    In stage 3 a gathered unit lies beside the part that the rank owns of it.
    Raises ValueError for another stage, and for no rank, unit or micro-batch. Activations, and the
    buffers that a collective copies into, are not counted. Source: Rajbhandari et al. 2020.

    >>> step = ZeroStep(zero=3, P=4, units=[4, 4])
    >>> [str(moment.action) for moment in step.moments[1:5]]
    ['gather 0', 'forward 0', 'release 0', 'gather 1']
    >>> step.held, step.peak_bytes, step.sent
    (32.0, 46.0, 36.0)
    """

    zero: int
    P: int
    units: Sequence[float]
    micro_batches: int = 1
    prefetch: int = 0
    element_bytes: float = 2
    optimizer_bytes: float = 12

    def __post_init__(self):
        if self.zero not in range(4) or isinstance(self.zero, bool):
            raise ValueError(f"zero = {self.zero!r}; allowed are 0, 1, 2 and 3")
        require_count("ZeroStep", P=self.P, micro_batches=self.micro_batches)
        require_count("ZeroStep", 0, prefetch=self.prefetch)
        require_type("ZeroStep", Sequence, units=self.units)
        require(len(self.units) > 0, "ZeroStep", "units", self.units, "at least one number")
        for params in self.units:
            require_not_negative("ZeroStep", **{"a unit": params})
        require_not_negative(
            "ZeroStep", element_bytes=self.element_bytes, optimizer_bytes=self.optimizer_bytes
        )

    @cached_property
    def actions(self) -> tuple[ZeroAction, ...]:
        """A forward and a backward pass for each micro-batch, and one update."""
        return tuple(self._actions())

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Before the first action, and after each one."""
        return tuple(self._moments())

    @property
    def held(self) -> float:
        """Bytes of a rank when the last backward pass is over: the account of the stage."""
        passes = sum(action.micro_batch >= 0 for action in self.actions)
        return self.moments[passes].held

    @property
    def peak_bytes(self) -> float:
        """The most bytes that a rank holds at any moment."""
        return max(moment.held for moment in self.moments)

    @property
    def sent(self) -> float:
        """Bytes that a rank sends in the whole step."""
        return self.moments[-1].sent

    def _actions(self) -> Iterator[ZeroAction]:
        forth = range(len(self.units))
        for k in range(self.micro_batches):
            yield from self._pass("forward", forth, k)
            yield from self._pass("backward", forth[::-1], k)
        if self.zero == 1:
            yield from (ZeroAction("reduce", u) for u in forth[::-1])
        yield ZeroAction("update")
        if self.zero in (1, 2):
            yield from (ZeroAction("gather", u) for u in forth[::-1])

    def _pass(self, kind: str, order: Sequence[int], k: int) -> Iterator[ZeroAction]:
        gathered: set[int] = set()
        for i, u in enumerate(order):
            ahead = order[i : i + 1 + self.prefetch] if self.zero == 3 else ()
            yield from (ZeroAction("gather", v, k) for v in ahead if v not in gathered)
            gathered.update(ahead)
            yield ZeroAction(kind, u, k)
            if kind == "backward":
                if self.zero == 0 and k == self.micro_batches - 1:
                    yield ZeroAction("all-reduce", u, k)
                if self.zero >= 2:
                    yield ZeroAction("reduce", u, k)
            if self.zero == 3:
                yield ZeroAction("release", u, k)

    def _moments(self) -> Iterator[Moment]:
        weights = [PART if self.zero == 3 else WHOLE] * len(self.units)
        gradients, sent = [NONE] * len(self.units), 0.0
        yield Moment(None, tuple(weights), tuple(gradients), self._held(weights, gradients), sent)
        for action in self.actions:
            u = action.unit
            if action.kind == "gather":
                weights[u] = WHOLE
            elif action.kind == "release":
                weights[u] = PART
            elif action.kind == "backward":
                gradients[u] = PART_AND_OWN if gradients[u] == PART else OWN
            elif action.kind == "reduce":
                gradients[u] = PART
            elif action.kind == "all-reduce":
                gradients[u] = SUM
            elif action.kind == "update" and self.zero in (1, 2):
                weights = [STALE] * len(self.units)
            sent += self._sent(action)
            held = self._held(weights, gradients)
            yield Moment(action, tuple(weights), tuple(gradients), held, sent)

    def _sent(self, action: ZeroAction) -> float:
        """A gather or a reduce-scatter sends all parts but one; an all-reduce is both."""
        times = {"gather": 1, "reduce": 1, "all-reduce": 2}.get(action.kind, 0)
        return (
            times and times * (self.P - 1) / self.P * self.element_bytes * self.units[action.unit]
        )

    def _held(self, weights, gradients) -> float:
        part = 1 / self.P
        weight = {PART: part, WHOLE: 1 + part if self.zero == 3 else 1, STALE: 1}
        gradient = {NONE: 0, PART: part, PART_AND_OWN: 1 + part, OWN: 1, SUM: 1}
        kept = part if self.zero else 1
        return sum(
            n * self.element_bytes * (weight[w] + gradient[g]) + n * self.optimizer_bytes * kept
            for n, w, g in zip(self.units, weights, gradients, strict=True)
        )
