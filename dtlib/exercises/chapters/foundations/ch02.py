"""The exercises of chapter 2, The roofline with a network, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import Limit, call, function, items, number, whole
from dtlib.exercises.practice.job import PracticeJob, RunsSpent
from dtlib.exercises.verdict import NotYet

# fmt: off
GB, TFLOP = 10**9, 10**12
PEAK, MEMORY, PORT = 989 * TFLOP, 3350 * GB, 50 * GB

_FLOP_A_BYTE = 6 * (1e6 / 64) / (2 * 63 / 64 * 2)
_ONE, _EIGHT = _FLOP_A_BYTE * PORT / PEAK, _FLOP_A_BYTE * 8 * PORT / PEAK
_TURNED = "headroom is the intensity over the ridge, not the ridge over the intensity"

million_tokens = Numbers(
    "ex-million-tokens",
    About("A million tokens", "compute", 1, 5, "form an intensity and a headroom", ("x2.1",)),
    [
        Asked("intensity", _FLOP_A_BYTE, "FLOP/B", {
              _FLOP_A_BYTE * 64: "the million tokens are those of all GPUs together",
              _FLOP_A_BYTE / 3: "that is the forward pass alone",
              _FLOP_A_BYTE / 1.5: "that is the backward pass alone",
              _FLOP_A_BYTE * 2: "the gradient travels twice, and a bf16 number has 2 bytes",
              _FLOP_A_BYTE / 2: "a bf16 number has 2 bytes"}),
        Asked("one_port", _ONE, "", {1 / _ONE: _TURNED, _EIGHT: "that is with eight ports"}),
        Asked("eight_ports", _EIGHT, "", {1 / _EIGHT: _TURNED, _ONE: "that is with one port"}),
    ],
    "one intensity, and two headrooms that differ by the number of ports", keyed=True,
)


def _ridges(name: str, peak: float, link: float, port: float) -> list[Asked]:
    inside, outside = peak / link, peak / (8 * port)
    together = "eight ports carry the rings of a node together"
    return [
        Asked(f"nvlink_{name}", inside, "FLOP/B", {
              inside / 2: "a data sheet counts both directions of NVLink; here you only send"}),
        Asked(f"ports_{name}", outside, "FLOP/B", {
              8 * outside: together, outside / 8: "a port's rate is printed in bits"}),
        Asked(f"tokens_{name}", 2 / 3 * outside, "", {16 / 3 * outside: together, outside:
              "two thirds of the ridge: the whole step may hide it, with 6 FLOP for 4 bytes"}),
    ]


four_ridges = Numbers(
    "ex-four-ridges",
    About("Four ridges", "compute", 1, 8,
          "compare machines by their ridges, per direction and with all ports", ("x2.2",)),
    _ridges("a100", 312 * TFLOP, 300 * GB, 25 * GB) + _ridges("h100", PEAK, 450 * GB, PORT),
    "four ridges per direction, and the newer machine asks for more tokens, not for fewer",
    keyed=True,
)

_UPDATE, _TOKENS = 5e9 * 28 / MEMORY, 28 / 6 * PEAK / MEMORY
_PASSES = "forward and backward pass: 6 operations for a weight and token"

optimizer_roof = Numbers(
    "ex-optimizer-roof",
    About("The optimizer's roof", "compute", 1, 8, "count the bytes of an optimizer step"),
    [
        Asked("seconds", _UPDATE, "s", {
              _UPDATE * 14 / 28: "what is read is also written",
              _UPDATE * 16 / 28: "that is what is *kept*; read and write are two journeys",
              _UPDATE * 32 / 28: "not every kept byte is read and written",
              _UPDATE * 26 / 28: "the new weight in bf16 is written, too",
              _UPDATE * 24 / 28: "the gradient is read, and the new weight in bf16 is written",
              _UPDATE * 1000: "in seconds, please"}),
        Asked("tokens", _TOKENS, "", {
              3 * _TOKENS: _PASSES, 1.5 * _TOKENS: _PASSES, 1 / _TOKENS: "upside down"}),
        Asked("sharded", _UPDATE / 256, "s", {
              _UPDATE / 8: "all 256 share", _UPDATE / 0.256: "in seconds, please"}),
    ],
    "a pass over the optimizer's state waits for memory, and for nothing else", keyed=True,
)


def _cured(name: str, moved: float, slips: dict[float, str]) -> Asked:
    """The seconds of a step that moves so many GB; ``slips`` from other GB that were moved."""
    slips = {gigabytes * GB / MEMORY: hint for gigabytes, hint in slips.items()}
    right = moved * GB / MEMORY
    return Asked(name, right, "s", {**slips, right * 1000: "in seconds, please"})


three_cures = Numbers(
    "ex-three-cures",
    About("Three cures", "compute", 1, 8, "tell a cure for bandwidth from a cure for capacity"),
    [
        _cured("now", 60, {20: "that is the forward pass alone"}),
        _cured("recomputed", 80, {60: "the repeated forward pass moves its bytes again",
               40: "saves capacity: which journey through the interface goes away?"}),
        _cured("fused", 40, {20: "a third of the bytes goes, not two thirds",
               60: "a third of the bytes goes"}),
        _cured("faster", 60, {30: "what is the step waiting for?"}),
    ],
    "only the cure that removes bytes helps a step that waits for bytes", keyed=True,
)


def _same_choice(given: Any, right: str, *args: float) -> None:
    if given not in ("hide", "buy"):
        raise NotYet(f"return 'hide' or 'buy', got {given!r}")
    if given != right:
        raise NotYet("the other choice makes the shorter step; compare both times")


hide_or_buy = Function(
    "ex-hide-or-buy",
    About("Hide or buy?", "derive", 2, 10, "compare overlap with bandwidth"),
    "better(computing, comm)", lambda a, c: "hide" if max(a, c) < a + c / 2 else "buy",
    lambda: (("", (a, x * a)) for a in (1e-3, 0.02, 0.3, 1, 2, 5, 7)
             for x in (0.1, 0.9, 1.1, 1.6, 1.99, 2.01, 10.0)), _same_choice,
    "on 49 steps, from hardly any traffic to hardly anything else",
    {"traffic that sticks out may still be better hidden: compare the times of both steps":
        lambda computing, comm: "hide" if comm < computing else "buy"},
)


def _bottleneck(flops: float, moved: dict, peak: float, rates: dict) -> tuple[str, float]:
    busy = {name: moved[name] / rates[name] * peak / flops for name in moved}
    slowest = max(busy, key=busy.get)
    return (slowest, 1 / busy[slowest]) if busy[slowest] > 1 else ("arithmetic", 1.0)


def _steps() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(5)
    for case in range(40):
        some = draw.sample(("memory", "link", "ports", "files"), draw.choice([2, 3, 4]))
        flops, peak = 10 ** draw.uniform(12, 15), 10 ** draw.uniform(13, 15)
        rates = {name: 10 ** draw.uniform(9, 12.5) for name in some}
        busy = {name: 10 ** draw.uniform(-1.5, 0.7 if case % 2 else -0.1) for name in some}
        moved = {name: busy[name] * flops / peak * rates[name] for name in some}
        yield f"with {', '.join(some)}", (flops, moved, peak, rates)


def _same_axis(given: Any, right: tuple, flops: float, moved: dict, peak: float, rates: dict):
    name, share = items(given, "(name, share)", 2)
    if name != right[0]:
        if right[0] == "arithmetic":
            raise NotYet(f"every resource keeps up there, and you blame {name!r}")
        if name == "arithmetic":
            raise NotYet("the arithmetic waits there, and you find nothing to blame")
        if name == min(rates, key=rates.get):
            raise NotYet("the lowest slope need not be the slowest: whose bytes?")
        raise NotYet(f"{name!r} is not the slowest: each with its own bytes")
    number(share, right[1], "the share of the peak")


one_axis = Function(
    "ex-one-axis",
    About("One axis, two intensities", "repair", 2, 15,
          "find the slowest resource, each with its own bytes"),
    "bottleneck(flops, moved, peak, rates)", _bottleneck, _steps, _same_axis,
    "on 40 steps, in which 5 different things were the slowest",
    {"as on the page: a resource moves its own bytes, not the sum of all":
        lambda flops, moved, *machine:
            _bottleneck(flops, dict.fromkeys(moved, sum(moved.values())), *machine)},
)


def _machines(seed: int, *ranges: tuple | list) -> list[tuple[str, tuple]]:
    """Twelve cases: from a range (low, high) is drawn, from a list chosen."""
    draw = random.Random(seed)
    return [("", tuple(draw.choice(r) if isinstance(r, list) else draw.uniform(*r) for r in ranges))
            for _ in range(12)]


def _tokens_needed(params, active, P, width, peak, beta, *, journeys=2, flops=6):
    return journeys * (P - 1) / P * width * params * peak / (flops * active * beta)


does_not_cancel = Formula(
    "ex-does-not-cancel",
    About("The model that does not cancel", "derive", 2, 10,
          "derive the tokens that a mixture of experts needs"),
    "tokens_needed(params, active, P, element_bytes, peak, beta)", _tokens_needed,
    lambda: _machines(8, (1e9, 7e11), (1e8, 1e9), [2, 3, 64, 1000], [2, 4], (1e13, 1e15),
                      (1e9, 1e11)),
    same_number, "on 12 machines, and a dense model is the case in which it cancels",
    {
        "the gradient travels twice": {"journeys": 1},
        "the whole step may hide it": {"flops": 4},
        "here the model does not cancel": lambda p, a, *rest: _tokens_needed(1, 1, *rest),
        "upside down: who works, who is sent?": lambda p, a, *rest: _tokens_needed(a, p, *rest),
        "P has no effect": lambda p, a, P, *rest: _tokens_needed(p, a, 1e30, *rest),
    },
    (Limit("all parameters are active", {"params": 1e9, "active": 1e9}, "the dense model"),),
)


def _layers_needed(hidden, v, width, peak, beta, *, journeys=2, flops=6):
    return journeys * v * width * peak / (12 * flops * hidden * beta)


stage_depth = Formula(
    "ex-stage-depth",
    About("How deep must a stage be?", "derive", 3, 15, "derive the intensity of a pipeline"),
    "layers_needed(hidden, v, element_bytes, peak, beta)", _layers_needed,
    lambda: _machines(6, (1000, 16000), [1, 2, 4], [1, 2, 4], (1e13, 1e15), (1e9, 1e11)),
    same_number, "on 12 machines sending takes as long as computing at that depth, entries counted",
    {
        "a gradient goes back as well": {"journeys": 1},
        "the backward pass is work, too": {"flops": 2},
        "v has no effect: who enters how often?": lambda h, v, *rest: _layers_needed(h, 1, *rest),
        "more entries need more depth": lambda h, v, *rest: _layers_needed(h, 1 / v, *rest),
        "upside down": lambda *machine: 1 / _layers_needed(*machine),
    },
    (Limit("every stage is entered once", {"v": 1}, "12 H^2 weights, 6 FLOP, 2 journeys"),),
)


def _expert_width(ep, matrices, width, peak, beta, *, journeys=4, flops=6, home=1):
    return journeys * width * (ep - home) / ep * peak / (flops * matrices * beta)


expert_width = Formula(
    "ex-expert-width",
    About("How wide must an expert be?", "derive", 3, 20,
          "derive the intensity of expert parallelism"),
    "expert_width(ep, matrices, element_bytes, peak, beta)", _expert_width,
    lambda: _machines(7, [2, 4, 8, 64], [2, 3], [1, 2], (1e13, 1e15), (1e9, 1e11)),
    same_number, "on 12 machines sending takes as long as computing at that width",
    {
        "some tokens stay at home": {"home": 0},
        "there *and* back, twice": {"journeys": 2},
        "the backward pass is work, too": {"flops": 2},
        "an expert has `matrices` matrices": lambda e, k, *rest: _expert_width(e, 3, *rest),
        "not every expert has two matrices": lambda e, k, *rest: _expert_width(e, 2, *rest),
        "twice too wide: an addition is an operation, too, and a journey is sent once":
            partial(_expert_width, flops=3),
    },
    (Limit("half of the tokens stay", {"ep": 2}, "6 FLOP a weight, four journeys of H"),),
)


def _largest_cluster(batch, nics, width, peak, beta, *, itself=1, flops=4) -> int:
    return itself + math.floor(flops / 2 * batch * nics * beta / (width * peak))


def _clusters() -> Iterator[tuple[str, tuple]]:
    for cluster in ((4_000_000, 8, 2, PEAK, PORT), (4_000_000, 1, 2, PEAK, PORT),
                    (500_000, 8, 4, 312 * TFLOP, 25 * GB), (16_000_000, 4, 2, PEAK, PORT),
                    (2_000, 8, 2, PEAK, PORT)):
        yield f"{cluster[0]:,} tokens, {cluster[1]} ports", cluster


def _same_cluster(given: Any, right: int, *cluster: float) -> None:
    given = whole(given, "the number of GPUs")
    if given > right:
        raise NotYet("too many: each has too few tokens for its backward pass")
    if given < right:
        raise NotYet("more GPUs would still hide their all-reduce")


largest_cluster = Function(
    "ex-largest-cluster",
    About("The largest cluster", "design", 3, 15, "size a cluster for a given batch"),
    "largest_cluster(batch_tokens, nics, element_bytes, peak, beta)", _largest_cluster,
    _clusters, _same_cluster, "on 5 clusters, one GPU more would wait for the network",
    {
        "one more still fits: what does (P - 1)/P do?": {"itself": 0},
        "only the backward pass is there to hide behind": {"flops": 6},
        "the ports of a node carry the rings together":
            lambda batch, nics, *rest: _largest_cluster(batch, 1, *rest),
    },
)

CAUSES = ("communication", "data", "straggler", "pipeline", "memory")
_JOBS = (
    ("communication", {"network": 0.9, "overlap": 0.1}),
    ("data", {"data": 1.7}), ("straggler", {"straggler": 1.6}),
    ("pipeline", {"stages": 8, "micro_batches": 8}), ("memory", {"dram": 0.92}),
    ("straggler", {"straggler": 1.5, "network": 0.4, "overlap": 0.75}),
    ("memory", {"network": 0.9, "overlap": 1.0, "dram": 0.88, "occupancy": 0.9}),
    ("pipeline", {"stages": 6, "micro_batches": 12, "network": 0.31, "overlap": 0.2}),
    ("data", {"data": 1.6, "straggler": 1.1, "occupancy": 0.2}),
    ("communication", {"network": 1.2, "overlap": 0.4, "stages": 2, "dram": 0.85}),
    ("communication", {"network": 0.8, "overlap": 0.2, "straggler": 1.25, "occupancy": 0.15}),
    ("straggler", {"straggler": 1.8, "data": 1.2, "dram": 0.6}),
)


def _lost(job: PracticeJob, idle: float = 2) -> dict[str, float]:
    """What each cause costs, as a share of the step; ``idle`` of a pipeline for what 2 m saves."""
    now, alone, made = job.run(), job.run(collectives=False), job.run(data="synthetic")
    more = job.run(micro_batches=2 * job.micro_batches)
    spread = max(now.busy) - median(now.busy)
    lost = {"communication": now.step - alone.step - spread, "data": now.step - made.step,
            "straggler": spread, "pipeline": idle * (now.step - more.step)}
    return {cause: seconds / now.step for cause, seconds in lost.items()}


def _diagnose(job: PracticeJob, idle: float = 2) -> str:
    lost = _lost(job, idle)
    worst = max(lost, key=lost.get)
    return worst if lost[worst] > 0.05 else "memory"


def _objection(says: str, cause: str, job: PracticeJob) -> str:
    """The experiment that speaks against an answer."""
    if says == "communication" and cause == "straggler":
        return "Without collectives nobody waits for the slowest rank either: see who is busy"
    if says == "communication" and cause == "pipeline":
        return "Twice the micro-batches give back only a part of the pipeline's idle time: which?"
    if says == "memory":
        return "Some other change gives back more than a few per cent: the ladder ends too early"
    if _lost(job)[says] < 0.03:
        return "The experiment that removes it gives back next to nothing of the step"
    return "It costs something, but another cause costs more: compare what each gives back"


def _diagnosis_law(answer: Callable) -> None:
    function(answer, "diagnose(job)")
    for seed, (cause, facts) in enumerate(_JOBS):
        where, job = f"job {seed + 1} of {len(_JOBS)}", PracticeJob(**facts, seed=seed)
        try:
            says = call(answer, job, passing=(RunsSpent,))
        except RunsSpent:
            raise NotYet(f"{where}: a job has six runs, and yours are spent") from None
        if says not in CAUSES:
            raise NotYet(f"{where}: name one of {', '.join(CAUSES)}; got {says!r}")
        if says != cause:
            why = _objection(says, cause, PracticeJob(**facts, seed=seed))
            raise NotYet(f"{where}: you say {says!r}. {why}")


diagnose = Made(
    "ex-diagnose",
    About("Thirty-five per cent", "design", 3, 40,
          "design experiments that separate hypotheses about a slow job", ("x2.3",)),
    _diagnosis_law, lambda: _diagnose,
    "12 jobs, and in each the cause whose removal gives back most",
    {
        "next to nothing": lambda: lambda job: "communication",
        "only a part of the pipeline's idle time": lambda: partial(_diagnose, idle=1),
        "Some other": lambda: lambda j: "memory" if j.counters["dram"] > 0.8 else _diagnose(j),
        "ladder ends too early": lambda: partial(_diagnose, idle=0),
        "six runs": lambda: lambda job: [job.run() for _ in range(7)],
    },
)
