"""The exercises of chapter 24, Three axes at once, in the order of its page."""

import math
import random
from collections.abc import Iterator
from functools import partial
from itertools import product

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.judge import Limit
from dtlib.exercises.judges import hybrids
from dtlib.exercises.judges.axes import same_groups
from dtlib.exercises.judges.clusters import clusters, fastest, is_fastest, legal_layouts
from dtlib.exercises.judges.hybrids import norm_of_pieces, synced
from dtlib.memory.zero.cost import sharded_sent_bytes, zero_sent_bytes
from dtlib.parallelism.data.cost import exposed_time, last_backward_time
from dtlib.parallelism.pipeline.cost import pipeline_bubble_fraction, pipeline_step_time
from dtlib.parallelism.tensor.cost import activation_message_bytes, tensor_parallel_layer_bytes

# fmt: off
_OF_40 = 40e9 / (8 * 8)
_OF_175 = 175e9 / 32
_SENT = zero_sent_bytes(_OF_175, 1, dp=32, m=1, element_bytes=2)

what_stage_1_frees = Numbers(
    "ex-what-stage-1-frees",
    About("What stage 1 frees", "compute", 1, 12,
          "account for the state of a rank of three axes", ("x24.1", "x24.5")),
    [
        Asked("plain", 16 * _OF_40, "bytes", {
              16 * 40e9 / 8: "tp and pp both divide the weights",
              16 * 40e9 / 256: "replicas hold the same: dp divides nothing yet"}),
        Asked("stage_1", 4 * _OF_40 + 12 * _OF_40 / 4, "bytes", {
              16 * _OF_40 / 4: "weights and gradients stay whole in stage 1",
              12 * _OF_40 / 4: "weights and gradients are there, too"}),
        Asked("kept", 48, "", {
              6: "1F1B: how many micro-batches are under way on the first of eight stages?",
              32 * 6: "that is GPipe", 7 * 6: "those that fill the stages below, and its own"}),
        Asked("freed", 12 * _OF_175 * 31 / 32, "bytes", {
              12 * _OF_175: "a 32nd of it stays",
              12 * _OF_175 / 32: "that is what stays",
              16 * _OF_175 * 31 / 32: "stage 1 divides the optimizer's 12 bytes"}),
        Chosen("gathered", "new weights", {
               "optimizer state": "who needs another rank's moments?",
               "gradients": "a rank updates its own part only: what does it lack then?"}),
        Asked("sent", _SENT, "bytes", {
              _SENT / 2: "gradients are reduced and scattered, new weights gathered",
              sharded_sent_bytes(_OF_175, 2, 1, dp=32, element_bytes=2): "that is stage 3",
              _SENT * 32 / 31: "a rank keeps its own part"}),
    ],
    "what data parallelism sends, and most of the optimizer gone", keyed=True,
)

_STREAM = activation_message_bytes(1, 4096, 8192)
_WIDE, _NARROW = (
    m * 20 * 2 * tensor_parallel_layer_bytes(1, 4096, 8192, tp=tp, element_bytes=2)
    for m, tp in ((32, 8), (16, 4)))
_PP = 2 * 32 * _STREAM
_DP = ring_all_reduce_sent_bytes(n=2 * 70e9 / 32, P=8)

bytes_of_three_axes = Numbers(
    "ex-bytes-of-three-axes",
    About("Bytes of three axes", "compute", 2, 15,
          "count what a rank sends along each axis, and for how long", ("x24.2",)),
    [
        Asked("tp", _WIDE, "bytes", {
              _WIDE / 2: "the backward pass has two all-reduces, too",
              4 * _WIDE: "a rank has twenty of the eighty layers",
              _WIDE / 32: "that is one micro-batch",
              80 * 3.5 * _STREAM: "a rank has twenty layers, all micro-batches, and a backward "
                                  "pass",
              _WIDE / 1.75: "a ring sends twice (t - 1) / t of the bytes"}),
        Asked("pp", _PP, "bytes", {
              _PP / 2: "each micro-batch's gradient goes back, too",
              _PP / 32: "that is one micro-batch"}),
        Asked("dp", _DP, "bytes", {
              32 * _DP: "a rank has a part of the weights, and micro-batches add up before "
                        "they are sent",
              _DP / 1.75: "a ring sends twice (P - 1) / P of the bytes"}),
        Asked("tp_time", _WIDE / 450e9, "s", {_WIDE / 50e9: "tp lies inside a node"}),
        Asked("dp_time", _DP / 50e9, "s", {_DP / 450e9: "replicas lie in different nodes"}),
        Asked("narrow", _NARROW, "bytes", {
              2 * _NARROW: "the batch and the GPUs stay: how many replicas share them now?",
              _WIDE: "a layer sends less, and a replica has fewer micro-batches",
              _WIDE / 2: "half as many micro-batches, and each sends less, too"}),
    ],
    "the axis inside the layers talks longest, and its width is what costs", keyed=True,
)

_FULL, _QUARTER = (pipeline_step_time(16, m, 1, 1, 1, 1) for m in (128, 32))
_ON_TOP = "a share of the whole step, please, not of the work"

strong_and_weak = Numbers(
    "ex-strong-and-weak",
    About("Strong and weak", "compute", 2, 12,
          "tell a fixed batch from one that grows", ("x24.3", "x24.4")),
    [
        *(Asked(f"m_{m}", pipeline_bubble_fraction(16, m, 1), slips={
              15 / m: _ON_TOP, 16 / (m + 15): "16 stages have 15 borders"})
          for m in (128, 64, 32)),
        Asked("strong", 4 * _FULL / (4 * _QUARTER), slips={
              4: "each replica has a quarter of the micro-batches now: and the bubble?",
              _QUARTER / _FULL: "turn it round",
              4 * (1 - 15 / 47): "how much was waited before?"}),
        Asked("weak", 4, slips={
              _FULL / _QUARTER: "now each replica keeps its 128 micro-batches",
              1: "four times the sequences in the same time"}),
        Asked("least", 135, "", {
              150: "15 over m is a share of the work, not of the step",
              144: "16 stages have 15 borders", 134: "one more", 136: "one fewer is enough"},
              tolerance=1e-6),
    ],
    "the same GPUs, the same schedule: the batch decides", keyed=True,
)

_TURN = (60.1 - 44.4) / (274 - 194)
_ONCE = 60.1 - 274 * _TURN
_LEFT = "turns are micro-batches, and those of fill and drain"

a_line_through_two_runs = Numbers(
    "ex-a-line-through-two-runs",
    About("A line through two runs", "derive", 2, 15,
          "fit what is paid in each turn and once, and say what it predicts"),
    [
        Asked("turn", _TURN, "s", {
              60.1 / 274: "then nothing is paid once: two unknowns, two runs",
              44.4 / 194: "then nothing is paid once: two unknowns, two runs",
              (60.1 - 44.4) / 4: "in turns, not in replicas"}),
        Asked("once", _ONCE, "s", {60.1 - 240 * _TURN: _LEFT, 44.4 - 160 * _TURN: _LEFT}),
        Asked("middle", 226 * _TURN + _ONCE, "s", {
              (60.1 + 44.4) / 2: "it is a line in turns, not in replicas",
              50.2: "that was measured: what does the line say?",
              226 * _TURN: "and what is paid once?"}, tolerance=0.003),
        Asked("at_48", 74 * _TURN + _ONCE, "s", {
              60.1 / 6: "neither turns of fill and drain nor what is paid once are divided",
              74 * _TURN: "and what is paid once?", 40 * _TURN + _ONCE: _LEFT}),
        Asked("gained", 60.1 / (74 * _TURN + _ONCE), slips={
              6: "so many times the GPUs", 274 / 74: "that is in turns alone",
              (74 * _TURN + _ONCE) / 60.1: "turn it round"}),
    ],
    "two numbers from two runs, and a third run that agrees", keyed=True,
)

order_of_three = Numbers(
    "ex-order-of-three",
    About("The wrong order", "compute", 1, 8,
          "price a mesh whose axes stand in the wrong order", ("x24.6",)),
    [
        Asked("stride", 8, "", {1: "that is the last axis", 64: "that is the first axis"}),
        Asked("nodes", 8, "", {1: "where is the next rank of a group along tp?",
              64: "a group has eight ranks", 32: "that is all nodes"}),
        Asked("slower", 12, "", {24: "both links are given for one direction"}),
        Asked("tp_time", 12 * 0.86, "s", {0.86: "which link do its messages take now?",
              0.86 / 12: "slower, not faster"}),
    ],
    "the last axis is the one that stays inside", keyed=True,
)


def _groups(rank: int, sizes: dict[str, int], *, last=True) -> dict[str, list[int]]:
    found, stride = {}, 1
    for axis in reversed(sizes) if last else sizes:
        first = rank - rank // stride % sizes[axis] * stride
        found[axis] = [first + i * stride for i in range(sizes[axis])]
        stride *= sizes[axis]
    return found


def _meshes() -> Iterator[tuple[str, tuple]]:
    for sizes in ({"dp": 2, "pp": 2, "tp": 2}, {"pp": 4, "dp": 3, "tp": 2},
                  {"dp": 4, "tp": 8, "pp": 8}, {"tp": 5}, {"pp": 3, "cp": 2, "dp": 1, "tp": 4}):
        ranks = math.prod(sizes.values())
        for rank in sorted({0, 5 % ranks, ranks // 2, ranks - 1}):
            yield f"rank {rank} of {sizes}", (rank, sizes)


groups_of_a_rank = Function(
    "ex-groups-of-a-rank",
    About("With whom a rank talks", "design", 2, 12, "find groups by strides alone"),
    "my_groups(rank, sizes)", _groups, _meshes, same_groups,
    "all groups of 18 ranks, in meshes of one to four axes, and no grid was made",
    {
        "the last axis runs fastest: neighbouring ranks differ in it": {"last": False},
        "only along the last axis do groups lie side by side": lambda rank, sizes:
            {axis: [rank // n * n + i for i in range(n)] for axis, n in sizes.items()},
    },
)

_OF_4, _OF_8 = (3 * (2 * p - 1 + p * (m - p)) for p, m in ((4, 16), (8, 32)))

one_at_a_time = Numbers(
    "ex-one-at-a-time",
    About("One at a time", "derive", 2, 15, "read off a drawing what a schedule waits for"),
    [
        Asked("busy", 1, "", {4: "look at a moment between the fill and the drain",
              2: "does a rank begin before its neighbour has finished?"}),
        Asked("each", 12, "", {
              3: "that is what one rank works on a micro-batch: who works meanwhile?",
              9: "count all four ranks", 6: "a forward and a backward pass, on all four ranks"}),
        Asked("m_16", _OF_4, "", {
              69 * 2: "only what lies between fill and drain grows with m",
              3 * 19: "that is with the right warm-ups",
              69 + 8 * 3: "what does each further micro-batch take?"}),
        Asked("bubble", 1 - 3 * 32 / _OF_8, slips={
              pipeline_bubble_fraction(8, 32, 1): "that is with the right warm-ups",
              96 / _OF_8: "that is the share of the work",
              1 - 24 / 69: "that is on 4 ranks, with 8 micro-batches"}),
    ],
    "a pipeline with one micro-batch in it at a time is no pipeline", keyed=True,
)


warm_up_of_a_rank = Made(
    "ex-warm-up-of-a-rank",
    About("The warm-up of a rank", "repair", 2, 15,
          "give each stage of each pipeline of a mesh its own warm-up"),
    hybrids.warms_up_each_stage, lambda: lambda rank, dp, pp, tp: pp - 1 - rank // tp % pp,
    "on 5 meshes every pipeline is as fast as it can be, and holds no more than it must",
    {
        "slower than GPipe": lambda: lambda rank, dp, pp, tp: pp - 1,
        "a warm-up is not negative": lambda: lambda rank, dp, pp, tp: pp - 1 - rank,
        "wait for each other": lambda: lambda rank, dp, pp, tp: rank // tp % pp,
        "more than it has to": lambda: lambda rank, dp, pp, tp: 2 * (pp - 1 - rank // tp % pp),
    },
)


def _step_time(compute, tensor, message, gradients, p, m, *, hides=1, borders=2, fills=1):
    exposed = exposed_time(gradients, hides * last_backward_time(compute, 1), 1)
    sends = 2 * (m + p - borders) * message
    return (m + p - 1) * compute + (m + fills * (p - 1)) * tensor + sends + exposed


def _machines() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(24)
    for p, m in ((2, 1), (4, 8), (8, 32), (16, 4), (3, 100)):
        for most in (0.1, 5):
            times = [draw.uniform(0.01, 2) for _ in range(3)]
            yield "", (*times, draw.uniform(0, most), p, m)


sum_of_terms = Formula(
    "ex-sum-of-terms",
    About("A sum of terms", "derive", 2, 20, "say how often each term of a step is paid"),
    "step_time(compute, tensor, message, gradients, p, m)", _step_time, _machines, same_number,
    "each term as often as it is waited for, on 10 machines",
    {
        "gradients hide under the last micro-batch's backward pass, two thirds of its arithmetic":
            {"hides": 0},
        "the last stage sends nothing on, and the first one nothing back": {"borders": 1},
        "tensor parallelism stretches every turn, those of fill and drain as well": {"fills": 0},
    },
    (
        Limit("message and gradients are 0", {"message": 0, "gradients": 0},
              "in which turns is there an all-reduce?"),
        Limit("gradients are 0", {"gradients": 0},
              "how many messages does the first micro-batch wait for, and each further one?"),
    ),
)


def _of_any_degrees(gpus, node, layers, batch, time, fits):
    every = ((t, p, gpus // (t * p)) for t, p in product(range(1, gpus + 1), repeat=2)
             if gpus % (t * p) == 0)
    return min((one for one in every if fits(*one)), key=lambda one: time(*one))


best_of_a_cluster = Function(
    "ex-best-of-a-cluster",
    About("The best of a cluster", "design", 3, 25, "search all layouts of a small cluster"),
    "my_best(gpus, node, layers, batch, time, fits)", fastest, clusters, is_fastest,
    "on 8 clusters nothing that fits is faster, by a search of every layout",
    {
        "another one that fits is faster": lambda *given: next(
            one for one in legal_layouts(*given[:4]) if given[5](*one)),
        "does not fit": lambda *given: fastest(*given[:5], lambda *one: True),
        "tp must divide a node": _of_any_degrees,
    },
)


every_number_once = OnRanks(
    "ex-every-number-once",
    About("Every number once", "design", 3, 25, "form a norm over ranks that hold copies"),
    "my_norm(pieces, sizes, add)", norm_of_pieces, hybrids.counts_each_once,
    "the norm of one process on 1 to 8 ranks, whichever axes they lie along",
    {
        "a table lies on two stages": {"tied": False},
        "along which is it copied": {"cut": False},
        "norms do not add, squares do": {"root": False},
        "every rank's copies were added":
            lambda pieces, sizes, add: norm_of_pieces(pieces, {}, add, tied=False),
    },
    sizes=(1, 2, 4, 6, 8),
)


def _sync_by_all(gradients, comm, dp, pp):
    found = synced(gradients, comm, dp, pp, ends=False)
    return found | {"table": comm.all_reduce(gradients["table"])} if "table" in found else found


table_on_two_stages = OnRanks(
    "ex-table-on-two-stages",
    About("A table on two stages", "design", 2, 20,
          "add gradients over replicas, and a tied one over stages"),
    "my_sync(gradients, comm, dp, pp)", synced, hybrids.adds_the_table,
    "both uses of the table are in its gradient, and nobody waited for a stage that has none",
    {
        "its other use lies on another stage": {"ends": False},
        "uses add up, they are not averaged": {"mean": True},
        "one use too many": {"alone": False},
        "in all-reduce": _sync_by_all,
    },
    sizes=(1, 2, 3, 6),
)


def _factors(counts, *, over="all", mean=True):
    total = sum(map(sum, counts))
    by = {"all": [[n / total for n in row] for row in counts],
          "own": [[n / sum(row) / len(counts) for n in row] for row in counts],
          "m": [[1 / len(row) / len(counts) for _ in row] for row in counts]}[over]
    return [[x * (len(counts) if mean else 1) for x in row] for row in by]


divide_by_m = Function(
    "ex-divide-by-m",
    About("Divided by m", "repair", 2, 12,
          "weigh micro-batches of unlike length over replicas"),
    "my_factors(counts)", _factors,
    lambda: ((f"targets {counts}", (counts,)) for counts in (
        [[4, 4], [4, 4]], [[8, 2], [1, 5]], [[3]], [[7, 1, 1]], [[9, 9], [1, 1], [5, 2]])),
    hybrids.same_factors,
    "every target counts alike, on whichever replica and in whichever micro-batch",
    {
        "right where all micro-batches have equally many targets, and only there":
            partial(_factors, over="m"),
        "replicas with few targets count as much as those with many": partial(_factors, over="own"),
        "the replicas' gradients are averaged: a factor is missing": {"mean": False},
    },
)
