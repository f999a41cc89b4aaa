"""Every widget of the kit, with a task that can be done; shared by the tests of this room."""

import toy_layouts

from dtlib.collectives import (
    Nodes,
    Switch,
    halving_doubling_all_reduce_time,
    ring_all_reduce,
    ring_all_reduce_time,
    ring_half_performance_bytes,
    tree_all_reduce,
    tree_all_reduce_time,
)
from dtlib.explore import (
    AllReduceBuilder,
    Arrows,
    BatchDial,
    BiasBalance,
    BitsLab,
    BucketLab,
    CacheLab,
    Cuts,
    Explorer,
    Fastest,
    FormatWindow,
    GradientSums,
    HandFit,
    Headroom,
    IsoflopSorter,
    LayoutCloud,
    LossValley,
    MemoryBar,
    MeshPainter,
    OffloadLab,
    OneRatio,
    OneRun,
    OutlierBlocks,
    PipelineBuilder,
    PipelineLab,
    PlacementBoard,
    PlacementPuzzle,
    Prefetcher,
    RevolvePlayer,
    RingSteps,
    RouterBalance,
    Rulers,
    SeatPlan,
    Stepper,
    Task,
    Walls,
    Worksheet,
    ZeroStages,
    between,
)
from dtlib.explore.all_reduce_builder.all_reduce_builder import TASK as FINISH
from dtlib.explore.one_ratio.one_ratio import TASK
from dtlib.explore.one_run.one_run import COLUMNS
from dtlib.explore.pipeline_builder.levels import LEVELS, tiles
from dtlib.formulas.sheet import Given, Sheet, line, total
from dtlib.formulas.units import GB, KB, day, us
from dtlib.foundations import (
    Axis,
    catalog,
    formula,
    link_headroom,
    memory_headroom,
    port_headroom,
    training_flops,
)
from dtlib.foundations.cost.steps import all_steps_time
from dtlib.foundations.roofline.pace import arithmetic_time
from dtlib.memory import model_state_bytes
from dtlib.parallelism.pipeline import gpipe, one_f_one_b
from dtlib.scaling_laws import LossSurface

EXCHANGED = [0, 9, 2, 3, 4, 5, 6, 7, 8, 1, *range(10, 16)]
EVERY = {
    RingSteps: {"task": Task(
        "With eight ranks and the mask, be over after at most 4.5 blocks.",
        "P == 8 and causal == 1 and path <= 4.5", {"layout": 1}, "Zigzag.",
    )},
    BiasBalance: {"task": Task(
        "Bring the busiest below 1.15 by step 60.", "busiest < 1.15 and step <= 60",
        {"gamma": 0.01, "step": 60}, "A gamma of 0.01 is quick.",
    )},
    RouterBalance: {"task": Task(
        "At skew 1, drop less than 5 %.", "skew >= 1 and dropped < 0.05",
        {"skew": 1, "capacity_factor": 5}, "Most places are empty.",
    )},
    OffloadLab: {"task": Task(
        "Without jitter, make the third buffer worth a quarter.",
        "jitter == 0 and buffers == 3 and gain >= 1.25",
        {"ratio": 0.8, "latency": 100}, "The lane had gaps.",
    )},
    RevolvePlayer: {"lengths": (4, 8, 32), "task": Task(
        "Below three passes, with few slots.",
        "layers == 32 and advances <= 96 and slots <= 3", {"slots": 3}, "Three slots.",
    )},
    Cuts: {"tokens": 4096, "hidden": 8192, "ffn": 32768, "task": Task(
        "Divide both matrices, and send once.", "divided == 2 and collectives == 1",
        {"first": "columns", "second": "rows"}, "Columns, then rows.",
    )},
}  # fmt: skip

EVERY[BatchDial] = {
    "batch": between(8, 16384, start=1024), "P": between(8, 4096, start=64),
    "noise_batch": between(64, 4096, start=512), "fixed_time": between(0.01, 1, start=0.1),
    "fewest_steps": 60000, "sample_time": 0.4, "price": 0.0005, "task": Task(
        "Within 40 hours.", "time < 144000 and fits == 1", {"batch": 256, "P": 256}, "More ranks.",
    )}  # fmt: skip
EVERY[BucketLab] = {"task": Task(
    "On the network of the start, come within 1 % of the best.", "beta == 12.5 and off <= 0.01",
    {"k": 22}, "Fewer.",
)}  # fmt: skip
EVERY[CacheLab] = {"task": Task(
    "Without a window, let grouped heads fit as many sequences as the latent.",
    "window >= seq and latent == 512 and grouped_batch >= latent_batch", {"groups": 2}, "Two.",
)}  # fmt: skip
EVERY[Rulers] = {"task": Task(
    "Let the whole rise happen within half a decade, at a power of 0.5.",
    "rise <= 0.5 and fall == 0.5", {"metric": "most", "k": 200}, "A share that must be reached.",
)}  # fmt: skip
EVERY[Prefetcher] = {"fetch": 2.0, "step": 0.5, "task": Task(
    "Bring it above 95 % at spread 2.", "spread == 2 and busy >= 0.95 and workers <= 4",
    {"spread": 2, "workers": 4, "depth": 24, "in_order": False}, "Out of order.",
)}  # fmt: skip
EVERY[SeatPlan] = {
    "schedules": {"one ring": ring_all_reduce(16), "a tree": tree_all_reduce(16)},
    "n": 10e9,
    "machine": Nodes(4, 4, inside=(0, 450e9), nic=(0, 50e9), pod_nodes=2, order=EXCHANGED),
    "task": Task("Repair it.", "time < 0.376 and nics == 1", {"seats": "in order"}, "Repaired."),
}
EVERY[ZeroStages] = {"done": 22, "task": Task(
    "Accumulate, hold at most 40 %, and send no more.",
    "micro_batches == 4 and held_share <= 0.4 and sent_share <= 1",
    {"zero": 1, "ranks": 8, "micro_batches": 4}, "Stage 1.",
)}  # fmt: skip
EVERY[BitsLab] = {"task": Task(
    "In fp32, lose the sum.", "error >= 1 and kind == 0",
    {"kind": 0, "condition": 1e8, "P": 64, "order": 1}, "Digits.",
)}  # fmt: skip
EVERY[PipelineLab] = {"schedules": {"GPipe": gpipe, "1F1B": one_f_one_b}, "task": Task(
    "Be idle less, hold no more.", "idle < 0.1 and peak <= 4", {"schedule": 1, "m": 32}, "1F1B.",
)}  # fmt: skip
PAIR = {"ring": ring_all_reduce_time, "tree": tree_all_reduce_time}
N, P = {"n": between(1 * KB, 10 * GB, start=1 * GB)}, {"P": between(2, 1024, start=8)}
LINK = {"alpha": between(0.1 * us, 100 * us, start=2 * us),
        "beta": between(GB, 1000 * GB, start=50 * GB)}  # fmt: skip
EVERY[Explorer] = {
    "formulas": PAIR, "x": N, "sliders": P | LINK,
    "marks": {"half the bandwidth": ring_half_performance_bytes},
    "task": Task("Let the tree win on 64 ranks.", "tree < ring and P >= 64",
                 {"P": 64, "n": 1 * KB}, "Yes."),
}  # fmt: skip
EVERY[Stepper] = {
    "schedules": {"ring": ring_all_reduce(4), "tree": tree_all_reduce(4)},
    "n": 64e6,
    "topology": Switch(4, alpha=5e-6, beta=50e9),
    "task": Task("Find the one with fewer rounds.", "rounds <= 4", {"schedule": 1}, "The tree."),
}
EVERY[Arrows] = {"first": "broadcast", "then": "reduce", "task": Task(
    "Let every contribution count five times.", "times == 5", {"P": 5}, "Once for each rank.",
)}  # fmt: skip
EVERY[Fastest] = {
    "formulas": PAIR | {"halving": halving_doubling_all_reduce_time}, "x": N, "y": P,
    "sliders": LINK,
    "task": Task("Let the tree win.", "tree < ring", {"n": 1 * KB, "P": 64}, "Of few bytes."),
}  # fmt: skip
NODE = catalog["dgx-h100"]
EVERY[Headroom] = {
    "resources": {"memory": memory_headroom, "link": link_headroom,
                  "network ports": port_headroom},
    "sliders": {"tokens_per_rank": between(250, 64000, start=4000), "tp": between(2, 64, start=8),
                "nics": [1, 2, 4, 8], "hidden": between(1024, 16384, start=8192)},
    "grips": {"memory": "tokens_per_rank", "link": "tp", "network ports": "tokens_per_rank"},
    "fixed": {"ranks_per_node": NODE.gpus, "element_bytes": 2, "peak": NODE.gpu.peak("bf16"),
              "bandwidth": NODE.gpu.hbm_bandwidth, "beta": NODE.link.beta,
              "port_beta": NODE.nic.beta},
    "task": Task("Nobody.", "speed >= 1", {"nics": 8}, "All eight."),
}  # fmt: skip


@formula(symbol="T", unit="s", conditions="two ranks")
def launched_time(n, launch, beta):
    return launch + n / beta


EVERY[HandFit] = {
    "formula": launched_time, "x": {"n": between(1 * KB, 1 * GB, start=1 * KB)},
    "points": [(n, 10 * us + n / (200 * GB)) for n in (1e3, 1e5, 1e7, 1e9)],
    "sliders": {"launch": between(1 * us, 100 * us, start=2 * us),
                "beta": between(10 * GB, 1000 * GB, start=100 * GB)},
    "below": 0.05, "found": "Both.", "source": "Points: nobody.",
    "solution": {"launch": 1e-5, "beta": 200 * GB},
}  # fmt: skip
EVERY[Walls] = {
    "params": between(1e8, 1e13, start=5e9), "tokens": between(1e9, 1e14, start=1e11),
    "P": between(1, 65536, start=1), "mfu": between(0.1, 0.6, start=0.4, step=0.05),
    "gpus": {"H100": catalog["h100-sxm"], "A100": catalog["a100-sxm"]},
    "deadline": 90 * day, "tokens_per_param": 20, "batch_tokens": 4e6, "beta": 50 * GB,
    "models": {"GPT-3": (175e9, 300e9), "Llama 3.1 405B": (405.9e9, 15.6e12)},
    "task": Task("Hold more.", "P >= 1024 and time < deadline", {"P": 1024}, "In time."),
}  # fmt: skip
EVERY[OneRatio] = {"task": TASK}
EVERY[MemoryBar] = {"task": Task(
    "Fit on four GPUs.", "fullest <= hbm and ranks <= 4", {"tp": 4}, "They divide a layer.",
)}  # fmt: skip
EVERY[Worksheet] = {
    "sheet": Sheet(
        {"params": 1e9, "batch_tokens": 4e6, "tokens": 600e9, "P": 128, "peak": 989e12, "mfu": 0.45,
         "zero": 0, "dp": 1, "n": 2 * GB,
         "hbm": Given(80 * GB, "B", "memory of one GPU", "a data sheet")},
        {"work": line(training_flops, tokens="batch_tokens"),
         "arithmetic": line(arithmetic_time, flops="work", peak_fraction="mfu"),
         "gradients": line(ring_all_reduce_time, P="dp", alpha=2 * us, beta=50 * GB),
         "step": total("arithmetic", "gradients", label="one step"),
         "state": line(model_state_bytes, label="weights, gradients, optimizer"),
         "memory": total("state", "n", within="hbm"),
         "run": line(all_steps_time, label="all steps")},
    ),
    "inputs": {"params": between(1e9, 1e12, start=30e9), "dp": between(1, 1024, start=64),
               "zero": [3, 0, 1, 2]},
    "labels": {"params": "parameters", "dp": "replicas", "zero": "ZeRO stage", "n": "buffers"},
    "open_": ["state"],
    "task": Task("Let it not fit.", "memory > hbm", {"dp": 1}, "It does not."),
}  # fmt: skip
EVERY[PlacementBoard] = {
    "axes": (Axis("data", 8, 3.8e9), Axis("pipeline", 4, 4.3e9), Axis("tensor", 16, 150e9)),
    "link": NODE.link.beta, "port": NODE.nic.beta, "taper": 7,
    "task": Task("Sort them.", "faster == 0 and node == 16",
                 {"place_data": 3, "place_pipeline": 2, "place_tensor": 1, "node": 16}, "Sorted."),
}  # fmt: skip
EVERY[MeshPainter] = {
    "axes": (Axis("dp", 2, 8 * GB), Axis("tp", 4, 60 * GB), Axis("pp", 4, 0.4 * GB)),
    "order": ("tp", "dp", "pp"),
    "task": Task("Least out of nodes of 8.", "node == 8 and away <= least",
                 {"order": "pp dp tp"}, "Tensor inside."),
}  # fmt: skip
EVERY[PlacementPuzzle] = {"tokens": 4096, "hidden": 8192, "ffn": 32768, "task": Task(
    "Divide both weights and send least.", "typed == 1 and divided == 2 and sent <= least",
    {"x": "copied", "w1": "columns", "w2": "rows"}, "Columns, then rows.",
)}  # fmt: skip
EVERY[LayoutCloud] = {
    "rows": toy_layouts.rows, "limit": toy_layouts.LIMIT,
    "start": {"tp": 4, "pp": 4, "zero": 1, "interleave": 1, "micro_batch": 1, "recompute": "full"},
}  # fmt: skip
EVERY[LossValley] = {
    "laws": {"fitted anew": LossSurface.besiroglu(), "printed": LossSurface.hoffmann()},
    "task": Task("Smaller.", "run_flops == 1e24 and above < 0.01 and share < 0.5",
                 {"run_flops": 1e24, "share": 2**-1.25}, "As good."),
}  # fmt: skip
EVERY[IsoflopSorter] = {"task": Task(
    "Half.", "there == 1 and exponent < 0.52",
    {"counted": 1, "warmup": "short", "training": "tuned"}, "A half.",
)}  # fmt: skip
EVERY[FormatWindow] = {
    "counts": {power: 1 + (power + 50) ** 2 for power in range(-32, -8)},
    "task": Task("Keep all.", "kept == 1", {"exponent_bits": 8, "mantissa_bits": 7}, "bf16."),
}  # fmt: skip
EVERY[OutlierBlocks] = {"task": Task(
    "Fence it in.", "outlier >= 1e6 and E4M3 < 0.1 and share < 2",
    {"block": 32, "outlier": 2**20}, "A block.",
)}  # fmt: skip
EVERY[GradientSums] = {"task": Task(
    "Find the weight of two terms, and add them.", "due == 2 and right == 1",
    {"weight": "expert"}, "Over dp alone.",
)}  # fmt: skip
EVERY[OneRun] = {
    "params": 175e9, "tokens": 300e9, "gpu": catalog["a100-sxm"],
    "compute": 100, "n": 10 * GB, "alpha": 10 * us, "beta": 50 * GB,
}  # fmt: skip
EVERY[AllReduceBuilder] = {"alpha": 10 * us, "beta": 50 * GB, "task": FINISH}
EVERY[PipelineBuilder] = {"key": "a-pipeline"}
# Of widgets that set their task themselves.
SOLUTIONS = {
    PipelineBuilder: {"work": {"0": tiles(LEVELS[0].best)}},
    HandFit: EVERY[HandFit]["solution"],
    OneRun: {"drawn": COLUMNS + 1, "P": 2048},
    LayoutCloud: {"tp": 2, "pp": 1, "recompute": "selective"},
}
# Of widgets whose task is done in the figure: at which button, which key, how often.
_FROM, _TO = ("rank 1", "rank 2", "rank 3"), "rank 0"
_ROUNDS = [
    *(name for one in _FROM for name in (one, _TO)),
    "Run round 1",
    *(name for one in _FROM for name in (_TO, one)),
    "Run round 2",
]
KEYS = {
    AllReduceBuilder: [(button, "Enter", 1) for button in _ROUNDS],
    PipelineBuilder: [
        ("Stage 0, time 6: F1 from 6 to 7", "Shift+ArrowLeft", 3),
        ("Stage 1, time 7: F1 from 7 to 8", "Shift+ArrowLeft", 3),
        ("Stage 1, time 8: B1 from 8 to 10", "Shift+ArrowLeft", 3),
        ("Stage 0, time 10: B1 from 10 to 12", "Shift+ArrowLeft", 3),
    ],
}  # fmt: skip


def made(kind, **options):
    """The widget of a kind that the tests look at."""
    return kind(**{"title": f"A {name(kind)} to look at"} | EVERY[kind] | options)


def name(kind) -> str:
    return kind.__name__


def solution(kind) -> dict:
    """The values of controls that do its task."""
    return dict(SOLUTIONS.get(kind) or EVERY[kind]["task"].solution)
