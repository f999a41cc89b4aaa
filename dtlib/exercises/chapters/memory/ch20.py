"""The exercises of chapter 20, Sharding the training state, in the order of its page."""

import math
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Numbers, one_of
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.judge import real
from dtlib.exercises.judges.sharded import judge_clip, judge_columns, judge_step
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
thirteen_billion_sharded = Numbers(
    "ex-thirteen-billion-sharded",
    About("Thirteen billion, sharded", "compute", 1, 6, "count the state of a rank in each stage",
          ("x20.1",)),
    [
        Asked("(a)", 208, "GB", {
              52: "weights and gradients are not all: Adam keeps 12 more bytes a parameter",
              156: "that is the optimizer alone", 208e9: "in GB, please"}),
        Asked("(b)", 48.75, "GB", {
              71.5: "that is stage 1: stage 2 cuts the gradients too",
              26: "that is stage 3: stage 2 keeps the weights whole",
              48.25: "a printed answer, and wrong: add the weights and an eighth of the rest",
              22.75: "the weights are there too, whole"}),
        Asked("(c)", 6.5, "GB", {
              31.6875: "that is stage 2: stage 3 cuts the weights too", 26: "that is on 8 ranks"}),
    ],
    "each term by the number of its parts",
)

_OPTIMIZER = "that is the optimizer; weights and gradients are on the device, too"
_ROOM, _ENOUGH = "is the room for everything else left?", "fewer are enough"

optimizer_of_192 = Numbers(
    "ex-optimizer-of-192",
    About("An optimizer of 192 GB", "compute", 1, 8,
          "tell the optimizer's part from what a rank holds", ("Ex.O3",)),
    [
        Asked("stage 1", 88, "GB", {24: _OPTIMIZER, 56: "gradients are whole, too"}),
        Asked("stage 2", 60, "GB", {24: _OPTIMIZER, 28: "the weights are whole",
              56: "an eighth of the gradients is on the device"}),
        Asked("stage 3", 32, "GB", {24: _OPTIMIZER}),
        Asked("(d)", 32, "", {16: _ROOM, 12: _ROOM, 20: "that does not fit", 33: _ENOUGH,
              40: _ENOUGH, 64: _ENOUGH}, tolerance=1e-6),
    ],
    "a part of the optimizer is a part of a part",
)

_SIX = "forward and backward together are 6 operations for a parameter and token"


def _sequences(name: str, length: int) -> Asked:
    least = math.ceil(30_000 / length)
    return Asked(name, least, slips={
        30_000 / length: "a sequence is not divided",
        least - 1: "too few; a sequence is not divided",
        least + 1: "too many: the least that is enough"}, tolerance=1e-6)


five_percent = Numbers(
    "ex-five-percent",
    About("Five percent", "compute", 2, 10, "find the tokens that make stage 3 cheap",
          ("x20.3",)),
    [
        Asked("(a)", 30_000, "tokens", {
              1500: "that is where both take equally long",
              20_000: "stage 3 sends three times 2 bytes a parameter, not two times",
              10_000: "stage 3 gathers twice and scatters once", 45_000: _SIX, 90_000: _SIX,
              28_500: "5 % of the time of computing, not of the whole step"}, tolerance=0.02),
        _sequences("(b)", 2048),
        _sequences("(c)", 8192),
    ],
    "the same for every model: the parameters cancel",
)

_REDUCED = "whole gradients are kept, so they are reduced once"
_END = "once in the end the gradients are reduced"
_FOUND = "weights stay until the last backward pass: the next micro-batch finds them"

sixteen_micro_batches = Numbers(
    "ex-sixteen-micro-batches",
    About("Sixteen micro-batches", "compute", 1, 6,
          "count gathers and scatters under accumulation"),
    [
        Asked("(a)", 4, "bytes", {
              64: "stage 1 keeps whole gradients: it communicates once a step"}),
        Asked("(b)", 34, "bytes", {
              64: "the weights are gathered once a step: nobody updates them in between",
              32: "the new weights are gathered, too",
              4: "stage 2 has no room for a whole gradient between micro-batches",
              68: "a reduce-scatter is half an all-reduce"}),
        Asked("(c)", 96, "bytes", {
              6: "that is one micro-batch", 64: "gathered forward and backward, and scattered",
              66: "that is (d): here gradients are reduced in each micro-batch"}),
        Asked("(d)", 66, "bytes", {96: _REDUCED, 64: _END,
              34: "weights are still gathered twice in each micro-batch"}),
        Asked("(e)", 34, "bytes", {
              66: "kept weights need no second gather", 64: _REDUCED, 32: _END,
              4: "after its backward pass a weight is dropped: it is gathered again"}),
        Asked("(f)", 4, "bytes", {34: _FOUND, 66: _FOUND,
              2: "whole gradients are scattered once, too",
              6: "weights that are kept need no second gather"}),
    ],
    "a byte count for each way to trade memory for bytes",
)


def _stage_two_bytes(params, P, m, *, scatters=1, gathers=1):
    return (scatters * m + gathers) * (P - 1) / P * 2 * params


what_stage_two_sends = Formula(
    "ex-what-stage-two-sends",
    About("What stage 2 sends", "repair", 2, 8,
          "separate what is sent in each micro-batch from what is sent once", ("x20.2",)),
    "stage_two_bytes(params, P, m)", _stage_two_bytes,
    lambda: (("", run) for run in
             ((7e9, 8, 1), (7e9, 8, 16), (1e6, 2, 3), (13e9, 1024, 2), (64, 1, 5))),
    same_number, "a scatter for each micro-batch, and one gather",
    {
        "right for one micro-batch and too much for more: what is done once?":
            partial(_stage_two_bytes, scatters=2, gathers=0),
        "every rank needs the new weights of the others": partial(_stage_two_bytes, gathers=0),
        "a reduce-scatter is half of an all-reduce": partial(_stage_two_bytes, scatters=2),
    },
)

_OWN, _NEW = "a rank keeps its own part: it sends 63 of 64", "the small layers' new weights travel"

only_the_large_layers = Numbers(
    "ex-only-the-large-layers",
    About("Only the large layers", "derive", 2, 10, "mix stages by layer and count what travels",
          ("x20.4",)),
    [
        Asked("(a)", 1.5 + 2 + 14 / 64, "GB", {
              16 * 7 / 64: "the small layers' weights are whole",
              1.5 + 16: "only the weights of the small layers are whole",
              1.5 + 4 + 12 / 64: "the small layers' gradients are cut"}),
        Asked("(b)", 63 / 64 * 40, "GB", {63 / 64 * 38: _NEW, 38: _NEW, 40: _OWN,
              63 / 64 * 42: "the small layers are gathered once, not twice"}, tolerance=0.004),
        Asked("(c)", 63 / 64 * 2, "GB", {2: _OWN}, tolerance=0.004),
    ],
    "three journeys for large layers, two for small ones",
)

who_has_the_same = Numbers(
    "ex-who-has-the-same",
    About("Who has the same", "derive", 2, 8,
          "tell copies of state from copies of activations", ("x20.5",)),
    one_of(
        (1, 8, 64),
        a=(8, "the ranks of one replica have different slices; what of the other replicas?"),
        b=(8, "who works on the same samples, and who on others?"),
        c=(64, "a norm is not divided by tensor parallelism, and stage 1 cuts no weights"),
        d=(1, "stage 1 deals the moments of a slice out over its replicas"),
        e=(1, "the ranks that had the same input now have a part of it each"),
    ),
    "copies of state across replicas, copies of activations within one", keyed=True,
)


def _pass_time(gathers, computes, sizes, room, own=1, serial=True):
    gathered, done = [], []
    for i, (gather, compute) in enumerate(zip(gathers, computes, strict=True)):
        first, taken = i, own * sizes[i]
        while first > 0 and taken + sizes[first - 1] <= room:
            first -= 1
            taken += sizes[first]
        network = gathered[-1] if serial and gathered else 0
        gathered.append(max(network, done[first - 1] if first else 0) + gather)
        done.append(max(gathered[-1], done[-1] if done else 0) + compute)
    return done[-1]


def _passes() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(20)
    cases = [([16] * 9, [10] * 9, [1] * 9, room) for room in (1, 2, 3, 9)]
    cases += [([3.0], [4.0], [5], 5), ([1.0, 9.0], [2.0, 3.0], [2, 7], 7)]
    for n in (2, 3, 7, 12) * 10:
        times = [draw.choice((1, 2, 3, 5, 8, 13)) / draw.choice((1, 2, 4)) for _ in range(2 * n)]
        sizes = [draw.randint(1, 6) for _ in range(n)]
        cases.append((times[:n], times[n:], sizes, max(sizes) + draw.choice((0, 1, 3, 8))))
    for case in cases:
        yield f"{len(case[0])} layer{'s' * (len(case[0]) > 1)} of sizes {case[2]}", case


def _same_end(given: Any, right: float, *layers: Any) -> None:
    given = real(given, "the time", "s")
    if not math.isclose(given, right, rel_tol=1e-9):
        raise NotYet(f"your pass ends too {'late' if given > right else 'early'}")


looking_ahead = Function(
    "ex-looking-ahead",
    About("Looking ahead", "design", 3, 25, "simulate prefetching with bounded memory",
          ("x20.6",)),
    "pass_time(gathers, computes, sizes, room)", _pass_time, _passes, _same_end,
    "46 passes of one to twelve layers, large and small",
    {
        "a gather may begin while earlier layers compute, if there is room":
            lambda gathers, computes, sizes, room: _pass_time(gathers, computes, sizes, 0),
        "there is no room for all that":
            lambda gathers, computes, sizes, room: _pass_time(gathers, computes, sizes, math.inf),
        "the layer that is gathered needs room itself": partial(_pass_time, own=0),
        "the network does one gather at a time": partial(_pass_time, serial=False),
    },
)


def _clip(g, most, add, *, power=2, below=True, whole=True):
    with np.errstate(all="ignore"):
        total = add(float(np.sum(np.square(g))) ** (power / 2))
        norm = np.sqrt(total) if power == 2 else total
    if not np.isfinite(norm if whole else g).all():
        return None
    return g * min(1.0 if below else math.inf, most / norm) if norm else g


norm_of_all_parts = OnRanks(
    "ex-norm-of-all-parts",
    About("The norm of all parts", "design", 2, 15,
          "clip a sharded gradient, and skip a step together", ("A.17",)),
    "clip(g, most, add)", _clip, judge_clip, "one number added, and every rank decides alike",
    {
        "the norm of its own part":
            lambda g, most, add: _clip(g, most, lambda x: add(x) and x),
        "its own part is fine": {"whole": False},
        "stays as it is": {"below": False},
        "another part": {"power": 1},
        "call add once; it was called 0 times": lambda g, most, add: g,
    },
    sizes=(1, 2, 3, 4),
)


def _step(weights, gradient, velocity, comm, *, mean=True, fill=True, reduce=True, cut=True):
    n, P, part = len(weights), comm.size, len(velocity)
    own, end = slice(comm.rank * part, (comm.rank + 1) * part), np.zeros(P * part - n)
    padded = np.concatenate([gradient, end]) if fill else gradient
    g = comm.reduce_scatter(padded) if reduce else padded[own]
    velocity = 0.9 * velocity + (g / P if mean else g)
    new = comm.all_gather(np.concatenate([weights, end])[own] - 0.1 * velocity)
    return new[:n] if cut else new, velocity


def _step_on_one(weights, gradient, velocity, comm):
    """Data parallelism in disguise: every rank updates everything."""
    n, P = len(weights), comm.size
    total = comm.all_gather(comm.reduce_scatter(np.pad(gradient, (0, len(velocity) * P - n))))
    return weights - 0.1 * total[:n] / P, np.zeros(len(velocity))


one_step_of_stage_two = OnRanks(
    "ex-one-step-of-stage-two",
    About("One step of stage 2", "design", 3, 30,
          "write a sharded update for vectors of any length"),
    "step(weights, gradient, velocity, comm)", _step, judge_step,
    "three steps on one to four ranks, of lengths that divide and that do not",
    {
        "the mean, please": {"mean": False},
        "as long as 2 equal parts": {"fill": False},
        "it calls all_gather": {"reduce": False},
        "weights of shape": {"cut": False},
        "not those of one process": _step_on_one,
        "it calls neither": lambda weights, gradient, velocity, comm: (weights, velocity),
    },
    sizes=(1, 2, 3, 4),
)

where_may_one_cut = Numbers(
    "ex-where-may-one-cut",
    About("Where may one cut?", "derive", 2, 10, "say which cuts an update commutes with"),
    one_of(
        ("anywhere", "rows", "matrices", "with one number"),
        a=("anywhere", "weight decay uses the number's own weight"),
        b=("with one number", "what does a rank need from the others, if it has its own part?"),
        c=("matrices", "does the nearest orthogonal matrix of half a matrix know the rest?"),
        d=("anywhere", "a sign is that of one number"),
        e=("rows", "which numbers does a norm of a row need?"),
        f=("matrices", "there is one norm for each matrix, not one for all"),
        g=("anywhere", "here every number is clipped by itself"),
    ),
    "an update may be cut where it does not look", keyed=True,
)

_ONCE = 31 / 32 * 40e9 / 8 / 50e9
_THIRTY_SECOND = "a node has its own thirty-second already"

a_node_or_all = Numbers(
    "ex-a-node-or-all",
    About("A node, or all nodes?", "compute", 2, 12,
          "weigh memory within a node against bytes between nodes"),
    [
        Asked("(a)", 1.25, "GB", {40: "that is one node: 256 ranks share the state"}),
        Asked("(b)", 40, "GB", {
              1.25: "that is full sharding: here each node has a whole copy",
              320: "that is the whole copy of a node; how many ranks share it?"}),
        Asked("(c)", 12 * _ONCE, "s", {
              3 * _ONCE: "four micro-batches, each of which gathers and scatters",
              96 * _ONCE: "a node's eight ports share what enters and leaves it",
              9 * _ONCE: "gathers in every micro-batch, and scatters too",
              8 * _ONCE: "two gathers and one scatter in each micro-batch",
              12 * 32 / 31 * _ONCE: _THIRTY_SECOND}, tolerance=0.004),
        Asked("(d)", 2 * _ONCE, "s", {
              8 * _ONCE: "the sum across nodes is put off to the last micro-batch",
              16 * _ONCE: "a rank adds up its own part only",
              _ONCE: "an all-reduce is a scatter and a gather",
              2 * 32 / 31 * _ONCE: _THIRTY_SECOND}, tolerance=0.004),
    ],
    "bytes between nodes bought with memory within them",
)


def _newton_columns(part, steps, add, *, norm=True, gram=True, powers=True):
    x = part / np.sqrt(add(np.sum(part ** 2)) if norm else np.sum(part ** 2))
    for _ in range(steps):
        product = add(x @ x.T) if gram else x @ x.T
        x = 3.4445 * x + (-4.775 * product + powers * 2.0315 * product @ product) @ x
    return x


newton_schulz_in_columns = OnRanks(
    "ex-newton-schulz-in-columns",
    About("Newton–Schulz in columns", "design", 3, 25,
          "cut an update that looks sideways where it is a sum"),
    "newton_columns(part, steps, add)", _newton_columns,
    partial(judge_columns, reference=_newton_columns),
    "a sum of small products, on one to four ranks",
    {
        "by themselves": {"norm": False, "gram": False},
        "rank 0 differs": {"norm": False},
        "differs at": {"powers": False},
        "at most 2 times": lambda part, steps, add: _newton_columns(
            part, steps, lambda x: (add(x), add(x))[0]),
    },
    sizes=(1, 2, 3, 4),
)
