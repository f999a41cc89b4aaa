"""Many layouts at once: a column of numbers for each field, which a formula takes as it takes one.

>>> some = Layouts.of([Layout(tp=8, dp=4), Layout(tp=2, pp=4, dp=4, recompute="full")], 32)
>>> some.tp, some.ranks, some.is_full
(array([8, 2]), array([32, 32]), array([False,  True]))
>>> some[some.pp > 1][0]
Layout(tp=2, pp=4, dp=4, recompute='full')
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from dtlib.formulas.require import require, require_count
from dtlib.layout import POLICIES, Layout, even_stages

_PLAIN = ("segment", "offload")


@dataclass(frozen=True, eq=False)
class Layouts:
    """Layouts of a model of so many `layers`, field by field; all columns are of one length.

    The fields are those of `Layout`, but for the recompute policy, which is a place in `POLICIES`.
    The stages of a pipeline are as even as can be (`even_stages`) where `stages` has None.
    """

    layers: int
    tp: np.ndarray
    cp: np.ndarray
    pp: np.ndarray
    dp: np.ndarray
    ep: np.ndarray
    zero: np.ndarray
    interleave: np.ndarray
    micro_batch: np.ndarray
    sequence_parallel: np.ndarray
    flash: np.ndarray
    recompute: np.ndarray
    stages: np.ndarray | None = None

    @classmethod
    def of(cls, layouts: Iterable[Layout], layers: int) -> "Layouts":
        """The columns of some layouts of a model of so many layers.

        Raises ValueError, naming field, value and rule, for a policy that names single tensors,
        for segments, for what is offloaded, and for stages that are not those layers together.

        >>> Layouts.of([Layout(recompute="full", segment=2)], 32)
        Traceback (most recent call last):
        ValueError: Layouts: segment is 2, but must be 1: nothing else is counted here
        """
        require_count("Layouts", layers=layers)
        rows = list(layouts)
        for layout in rows:
            _check(layout, layers)
        columns = {name: _column(rows, name) for name in _COLUMNS}
        return cls(layers, **columns, stages=_own_stages(rows, layers))

    @property
    def ranks(self) -> np.ndarray:
        """How many ranks each of them has."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def is_full(self) -> np.ndarray:
        """Whether everything but a layer's input is computed again."""
        return self.recompute == POLICIES.index("full")

    @property
    def is_selective(self) -> np.ndarray:
        """Whether the core of attention is computed again."""
        return self.recompute == POLICIES.index("selective")

    @property
    def most_layers(self) -> np.ndarray:
        """The layers of the largest stage."""
        return self._counts[0]

    @property
    def first_layers(self) -> np.ndarray:
        """The layers of the first stage."""
        return self._counts[1]

    @property
    def last_layers(self) -> np.ndarray:
        """The layers of the last stage."""
        return self._counts[2]

    @cached_property
    def _counts(self) -> np.ndarray:
        """Rows most, first, last: of even stages the ends have fewer, the last one first."""
        most = -(-self.layers // self.pp)
        missing = most * self.pp - self.layers
        counts = np.stack([most, most - (missing >= 2), most - (missing >= 1)])
        for place in self.uneven:
            own = self.stages[place]
            counts[:, place] = max(own), own[0], own[-1]
        return counts

    @cached_property
    def uneven(self) -> np.ndarray:
        """The places of layouts that have stages of their own."""
        if self.stages is None:
            return np.array([], dtype=np.int64)
        return np.flatnonzero([own is not None for own in self.stages])

    def micro_batches(self, batch: int) -> np.ndarray:
        """How many a rank computes in a step of `batch` sequences of all replicas.

        Raises ValueError for the first layout whose sequences do not divide.
        """
        require_count("Layouts", batch=batch)
        at_once = self.dp * self.micro_batch
        uneven = np.flatnonzero(batch % at_once)
        if len(uneven):
            self[int(uneven[0])].micro_batches(batch)
        return batch // at_once

    def __len__(self) -> int:
        return len(self.tp)

    def __getitem__(self, which):
        """The layout at a place, or the `Layouts` of several places, a slice or a mask."""
        columns = {name: getattr(self, name)[which] for name in _COLUMNS}
        own = None if self.stages is None else self.stages[which]
        if np.ndim(columns["tp"]):
            return Layouts(self.layers, **columns, stages=own)
        values = {name: value.item() for name, value in columns.items()}
        values["recompute"] = POLICIES[values["recompute"]]
        pp = values["pp"]
        even = even_stages(self.layers, pp) if self.layers % pp else None
        return Layout(**values, stages=own or even)

    def __repr__(self) -> str:
        return f"Layouts({len(self):,} of {self.layers} layers)"


_COLUMNS = tuple(x.name for x in fields(Layouts) if x.name not in ("layers", "stages"))


def _column(rows: list[Layout], name: str) -> np.ndarray:
    values = [getattr(layout, name) for layout in rows]
    if name == "recompute":
        values = [POLICIES.index(policy) for policy in values]
    return np.array(values, dtype=bool if name in ("sequence_parallel", "flash") else np.int64)


def _own_stages(rows: list[Layout], layers: int) -> np.ndarray | None:
    """The stages of layouts that are not as even as can be; None if there are no such layouts."""
    own = np.full(len(rows), None, dtype=object)
    for place, row in enumerate(rows):
        if row.stages is not None and row.stages != tuple(even_stages(layers, row.pp)):
            own[place] = row.stages
    return own if any(own) else None


def _check(layout: Layout, layers: int) -> None:
    layout.require_plain("Layouts", *_PLAIN)
    whole = isinstance(layout.recompute, str)
    require(whole, "Layouts", "recompute", layout.recompute, f"one of {', '.join(POLICIES)}")
    good = layout.stages is None or sum(layout.stages) == layers
    require(good, "Layouts", "stages", layout.stages, f"counts that add up to {layers} layers")
