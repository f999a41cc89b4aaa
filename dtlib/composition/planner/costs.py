"""What the engine says of many layouts, and in which order they stand for a question."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dtlib.composition.planner.legal import Workload
from dtlib.composition.planner.software import Software, software_named
from dtlib.composition.planner.step import step_parts
from dtlib.layouts import Layouts
from dtlib.machines.machine import Cluster
from dtlib.memory.account.many import rank_memories


@dataclass(frozen=True, eq=False)
class Costs:
    """Columns of layouts: seconds of a step by cause, and bytes of the fullest rank."""

    layouts: Layouts
    parts: Mapping[str, np.ndarray]
    bytes: np.ndarray

    @cached_property
    def seconds(self) -> np.ndarray:
        return sum(self.parts.values())

    def __getitem__(self, which) -> "Costs":
        parts = {cause: seconds[which] for cause, seconds in self.parts.items()}
        return Costs(self.layouts[which], parts, self.bytes[which])


@dataclass(frozen=True)
class Question:
    """What a plan is asked: a workload, a cluster, a profile of software, and two allowances.

    A plan may fill `limit` bytes of a GPU, and a pipeline is taken to be `margin` times as slow as
    predicted.
    """

    work: Workload
    cluster: Cluster
    software: str | Software
    limit: float
    margin: float

    def costs(self, layouts: Layouts) -> Costs:
        """What the engine says of layouts."""
        spec, of = self.work.spec, {"batch": self.work.batch, "seq": self.work.seq}
        parts = step_parts(spec, self.cluster, layouts, **of, software=self.software)
        software = software_named(self.software)
        held = {"recipe": software.recipe, "program": software.program}
        return Costs(layouts, parts, rank_memories(spec, layouts, **of, **held))

    def weight(self, layouts: Layouts) -> np.ndarray:
        """How many times as long as predicted each is taken to last."""
        return np.where(layouts.pp > 1, self.margin, 1.0)

    def score(self, costs: Costs) -> np.ndarray:
        """What the order goes by: seconds, and for a pipeline the margin on top."""
        return self.weight(costs.layouts) * costs.seconds

    def ordered(self, costs: Costs) -> Costs:
        """The same, the least score first."""
        return costs[np.argsort(self.score(costs), kind="stable")]
