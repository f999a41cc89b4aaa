r"""The estimate: a sheet of memory, time and cost.

    >>> from dtlib.foundations import Cluster, catalog, format_quantity, published_models
    >>> run = estimate(published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8),
    ...                batch=512, seq=8192, zero=3, recompute="full")
    >>> run.fits, format_quantity(run["memory"], "B"), format_quantity(run["step"], "s")
    (True, '13 GB', '8.8 s')

An `Estimate` is a `Sheet`: each line is a formula of the library, fed by quantities and by lines
above it. So it can be printed, opened, differentiated and doubted. `LEAVES_OUT` says what it lacks.
"""

from dtlib.estimator.memory import given_quantities, memory_lines
from dtlib.estimator.run import TrainingRun, sequences_of, tokens_of
from dtlib.estimator.step import run_lines, step_lines, work_lines
from dtlib.formulas.require import require_type
from dtlib.formulas.sheet import Sheet
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.table import Tables
from dtlib.foundations.roofline.pace import PaceModel
from dtlib.layout import ONE_RANK, Layout
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec

LEAVES_OUT = (
    "the optimizer's own step, loading data, evaluation, writing checkpoints and failures",
    "buffers of the communication library, fragmentation and the driver's share of memory",
    "experts that are loaded unevenly, and their all-to-all",
    "uneven stages: the tables at both ends are spread over all of them",
    "networks with less than full bandwidth between any two nodes",
)
_SHAPE = {
    *("params", "matmul_params", "layers", "rank_layers", "hidden", "vocab", "seq", "micro_batch"),
    *("P", "tp", "p", "v", "dp", "zero", "reductions", "passes"),
    *("element_bytes", "weight_width"),
}
_PACE = PaceModel()


class Estimate(Sheet):
    """A `Sheet` of a training run. Its lines, as far as the run has them, by name:

    `memory` of one rank (`state`, `activations`, `logits`, ...), `step` (`computing`, `tensor`,
    `bubble`, `sends`, `exposed`), `speed`, `mfu` unless it was given, `run` and `cost`.
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

        Left out are inputs that do not matter, and the shape of the model and of the cluster where
        counts depend on it (products, kept activations): for another shape, make another estimate.
        Argument: `output`, the name of a line. Returns exponents, the largest first.
        Raises KeyError for a name that is no line.
        """
        if output not in self.lines:
            raise KeyError(f"no line {output!r}; there are {', '.join(self.lines)}")
        fixed = () if self.run.mfu is not None else _SHAPE
        found = self.exponents(output).items()
        return {name: x for name, x in found if abs(x) > 5e-4 and name not in fixed}

    def tables(self) -> Tables:
        """One table for memory, one for the step, one for the run."""
        return sheet_tables(self, self.groups)

    def _heading(self) -> str:
        run = self.run
        batch = f"{run.batch:,} sequences of {run.seq:,} tokens"
        return f"{run.spec.name} on {run.cluster.ranks:,} x {run.gpu.name}: {run.layout}; {batch}"

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
    dtype: str = "bf16",
    mfu: float | None = None,
    efficiency: float | None = None,
    overlap: float = 0.5,
    tokens: float | None = None,
    price: float | None = None,
    pace: PaceModel = _PACE,
    **changes,
) -> Estimate:
    """Memory, step time, speed and cost of a training run, each with its terms.

    Equation: a step is the arithmetic of a rank, what tensor parallelism sends between, the bubble
    of the pipeline, its messages, and what of the gradients' exchange no arithmetic hides.
    Arguments: `spec` and `cluster`; `layout`, of which a single replica is repeated until the
    cluster is full, and `changes` of its fields by name (`tp=8`); `batch` sequences of one step of
    all ranks, or `batch_tokens`; `seq` tokens in a sequence (the spec's context); `dtype` of the
    products.
    Three ways to the arithmetic: `mfu`, measured or assumed, in which everything else is contained
    already; `efficiency`, the share of the peak while arithmetic runs; or neither, and the time is
    built of products, attention, streams and gaps by the constants of `pace`.
    `overlap` is the share of the gradients' exchange that hides where there is arithmetic to hide
    under; `tokens` of the run and `price` (USD/s of one GPU) give its duration and cost.
    Returns an `Estimate`. Raises ValueError, naming argument, value and rule, for what does not
    divide, for fields of a layout that have no line here (`cp`, `ep`, `offload`, ...) and for
    shares outside (0, 1]; TypeError for a `spec`, `cluster`, `layout` or `pace` that is none.
    Source: the formulas of its lines.
    """
    require_type("estimate", TransformerSpec, spec=spec)
    require_type("estimate", Cluster, cluster=cluster)
    require_type("estimate", Layout, layout=layout)
    require_type("estimate", PaceModel, pace=pace)
    seq = tokens_of(spec, seq)
    run = TrainingRun(
        spec, cluster, (layout | changes).on(cluster.ranks),
        sequences_of(batch, batch_tokens, seq), seq, dtype, mfu, efficiency, overlap, tokens, price,
        pace,
    )  # fmt: skip
    given = given_quantities(run)
    memory, work = memory_lines(run, given), work_lines(run)
    step, whole = step_lines(run, given), run_lines(run, given)
    groups = {
        "memory of one rank": list(memory),
        "one step": [*work, *step],
        "the run": list(whole),
    }
    return Estimate(run, given, memory | work | step | whole, groups)
