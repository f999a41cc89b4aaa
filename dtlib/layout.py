"""How a run lies on its ranks, and how each rank goes about its share.

    >>> layout = Layout(tp=8, pp=4, dp=16, zero=1, micro_batch=2)
    >>> layout.ranks, layout.micro_batches(batch=1024)
    (512, 32)
    >>> print(layout | {"recompute": "full"})
    tp 8, pp 4, dp 16, ZeRO stage 1, 2 sequences at a time, recompute full

A `Layout` knows no model and no machine: the same one describes an estimate, the account of a
rank's memory, a published run, and what real ranks do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby

from dtlib.formulas.require import require, require_count, require_divisor, require_type

POLICIES = ("none", "selective", "full")
AWAY = ("optimizer", "activations")
_AXES = ("tp", "cp", "pp", "dp", "ep")


@dataclass(frozen=True, kw_only=True, repr=False)
class Layout:
    """What is divided among the ranks of a run, what is computed again, and what waits elsewhere.

    `tp` ranks share a layer, `cp` the tokens of a sequence, `pp` are stages of `interleave` parts
    each, `dp` replicas; `ep` ranks of the dp x cp share the experts. `zero` is the stage of ZeRO,
    `stages` are the layers of each pipeline stage where they are not equal. A rank computes
    `micro_batch` sequences at a time; with `sequence_parallel` the ranks of a layer also divide
    what lies between its matrices; without `flash` attention stores its scores. `recompute` is
    "none", "selective" (the attention core), "full" (all but the layer's input) or names of kept
    tensors; of `segment` layers that are computed again only the first keeps its input. `offload`
    names what waits in the host's memory: "optimizer", "activations", both or nothing.
    Raises ValueError, naming field, value and rule, for what cannot be; TypeError for another kind.

    >>> Layout(dp=8, zero=3, offload=["activations"])
    Layout(dp=8, zero=3, offload=('activations',))
    >>> Layout(dp=4, ep=3)
    Traceback (most recent call last):
    ValueError: Layout: ep is 3, but must be a divisor of dp x cp, which is 4
    """

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    zero: int = 0
    interleave: int = 1
    stages: Sequence[int] | None = None
    micro_batch: int = 1
    sequence_parallel: bool = False
    flash: bool = True
    recompute: str | Iterable[str] = "none"
    segment: int = 1
    offload: Iterable[str] = ()

    def __post_init__(self):
        counts = (*_AXES, "interleave", "micro_batch", "segment")
        require_count("Layout", **{name: getattr(self, name) for name in counts})
        require_zero("Layout", self.zero)
        require_type("Layout", bool, sequence_parallel=self.sequence_parallel, flash=self.flash)
        require_divisor("Layout", "ep", self.ep, "dp x cp", self.dp * self.cp)
        alone = "1 where pp is 1: one stage has nobody to take turns with"
        require(self.pp > 1 or self.interleave == 1, "Layout", "interleave", self.interleave, alone)
        for name, settled in (
            ("recompute", _policy(self.recompute)),
            ("stages", _counts(self.stages, self.pp)),
            ("offload", _away(self.offload)),
        ):
            object.__setattr__(self, name, settled)
        allowed = "1 unless recompute is 'full': other policies keep something of every layer"
        good = self.segment == 1 or self.recompute == "full"
        require(good, "Layout", "segment", self.segment, allowed)

    @property
    def ranks(self) -> int:
        """How many ranks there are. Experts are divided among ranks that are counted already."""
        return self.tp * self.cp * self.pp * self.dp

    def micro_batches(self, batch: int) -> int:
        """How many a rank computes in a step of `batch` sequences of all replicas.

        Raises ValueError for sequences that do not divide.
        """
        require_count("Layout", batch=batch)
        at_once = self.dp * self.micro_batch
        allowed = f"a multiple of dp x micro_batch, which is {at_once}"
        require(batch % at_once == 0, "Layout", "batch", batch, allowed)
        return batch // at_once

    def stage_layers(self, layers: int) -> tuple[int, ...]:
        """How many of a model's layers each pipeline stage has.

        Raises ValueError where they do not divide, among stages or into their parts.

        >>> Layout(pp=4).stage_layers(32), Layout(pp=2, stages=[11, 5]).stage_layers(16)
        ((8, 8, 8, 8), (11, 5))
        """
        if self.stages is None:
            allowed = f"a divisor of the {layers} layers, or stages given one by one"
            require(layers % self.pp == 0, "Layout", "pp", self.pp, allowed)
        found = (layers // self.pp,) * self.pp if self.stages is None else self.stages
        allowed = f"counts that add up to {layers} layers"
        require(sum(found) == layers, "Layout", "stages", found, allowed)
        whole = all(count % self.interleave == 0 for count in found)
        counts = ", ".join(str(count) for count in sorted(set(found)))
        allowed = f"a divisor of the layers of each stage, {counts}"
        require(whole, "Layout", "interleave", self.interleave, allowed)
        return found

    def on(self, ranks: int) -> "Layout":
        """The same layout on so many ranks: a single replica is repeated until each has work.

        Raises ValueError where the ranks are no multiple of a replica, or the replicas others.

        >>> Layout(tp=8, pp=4).on(1024).dp
        32
        """
        replica = self.ranks // self.dp
        divided = " x ".join(name for name in ("tp", "cp", "pp") if getattr(self, name) > 1)
        require_divisor("Layout", divided, replica, "the ranks", ranks)
        dp = ranks // replica
        allowed = f"{dp}: {ranks} ranks in replicas of {replica}"
        require(self.dp in (1, dp), "Layout", "dp", self.dp, allowed)
        return replace(self, dp=dp)

    def require_plain(self, owner: str, *names: str) -> None:
        """Raise ValueError unless these fields are those of `Layout()`: `owner` reads no others."""
        for name in names:
            value, plain = getattr(self, name), getattr(ONE_RANK, name)
            allowed = f"{plain!r}: nothing else is counted here"
            require(value == plain, owner, name, value, allowed)

    def __or__(self, changes: Mapping) -> "Layout":
        """The layout with other values of some fields. Raises TypeError for no field of it."""
        for name in changes:
            if name not in _FIELDS:
                raise TypeError(f"Layout: no field {name!r}; there are {', '.join(_FIELDS)}")
        return replace(self, **changes)

    def __str__(self) -> str:
        sizes = [f"{name} {getattr(self, name)}" for name in _AXES if getattr(self, name) > 1]
        policy = self.recompute if isinstance(self.recompute, str) else " and ".join(self.recompute)
        more = {
            f"ZeRO stage {self.zero}": self.zero > 0,
            f"{self.interleave} parts of a stage": self.interleave > 1,
            f"stages of {_runs(self.stages or ())} layers": self.stages is not None,
            f"{self.micro_batch} sequences at a time": self.micro_batch > 1,
            "sequence parallelism": self.sequence_parallel,
            "scores stored": not self.flash,
            f"recompute {policy}": policy != "none",
            f"segments of {self.segment} layers": self.segment > 1,
            f"{' and '.join(self.offload)} away": bool(self.offload),
        }
        return ", ".join(
            [*(sizes or ["one rank"]), *(said for said, there in more.items() if there)]
        )

    def __repr__(self) -> str:
        plain = {field.name: field.default for field in fields(self)}
        values = {name: getattr(self, name) for name in plain}
        said = [f"{name}={value!r}" for name, value in values.items() if value != plain[name]]
        return f"Layout({', '.join(said)})"


def _runs(counts: Sequence[int]) -> str:
    """Counts in a row, three or more alike as one.

    >>> _runs([3, 4, 4, 4, 3, 3])
    '3 + 3 x 4 + 3 + 3'
    """
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    return " + ".join(
        f"{many} x {count}" if many > 2 else " + ".join([str(count)] * many) for count, many in runs
    )


def require_zero(owner: str, zero: int) -> None:
    """Raise ValueError unless it is a stage of ZeRO."""
    good = zero in (0, 1, 2, 3) and not isinstance(zero, bool)
    require(good, owner, "zero", zero, "a stage: 0, 1, 2 or 3")


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


def divisors(n: int) -> list[int]:
    """The divisors of a number, the smallest first: the degrees that so many ranks allow an axis.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, n + 1) if n % d == 0]


def _policy(recompute) -> str | tuple[str, ...]:
    known = "'none', 'selective', 'full' or names of kept tensors"
    if isinstance(recompute, str):
        require(recompute in POLICIES, "Layout", "recompute", recompute, known)
        return recompute
    require(isinstance(recompute, Iterable), "Layout", "recompute", recompute, known)
    return tuple(recompute)


def _counts(stages, pp: int) -> tuple[int, ...] | None:
    if stages is None:
        return None
    require_type("Layout", Sequence, stages=stages)
    require_count("Layout", 0, **{f"layers of stage {i}": n for i, n in enumerate(stages)})
    require(len(stages) == pp, "Layout", "stages", stages, f"{pp} counts, one for each stage")
    return tuple(stages)


def _away(offload) -> tuple[str, ...]:
    allowed = f"a list of names out of {', '.join(AWAY)}"
    good = isinstance(offload, Iterable) and not isinstance(offload, str)
    require(good, "Layout", "offload", offload, allowed)
    names = tuple(offload)
    require(set(names) <= set(AWAY), "Layout", "offload", names, allowed)
    return tuple(name for name in AWAY if name in names)


_FIELDS = tuple(field.name for field in fields(Layout))
ONE_RANK = Layout()
