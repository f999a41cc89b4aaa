"""The plan of a run: all layouts that are legal and fit, the fastest first, and why the rest lost.

    >>> from dtlib.foundations import Cluster, catalog, published_models
    >>> plans = plan(published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8),
    ...              batch=512, seq=8192)
    >>> plans[0].time <= plans[1].time, plans[0].memory <= plans.question.limit
    (True, True)

Time and memory come from the engine (`step_parts`, `rank_memories`), which knows nothing of plans.
Here they are filtered, ordered and compared.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill

import numpy as np

from dtlib.composition.planner.costs import Costs, Question
from dtlib.composition.planner.legal import Workload, candidate_layouts, funnel
from dtlib.composition.planner.reasons import beyond, risks, rivals, why_not
from dtlib.composition.planner.software import Software
from dtlib.formulas.require import is_number, require, require_count, require_type
from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity
from dtlib.layout import Layout, even_stages
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True, eq=False)
class Plan:
    """One layout of a `Plans`, at a `place` in its order: what it takes, and what that means."""

    plans: "Plans"
    place: int

    @property
    def layout(self) -> Layout:
        return self.plans.costs.layouts[self.place]

    @property
    def time(self) -> float:
        """Seconds of a step."""
        return float(self.plans.costs.seconds[self.place])

    @property
    def memory(self) -> float:
        """Bytes of the rank that holds most."""
        return float(self.plans.costs.bytes[self.place])

    @property
    def parts(self) -> dict[str, float]:
        """The seconds of a step by cause, the largest first; together they are `time`."""
        found = {cause: float(s[self.place]) for cause, s in self.plans.costs.parts.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def mfu(self) -> float:
        """The model's work in a step, over what all GPUs could do in its time."""
        work, cluster = self.plans.question.work, self.plans.question.cluster
        done = work.spec.flops_per_token(work.seq) * work.batch * work.seq
        return done / (self.time * cluster.ranks * cluster.node.gpu.peak())

    @property
    def tokens_per_second(self) -> float:
        """Tokens that all GPUs together train on in a second."""
        work = self.plans.question.work
        return work.batch * work.seq / self.time

    def explain(self) -> str:
        """What it takes, why the nearest others are behind it, and what would put one before it."""
        of = self.plans
        at = of.question, of.costs
        shares = ", ".join(
            f"{cause} {seconds / self.time:.0%}"
            for cause, seconds in self.parts.items()
            if seconds > 0.005 * self.time
        )
        sentences = [
            repr(self),
            f"Of its time: {shares}.",
            *rivals(*at, self.place),
            beyond(*at, of.too_large, self.place),
            *risks(*at, self.place),
        ]
        return "\n".join(fill(one, 82, subsequent_indent="    ") for one in sentences)

    def __repr__(self) -> str:
        time, memory = format_quantity(self.time, "s", 3), format_quantity(self.memory, "B", 3)
        return f"Plan({self.layout}: {time}, {memory}, MFU {self.mfu:.0%})"


@dataclass(frozen=True, eq=False, repr=False)
class Plans(Sequence[Plan]):
    """All layouts that fit, the best first.

    `funnel` counts what was left at each step of the way; `costs` has seconds and bytes as columns,
    and `too_large` those of the legal layouts that do not fit, the fastest first.
    """

    question: Question
    funnel: Mapping[str, int]
    costs: Costs
    too_large: Costs

    @property
    def pareto(self) -> list[Plan]:
        """Those that no other beats in both time and memory, the fastest first."""
        order = np.lexsort((self.costs.bytes, self.costs.seconds))
        held = self.costs.bytes[order]
        less = np.concatenate([[True], held[1:] < np.minimum.accumulate(held)[:-1]])
        return [Plan(self, int(place)) for place in order[less]]

    def why_not(self, layout: Layout | None = None, **changes) -> str:
        """Why a layout, or the best one with `changes`, is not the first.

        A rule that it breaks, the memory that it lacks, or the causes for which it takes longer.
        Raises ValueError for a layout of another number of ranks.
        """
        layout = self._changed(changes) if layout is None else layout
        return why_not(self.question, self.costs[:1], layout)

    def _changed(self, changes: Mapping) -> Layout:
        """The first layout with other fields; its replicas, and what follows from tp and pp."""
        first, ranks, layers = (
            self[0].layout,
            self.question.cluster.ranks,
            self.costs.layouts.layers,
        )
        size = {name: changes.get(name, getattr(first, name)) for name in ("tp", "pp", "cp")}
        uneven = layers % size["pp"] and size["pp"] <= layers
        follows = {
            "dp": max(1, ranks // math.prod(size.values())),
            "sequence_parallel": size["tp"] > 1,
            "stages": even_stages(layers, size["pp"]) if uneven else None,
        }
        return first | follows | changes

    def __len__(self) -> int:
        return len(self.costs.layouts)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [Plan(self, i) for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"Plans: place {place}, but there are {len(self)}")
        return Plan(self, place % len(self))

    def table(self, count: int = 5) -> Table:
        """The best ones, as a table."""
        work, cluster = self.question.work, self.question.cluster
        rows = [
            (
                str(one.place + 1), str(one.layout), format_quantity(one.time, "s", 3),
                format_quantity(one.memory, "B", 2), f"{one.mfu:.1%}",
            )
            for one in self[:count]
        ]  # fmt: skip
        title = (
            f"{work.spec.name} on {cluster.ranks:,} x {cluster.node.gpu.name}, {work.batch:,} "
            f"sequences of {work.seq:,} tokens: {len(self):,} layouts fit"
        )
        return Table(title, ("place", "layout", "step", "memory", "MFU"), tuple(rows))

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_markdown_(self) -> str:
        return self.table()._repr_markdown_()


def plan(
    spec: TransformerSpec,
    cluster: Cluster,
    *,
    batch: int,
    seq: int | None = None,
    gpus: int | None = None,
    software: str | Software = "megatron",
    usable: float = 0.9,
    margin: float = 1.15,
    **choices,
) -> Plans:
    """Every legal layout of a run that fits, ranked by the time of a step.

    Equation: the least time over layouts whose fullest rank holds at most `usable` of a GPU.
    Arguments: `spec`; `cluster`, of which `gpus` (all) are used, whole nodes or a part of one;
    `batch` sequences of a step, `seq` tokens in each (the model's context); `software`, a profile
    or its name, whose memory is accounted for where it is known; `usable`, the share of a GPU's
    memory that a plan may fill: the driver, the buffers of collectives and fragments take the rest;
    `margin`, how many times as long as predicted a pipeline is taken to last, since its waits are
    what the model knows least; `choices`, the values of fields of the layout that are tried, as
    `candidate_layouts` takes them.
    Returns `Plans`, the best first. Raises ValueError, naming argument, value and rule, where no
    layout is legal or fits, and for a share or a margin that is none.
    """
    require_type("plan", TransformerSpec, spec=spec)
    require_type("plan", Cluster, cluster=cluster)
    seq = spec.context if seq is None else seq
    require(seq is not None, "plan", "seq", seq, "given, as the spec has no context")
    require_count("plan", batch=batch, seq=seq)
    require(
        is_number(usable) and 0 < usable <= 1, "plan", "usable", usable, "a share above 0, to 1"
    )
    require(is_number(margin) and margin >= 1, "plan", "margin", margin, "at least 1")
    cluster = cluster if gpus is None else part_of(cluster, gpus)
    limit = usable * cluster.node.gpu.hbm_bytes
    question = Question(Workload(spec, batch, seq), cluster, software, limit, margin)
    candidates = candidate_layouts(spec, cluster.ranks, **choices)
    counts, legal = funnel(question.work, candidates)
    every = question.costs(legal)
    fits = every.bytes <= limit
    if not fits.any():
        least, may = format_quantity(every.bytes.min(), "B"), format_quantity(limit, "B")
        raise ValueError(
            f"plan: none of {len(legal)} legal layouts fits: the smallest needs {least} of a "
            f"{cluster.node.gpu.name}, of which it may fill {may}"
        )
    return Plans(
        question,
        {"candidates": len(candidates), **counts, "memory": int(fits.sum())},
        question.ordered(every[fits]),
        question.ordered(every[~fits]),
    )


def part_of(cluster: Cluster, gpus: int) -> Cluster:
    """So many GPUs of a cluster: whole nodes, or a part of one node with its part of the ports.

    Raises ValueError for more than it has, or nodes that would be torn.

    >>> from dtlib.foundations import Cluster, catalog
    >>> [part_of(Cluster(catalog["dgx-h100"], 8), gpus).ranks for gpus in (16, 4)]
    [16, 4]
    """
    require_count("plan", gpus=gpus)
    node = cluster.node
    allowed = f"at most {cluster.ranks}, and below or a multiple of {node.gpus}, a node's GPUs"
    good = gpus <= cluster.ranks and (gpus < node.gpus or gpus % node.gpus == 0)
    require(good, "plan", "gpus", gpus, allowed)
    if gpus >= node.gpus:
        return Cluster(node, gpus // node.gpus)
    ports = max(1, node.nics * gpus // node.gpus)
    return Cluster(replace(node, gpus=gpus, nics=ports), 1)
