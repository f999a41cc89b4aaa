"""What one step of a training script computes, sends and holds on one rank.

The nouns are `ScriptParameter`, a parameter and the rank's part of it; `ScriptCollective`, one
collective operation of a step; and `ScriptReading`, all of it, with the layout that it speaks for.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from math import prod

from dtlib.composition.planner.script.shapes import ScriptShapes
from dtlib.formulas.units import format_quantity
from dtlib.layout import Layout

PHASES = "forward", "backward", "step"


@dataclass(frozen=True)
class ScriptParameter:
    """A parameter by its name in the model: its whole shape, and the shape of the rank's part."""

    name: str
    shape: tuple[int, ...]
    local_shape: tuple[int, ...]
    dtype: str

    @property
    def count(self) -> int:
        """Elements of the whole parameter.

        >>> ScriptParameter("head.weight", (4, 6), (1, 6), "float32").count
        24
        """
        return prod(self.shape)


@dataclass(frozen=True)
class ScriptCollective:
    """One operation on a group of ranks.

    `bytes` are those of its full tensor: what an all-reduce adds up, an all-gather ends with, a
    reduce-scatter begins with. `phase` is "start" (before the first step and where DDP makes its
    buckets anew), "forward", "backward" or "step" (from the end of the backward pass on).
    """

    operation: str
    bytes: int
    ranks: tuple[int, ...]
    dtype: str
    phase: str

    @property
    def apart(self) -> int:
        """How far the group's ranks lie from one another: 1 for neighbours.

        >>> ScriptCollective("all_reduce", 64, (0, 8, 16, 24), "float32", "backward").apart
        8
        """
        return self.ranks[1] - self.ranks[0] if len(self.ranks) > 1 else 1


@dataclass(frozen=True)
class ScriptReading:
    """One whole step of a script on rank 0, after a first one that has made what lasts.

    `params`, the parameters; `start`, collectives before the steps; `collectives`, those of the
    step in order; `held`, bytes by cause at the moment when most were held; `kept_bytes`, what the
    first forward pass leaves for the backward pass; `flops` by phase;
    `batch`, the shape of the model's first input; `micro_batches`, how many forward passes there
    were; `layout`, the guessed Layout, and `reason` for it; `shapes`, those of the forward passes.
    """

    script: str
    ranks: int
    params: tuple[ScriptParameter, ...]
    start: tuple[ScriptCollective, ...]
    collectives: tuple[ScriptCollective, ...]
    held: dict[str, int]
    kept_bytes: int
    flops: dict[str, int]
    batch: tuple[int, ...]
    micro_batches: int
    layout: Layout
    reason: str
    shapes: ScriptShapes = field(default_factory=ScriptShapes)

    @property
    def param_count(self) -> int:
        """Elements of all parameters, of all ranks together."""
        return sum(param.count for param in self.params)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were held at one moment of the step."""
        return sum(self.held.values())

    def sent(self, phase: str = "", operation: str = "") -> int:
        """Bytes of all collectives of the step, of one phase or operation or of all."""
        return sum(
            each.bytes
            for each in self.collectives
            if phase in ("", each.phase) and operation in ("", each.operation)
        )

    def as_dict(self) -> dict:
        """Plain numbers and words, for a file or another process."""
        plain = asdict(self)
        return plain | {"layout": {f.name: getattr(self.layout, f.name) for f in fields(Layout)}}

    @classmethod
    def from_dict(cls, plain: dict) -> "ScriptReading":
        """The reading of which `as_dict` has told."""
        params = [
            ScriptParameter(
                row["name"], tuple(row["shape"]), tuple(row["local_shape"]), row["dtype"]
            )
            for row in plain["params"]
        ]
        lists = {name: _collectives(plain[name]) for name in ("start", "collectives")}
        rest = {
            "batch": tuple(plain["batch"]), "layout": Layout(**plain["layout"]),
            "shapes": ScriptShapes.from_dict(plain["shapes"]),
        }  # fmt: skip
        return cls(**plain | lists | rest | {"params": tuple(params)})

    def __str__(self) -> str:
        local = sum(prod(param.local_shape) for param in self.params)
        lines = [
            f"{self.script} as rank 0 of {self.ranks}: {self.layout}",
            f"  because {self.reason}",
            f"{len(self.params)} parameters of {self.param_count:,} elements, {local:,} here",
            f"a step computes {_each(self.flops, 'FLOP')}",
            f"and holds at most {_each(self.held, 'B')}",
            f"a forward pass leaves {format_quantity(self.kept_bytes, 'B')} to the backward pass",
            f"{'phase':10}{'operation':16}{'ranks':>18}{'times':>8}{'bytes':>12}",
        ]
        for (phase, operation, ranks, apart), sizes in self._kinds().items():
            row = f"{len(sizes):8,}{format_quantity(sum(sizes), 'B'):>12}"
            lines.append(f"{phase:10}{operation:16}{f'{ranks:,}, {apart:,} apart':>18}{row}")
        return "\n".join(lines)

    def _kinds(self) -> dict[tuple[str, str, int, int], list[int]]:
        found: dict[tuple[str, str, int, int], list[int]] = {}
        for phase in PHASES:
            for each in self.collectives:
                if each.phase == phase:
                    key = phase, each.operation, len(each.ranks), each.apart
                    found.setdefault(key, []).append(each.bytes)
        return found


def _collectives(rows: Iterable[dict]) -> tuple[ScriptCollective, ...]:
    return tuple(ScriptCollective(**row | {"ranks": tuple(row["ranks"])}) for row in rows)


def _each(amounts: dict[str, int], unit: str) -> str:
    total = format_quantity(sum(amounts.values()), unit)
    parts = (f"{name} {format_quantity(amount, unit)}" for name, amount in amounts.items())
    return f"{total}: {', '.join(parts)}"
