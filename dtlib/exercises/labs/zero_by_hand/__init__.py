"""The lab 'ZeRO by hand, stage by stage'."""

from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.judge import items, number
from dtlib.exercises.labs.zero_by_hand import trainers as ours
from dtlib.exercises.labs.zero_by_hand.laws import (
    clip_law,
    flat_law,
    gather_law,
    shard_law,
    stage1_law,
    stage2_law,
    stage3_law,
)
from dtlib.exercises.verdict import NotYet
from dtlib.foundations import TransformerSpec

SIZES = (2, 3, 4)
SPEC = TransformerSpec("lab", layers=2, hidden=64, heads=4, vocab=256, norm="rms", bias=False)
_N, _P = SPEC.params(), 4
_PHASE = 4 * _N * (_P - 1) / _P
_RIGHT = {
    "held": [16 * _N, 8 * _N + 8 * _N / _P, 4 * _N + 12 * _N / _P, 16 * _N / _P],
    "sent": [2 * _PHASE, 2 * _PHASE, 2 * _PHASE, 3 * _PHASE],
    "sent_4": [2 * _PHASE, 2 * _PHASE, 5 * _PHASE, 12 * _PHASE],
}
_MIXED = (16 * _N, 4 * _N + 12 * _N / _P, 2 * _N + 14 * _N / _P, 16 * _N / _P)


def _predict_law(answer: Any) -> None:
    if not isinstance(answer, dict) or set(answer) != set(_RIGHT):
        raise NotYet(f"pass a dict with the keys {', '.join(_RIGHT)}")
    for name, rights in _RIGHT.items():
        for stage, value in enumerate(items(answer[name], name, 4)):
            right = rights[stage]
            slips = _held_slips(right, stage) if name == "held" else _sent_slips(right, stage)
            mistakes = {slip: hint for slip, hint in slips.items() if abs(slip / right - 1) > 0.01}
            number(value, right, f"{name}, stage {stage}", "bytes",
                   tolerance=1e-6, mistakes=mistakes)  # fmt: skip


# fmt: off
def _held_slips(right: float, stage: int) -> dict:
    return {
        right / 4: "bytes, please: how large is a float32?",
        _MIXED[stage]: "that is mixed precision; here all numbers have 32 bits",
        4 * _N + right: "there is no master copy: the weights have 32 bits already",
        right - 4 * _N: "something is not counted: weights, gradients, two moments",
        4 * _N: "that is the weights alone",
    }


def _sent_slips(right: float, stage: int) -> dict:
    return {
        right / 4: "bytes, please: how large is a float32?",
        right * _P / (_P - 1): "a rank's own part does not travel",
        right * _P: "that is all ranks together",
        _PHASE: "that is one phase: what else must travel before the next step?",
        3 * _PHASE: "that is one micro-batch of four" if stage == 3 else
            "an all-reduce, and a gather on top? one half of the all-reduce is enough",
        4 * _PHASE: "the reduce-scatter and the all-gather are the halves of the all-reduce",
        8 * _PHASE: "which of the two happens for every micro-batch?",
        2 * _PHASE: "how often are gradients reduced, or weights gathered?",
    }


def _with(name: str, stage: int, value: float) -> Any:
    """A function that makes the right answer but for one entry."""
    return lambda: _RIGHT | {name: [value if i == stage else v for i, v in enumerate(_RIGHT[name])]}


predict = Made(
    "ex-lab-zero-predict",
    About("Predict what is held and sent", "compute", 1, 8,
          "count what each stage of ZeRO holds and sends before running it"),
    _predict_law,
    lambda: _RIGHT,
    "what a rank holds and sends in every stage; the real ranks will be held to it",
    {
        "held, stage 0: that is the weights alone": _with("held", 0, 4 * _N),
        "held, stage 1: that is mixed": _with("held", 1, 7 * _N),
        "no master copy": _with("held", 0, 20 * _N),
        "held, stage 2: that is mixed": _with("held", 2, 5.5 * _N),
        "sent, stage 1: an all-reduce, and a": _with("sent", 1, 9 * _N),
        "sent, stage 2: the reduce-scatter and": _with("sent", 2, 12 * _N),
        "one phase": _with("sent", 1, 3 * _N),
        "own part does not travel": _with("sent", 0, 8 * _N),
        "how often are gradients": _with("sent", 3, 6 * _N),
        "for every micro-batch": _with("sent_4", 2, 24 * _N),
        "one micro-batch of four": _with("sent_4", 3, 9 * _N),
        "sent, stage 3": _with("sent", 3, 9 * _N + 4000),
        "held must have 4 items": lambda: _RIGHT | {"held": 16 * _N},
        "keys held, sent, sent_4": lambda: 16 * _N,
    },
)


def _lay_out(**slip: Any) -> tuple:
    return lambda tensors, P: ours.lay_out(tensors, P, **slip), ours.cut


flat = OnRanks(
    "ex-lab-zero-flat",
    About("Equal parts", "design", 1, 8,
          "lay tensors into one that divides, and see them through it", needs="torch"),
    ("lay_out(tensors, P)", "cut(flat, shapes)"),
    (ours.lay_out, ours.cut),
    flat_law,
    "one flat tensor in P equal parts, and views that bring every shape back",
    {
        "in the memory of a tensor that was given": (ours.lay_out_in_place, ours.cut),
        "must be a multiple of P": _lay_out(filling=lambda length, P: 0),
        "no longer than it must be": _lay_out(filling=lambda length, P: P - length % P),
        "of the kind that was given": (lambda *args: ours.lay_out(*args).float(), ours.cut),
        "one after another": _lay_out(order=-1),
        "must be zero": _lay_out(value=7.0),
        "the pieces are copies": (ours.lay_out, ours.cut_copies),
        "piece 0 has shape": (ours.lay_out, ours.cut_flat),
        "must have 2 items": ours.lay_out,
    },
    sizes=(1, *SIZES),
)

shard = OnRanks(
    "ex-lab-zero-shard",
    About("Reduce and gather", "design", 2, 12,
          "keep one part of a mean gradient, and hand out one part of the weights", needs="torch"),
    "Shard(parameters, comm)",
    ours.Shard,
    shard_law,
    "on 2 to 4 ranks: reduced to a mean, kept as a part, gathered into all weights",
    {
        "P times too large: a sum is no mean": ours.SummingShard,
        "that of the last reduce": ours.ForgetfulShard,
        "still has its whole gradient": ours.KeepingShard,
        "an all-reduce is both halves": ours.ReducingAllShard,
        "after gather() 0.weight is not": ours.LonelyShard,
        "no longer lie in one whole": ours.ElsewhereShard,
        "these calls send 1,080 B, where 648 B would do": ours.WastefulShard,
        "the gradient of the part differs": ours.OwnGradientShard,
    },
    sizes=SIZES,
)

stage1 = OnRanks(
    "ex-lab-zero-stage1",
    About("Stage 1", "design", 2, 10, "update a part with an unchanged optimizer", needs="torch"),
    "Stage1(units, comm, make_optimizer)",
    ours.Stage1,
    stage1_law,
    "AdamW's weights on 2 to 4 ranks, with 1/P of its moments and no byte more than DDP",
    {
        "these calls send 1,584 B, where 1,056 B would do": ours.GatheringWholes,
        "step 1: the ranks hold different weights in 0.0.weight": ours.NeverGathering,
        "step 2: 0.0.weight is the same on all ranks, but not that": ours.NeverForgetting,
        "step 1: 0.0.weight is the same on all ranks, but not that": ours.UpdatingFirst,
        "not that of one process": ours.NeverUpdating,
        "6 all-gather and 3 reduce-scatter, where 3 all-gather": ours.GatheringTwice,
        "is an old copy, or an old gradient, kept": ours.WithAnArchive,
        "an all-reduce is both halves": ours.WholeOptimizer,
        "3 collectives in the backward passes": ours.Stage2,
        "rank 0 raised": ours.librarys_stage,
    },
    sizes=SIZES,
)

stage2 = OnRanks(
    "ex-lab-zero-stage2",
    About("Stage 2", "design", 2, 14, "let go of a gradient as soon as it can be reduced",
          needs="torch"),
    "Stage2(units, comm, make_optimizer)",
    ours.Stage2,
    stage2_law,
    "the same weights; no gradient is whole after its unit's backward pass",
    {
        "after the backward pass a whole gradient of 0.0.weight is there": ours.Stage1,
        "step 2": ours.OnceOnly,
        "more than one unit are whole": ours.AllTogether,
        "an all-reduce is both halves": ours.AtTheFirst,
        "step(): 3 all-gather and 3 reduce-scatter, where 3 all-gather": ours.ReducingTwice,
    },
    sizes=SIZES,
)

gather = OnRanks(
    "ex-lab-zero-gather",
    About("The transpose of a gather", "derive", 2, 8,
          "write an all-gather that autograd can go back through", needs="torch"),
    "gather_whole(comm, part)",
    ours.gather_whole,
    gather_law,
    "forwards an all-gather, and backwards what autograd needs of it: a reduce-scatter",
    {
        "P times too large": {"backward": lambda comm, g: comm.reduce_scatter(g)},
        "this rank's own only: the others":
            {"backward": lambda comm, g: g.chunk(comm.size)[comm.rank]},
        "an all-reduce is both halves": {"backward": lambda comm, g:
            (comm.all_reduce(g) / comm.size).chunk(comm.size)[comm.rank]},
        "these calls send 120 B, where 80 B would do": {"backward": lambda comm, g:
            ours.mean_part(comm, g.repeat(comm.size)).chunk(comm.size)[comm.rank]},
        "no graph behind it": lambda comm, part: comm.all_gather(part),
        "all ranks' parts": lambda comm, part: part,
        "one after another": lambda comm, part: ours.gather_whole(comm, part).flip(0),
        "gradient of the part is missing":
            lambda comm, part: ours.gather_whole(comm, part.detach()).requires_grad_(),
    },
    sizes=SIZES,
)


def sharded(module: Any, comm: Any, *, kind: str = "Sharded") -> Any:
    """A unit of stage 3, or one with a slip; the classes need torch when they are made."""
    from dtlib.exercises.labs.zero_by_hand import units

    return getattr(units, kind)(module, comm)


stage3 = OnRanks(
    "ex-lab-zero-stage3",
    About("Stage 3", "design", 3, 22, "have whole weights only while a unit works", needs="torch"),
    "Sharded(module, comm)",
    sharded,
    stage3_law,
    "the same weights from 1/P of everything; no whole weight outlives its unit's turn",
    {
        "between the forward and the backward pass: who keeps them": {"kind": "MentioningTheWhole"},
        "whole weights are still there between": {"kind": "Keeping"},
        "right, but": {"kind": "NeverForgettingWeights"},
        "all-gather and 3 reduce-scatter, where 6": {"kind": "FetchingEachTime"},
        "is a whole tensor behind one of them": {"kind": "BehindThePart"},
        "must be its part, and nothing else": {"kind": "Registered"},
    },
    sizes=SIZES,
)

clip = OnRanks(
    "ex-lab-zero-clip",
    About("One norm of many parts", "repair", 2, 8,
          "find what an update needs to know of all parts", needs="torch"),
    "clip(parts, max_norm, comm)",
    ours.clip,
    clip_law,
    "one number travels, and every part is scaled as the whole gradient would be",
    {
        "ZeroDivisionError": ours.clip_dividing,
        "returns nothing": lambda *args: ours.clip(*args) and None,
        "norm of this rank's parts alone": {"others": False},
        "norms do not add up": ours.clip_norms,
        "must be left as they are": {"limit": float("inf")},
        "numbers travel": ours.clip_everything,
        "the square of the norm": lambda *args: ours.clip(*args) ** 2,
        "scaled to the norm asked for": lambda parts, most, comm: ours.clip(parts, 1e9, comm),
    },
    sizes=SIZES,
)
