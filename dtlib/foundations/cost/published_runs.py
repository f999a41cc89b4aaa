"""Published step times of large runs, each with the description that an estimate needs.

A few rows, cited, for holding estimates against what was measured; `baseline_time` is what a single
parameter says of the same runs.
"""

from dataclasses import dataclass, replace

from dtlib.formulas.formula import formula
from dtlib.formulas.units import Gbit, us
from dtlib.layout import Layout
from dtlib.machines.datasheets import catalog
from dtlib.machines.machine import Cluster, Link, Node
from dtlib.models.spec import TransformerSpec

_SC21 = "Narayanan et al. 2021, table {}"
SELENE = Node(
    "dgx-a100", catalog["a100-sxm"], 8, catalog["ib-hdr200"], 8,
    "Narayanan et al. 2021, section 5: eight ports of 200 Gb/s for the application", "2021",
)  # fmt: skip
JEAN_ZAY = Node(
    "jean-zay", catalog["a100-sxm"], 8,
    Link("omni-path-100", 2 * us, 100 * Gbit, "BigScience Workshop 2022, section 3", "2022"), 4,
    "BigScience Workshop 2022: eight A100s and four Omni-Path links of 100 Gb/s", "2022",
)  # fmt: skip


@formula(
    r"T_\text{base}",
    "s",
    "Narayanan et al. 2021, for the bubble",
    "the same share of the peak for every model, split and size: that is the assumption",
)
def baseline_time(flops, P, peak, peak_fraction, p, m, v):
    """A step that differs from perfect by a constant share of the peak and its bubble.

    The work at that share, and the pipeline's bubble on top. `flops` are those of a step, repeats
    included.

    >>> baseline_time(flops=1e18, P=100, peak=1e15, peak_fraction=0.5, p=5, m=16, v=1)
    25.0
    """
    return flops / (P * peak * peak_fraction) * (1 + (p - 1) / (v * m))


@dataclass(frozen=True)
class PublishedRun:
    """A run as its authors describe it, and the FLOP/s per GPU that they measured.

    `batch` sequences make a step, each as long as the spec's context; `rate` counts repeated work,
    as its source does. A spec may have more layers than do work (`worked_layers`), where tables
    fill up the stages at both ends. `software` names the library, as the planner's profiles do.
    """

    name: str
    spec: TransformerSpec
    layout: Layout
    batch: int
    rate: float
    source: str
    node: Node = SELENE
    worked_layers: int | None = None
    software: str = "megatron-2021"

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    @property
    def cluster(self) -> Cluster:
        """The nodes that it ran on."""
        return Cluster(self.node, self.ranks // self.node.gpus)

    @property
    def flops(self) -> float:
        """FLOP of one step as the source counts them: every token attends to all, all is repeated.

        Equation (3) of the source: 96 B s l h^2 (1 + s / 6h + V / 16lh).
        """
        spec, seq = self.spec, self.spec.context
        layers, hidden = self.worked_layers or spec.layers, spec.hidden
        factor = 1 + seq / (6 * hidden) + spec.vocab / (16 * layers * hidden)
        return 96 * self.batch * seq * layers * hidden**2 * factor

    @property
    def seconds(self) -> float:
        """The measured time of one step, from the published rate."""
        return self.flops / (self.ranks * self.rate)

    def baseline(self, share: float) -> float:
        """Seconds by `baseline_time`, with this share of the peak."""
        layout, peak = self.layout, self.node.gpu.peak()
        m = layout.micro_batches(self.batch)
        return baseline_time(self.flops, self.ranks, peak, share, layout.pp, m, layout.interleave)


def _gpt(layers: int, hidden: int, heads: int) -> TransformerSpec:
    name, ends = f"GPT, {layers} x {hidden}", {"positions": 2048, "context": 2048}
    return TransformerSpec(name, layers, hidden, heads, 51200, tied=True, **ends)


def _run(name, spec, ranks, batch, rate, source, software="megatron-2021", **split):
    """All of them computed every layer again and stored the scores of attention meanwhile."""
    layout = Layout(recompute="full", flash=False, **split).on(ranks)
    return PublishedRun(name, spec, layout, batch, rate * 1e12, source, software=software)


_TABLE_1 = (
    ("1.7 B", (24, 2304, 24), 32, 512, 16, 137, 1, 1, 1),
    ("3.6 B", (30, 3072, 32), 64, 512, 16, 138, 2, 1, 1),
    ("7.5 B", (36, 4096, 32), 128, 512, 16, 142, 4, 1, 1),
    ("18.4 B", (40, 6144, 48), 256, 1024, 8, 135, 8, 1, 1),
    ("39.1 B", (48, 8192, 64), 512, 1536, 4, 138, 8, 2, 1),
    ("76.1 B", (60, 10240, 80), 1024, 1792, 2, 140, 8, 4, 3),
    ("145.6 B", (80, 12288, 96), 1536, 2304, 2, 148, 8, 8, 2),
    ("310.1 B", (96, 16384, 128), 1920, 2160, 1, 155, 8, 16, 2),
    ("529.6 B", (105, 20480, 128), 2520, 2520, 1, 163, 8, 35, 3),
    ("1008 B", (128, 25600, 160), 3072, 3072, 1, 163, 8, 64, 1),
)
"""Name, shape, GPUs, batch, micro-batch, TFLOP/s per GPU, tensor, pipeline, stages of a rank.

Micro-batches and stages of a rank are those of the script that the authors published for it.
"""

_TABLE_2 = (
    (174.6, (96, 12288, 96), 384, 1536, 4, 144),
    (174.6, (96, 12288, 96), 768, 1536, 2, 88),
    (174.6, (96, 12288, 96), 1536, 1536, 1, 44),
    (529.6, (105, 20480, 128), 640, 2560, 4, 138),
    (529.6, (105, 20480, 128), 1120, 2240, 2, 98),
    (529.6, (105, 20480, 128), 2240, 2240, 1, 48),
)
"""Parameters, shape, GPUs, batch, micro-batch and TFLOP/s per GPU under ZeRO's stage 3 alone."""

weak_scaling_runs: tuple[PublishedRun, ...] = tuple(
    _run(
        name, _gpt(*shape), ranks, batch, rate, _SC21.format(1), micro_batch=micro_batch, tp=tp,
        pp=pp, interleave=v,
    )
    for name, shape, ranks, batch, micro_batch, rate, tp, pp, v in _TABLE_1
)  # fmt: skip
sharded_runs: tuple[PublishedRun, ...] = tuple(
    _run(
        f"{size:g} B, stage 3", _gpt(*shape), ranks, batch, rate, _SC21.format(2),
        "deepspeed", micro_batch=micro_batch, zero=3,
    )
    for size, shape, ranks, batch, micro_batch, rate in _TABLE_2
)  # fmt: skip
_BLOOM = TransformerSpec("BLOOM", 72, 14336, 112, 250880, tied=True, context=2048)
bloom_run = replace(
    _run(
        "BLOOM 176B", _BLOOM, 384, 2048, 149.1,
        "BigScience Workshop 2022, log of the training: 105 s for a step",
        "deepspeed", tp=4, pp=12, micro_batch=2,
    ),
    node=JEAN_ZAY, worked_layers=70,
)  # fmt: skip
"""Its 70 layers and two tables lie on 12 stages: six on each, as if there were 72 layers."""
