"""The memory of many layouts at once: the lines of the account, fed by columns.

A layout's account has lines that depend on its structure: the last stage has logits, a rank that
shares a sequence has keys that travel. Stages of all layouts that have the same lines form a group,
and one `Sheet` counts a group, its quantities being arrays. So there is one account, and
`rank_memories` is what `pipeline_memory` says of each layout, to the last bit.

    >>> from dtlib.foundations import published_models
    >>> from dtlib.layout import Layout
    >>> llama = published_models["llama-3.1-8b"]
    >>> layouts = Layouts.of([Layout(tp=8, dp=4), Layout(pp=4, dp=8)], llama.layers)
    >>> found = rank_memories(llama, layouts, batch=64, seq=4096)
    >>> [f"{bytes / 1e9:.1f} GB" for bytes in found]
    ['23.3 GB', '58.4 GB']
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

import numpy as np

from dtlib.formulas.poly import where
from dtlib.formulas.require import require, require_count, require_type
from dtlib.formulas.sheet import Sheet
from dtlib.layout import POLICIES, even_stages
from dtlib.layouts import Layouts
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.asked import Asked, Structure
from dtlib.memory.account.programs import Program
from dtlib.memory.account.rank import account_lines, settled
from dtlib.memory.account.state import (
    ParameterGroup,
    StageParams,
    StateRecipe,
    divided_params,
    layer_kinds,
    parameter_groups,
    shape_params,
)
from dtlib.models.spec import TransformerSpec

AT_ONCE = 1 << 14  # stages whose columns fit a processor's cache


def rank_memories(
    spec: TransformerSpec,
    layouts: Layouts,
    *,
    batch: int,
    seq: int,
    recipe: StateRecipe | str = "mixed",
    logit_bytes: float | None = None,
    allocator: AllocatorModel | None = None,
    program: Program | str | None = None,
) -> np.ndarray:
    """What the fullest rank of each layout must hold at the fullest moment of a step.

    Equation: the largest `memory` of `pipeline_memory`. Of neighbours that differ only in the
    micro-batches that they hold, the first one holds most, and the others are passed over.
    Arguments: `spec`; `layouts` of its layers; `batch` sequences of a step of all replicas; `seq`
    tokens in a sequence; `recipe`, `logit_bytes`, `allocator` and `program` as for
    `rank_memory`.
    Returns bytes, a number for each layout. Raises ValueError, naming field, value and rule, for
    a layout that cannot be; KeyError for a recipe of another name, TypeError for another kind.
    Source: the formulas of the account's lines.
    """
    require_type("rank_memories", TransformerSpec, spec=spec)
    require_type("rank_memories", Layouts, layouts=layouts)
    owner, allowed = f"memories of {spec.name!r}", f"{spec.layers}, the model's"
    require(layouts.layers == spec.layers, owner, "layers", layouts.layers, allowed)
    require_count(owner, seq=seq)
    micro_batches = layouts.micro_batches(batch)
    options = {"seq": seq, **settled(recipe, logit_bytes, allocator, program)}
    _check(spec, layouts, micro_batches, options)
    weights, found = parameter_groups(spec), np.zeros(len(layouts))
    if not len(layouts):
        return found
    rows, places, dense, mixed = _unlike_stages(spec, layouts)
    for structure, at in _alike(layouts, rows, places, dense, mixed):
        row, kinds = rows[at], (dense[at], mixed[at])
        some = Stages(
            spec, weights, structure, layouts[row], places[at], kinds, micro_batches[row], **options
        )
        np.maximum.at(found, row, some.memory())
    return found


@dataclass(frozen=True)
class Stages:
    """Stages whose accounts have the same lines: to many what `Asked` is to one, in columns."""

    spec: TransformerSpec
    weights: tuple[ParameterGroup, ...]
    structure: Structure
    layout: Layouts
    place: np.ndarray
    kinds: tuple[np.ndarray, np.ndarray]
    micro_batches: np.ndarray
    seq: int
    recipe: StateRecipe
    logit_bytes: float
    allocator: AllocatorModel | None
    program: Program | None
    in_flight: None = None
    gpu: None = None
    segment: int = 1
    chosen: tuple[str, ...] = ()

    @property
    def params(self) -> StageParams:
        """The parameters of each of them."""
        layout = self.layout
        return divided_params(
            self.weights, *self.kinds, first=self.place == 0, last=self.structure.last,
            tp=layout.tp, ep=layout.ep, kv_heads=self.spec.kv_heads,
        )  # fmt: skip

    @property
    def stream_ranks(self) -> np.ndarray:
        """How many ranks divide what is between the matrices of a layer."""
        return where(self.layout.sequence_parallel, self.layout.tp, 1)

    @property
    def shape_params(self) -> np.ndarray:
        """Each rank's part of one matrix of each shape that its layers have."""
        kinds = (int(self.structure.dense), int(self.structure.mixed))
        return shape_params(self.spec, *kinds, self.layout.tp)

    def fullest(self, candidates: Mapping, given: Mapping, lines: Mapping) -> str:
        """Which of the lines the account is asked for: a chosen one, if there is one."""
        return next(filter(candidates.__contains__, self.chosen), next(iter(candidates)))

    def memory(self) -> np.ndarray:
        """Bytes of each: where the account would ask which lines need more, the most of them all.

        Of two kinds of layers that are repeated the account has one, and of two moments.
        """
        structure, choices = self.structure, []
        if structure.dense and structure.mixed and structure.recompute != "none":
            choices.append(("again", "expert_again"))
        if self.program and structure.last:
            choices.append(("backward", "head"))
        counted = (replace(self, chosen=chosen) for chosen in product(*choices))
        return reduce(np.maximum, (Sheet(*account_lines(some))["memory"] for some in counted))


def _unlike_stages(spec: TransformerSpec, layouts: Layouts) -> tuple[np.ndarray, ...]:
    """The stages of each layout but those like the one before them, in four columns.

    Places of the layouts, places of the stages, and their layers without and with experts.
    """
    columns = []
    for stages, rows in _alike_pipelines(layouts):
        count, place = np.array(stages), np.arange(len(stages))
        dense, mixed = layer_kinds(spec, np.cumsum(count) - count, count)
        traits = np.stack([place == 0, place == len(stages) - 1, dense, mixed])
        new = np.append(True, (traits[:, 1:] != traits[:, :-1]).any(axis=0))
        columns.append([np.repeat(rows, new.sum())])
        columns[-1] += [np.tile(column[new], len(rows)) for column in (place, dense, mixed)]
    return tuple(np.concatenate(column) for column in zip(*columns, strict=True))


def _alike_pipelines(layouts: Layouts) -> Iterator[tuple[Sequence[int], np.ndarray]]:
    """The layers of each stage, and the places of the layouts that divide them like this."""
    even = np.ones(len(layouts), dtype=bool)
    even[layouts.uneven] = False
    for pp in np.unique(layouts.pp[even]):
        yield even_stages(layouts.layers, int(pp)), np.flatnonzero(even & (layouts.pp == pp))
    own = [layouts.stages[place] for place in layouts.uneven]
    for stages in sorted(set(own)):
        yield stages, layouts.uneven[[one == stages for one in own]]


def _alike(layouts, rows, places, dense, mixed) -> Iterator[tuple[Structure, np.ndarray]]:
    """Each structure that there is with the places of the stages that have it, some at a time."""
    traits = Structure(
        recompute=layouts.recompute[rows], flash=layouts.flash[rows], dense=dense > 0,
        mixed=mixed > 0, alone=layouts.pp[rows] == 1, first=places == 0,
        last=places == layouts.pp[rows] - 1,
        shares_stream=(layouts.sequence_parallel & (layouts.tp > 1))[rows],
        shares_sequence=layouts.cp[rows] > 1, interleaves=layouts.interleave[rows] > 1,
        gathers=layouts.zero[rows] == 3,
    )  # fmt: skip
    codes = np.zeros(len(rows), dtype=np.int64)
    for trait in traits:
        codes = codes * len(POLICIES) + trait
    order = np.argsort(codes, kind="stable")
    borders = np.flatnonzero(np.diff(codes[order])) + 1
    for group in np.split(order, borders):
        structure = Structure(*(trait[group[0]].item() for trait in traits))
        structure = structure._replace(recompute=POLICIES[structure.recompute])
        for start in range(0, len(group), AT_ONCE):
            yield structure, group[start : start + AT_ONCE]


def _check(spec, layouts, micro_batches, options) -> None:
    """Raise ValueError, as the account of the layout does, where one of them cannot be.

    Every rule is about a few fields together, and is asked once for each of their values.
    """
    suspects = set(layouts.uneven.tolist())
    for names in (
        ("tp", "cp", "sequence_parallel"), ("ep",), ("pp", "interleave"), ("zero",),
        ("micro_batch",), ("dp",),
    ):  # fmt: skip
        code = np.zeros(len(layouts), dtype=np.int64)
        for name in names:
            column = getattr(layouts, name).astype(np.int64)
            code = code * (1 + column.max(initial=0)) + column
        suspects.update(np.unique(code, return_index=True)[1].tolist())
    for uneven in (
        (layouts.dp * layouts.cp) % layouts.ep,
        (layouts.interleave > 1) * (micro_batches % layouts.pp),
    ):
        suspects.update(np.flatnonzero(uneven)[:1].tolist())
    for row in sorted(suspects):
        asked = Asked(
            spec, layouts[row], place=0, micro_batches=int(micro_batches[row]), in_flight=None,
            gpu=None, **options,
        )  # fmt: skip
        assert asked.params
