"""The exercises of chapter 16, Pipeline Parallelism, in the order of its page."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import Limit, items, real, whole
from dtlib.exercises.judges.pipelines import looped, stairs_law, thrifty_law, with_warm_up
from dtlib.exercises.judges.recomputed import Stage, stage_law
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import gpipe, simulate

# fmt: off
GB, MB = 10**9, 10**6

_ON_TOP = "that is on top of the work, not of the whole step"
_PERCENT = "as a share, please, not in percent"

whole_or_work = Numbers(
    "ex-whole-or-work",
    About("Of the whole or of the work", "compute", 1, 6,
          "tell two honest shares of a bubble apart", ("x16.1", "Def.4")),
    [
        Asked("one_f_one_b", 7 / 55, slips={7 / 48: _ON_TOP, 700 / 55: _PERCENT}),
        Asked("interleaved", 7 / 103, slips={7 / 96: _ON_TOP, 700 / 103: _PERCENT,
              7 / 110: "half of the share is not the share of half: the whole step shrinks too"}),
        Asked("interleaved_on_top", 7 / 96, slips={7 / 103: "that is of the whole step",
              7 / 48: "stages are shorter", 700 / 96: _PERCENT}),
    ],
    "two shares of the whole that may be compared, and one on top of the work",
    keyed=True,
)

three_phases = Numbers(
    "ex-three-phases",
    About("Fill, work, drain", "compute", 1, 6, "count the turns of a pipeline", ("Ex.3",)),
    [
        *(Asked(name, 0.05 * count, "s", {
              0.05 * (count + 1): "count the turns, not the ranks",
              50.0 * count: "in seconds, please",
              0.8: "the last ranks are still filling when the first micro-batches pass"})
          for name, count in (("fill", 7), ("all_busy", 9), ("drain", 7))),
        Asked("idle", 7 / 23, slips={
              14 / 23: "that is the time in which some rank waits; count all ranks' time",
              8 / 16: "stages over micro-batches is no share of anything",
              7 / 16: "that is on top of the work"}),
    ],
    "23 turns: some ranks, all ranks, some ranks",
    keyed=True,
)

rate_of_a_pipeline = Numbers(
    "ex-rate-of-a-pipeline",
    About("The rate of a pipeline", "compute", 1, 5,
          "turn a schedule into a step time and a rate", ("x16.6",)),
    [
        Asked("the step", 71 * 0.03, "s", {64 * 0.03: "filling and draining take time too",
              72 * 0.03: "p stages have p - 1 boundaries", 2130: "in seconds, please"}),
        Asked("the efficiency", 64 / 71, slips={7 / 71: "that is the idle share"}),
        Asked("the rate", 64 / 71 / 0.03, "1/s", {
              1 / 0.03: "that is the rate of a pipeline that is never filled nor drained"}),
    ],
    "one step, its efficiency and its rate",
)

_HELD = {
    "GPipe": [Asked(f"GPipe, rank {rank}", 512 * MB, "bytes") for rank in range(4)],
    "1F1B": [Asked(f"1F1B, rank {rank}", 32 * MB * (4 - rank), "bytes", {
             32 * MB * (3 - rank): "one more forward pass follows the warm-up before a gradient",
             32 * MB * (1 + rank): "upside down; who waits longest for its first gradient?"})
             for rank in range(4)],
}


def _held_law(answer: Any) -> None:
    for name, given in zip(_HELD, items(answer, "(GPipe, 1F1B)", 2), strict=True):
        for asked, value in zip(_HELD[name], items(given, name, 4), strict=True):
            asked.judge(value)


what_stages_hold = Made(
    "ex-what-stages-hold",
    About("What stages hold", "compute", 1, 6,
          "count the activations that each stage holds", ("x16.2",)),
    _held_law, lambda: ([512 * MB] * 4, [128 * MB, 96 * MB, 64 * MB, 32 * MB]),
    "bytes held on four ranks, by two schedules that take equally long",
    {
        "1F1B, rank 0: upside down": lambda: ([512 * MB] * 4, [32 * MB * k for k in range(1, 5)]),
        "one more forward pass": lambda: ([512 * MB] * 4, [96 * MB, 64 * MB, 32 * MB, 0]),
    },
)


_MORE = "rank 1 still wants one micro-batch more than rank 0 sends before it waits"

upside_down = Numbers(
    "ex-upside-down",
    About("Upside down", "compute", 2, 10,
          "find what opens a circle of ranks that wait, and its price"),
    [
        Asked("done", 4, slips={1: "micro-batch 0 goes on to the other ranks",
              0: "one forward pass waits for nobody", 3: "count rank 0 too",
              10: "ranks 1 to 3 want micro-batch 1, which rank 0 never sends"}),
        Asked("k", 7, slips={1: _MORE, 3: _MORE, 4: _MORE, 6: _MORE,
              8: "one less: a forward pass follows the warm-up before a gradient"}),
        Asked("held", 8, slips={1: "that is 1F1B's last rank", 4: "that is 1F1B's first rank",
              7: "one more forward pass follows the warm-up"}),
    ],
    "the warm-up may not grow along the pipeline; lengthened, it is GPipe's",
    keyed=True,
)

right_the_warm_up = Function(
    "ex-right-the-warm-up",
    About("Right the warm-up", "repair", 2, 15,
          "write 1F1B so that a checker and a simulator agree", ("B.6",)),
    "my_1f1b(p, m)", with_warm_up,
    lambda: (("", size) for size in ((1, 3), (2, 2), (3, 8), (4, 2), (4, 4), (4, 8), (8, 16))),
    thrifty_law,
    "on 7 pipelines as fast as GPipe, and no rank holds more than it must",
    {
        "ranks 0, 1 wait for each other": lambda p, m: with_warm_up(p, m, lambda p, r: r),
        "rank 0 holds": lambda p, m: with_warm_up(p, m, lambda p, r: 2 * (p - 1 - r)),
        "slower than GPipe": lambda p, m: with_warm_up(p, m, lambda p, r: (p - 1 - r) // 2),
    },
)

against_what = Numbers(
    "ex-against-what",
    About("Against what?", "compute", 1, 6, "price the memory of interleaving", ("A.14",)),
    [Asked(f"against {name}", held, slips={1 / held: "turn the fraction round",
           1: "rank 0 must run further ahead before its first gradient is back",
           2: "a stage has only half of a rank's layers", 0.5: "that is 1F1B against GPipe"})
     for name, held in (("1F1B", 11.5 / 8), ("GPipe", 11.5 / 16))],
    "more than one schedule and less than the other: say against what",
)


_STAIRS = (2, 2, 2), (2, 4, 3), (4, 4, 2), (4, 8, 2), (4, 8, 4), (8, 16, 2)

shorter_stairs = Function(
    "ex-shorter-stairs",
    About("Shorter stairs", "design", 3, 30,
          "write a schedule whose fill and drain are one v-th as long", ("B.13",)),
    "my_interleaved(p, m, v)", looped, lambda: (("", size) for size in _STAIRS), stairs_law,
    "on 6 pipelines no more is lost than p - 1 steps of the length of one stage",
    {
        "holds stages": lambda p, m, v: looped(p, m, v, dealt=False),
        "stages, asked are": lambda p, m, v: with_warm_up(p, m),
    },
)

_WORK, _PUBLISHED = 32 * 2.3, "that counts work as waiting, and it grows with m"
_SPLIT = {7 / 39: "the backward pass is divided here"}

short_weight_gradients = Numbers(
    "ex-short-weight-gradients",
    About("Short weight gradients", "compute", 2, 10,
          "price a split backward pass whose halves differ", ("x16.5",)),
    [Asked(name, lost / (_WORK + lost), slips={
           (0.3 * 32 - 7) / _WORK: _PUBLISHED, 0.035: _PUBLISHED, 7 / 103: "t_W is 0.3 here, not 1",
           lost / _WORK: "divide by the work and the waiting together", **split})
     for name, lost, split in (("one_f_one_b", 7 * 2.3, {}), ("zb_h1", 7 * 1.7, _SPLIT),
                               ("zb_h2", 7 * 1.4, _SPLIT))],
    "what short weight gradients leave of the three schedules' gain",
    keyed=True,
)


def _unequal() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(6)
    for p, m in ((1, 1), (1, 4), (3, 1), (2, 3), (4, 8), (5, 6), (8, 3)):
        forward, backward = ([draw.randint(1, 9) for _ in range(p)] for _ in range(2))
        yield f"forward {forward}, backward {backward}, m = {m}", (forward, backward, m)


unequal_turns = Formula(
    "ex-unequal-turns",
    About("Unequal turns", "derive", 3, 20, "derive the step time of unequal stages", ("B.6",)),
    "step_time(forward, backward, m)",
    lambda f, b, m: simulate(gpipe(len(f), m), f=f, b=b, w=[0] * len(f)).makespan,
    _unequal, same_number,
    "on 7 pipelines of unequal stages your time is that of every action played",
    {
        "too large; a micro-batch is slow only in the slowest stage":
            lambda f, b, m: (m + len(f) - 1) * (max(f) + max(b)),
        "the pipeline must be filled and drained": lambda f, b, m: m * (max(f) + max(b)),
        "the first micro-batch waits for nobody":
            lambda f, b, m: sum(f) + sum(b) + m * (max(f) + max(b)),
    },
    (Limit("m = 1", {"m": 1}, "what does the first micro-batch take?"),),
)


def _slowest(times: list[int], counts: list[int]) -> int:
    ends = [sum(counts[:k]) for k in range(len(counts) + 1)]
    return max(sum(times[a:b]) for a, b in pairwise(ends))


def _cut(times: list[int], p: int) -> list[int]:
    """Found by trying every cut."""
    ends = ((0, *e, len(times)) for e in combinations(range(1, len(times)), p - 1))
    return min(([b - a for a, b in pairwise(e)] for e in ends), key=partial(_slowest, times))


def _models() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(16)
    models = [([10] * 4 + [20] * 4, 4), ([5, 1, 1, 1], 4), ([1, 1, 1, 9], 2), ([3], 1)]
    models += [([draw.randint(1, 30) for _ in range(n)], p) for n in (5, 7, 9) for p in range(2, 6)]
    return ((f"times {times}, p = {p}", (times, p)) for times, p in models)


def _cut_law(given: Any, right: list[int], times: list[int], p: int) -> None:
    counts = [whole(count, "a count") for count in items(given, "the counts", p)]
    if min(counts) < 1:
        raise NotYet("a stage without a layer; every rank needs one")
    if sum(counts) != len(times):
        raise NotYet(f"{sum(counts)} layers are dealt out, there are {len(times)}")
    if _slowest(times, counts) != _slowest(times, right):
        raise NotYet(f"the slowest stage takes {_slowest(times, counts)}, and it can be less")


cut_the_layers = Function(
    "ex-cut-the-layers",
    About("Cut the layers", "design", 2, 20,
          "cut a model into contiguous stages, as evenly as it goes", ("x16.3",)),
    "cut(times, p)", _cut, _models, _cut_law,
    "the least slowest stage on 16 models, each cut by trying every cut",
    {
        "equally many layers do not take equally long": lambda times, p:
            [len(times) * (k + 1) // p - len(times) * k // p for k in range(p)],
        "without a layer": lambda times, p: [len(times), *[0] * (p - 1)],
    },
)

_MESSAGE = 2 * 2 * 4096 * 8192

fair_bytes = Numbers(
    "ex-fair-bytes",
    About("Fair bytes", "compute", 1, 8,
          "compare two strategies' traffic on equal terms", ("x16.4",)),
    [
        Asked("message", _MESSAGE, "bytes", {_MESSAGE / 2: "a number has two bytes",
              _MESSAGE / 1.048576: "decimal or binary?"}, tolerance=1e-3),
        Asked("pipeline_rank", 64 * _MESSAGE, "bytes", {2 * _MESSAGE: "that is one micro-batch",
              32 * _MESSAGE: "a rank in the middle sends both ways, forward and back"}),
        Asked("replica_rank", 2 * 7 / 8 * 17.5 * GB, "bytes", {
              140 * GB: "each rank holds an eighth of the model, and an all-reduce sends it twice",
              17.5 * GB: "an all-reduce sends almost twice what a rank holds",
              2 * 7 / 8 * 140 * GB: "each rank holds an eighth of the model"}),
    ],
    "bytes that one rank sends in one step, for both",
    keyed=True,
)

stage_that_remembers_less = Made(
    "ex-stage-that-remembers-less",
    About("A stage that remembers less", "repair", 2, 20,
          "recompute a stage's forward pass once, not twice", ("x16.7",), needs="torch"),
    stage_law, lambda: Stage,
    "two forward passes a micro-batch, nothing kept but the input, every gradient right",
    {
        "makes 2 forward passes": lambda: partial(Stage, times=2),
        "still hangs on a graph": lambda: partial(Stage, taped=True),
    },
)

not_quite_linear = Numbers(
    "ex-not-quite-linear",
    About("Not quite linear", "compute", 1, 8,
          "separate what recomputation saves from what it costs", ("A.4",)),
    [
        Asked("at m = 32", 192 / 39, slips={
              256 / 39: "eight ranks that recompute do four units of work for every three",
              512 / 117: "the forward pass is one unit of three, and it is repeated once"}),
        Asked("the limit", 6, slips={8: "more micro-batches remove the bubble, and nothing else"}),
    ],
    "what is left of eight ranks when the bubble is gone",
)


def _reachable(p: int, N: int, a: float, c: float) -> list[tuple[float, float]]:
    points = set()
    for m in (k for k in range(1, N + 1) if N % k == 0):
        size = N / m
        for held in (m, min(m, p)):
            points.add(((m + p - 1) * size * 3, held * size * a))
            points.add(((m + p - 1) * size * 4, held * size * c + size * a))
    return sorted(points)


def _front(p: int, N: int, a: float, c: float) -> list[tuple[float, float]]:
    points = _reachable(p, N, a, c)
    beaten = {x for x in points for y in points if y != x and y[0] <= x[0] and y[1] <= x[1]}
    return [x for x in points if x not in beaten]


def _front_law(given: Any, right: list, *machine: Any) -> None:
    try:
        points = {tuple(round(real(x, "a point"), 6) for x in point) for point in given}
    except TypeError:
        raise NotYet("give a list of points (time, bytes)") from None
    for point in sorted(points):
        if point not in _reachable(*machine):
            raise NotYet(f"no schedule gives time and bytes {point}")
        if point not in _front(*machine):
            raise NotYet(f"time and bytes {point}: that is beaten by another")
    if missing := {*right} - points:
        raise NotYet(f"nothing that you list is wrong, but {len(missing)} are missing")


_MACHINES = (4, 16, 10.0, 1.0), (8, 64, 5.0, 0.25), (2, 8, 3.0, 3.0), (4, 12, 7.0, 0.5)

time_against_memory = Function(
    "ex-time-against-memory",
    About("Time against memory", "design", 3, 30,
          "find the schedules that no other beats", ("C.5",)),
    "front(p, N, a, c)", _front, lambda: (("", machine) for machine in _MACHINES), _front_law,
    "on 4 machines every point that nothing beats, and no other",
    {
        "is beaten by another": _reachable,
        "nothing that you list is wrong, but 1 are missing": lambda *machine: _front(*machine)[1:],
    },
)
