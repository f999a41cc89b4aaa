"""Graders of chapter 2, The roofline with a network."""

import math
import random
from statistics import median
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import Limit, call, formula, function, items, number, real, whole
from dtlib.exercises.practice_job import PracticeJob, RunsSpent
from dtlib.exercises.verdict import NotYet

GB, TB, TFLOP, ms = 10**9, 10**12, 10**12, 1e-3
PEAK, MEMORY, PORT = 989 * TFLOP, 3.35 * TB, 50 * GB


def _numbers(answer: Any, wanted: dict[str, tuple[float, str, dict]]) -> None:
    """Judge a dict of numbers, each with its unit and the mistakes that readers make."""
    if not isinstance(answer, dict) or set(answer) != set(wanted):
        raise NotYet(f"pass a dict with the keys {', '.join(wanted)}")
    for name, (right, unit, mistakes) in wanted.items():
        number(answer[name], right, name, unit, mistakes=mistakes)


@grader("ex-million-tokens")
def million_tokens(answer: Any) -> str:
    def intensity(tokens=1e6 / 64, flops=6, width=2, journeys=2 * 63 / 64):
        return flops * tokens / (journeys * width)

    right = intensity()
    slips = {
        intensity(tokens=1e6): "the million tokens are those of all GPUs together",
        intensity(flops=2): "that is the forward pass alone",
        intensity(flops=4): "that is the backward pass alone",
        intensity(journeys=63 / 64): "the gradient travels twice: to be added up and handed on",
        intensity(width=4): "a bf16 number has 2 bytes",
        intensity(width=1): "a bf16 number has 2 bytes",
    }
    one, eight = right * PORT / PEAK, right * 8 * PORT / PEAK
    turned = "headroom is the intensity over the ridge, not the ridge over the intensity"
    _numbers(
        answer,
        {
            "intensity": (right, "FLOP/B", slips),
            "one_port": (one, "", {1 / one: turned, eight: "that is with eight ports"}),
            "eight_ports": (eight, "", {1 / eight: turned, one: "that is with one port"}),
        },
    )
    return "one intensity, and two headrooms that differ by the number of ports"


@grader("ex-four-ridges")
def four_ridges(answer: Any) -> str:
    wanted = {}
    for name, peak, link, port in (
        ("a100", 312 * TFLOP, 300 * GB, 25 * GB),
        ("h100", PEAK, 450 * GB, 50 * GB),
    ):
        inside, outside = peak / link, peak / (8 * port)
        both = {inside / 2: "a data sheet counts both directions of NVLink; here you only send"}
        ports = {
            8 * outside: "eight ports carry the rings of a node together",
            outside / 8: "a port's rate is printed in bits",
        }
        tokens = 2 / 3 * outside
        passes = {
            outside: "bf16: two thirds of the ridge, because a step does 6 FLOP for 4 bytes",
            1.5 * tokens: "the whole step is there to hide behind",
            8 * tokens: "eight ports carry the rings of a node together",
        }
        wanted[f"nvlink_{name}"] = (inside, "FLOP/B", both)
        wanted[f"ports_{name}"] = (outside, "FLOP/B", ports)
        wanted[f"tokens_{name}"] = (tokens, "", passes)
    _numbers(answer, wanted)
    return "four ridges per direction, and the newer machine asks for more tokens, not for fewer"


@grader("ex-optimizer-roof")
def optimizer_roof(answer: Any) -> str:
    def seconds(params=5e9, each=28):
        return params * each / MEMORY

    slips = {
        seconds(each=14): "what is read is also written",
        seconds(each=16): "that is what is *kept*; read and write are two journeys",
        seconds(each=32): "not every kept byte is read and written",
        seconds(each=26): "the new weight in bf16 is written, too",
        seconds(each=24): "the gradient is read, and the new weight in bf16 is written",
        seconds() / ms: "in seconds, please",
    }
    tokens = 28 / 6 * PEAK / MEMORY
    part = seconds() / 256
    _numbers(
        answer,
        {
            "seconds": (seconds(), "s", slips),
            "tokens": (
                tokens,
                "",
                {
                    3 * tokens: "forward and backward pass: 6 operations for a weight and token",
                    1.5 * tokens: "forward and backward pass: 6 operations for a weight and token",
                    1 / tokens: "upside down",
                },
            ),
            "sharded": (
                part,
                "s",
                {seconds() / 8: "all 256 share", part / ms: "in seconds, please"},
            ),
        },
    )
    return "a pass over the optimizer's state waits for memory, and for nothing else"


@grader("ex-three-cures")
def three_cures(answer: Any) -> str:
    def seconds(flops, moved, faster=1):
        return max(flops * TFLOP / (faster * PEAK), moved * GB / MEMORY)

    now, again = seconds(3, 60), seconds(4, 80)
    wanted = {
        "now": (now, {seconds(1, 20): "that is the forward pass alone"}),
        "recomputed": (
            again,
            {
                seconds(4, 60): "the repeated forward pass moves its bytes again",
                seconds(4, 40): "saves capacity: which journey through the interface goes away?",
            },
        ),
        "fused": (
            seconds(3, 40),
            {
                seconds(3, 20): "a third of the bytes goes, not two thirds",
                now: "a third of the bytes goes",
            },
        ),
        "faster": (
            seconds(3, 60, 2),
            {now / 2: "what is the step waiting for?"},
        ),
    }
    _numbers(
        answer,
        {
            name: (right, "s", slips | {right / ms: "in seconds, please"})
            for name, (right, slips) in wanted.items()
        },
    )
    return "only the cure that removes bytes helps a step that waits for bytes"


@grader("ex-hide-or-buy")
def hide_or_buy(answer: Any) -> str:
    function(answer, "better(computing, comm)")
    draw = random.Random(2)
    cases = [(1.0, 10 ** draw.uniform(-2, 2)) for _ in range(40)]
    cases += [(1.0, x) for x in (0.9, 1.1, 1.4, 1.6, 1.9, 1.99, 2.01, 2.1, 3.0)]
    for computing, ratio in cases:
        scale = 10 ** draw.uniform(-3, 1)
        a, c = computing * scale, ratio * scale
        says = call(answer, a, c)
        if says not in ("hide", "buy"):
            raise NotYet(f"return 'hide' or 'buy', got {says!r}")
        hidden, bought = max(a, c), a + c / 2
        if (says == "hide") != (hidden < bought):
            where = f"{a:.3g} s of arithmetic, {c:.3g} s of traffic"
            raise NotYet(f"{where}: the other choice makes the shorter step; compare both times")
    return f"on {len(cases)} steps, from hardly any traffic to hardly anything else"


@grader("ex-one-axis")
def one_axis(answer: Any) -> str:
    function(answer, "bottleneck(flops, moved, peak, rates)")
    draw = random.Random(5)
    names = ("memory", "link", "ports", "files")
    seen = set()
    for case in range(40):
        some = draw.sample(names, draw.choice([2, 3, 4]))
        flops, peak = 10 ** draw.uniform(12, 15), 10 ** draw.uniform(13, 15)
        rates = {name: 10 ** draw.uniform(9, 12.5) for name in some}
        busy = {name: 10 ** draw.uniform(-1.5, 0.7 if case % 2 else -0.1) for name in some}
        moved = {name: busy[name] * flops / peak * rates[name] for name in some}
        given = items(call(answer, flops, moved, peak, rates), "(name, share)", 2)
        slowest = max(busy, key=busy.get)
        right = slowest if busy[slowest] > 1 else "arithmetic"
        seen.add(right)
        where = f"with {', '.join(some)}"
        if given[0] != right:
            if right == "arithmetic":
                raise NotYet(f"{where}: every resource keeps up there, and you blame {given[0]!r}")
            if given[0] == "arithmetic":
                raise NotYet(f"{where}: the arithmetic waits there, and you find nothing to blame")
            if given[0] == min(rates, key=rates.get):
                raise NotYet(f"{where}: the lowest slope need not be the slowest: whose bytes?")
            raise NotYet(f"{where}: {given[0]!r} is not the slowest: each with its own bytes")
        number(given[1], min(1.0, 1 / busy[slowest]), f"{where}: the share of the peak")
    return f"on 40 steps, in which {len(seen)} different things were the slowest"


def _machines(draw: random.Random, **ranges) -> list[dict]:
    """Random inputs: a range (low, high) is drawn from, a list chosen from."""
    return [
        {
            name: draw.choice(given) if isinstance(given, list) else draw.uniform(*given)
            for name, given in ranges.items()
        }
        for _ in range(12)
    ]


@grader("ex-stage-depth")
def stage_depth(answer: Any) -> str:
    def layers(hidden, v, w, peak, beta):
        return v * w * peak / (36 * hidden * beta)

    formula(
        answer,
        layers,
        "layers_needed(hidden, v, element_bytes, peak, beta)",
        _machines(
            random.Random(6),
            hidden=(1000, 16000),
            v=[1, 2, 4],
            element_bytes=[1, 2, 4],
            peak=(1e13, 1e15),
            beta=(1e9, 1e11),
        ),
        wrong=[
            (lambda h, v, w, f, b: layers(h, 1, w, f, b), "v has no effect: who enters how often?"),
            (lambda h, v, w, f, b: layers(h, 1 / v, w, f, b), "more entries need more depth"),
            (lambda h, v, w, f, b: layers(h, v, w, f, b) / 2, "a gradient goes back as well"),
            (lambda h, v, w, f, b: 3 * layers(h, v, w, f, b), "the backward pass is work, too"),
            (lambda h, v, w, f, b: 1.5 * layers(h, v, w, f, b), "forward and backward both work"),
            (lambda h, v, w, f, b: 1 / layers(h, v, w, f, b), "upside down"),
        ],
        limits=[
            Limit("every stage is entered once", {"v": 1}, "12 H^2 weights, 6 FLOP, 2 journeys"),
        ],
    )
    return "on 12 machines sending takes as long as computing at that depth, entries counted"


@grader("ex-expert-width")
def expert_width(answer: Any) -> str:
    def width(ep, matrices, w, peak, beta):
        return 2 * w * (ep - 1) / ep * peak / (3 * matrices * beta)

    formula(
        answer,
        width,
        "expert_width(ep, matrices, element_bytes, peak, beta)",
        _machines(
            random.Random(7),
            ep=[2, 4, 8, 64],
            matrices=[2, 3],
            element_bytes=[1, 2],
            peak=(1e13, 1e15),
            beta=(1e9, 1e11),
        ),
        wrong=[
            (lambda e, k, w, f, b: width(e, k, w, f, b) * e / (e - 1), "some tokens stay at home"),
            (lambda e, k, w, f, b: width(e, 3, w, f, b), "an expert has `matrices` matrices"),
            (lambda e, k, w, f, b: width(e, 2, w, f, b), "an expert has `matrices` matrices"),
            (lambda e, k, w, f, b: width(e, k, w, f, b) / 2, "there *and* back, twice"),
            (
                lambda e, k, w, f, b: width(e, k, w, f, b) * 1.5,
                "forward it is one product, backward two: count work and journeys of both",
            ),
            (lambda e, k, w, f, b: width(e, k, w, f, b) * 3, "the backward pass is work, too"),
            (
                lambda e, k, w, f, b: width(e, k, w, f, b) * 2,
                "twice too wide: an addition is an operation, too, and a journey is sent once",
            ),
        ],
        limits=[Limit("half of the tokens stay", {"ep": 2}, "6 FLOP a weight, four journeys of H")],
    )
    return "on 12 machines sending takes as long as computing at that width"


@grader("ex-does-not-cancel")
def does_not_cancel(answer: Any) -> str:
    def tokens(params, active, P, w, peak, beta, flops=6):
        return 2 * (P - 1) / P * w * params * peak / (flops * active * beta)

    cases = _machines(
        random.Random(8),
        params=(1e9, 7e11),
        active=(1e8, 1e9),
        P=[2, 3, 64, 1000],
        element_bytes=[2, 4],
        peak=(1e13, 1e15),
        beta=(1e9, 1e11),
    )
    formula(
        answer,
        tokens,
        "tokens_needed(params, active, P, element_bytes, peak, beta)",
        cases,
        wrong=[
            (lambda p, a, P, w, f, b: tokens(1, 1, P, w, f, b), "here the model does not cancel"),
            (lambda p, a, P, w, f, b: tokens(a, p, P, w, f, b), "upside down: who works, who is"),
            (lambda p, a, P, w, f, b: tokens(p, a, P, w, f, b) / 2, "the gradient travels twice"),
            (lambda p, a, P, w, f, b: tokens(p, a, P, w, f, b, 4), "the whole step may hide it"),
            (lambda p, a, P, w, f, b: tokens(p, a, 1e30, w, f, b), "P has no effect"),
        ],
        limits=[
            Limit("all parameters are active", {"params": 1e9, "active": 1e9}, "the dense model")
        ],
    )
    return "on 12 machines, and a dense model is the case in which it cancels"


@grader("ex-largest-cluster")
def largest_cluster(answer: Any) -> str:
    function(answer, "largest_cluster(batch_tokens, nics, element_bytes, peak, beta)")
    cases = [
        (4_000_000, 8, 2, PEAK, PORT),
        (4_000_000, 1, 2, PEAK, PORT),
        (500_000, 8, 4, 312 * TFLOP, 25 * GB),
        (16_000_000, 4, 2, PEAK, PORT),
        (2_000, 8, 2, PEAK, PORT),
    ]
    for batch, nics, w, peak, beta in cases:
        given = whole(call(answer, batch, nics, w, peak, beta), "the number of GPUs")
        room = 2 * batch * nics * beta / (w * peak)  # P - 1 may be so many
        right = 1 + math.floor(room)
        where = f"{batch:,} tokens, {nics} port{'s' * (nics > 1)}"
        if given == right:
            continue
        if given < 1:
            raise NotYet(f"{where}: at least one GPU is there")
        if given == math.floor(room):
            raise NotYet(f"{where}: one more still fits: what does (P - 1)/P do?")
        if given in (math.floor(1.5 * room), 1 + math.floor(1.5 * room)):
            raise NotYet(f"{where}: only the backward pass is there to hide behind")
        if given in (math.floor(room / nics), 1 + math.floor(room / nics)):
            raise NotYet(f"{where}: the ports of a node carry the rings together")
        P = given
        needed = w / 2 * (P - 1) / P * peak / (nics * beta)
        if batch / P < needed:
            raise NotYet(f"{where}: too many: each has too few tokens for its backward pass")
        raise NotYet(f"{where}: more GPUs would still hide their all-reduce")
    return f"on {len(cases)} clusters, one GPU more would wait for the network"


CAUSES = ("communication", "data", "straggler", "pipeline", "memory")
_JOBS = (
    ("communication", {"network": 0.9, "overlap": 0.1}),
    ("data", {"data": 1.7}),
    ("straggler", {"straggler": 1.6}),
    ("pipeline", {"stages": 8, "micro_batches": 8}),
    ("memory", {"dram": 0.92}),
    ("straggler", {"straggler": 1.5, "network": 0.4, "overlap": 0.75}),
    ("memory", {"network": 0.9, "overlap": 1.0, "dram": 0.88, "occupancy": 0.9}),
    ("pipeline", {"stages": 6, "micro_batches": 12, "network": 0.31, "overlap": 0.2}),
    ("data", {"data": 1.6, "straggler": 1.1, "occupancy": 0.2}),
    ("communication", {"network": 1.2, "overlap": 0.4, "stages": 2, "dram": 0.85}),
    ("communication", {"network": 0.8, "overlap": 0.2, "straggler": 1.25, "occupancy": 0.15}),
    ("straggler", {"straggler": 1.8, "data": 1.2, "dram": 0.6}),
)


@grader("ex-diagnose")
def diagnose(answer: Any) -> str:
    function(answer, "diagnose(job)")
    for seed, (cause, facts) in enumerate(_JOBS):
        where = f"job {seed + 1} of {len(_JOBS)}"
        job = PracticeJob(**facts, seed=seed)
        try:
            says = call(answer, job, passing=(RunsSpent,))
        except RunsSpent:
            raise NotYet(f"{where}: a job has six runs, and yours are spent") from None
        if says not in CAUSES:
            raise NotYet(f"{where}: name one of {', '.join(CAUSES)}; got {says!r}")
        if says != cause:
            raise NotYet(f"{where}: you say {says!r}. {_objection(says, cause, facts, seed)}")
    return f"{len(_JOBS)} jobs, and in each the cause whose removal gives back most"


def _objection(says: str, cause: str, facts: dict, seed: int) -> str:
    """The experiment that speaks against an answer."""
    job = PracticeJob(**facts, seed=seed)
    now, alone = job.run(), job.run(collectives=False)
    made = job.run(data="synthetic")
    more = job.run(micro_batches=2 * job.micro_batches)
    gains = {
        "communication": now.step - alone.step,
        "data": now.step - made.step,
        "straggler": max(now.busy) - median(now.busy),
        "pipeline": 2 * (now.step - more.step),
    }
    if says == "communication" and cause == "straggler":
        return "Without collectives nobody waits for the slowest rank either: see who is busy"
    if says == "communication" and cause == "pipeline":
        return "Twice the micro-batches give back only a part of the pipeline's idle time: which?"
    if says == "memory":
        return "Some other change gives back more than a few per cent: the ladder ends too early"
    gain = real(gains[says], "gain") / now.step
    if gain < 0.03:
        return "The experiment that removes it gives back next to nothing of the step"
    return "It costs something, but another cause costs more: compare what each gives back"
