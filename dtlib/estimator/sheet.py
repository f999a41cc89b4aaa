r"""The estimate: a sheet of memory, time and cost.

    >>> from dtlib.foundations import Cluster, catalog, format_quantity, published_models
    >>> run = estimate(published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8),
    ...                batch=512, seq=8192, zero=3, recompute="full", software="fsdp")
    >>> run.fits, format_quantity(run["memory"], "B"), format_quantity(run["step"], "s")
    (True, '17 GB', '12 s')

An `Estimate` is a `Sheet`: each line is a formula of the library, fed by quantities and by lines
above it. So it can be printed, opened, differentiated and doubted. `LEAVES_OUT` says what it lacks.
"""

from dtlib.composition.planner.software import Software, software_named
from dtlib.estimator.lines import memory_lines, run_lines, step_lines, work_lines
from dtlib.estimator.run import TrainingRun, sequences_of, tokens_of
from dtlib.formulas.require import require_type
from dtlib.formulas.sheet import Sheet
from dtlib.formulas.sheet_parts import together
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.table import Tables
from dtlib.layout import ONE_RANK, Layout
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec

LEAVES_OUT = (
    "loading data, evaluation, writing checkpoints and failures",
    "buffers of the communication library, fragmentation and the driver's share of memory",
    "experts that are loaded unevenly",
    "networks with less than full bandwidth between any two nodes",
)


class Estimate(Sheet):
    """A `Sheet` of a training run. Its lines, as far as the run has them, by name:

    `memory` of the fullest rank (`state`, `activations`, `logits`, ...), `work`, `micro_time`,
    `step` (the planner's `CAUSES`: `compute`, `attention`, `streams`, `host`, `tensor`, `bubble`,
    `sends`, `exchange`, ...), `speed`, `mfu` unless it was given, `run` and `cost`.
    """

    def __init__(self, run: TrainingRun, given, lines, groups):
        super().__init__(given, lines)
        self.run, self.groups = run, groups

    @property
    def fits(self) -> bool:
        """Whether a rank's memory holds what is counted."""
        return self["memory"] <= self["hbm"]

    def sensitivity(self, output: str = "step") -> dict[str, float]:
        """How a line grows with what is measured or assumed: d log(line) / d log(input).

        Left out are inputs that do not matter, and counts: for another shape of the model, the
        cluster or the layout, make another estimate, since seconds and bytes were counted for this.
        Argument: `output`, the name of a line. Returns exponents, the largest first.
        Raises KeyError for a name that is no line.
        """
        if output not in self.lines:
            raise KeyError(f"no line {output!r}; there are {', '.join(self.lines)}")
        found = self.exponents(output).items()
        return {name: x for name, x in found if abs(x) > 5e-4 and not self._is_count(name)}

    def _is_count(self, name: str) -> bool:
        """Whether a quantity was counted: a whole number of something, if the MFU was not given."""
        entry = self.given[name]
        whole = not entry.unit and float(entry.value).is_integer()
        return whole and self.run.mfu is None and name != "tokens"

    def tables(self) -> Tables:
        """A table for memory, for one micro-batch, for the step, and for the run."""
        return sheet_tables(self, self.groups)

    def _heading(self) -> str:
        run = self.run
        batch = f"{run.batch:,} sequences of {run.seq:,} tokens"
        batch += f", {run.spec.vocab:,} words with padding" if run.padded else ""
        said = f"{run.layout}; {batch}; software {run.software.name!r}"
        return f"{run.spec.name} on {run.cluster.ranks:,} x {run.gpu.name}: {said}"

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.tables()!r}"

    def _repr_markdown_(self) -> str:
        return f"{self._heading()}\n\n{self.tables()._repr_markdown_()}"


def estimate(
    spec: TransformerSpec,
    cluster: Cluster,
    layout: Layout = ONE_RANK,
    *,
    batch: int | None = None,
    batch_tokens: int | None = None,
    seq: int | None = None,
    software: str | Software = "megatron",
    dtype: str = "bf16",
    mfu: float | None = None,
    efficiency: float | None = None,
    overlap: float | None = None,
    tokens: float | None = None,
    price: float | None = None,
    **changes,
) -> Estimate:
    """Memory, step time, speed and cost of a training run, each with its terms.

    It is the planner's sheet of one layout beside the account of its fullest rank: `plan` says of
    many layouts what this says of one.
    Equation: a step is m micro-batches of the slowest stage, what fills and drains the pipeline,
    what of the gradients' exchange no arithmetic hides, and the optimizer. A vocabulary that `tp`
    does not divide is padded, and layers that `pp` does not divide lie as evenly as can be.
    Arguments: `spec` and `cluster`; `layout`, of which a single replica is repeated until the
    cluster is full, and `changes` of its fields by name (`tp=8`); `batch` sequences of one step of
    all ranks, or `batch_tokens`; `seq` tokens in a sequence (the spec's context); `software`, a
    profile of a training library or its name; `dtype` of the products.
    Three ways to the arithmetic: `mfu`, measured or assumed, in which everything else is contained
    already; `efficiency`, the share of the peak while arithmetic runs; or neither, and a pass is
    built of products, attention and streams, or takes as long as the host needs to start it.
    `overlap` is the share of the gradients' exchange that hides where there is arithmetic to hide
    under (the profile's); `tokens` of the run and `price` (USD/s of one GPU) give its duration and
    cost.
    Returns an `Estimate`. Raises ValueError, naming argument, value and rule, for what does not
    divide, for fields of a layout that have no line here (`offload`, `segment`), an unknown profile
    and shares outside (0, 1]; TypeError for a `spec`, `cluster` or `layout` that is none.
    Source: the formulas of its lines.
    """
    require_type("estimate", TransformerSpec, spec=spec)
    require_type("estimate", Cluster, cluster=cluster)
    require_type("estimate", Layout, layout=layout)
    seq = tokens_of(spec, seq)
    run = TrainingRun(
        spec, cluster, _filled(layout, changes, cluster.ranks),
        sequences_of(batch, batch_tokens, seq), seq, software_named(software), dtype,
        mfu, efficiency, overlap, tokens, price,
    )  # fmt: skip
    step, work, memory = step_lines(run), work_lines(run), memory_lines(run)
    whole = run_lines(run)
    given, lines = together(memory, work, step, whole)
    micro = [name for name in step[1] if name.startswith(_MICRO)]
    groups = {
        "memory of the fullest rank": list(memory[1]),
        "one micro-batch": micro,
        "one step": [*work[1], *(name for name in step[1] if name not in micro)],
        "the run": list(whole[1]),
    }
    return Estimate(run, given, lines, groups)


def _filled(layout: Layout, changes: dict, ranks: int) -> Layout:
    """The layout with changes on so many ranks; experts are divided among replicas, so last."""
    ep = {"ep": changes.pop("ep", layout.ep)}
    return ((layout | {"ep": 1}) | changes).on(ranks) | ep


_MICRO = ("f_", "b_", "micro_", "tables", "last_tables", "slowest", "all_stages", "one_", "stages")
