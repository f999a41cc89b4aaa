"""Graders of chapter 13, The cost of collectives."""

import random
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import Limit, call, formula, function, items, number, real
from dtlib.exercises.verdict import NotYet
from dtlib.formulas.formula import Formula

GB, MB, us, ms = 10**9, 10**6, 1e-6, 1e-3
FACTORS = {
    "all-reduce": lambda P: 2 * (P - 1) / P,
    "reduce-scatter": lambda P: (P - 1) / P,
    "all-gather": lambda P: (P - 1) / P,
    "all-to-all": lambda P: (P - 1) / P,
    "broadcast": lambda P: 1,
    "reduce": lambda P: 1,
}


@grader("ex-bound-three-algorithms")
def bound_three_algorithms(answer: Any) -> str:
    a, b, c = items(answer, "(a, b, c)", 3)
    wire = 15 / 16 * 100 * MB / (100 * GB)
    number(
        a,
        30 * 10 * us + 2 * wire,
        "(a)",
        "s",
        tolerance=1e-3,
        mistakes={
            30 * 10 * us + wire: "two phases: bytes go out in both",
            15 * 10 * us + 2 * wire: "two phases: there are starts in both",
            2.175: "in seconds, please",
            32 * 10 * us + 2 * wire: "a chunk visits P - 1 other ranks",
        },
    )
    number(
        b,
        15 * 10 * us + wire,
        "(b)",
        "s",
        tolerance=1e-3,
        mistakes={30 * 10 * us + 2 * wire: "that is both phases", 1.0875: "in seconds, please"},
    )
    number(
        c,
        12 * 10 * us + 2 * wire,
        "(c)",
        "s",
        tolerance=1e-3,
        mistakes={
            12 * 10 * us + 3 * 100 * MB / (100 * GB): "along the columns only n/4 is left",
            6 * 10 * us + wire: "that is the way there; the way back takes as long",
            30 * 10 * us + 2 * wire: "a ring of four has three rounds, not fifteen",
            1.995: "in seconds, please",
        },
    )
    return "the grid sends the bytes of the ring with two fifths of its starts"


@grader("ex-eighty-milliseconds")
def eighty_milliseconds(answer: Any) -> str:
    algorithm, bus, share = items(answer, "(algorithm, bus, share)", 3)
    number(
        algorithm,
        12.5 * GB,
        "algorithm",
        "bytes/s",
        mistakes={12.5: "in bytes/s, please", 21.875 * GB: "that is the bus bandwidth"},
    )
    number(
        bus,
        21.875 * GB,
        "bus",
        "bytes/s",
        mistakes={
            12.5 * GB: "that is n over the time; how much does a port carry for n?",
            21.875: "in bytes/s, please",
            25 * GB: "the factor is a little less than 2: a rank keeps its own share",
            12.5 * GB * 7 / 8: "an all-reduce has two phases",
        },
    )
    number(
        share,
        0.4375,
        "share",
        mistakes={
            0.25: "the bus bandwidth is the one to compare with a link",
            43.75: "as a number between 0 and 1",
            0.21875: "50 GB/s is one direction already",
        },
    )
    return "n over the time, what a port carried, and the share of what it could"


@grader("ex-overlap-share")
def overlap_share(answer: Any) -> str:
    speedup, share = items(answer, "(speedup, share)", 2)
    right = 2600 / 2120
    number(
        speedup,
        right,
        "speedup",
        tolerance=1e-3,
        mistakes={
            2120 / 2600: "the other way round: how many times as fast",
            2600 / 2480: "80 % are hidden, 20 % are not",
            right - 1: "that is the gain; the speed-up is one more",
            1.3: "that would be all of it hidden",
        },
    )
    number(
        share,
        (right - 1) / 0.3,
        "share",
        tolerance=2e-3,
        mistakes={
            right / 1.3: "gain over gain: with no overlap the speed-up is one and the gain is none",
            0.8: "of the milliseconds, yes; what is asked is a share of the gain in speed",
            100 * (right - 1) / 0.3: "as a number between 0 and 1",
        },
    )
    return "the speed-up, and less than four fifths of the gain for four fifths of the overlap"


@grader("ex-repair-dashboard")
def repair_dashboard(answer: Any) -> str:
    function(answer, "dashboard(operation, share, P, seconds)")
    if isinstance(answer, Formula):
        raise NotYet("pass your own function; a formula of the library does not know operations")
    draw = random.Random(13)
    for operation, factor in FACTORS.items():
        for _ in range(3):
            P, share = draw.choice((2, 3, 8, 64)), draw.randint(1, 999) * MB
            seconds = draw.uniform(1, 90) * ms
            grows = operation in ("all-gather", "reduce-scatter")
            right = factor(P) * (P * share if grows else share) / seconds
            value = real(call(answer, operation, share, P, seconds), operation, "bytes/s")
            if abs(value / right - 1) < 1e-9:
                continue
            raise NotYet(f"{operation} on {P} ranks: {_dashboard_slip(value / right, P, grows)}")
    try:
        unknown = call(answer, "teleport", 1 * MB, 4, 1 * ms, passing=(ValueError,))
    except ValueError:
        return "six operations, each with its own bytes, and a seventh is refused"
    raise NotYet(f"an unknown operation must raise a ValueError; yours returns {unknown!r}")


def _dashboard_slip(ratio: float, P: int, grows: bool) -> str:
    if grows and abs(ratio * P - 1) < 1e-6:
        return "count the larger buffer of a rank; share is the smaller one"
    if grows and abs(ratio * P / 2 - 1) < 1e-6:
        return "the factor is that of an all-reduce, and share is the smaller of two buffers"
    if abs(ratio / 2 - 1) < 1e-6 or abs(ratio * P / (2 * (P - 1)) - 1) < 1e-6:
        return "that is the factor of an all-reduce; how many bytes must one port carry here?"
    if abs(ratio / P - 1) < 1e-6:
        return "too large by P: share is the whole buffer already"
    return f"too {'large' if ratio > 1 else 'small'}"


@grader("ex-tensor-four")
def tensor_four(answer: Any) -> str:
    tensor, data = items(answer, "(tensor, data)", 2)
    act = 2 * 4096 * 8192

    def along_t(t, micro, layers=10):
        return 4 * layers * micro * 2 * (t - 1) * (1 * us + act / (t * 300 * GB))

    def along_replicas(bytes_, P):
        return 2 * (P - 1) * (10 * us + bytes_ / (P * 50 * GB))

    number(
        tensor,
        along_t(4, 4),
        "tensor",
        "s",
        tolerance=2e-3,
        mistakes={
            along_t(8, 8): "that is still eight ranks",
            along_t(4, 8): "how many micro-batches does each of sixteen replicas see?",
            along_t(8, 4): "the rings have four ranks now",
            along_t(4, 4, 80): "a rank has the layers of its stage only",
            along_t(4, 4) / ms: "in seconds, please",
        },
    )
    number(
        data,
        along_replicas(140 * GB / 32, 16),
        "data",
        "s",
        tolerance=2e-3,
        mistakes={
            along_replicas(140 * GB / 64, 16): "a rank holds a fourth of each of its layers now",
            along_replicas(140 * GB / 32, 8): "there are sixteen replicas",
            along_replicas(140 * GB / 4, 16): "a rank holds the gradients of its own stage only",
            along_replicas(140 * GB / 32, 16) / ms: "in seconds, please",
        },
    )
    return "one axis gained what the other one paid"


@grader("ex-launch-or-link")
def launch_or_link(answer: Any) -> str:
    function(answer, "split_start(times)")
    draw = random.Random(136)
    for groups, scatter in (((2, 8), 0.0), ((2, 4, 8), 0.01), (tuple(range(2, 12)), 0.02)):
        launch, alpha = draw.uniform(5, 30) * us, draw.uniform(0.5, 3) * us
        times = {
            P: (launch + 2 * (P - 1) * alpha) * (1 + draw.uniform(-scatter, scatter))
            for P in groups
        }
        found = items(call(answer, dict(times)), "(launch, alpha)", 2)
        values = [real(v, what, "s") for v, what in zip(found, ("launch", "alpha"), strict=True)]
        where = f"on {len(groups)} groups"
        if abs(values[0]) < 0.01 * launch:
            raise NotYet(f"{where}: the launch came out as nothing; every call pays it once")
        if abs(values[1] / (2 * alpha) - 1) < 1e-6 and scatter == 0:
            raise NotYet(f"{where}: alpha is twice too large: a ring has two phases of P - 1 steps")
        if abs(values[0] - (launch - 2 * alpha)) < 0.01 * alpha and scatter == 0:
            raise NotYet(f"{where}: the launch is off by two steps: two ranks take two, not four")
        for value, right, what in zip(values, (launch, alpha), ("launch", "alpha"), strict=True):
            if abs(value / right - 1) > (1e-6 if scatter == 0 else 0.15):
                side = "large" if value > right else "small"
                raise NotYet(f"{where}: {what} is too {side}")
    return "from two groups exactly, and from scattered times of up to ten"


@grader("ex-dedicated-servers")
def dedicated_servers(answer: Any) -> str:
    draw = random.Random(137)
    cases = []
    for P, most in ((4, 4), (16, 64), (64, 64), (256, 256)):
        S = draw.randint(1, P) if most == P else most  # more servers than workers, once
        cases.append(
            {"n": 10 ** draw.randint(6, 9), "P": P, "S": S, "beta": draw.randint(1, 90) * GB}
        )
    formula(
        answer,
        lambda n, P, S, beta: 2 * P * n / (S * beta),
        "server_time(n, P, S, beta)",
        cases,
        wrong=[
            (lambda n, P, S, b: P * n / (S * b), "that is one way: gradients in, weights out"),
            (lambda n, P, S, b: 2 * n / (S * b), "a server hears every worker, not one"),
            (
                lambda n, P, S, b: 2 * (P - 1) * n / (S * b),
                "a dedicated server is no worker: every worker must send to it",
            ),
            (lambda n, P, S, b: 2 * P * n / b, "S has no effect: each server has a part of n"),
            (
                lambda n, P, S, b: 2 * (P - 1) / P * n / b,
                "that is a ring",
            ),
            (lambda n, P, S, b: 2 * P * n * 8 / (S * b), "beta is in bytes per second already"),
            (
                lambda n, P, S, b: 2 * P * n / (min(S, P) * b),
                "there may be more servers than workers",
            ),
        ],
        limits=[Limit("there is one server", {"S": 1}, "all traffic passes its port, twice")],
    )
    return "on four clusters, whose busiest port is a server's each time"


@grader("ex-order-of-bytes")
def order_of_bytes(answer: Any) -> str:
    a, b, c = items(answer, "(a, b, c)", 3)
    n = 700 * MB
    number(
        a,
        512 * n,
        "(a)",
        "bytes",
        tolerance=1e-4,
        mistakes={
            256 * n: "push and pull: both ways count",
            510 * n: "the server is dedicated: all 256 workers send to it",
            512 * n / GB: "in bytes, please",
        },
    )
    number(
        b,
        510 * n,
        "(b)",
        "bytes",
        tolerance=1e-4,
        mistakes={
            255 * n: "two phases",
            510 * n / 256: "that is one port; what do all send together?",
            512 * n: "a rank keeps its own share: a little less",
            510 * n / GB: "in bytes, please",
        },
    )
    number(
        c,
        256**2 / 510,
        "(c)",
        tolerance=1e-3,
        mistakes={
            512 * 256 / 510: "only what it *sends*: the pull, not the push",
            512 / 510: "those are the totals; compare ports",
            256: "the ring's port sends a little less than 2n",
            128: "the ring's port sends a little less than 2n",
        },
    )
    return "equal in all, and two orders of magnitude apart at a port"


@grader("ex-how-far-above")
def how_far_above(answer: Any) -> str:
    largest, wire = items(answer, "(largest, on_the_wire)", 2)
    number(
        largest,
        787.5 * GB,
        "largest",
        "bytes/s",
        mistakes={
            900 * GB: "that is the limit of many ranks; here are eight",
            450 * GB: "that is the algorithm bandwidth, n over the time",
            700 * GB: "that is what this switch allows; the question was any all-reduce",
            450 * GB * 7 / 8: "which factor makes a bus bandwidth of an all-reduce?",
            787.5: "in bytes/s, please",
        },
    )
    number(
        wire,
        480 * GB / 1.75 * 9 / 8,
        "on_the_wire",
        "bytes/s",
        mistakes={
            480 * GB / 1.75: "that is n over the time; a port sends a finished share as well",
            480 * GB: "that is the bus bandwidth, which supposes that only ranks add",
            480 * GB * 9 / 8: "first find n over the time",
            480 / 1.75 * 9 / 8: "in bytes/s, please",
        },
    )
    return "above the link in the report, below it on the wire"


@grader("ex-repair-757")
def repair_757(answer: Any) -> str:
    def seconds(
        params, layers, hidden, seq, t, p, r, m, b_in, b_out, split=None, mine=None,
        sends=None, micro=None,
    ):  # fmt: skip
        act = 2 * seq * hidden
        data = 2 * (r - 1) / r * 2 * params / (split or t * p) / b_out
        passes = mine or layers / p
        tensor = 4 * passes * (micro or m) * 2 * (t - 1) / t * act / b_in
        return data + tensor + 2 * (sends or m) * act / b_out

    names = ("params", "layers", "hidden", "seq", "t", "p", "replicas", "micro", "beta_in",
             "beta_out")  # fmt: skip
    rows = [
        (70e9, 80, 8192, 4096, 8, 8, 8, 8, 300 * GB, 50 * GB),
        (7e9, 32, 4096, 2048, 2, 4, 16, 32, 450 * GB, 25 * GB),
        (175e9, 96, 12288, 2048, 8, 16, 4, 12, 450 * GB, 50 * GB),
        (13e9, 40, 5120, 8192, 4, 2, 3, 5, 200 * GB, 100 * GB),
    ]
    cases = [dict(zip(names, row, strict=True)) for row in rows]
    formula(
        answer,
        seconds,
        "communication(params, layers, hidden, seq, t, p, replicas, micro, beta_in, beta_out)",
        cases,
        wrong=[
            (
                lambda *c: seconds(*c, split=c[4], mine=c[1], micro=1, sends=1),
                "as on the page: each of the three axes has a mistake",
            ),
            (lambda *c: seconds(*c, split=c[4]), "data: whose gradients does a rank hold?"),
            (
                lambda *c: seconds(*c, mine=c[1], micro=1),
                "tensor: layers and micro-batches of one rank; right for one configuration only",
            ),
            (lambda *c: seconds(*c, mine=c[1]), "tensor: a rank has the layers of one stage"),
            (lambda *c: seconds(*c, micro=1), "tensor: every micro-batch passes every layer"),
            (lambda *c: seconds(*c, sends=1), "pipeline: one message for how many micro-batches?"),
            (
                lambda *c: seconds(*c, mine=c[1], micro=1, sends=1),
                "the data axis is right; tensor and pipeline are as on the page",
            ),
            (
                lambda *c: seconds(*c, split=c[4], sends=1),
                "the tensor axis is right; data and pipeline are as on the page",
            ),
            (
                lambda *c: seconds(*c, split=c[4], mine=c[1], micro=1),
                "the pipeline is right; data and tensor are as on the page",
            ),
        ],
        limits=[
            Limit("there is one replica and t = 1", {"t": 1, "replicas": 1}, "the pipeline axis"),
            Limit("there is one replica", {"replicas": 1}, "the tensor axis"),
            Limit("t = 1", {"t": 1}, "the data axis"),
        ],
    )
    return "on four configurations, and no axis is right by luck"
