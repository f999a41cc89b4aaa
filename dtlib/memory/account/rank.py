r"""The memory equation of one rank: every term a line of a `Sheet`, each a formula of the library.

    >>> from dtlib.foundations import catalog, format_quantity, published_models
    >>> layout = Layout(tp=4, dp=8, zero=1, sequence_parallel=True)
    >>> rank = rank_memory(published_models["llama-3.1-8b"], layout, seq=8192,
    ...                    gpu=catalog["h100-sxm"])
    >>> format_quantity(rank["memory"], "B"), rank.fits, max(rank.terms(), key=rank.terms().get)
    ('25 GB', True, 'activations')

What a rank holds is its model state, and what a step takes and gives back: the activations of the
micro-batches under way, what recomputation repeats, logits, buffers. The allocator keeps some more.
`pipeline_memory` gives the account of every stage; they differ, and the first one is not always the
fullest.
"""

from collections.abc import Sequence

from dtlib.formulas.require import require, require_count, require_type
from dtlib.formulas.sheet import Given, Sheet, line, total
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.table import Tables
from dtlib.layout import ONE_RANK, Layout
from dtlib.machines.hardware import GPU
from dtlib.memory.account.allocator import THREADS, AllocatorModel, reserve_bytes
from dtlib.memory.account.asked import Asked
from dtlib.memory.account.lines import (
    activation_lines,
    buffer_lines,
    given_quantities,
    state_lines,
    workspace_lines,
)
from dtlib.memory.account.moments import moment_lines, standing_lines
from dtlib.memory.account.programs import LOGIT_BYTES, Program, programs
from dtlib.memory.account.state import StateRecipe, recipes
from dtlib.models.spec import TransformerSpec


class MemoryAccount(Sheet):
    """A `Sheet` of one rank's memory. Its lines, as far as the rank has them, by name:

    `state` (`weights`, `gradients`, `passing`, `main`, `master`, `moments`, and each with `expert_`
    before it), `moving` (`activations`, `expert_activations`, `again`, `logits`, `gathered`,
    `sequence`, `ring`, `ahead`), `reserve`, and `memory`, which is all of them.
    """

    def __init__(self, asked: Asked, given, lines):
        super().__init__(given, lines)
        self.asked = asked

    @property
    def fits(self) -> bool:
        """Whether the GPU holds it. Raises ValueError for an account without a GPU."""
        require(self.asked.gpu is not None, "MemoryAccount.fits", "gpu", None, "given")
        return self["memory"] <= self["hbm"]

    def terms(self) -> dict[str, float]:
        """Bytes of every term that is not itself a sum: together they are `memory`."""
        values, found = self.values_at(), {}
        for name in self.lines["memory"].parts:
            for part in self.lines[name].parts or (name,):
                found[part] = values[part]
        return found

    def tables(self) -> Tables:
        """One table for the model state, one for what comes and goes, one for the whole."""
        titles = {
            "state": "model state", "standing": "what stays besides",
            "moving": "what a step takes and gives back",
        }  # fmt: skip
        there = [n for n in (*titles, "workspaces", "reserve", "memory") if n in self.lines]
        there = [n for n in there if n != "workspaces" or n in self.lines["memory"].parts]
        groups = {
            title: list(self.lines[name].parts) for name, title in titles.items() if name in there
        } | {"one rank": there}
        return sheet_tables(self, groups)

    def _heading(self) -> str:
        asked = self.asked
        layers = f"rank {asked.place} of its pipeline, {asked.layers[1]} layers"
        return f"{asked.spec.name}: {asked.layout}; {layers}; recipe {asked.recipe.name!r}"

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.tables()!r}"

    def _repr_markdown_(self) -> str:
        return f"{self._heading()}\n\n{self.tables()._repr_markdown_()}"


def account_lines(asked: Asked) -> tuple[dict, dict]:
    """What is given, and every line of the account, the whole one last."""
    given, lines = given_quantities(asked), {}
    sums = {"state": state_lines(asked, given, lines)}
    moving = activation_lines(asked, given, lines)
    if asked.program:
        sums["standing"] = standing_lines(asked, given, lines)
        moving = [name for name in moving if name != "again"] + moment_lines(asked, given, lines)
    else:
        moving += buffer_lines(asked, given, lines)
    sums["moving"] = moving
    labels = {"state": "model state", "standing": "stays besides", "moving": "comes and goes"}
    lines |= {name: total(*parts, label=labels[name]) for name, parts in sums.items()}
    parts, allocator = list(sums), asked.allocator
    if allocator and allocator.workspace_bytes and not asked.program:
        lines |= workspace_lines(given, THREADS, allocator.workspace_bytes, allocator.source)
        parts.append("workspaces")
    if allocator:
        given["reserve_fraction"] = Given(allocator.reserve_fraction, "", "", allocator.source)
        lines["reserve"] = line(reserve_bytes, label="allocator's reserve", moving_bytes="moving")
        parts.append("reserve")
    lines["memory"] = total(*parts, within="hbm" if asked.gpu else "")
    return given, lines


def settled(recipe, logit_bytes, allocator, program) -> dict:
    """The same options, names replaced by what they stand for."""
    program = programs[program] if isinstance(program, str) else program
    if logit_bytes is None:
        logit_bytes = program.logit_bytes if isinstance(program, Program) else LOGIT_BYTES
    recipe = recipes[recipe] if isinstance(recipe, str) else recipe
    return {
        "recipe": recipe, "logit_bytes": logit_bytes, "allocator": allocator, "program": program,
    }  # fmt: skip


def rank_memory(
    spec: TransformerSpec,
    layout: Layout = ONE_RANK,
    *,
    seq: int,
    place: int = 0,
    micro_batches: int | None = None,
    recipe: StateRecipe | str = "mixed",
    in_flight: float | None = None,
    logit_bytes: float | None = None,
    allocator: AllocatorModel | None = None,
    program: Program | str | None = None,
    gpu: GPU | None = None,
    **changes,
) -> MemoryAccount:
    """What one rank must hold at the fullest moment of a step, term by term.

    Equation: model state + activations under way + what is repeated + logits + buffers + reserve.
    Arguments: `spec`; `layout`, and `changes` of its fields by name (`tp=8`), where ZeRO's parts
    lie on the dp x cp ranks that have the same weights; `seq` tokens in a sequence; `place` in the
    pipeline, from 0; `micro_batches` of a step (many); `recipe`, a `StateRecipe` or its name;
    `in_flight`, micro-batches that this rank holds at most, as `peak_activations` of a schedule
    counts them (1F1B, or its interleaved form); `logit_bytes` for each word and token (10): 2 of
    the product, 4 of its copy in 32 bits and 4 of their softmax, which becomes the gradient;
    `allocator`, an `AllocatorModel`, for what is reserved and not only what is in use; `program`,
    a `Program` or its name, for what its kernels do without, what it keeps ready, and its
    `logit_bytes`; `gpu`.
    Not counted, each there for a moment only: in stage 3 the tables, which are gathered beside two
    layers, 2 bytes for each of their parameters; in stages 2 and 3 the whole gradient of what is
    being reduced (`ZeroStep` has it), in all stages the bucket in which gradients travel; a token's
    rows on their way to experts and back, 2 x hidden bytes for each expert and direction, and what
    uneven loads add.
    Returns a `MemoryAccount`. Raises ValueError, naming argument, value and rule, for what does
    not divide or is not there, KeyError for a recipe of another name, TypeError for another kind.
    Source: the formulas of its lines; Korthikanti et al. 2023; Rajbhandari et al. 2020.
    """
    require_type("rank_memory", Layout, layout=layout)
    asked = Asked(
        spec, layout | changes, seq, place, micro_batches, in_flight=in_flight, gpu=gpu,
        **settled(recipe, logit_bytes, allocator, program),
    )  # fmt: skip
    return MemoryAccount(asked, *account_lines(asked))


def pipeline_memory(
    spec: TransformerSpec,
    layout: Layout = ONE_RANK,
    *,
    in_flight: float | Sequence[float] | None = None,
    **options,
) -> list[MemoryAccount]:
    """The account of every stage of a pipeline; `options` as for `rank_memory`, without `place`.

    `in_flight` may be a list, such as `peak_activations` of a simulated schedule.

    >>> from dtlib.foundations import published_models
    >>> layout = Layout(pp=4, tp=8, sequence_parallel=True)
    >>> ranks = pipeline_memory(published_models["llama-3.1-70b"], layout, seq=8192)
    >>> [round(rank["activations"] / 1e9) for rank in ranks]
    [27, 20, 14, 7]
    """
    require_type("pipeline_memory", Layout, layout=layout)
    pp = options.get("pp", layout.pp)
    require_count("pipeline_memory", pp=pp)
    peaks = in_flight if isinstance(in_flight, Sequence) else [in_flight] * pp
    allowed = f"one number for each of {pp} ranks"
    require(len(peaks) == pp, "pipeline_memory", "in_flight", list(peaks), allowed)
    return [
        rank_memory(spec, layout, place=place, in_flight=peak, **options)
        for place, peak in enumerate(peaks)
    ]
