"""The exercises of chapter 13, The cost of collectives, in the order of its page."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import Limit, call, function, items, number, real
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
GB, MB, us, ms = 10**9, 10**6, 1e-6, 1e-3

_START, _WIRE = 10 * us, 15 / 16 * 100 * MB / (100 * GB)

bound_three_algorithms = Numbers(
    "ex-bound-three-algorithms",
    About("A bound and three algorithms", "compute", 1, 8,
          "set starts and bytes of three algorithms side by side", ("x13.1",)),
    [
        Asked("(a)", 30 * _START + 2 * _WIRE, "s", {
              30 * _START + _WIRE: "two phases: bytes go out in both",
              15 * _START + 2 * _WIRE: "two phases: there are starts in both",
              32 * _START + 2 * _WIRE: "a chunk visits P - 1 other ranks"}, tolerance=1e-3),
        Asked("(b)", 15 * _START + _WIRE, "s", {
              30 * _START + 2 * _WIRE: "that is both phases"}, tolerance=1e-3),
        Asked("(c)", 12 * _START + 2 * _WIRE, "s", {
              12 * _START + 3 * 100 * MB / (100 * GB): "along the columns only n/4 is left",
              6 * _START + _WIRE: "that is the way there; the way back takes as long",
              30 * _START + 2 * _WIRE: "a ring of four has three rounds, not fifteen"},
              tolerance=1e-3),
    ],
    "the grid sends the bytes of the ring with two fifths of its starts",
)

eighty_milliseconds = Numbers(
    "ex-eighty-milliseconds",
    About("Eighty milliseconds", "compute", 1, 5,
          "turn a time into algorithm bandwidth, bus bandwidth and a share", ("x13.2",)),
    [
        Asked("algorithm", 12.5 * GB, "bytes/s", {21.875 * GB: "that is the bus bandwidth"}),
        Asked("bus", 21.875 * GB, "bytes/s", {
              12.5 * GB: "that is n over the time; how much does a port carry for n?",
              25 * GB: "the factor is a little less than 2: a rank keeps its own share",
              12.5 * GB * 7 / 8: "an all-reduce has two phases"}),
        Asked("share", 0.4375, slips={
              0.25: "the bus bandwidth is the one to compare with a link",
              43.75: "as a number between 0 and 1",
              0.21875: "50 GB/s is one direction already"}),
    ],
    "n over the time, what a port carried, and the share of what it could",
)

_SPEED = 2600 / 2120
_GAIN = (_SPEED - 1) / 0.3

overlap_fraction = Numbers(
    "ex-overlap-share",
    About("What 80 % of overlap is worth", "compute", 1, 6,
          "tell hidden time from gained speed", ("x13.5",)),
    [
        Asked("speedup", _SPEED, slips={
              2120 / 2600: "the other way round: how many times as fast",
              2600 / 2480: "80 % are hidden, 20 % are not",
              _SPEED - 1: "that is the gain; the speed-up is one more",
              1.3: "that would be all of it hidden"}, tolerance=1e-3),
        Asked("share", _GAIN, slips={
              _SPEED / 1.3: "gain over gain: with no overlap the speed-up is one, the gain is none",
              0.8: "of the milliseconds, yes; what is asked is a share of the gain in speed",
              100 * _GAIN: "as a number between 0 and 1"}, tolerance=2e-3),
    ],
    "the speed-up, and less than four fifths of the gain for four fifths of the overlap",
)

_PHASES = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}
_GROWING = ("all-gather", "reduce-scatter")


def _bus(operation: str, share: float, P: int, seconds: float, grown: tuple = _GROWING) -> float:
    if operation in ("broadcast", "reduce"):
        return share / seconds
    return _PHASES[operation] * (P - 1) / P * (P if operation in grown else 1) * share / seconds


def _dashboard(operation: str, *run: float) -> float:
    if operation not in (*_PHASES, "broadcast", "reduce"):
        raise ValueError(operation)
    return _bus(operation, *run)


def _dashboard_law(answer: Callable) -> None:
    function(answer, "dashboard(operation, share, P, seconds)")
    draw = random.Random(13)
    for operation in (*_PHASES, "broadcast", "reduce") * 3:
        P, share = draw.choice((2, 3, 8, 64)), draw.randint(1, 999) * MB
        seconds = draw.uniform(1, 90) * ms
        value = real(call(answer, operation, share, P, seconds), operation, "bytes/s")
        right, doubled = _bus(operation, share, P, seconds), _bus("all-reduce", share, P, seconds)
        number(value, right, f"{operation} on {P} ranks", tolerance=1e-9, mistakes={
            _bus(operation, share, P, seconds, ()):
                "count the larger buffer of a rank; share is the smaller one",
            doubled: "that is the factor of an all-reduce; what must one port carry here?",
            P * right: "too large by P: share is the whole buffer already"})
    try:
        unknown = call(answer, "teleport", 1 * MB, 4, 1 * ms, passing=(ValueError,))
    except ValueError:
        return
    raise NotYet(f"an unknown operation must raise a ValueError; yours returns {unknown!r}")


repair_dashboard = Made(
    "ex-repair-dashboard",
    About("A dashboard that accuses the wrong one", "repair", 2, 12,
          "give every operation its own factor and its own size"),
    _dashboard_law, lambda: _dashboard,
    "six operations, each with its own bytes, and a seventh is refused",
    {
        "the factor of an all-reduce": lambda: lambda _, *run: _bus("all-reduce", *run),
        "larger buffer": lambda: partial(_bus, grown=()),
        "whole buffer already": lambda: partial(_bus, grown=(*_GROWING, "all-reduce")),
        "raise a ValueError": lambda: lambda o, *run: 0.0 if o == "teleport" else _bus(o, *run),
    },
)

_ACT = 2 * 4096 * 8192


def _along_t(t: int, micro: int, layers: int = 10) -> float:
    return 4 * layers * micro * 2 * (t - 1) * (1 * us + _ACT / (t * 300 * GB))


def _along_replicas(parts: int, P: int) -> float:
    return 2 * (P - 1) * (10 * us + 140 * GB / parts / (P * 50 * GB))


tensor_four = Numbers(
    "ex-tensor-four",
    About("Tensor parallelism of four", "compute", 2, 15,
          "follow a change of one axis into the others", ("x13.3",)),
    [
        Asked("tensor", _along_t(4, 4), "s", {
              _along_t(8, 8): "that is still eight ranks",
              _along_t(4, 8): "how many micro-batches does each of sixteen replicas see?",
              _along_t(8, 4): "the rings have four ranks now",
              _along_t(4, 4, 80): "a rank has the layers of its stage only"}, tolerance=2e-3),
        Asked("data", _along_replicas(32, 16), "s", {
              _along_replicas(64, 16): "a rank holds a fourth of each of its layers now",
              _along_replicas(32, 8): "there are sixteen replicas",
              _along_replicas(4, 16): "a rank holds the gradients of its own stage only"},
              tolerance=2e-3),
    ],
    "one axis gained what the other one paid",
)


def _split_start(times: dict[int, float], phases: int = 2, off: int = 1) -> tuple:
    """A straight line over the number of steps; each row is divided by its time."""
    rows = np.array([(1, phases * (P - off)) for P in times]) / np.array([*times.values()])[:, None]
    return tuple(np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)[0])


def _split_law(answer: Callable) -> None:
    function(answer, "split_start(times)")
    draw = random.Random(136)
    for groups, scatter in (((2, 8), 0.0), ((2, 4, 8), 0.01), (tuple(range(2, 12)), 0.02)):
        launch, alpha = draw.uniform(5, 30) * us, draw.uniform(0.5, 3) * us
        times = {P: (launch + 2 * (P - 1) * alpha) * (1 + draw.uniform(-scatter, scatter))
                 for P in groups}
        found, where = items(call(answer, times), "(launch, alpha)", 2), f"on {len(groups)} groups"
        near = 0.15 if scatter else 1e-6
        number(found[0], launch, f"{where}: launch", "s", tolerance=near, mistakes={
            0: "it came out as nothing; every call pays it once",
            launch - 2 * alpha: "it is off by two steps: two ranks take two, not four"})
        number(found[1], alpha, f"{where}: alpha", "s", tolerance=near, mistakes={
            2 * alpha: "twice too large: a ring has two phases of P - 1 steps"})


launch_or_link = Made(
    "ex-launch-or-link",
    About("Launch or link?", "design", 3, 20,
          "separate what a call costs from what a step costs", ("x13.6",)),
    _split_law, lambda: _split_start,
    "from two groups exactly, and from scattered times of up to ten",
    {
        "two phases": lambda: partial(_split_start, phases=1),
        "every call pays": lambda: lambda times: (0.0, times[2] / 2),
        "off by two steps": lambda: partial(_split_start, off=0),
        "launch is too": lambda: lambda times: _split_start(times)[::-1],
    },
)


def _server_time(n, P, S, beta, *, ways=2, itself=0):
    return ways * (P - itself) * n / (S * beta)


def _clusters() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(137)
    for P, S in ((4, draw.randint(1, 4)), (16, 64), (64, draw.randint(1, 64)), (256, 200)):
        yield "", (10 ** draw.randint(6, 9), P, S, draw.randint(1, 90) * GB)


dedicated_servers = Formula(
    "ex-dedicated-servers",
    About("Dedicated servers", "derive", 2, 12, "find the busiest port of a parameter server",
          ("C.11",)),
    "server_time(n, P, S, beta)", _server_time, _clusters, same_number,
    "on four clusters, whose busiest port is a server's each time",
    {
        "that is one way: gradients in, weights out": {"ways": 1},
        "a dedicated server is no worker: every worker must send to it": {"itself": 1},
        "a server hears every worker, not one": lambda n, P, S, b: _server_time(n, 1, S, b),
        "S has no effect: each server has a part of n": lambda n, P, S, b: _server_time(n, P, 1, b),
        "that is a ring": lambda n, P, S, b: 2 * (P - 1) / P * n / b,
        "beta is in bytes per second already": partial(_server_time, ways=16),
        "there may be more servers than workers": lambda n, P, S, b:
            _server_time(n, P, min(S, P), b),
    },
    (Limit("there is one server", {"S": 1}, "all traffic passes its port, twice"),),
)

_BUFFER = 700 * MB

order_of_bytes = Numbers(
    "ex-order-of-bytes",
    About("Of order n times P", "compute", 2, 8, "tell the sum of all ports from the busiest one",
          ("A.11",)),
    [
        Asked("(a)", 512 * _BUFFER, "bytes", {
              256 * _BUFFER: "push and pull: both ways count",
              510 * _BUFFER: "the server is dedicated: all 256 workers send to it"},
              tolerance=1e-4),
        Asked("(b)", 510 * _BUFFER, "bytes", {
              255 * _BUFFER: "two phases",
              510 * _BUFFER / 256: "that is one port; what do all send together?",
              512 * _BUFFER: "a rank keeps its own share: a little less"}, tolerance=1e-4),
        Asked("(c)", 256**2 / 510, slips={
              512 * 256 / 510: "only what it *sends*: the pull, not the push",
              512 / 510: "those are the totals; compare ports",
              256: "the ring's port sends a little less than 2n",
              128: "the ring's port sends a little less than 2n"}, tolerance=1e-3),
    ],
    "equal in all, and two orders of magnitude apart at a port",
)

_RATE = 480 * GB / 1.75

how_far_above = Numbers(
    "ex-how-far-above",
    About("How far above the link", "derive", 3, 15,
          "say what a bus bandwidth above the link means"),
    [
        Asked("largest", 787.5 * GB, "bytes/s", {
              900 * GB: "that is the limit of many ranks; here are eight",
              450 * GB: "that is the algorithm bandwidth, n over the time",
              700 * GB: "that is what this switch allows; the question was any all-reduce",
              450 * GB * 7 / 8: "which factor makes a bus bandwidth of an all-reduce?"}),
        Asked("on_the_wire", _RATE * 9 / 8, "bytes/s", {
              _RATE: "that is n over the time; a port sends a finished share as well",
              480 * GB: "that is the bus bandwidth, which supposes that only ranks add",
              480 * GB * 9 / 8: "first find n over the time"}),
    ],
    "above the link in the report, below it on the wire",
)


def _communication(params, layers, hidden, seq, t, p, replicas, micro, beta_in, beta_out, *,
                   own=True, mine=True, each=True, sent=True):
    act = 2 * seq * hidden
    data = 2 * (replicas - 1) / replicas * 2 * params / (t * p if own else t) / beta_out
    passes = (layers / p if mine else layers) * (micro if each else 1)
    tensor = 4 * passes * 2 * (t - 1) / t * act / beta_in
    return data + tensor + 2 * (micro if sent else 1) * act / beta_out


def _runs() -> Iterator[tuple[str, tuple]]:
    yield "", (70e9, 80, 8192, 4096, 8, 8, 8, 8, 300 * GB, 50 * GB)
    yield "", (7e9, 32, 4096, 2048, 2, 4, 16, 32, 450 * GB, 25 * GB)
    yield "", (175e9, 96, 12288, 2048, 8, 16, 4, 12, 450 * GB, 50 * GB)
    yield "", (13e9, 40, 5120, 8192, 4, 2, 3, 5, 200 * GB, 100 * GB)


repair_757 = Formula(
    "ex-repair-757",
    About("Seven hundred and fifty-seven", "repair", 2, 15,
          "count what one rank of three axes sends"),
    "communication(params, layers, hidden, seq, t, p, replicas, micro, beta_in, beta_out)",
    _communication, _runs, same_number,
    "on four configurations, and no axis is right by luck",
    {
        "data: whose gradients does a rank hold?": {"own": False},
        "tensor: layers and micro-batches of one rank; right for one configuration only":
            {"mine": False, "each": False},
        "pipeline: one message for how many micro-batches?": {"sent": False},
        "tensor: a rank has the layers of one stage": partial(_communication, mine=False),
        "tensor: every micro-batch passes every layer": partial(_communication, each=False),
    },
    (
        Limit("there is one replica and t = 1", {"t": 1, "replicas": 1}, "the pipeline axis"),
        Limit("there is one replica", {"replicas": 1}, "the tensor axis"),
        Limit("t = 1", {"t": 1}, "the data axis"),
    ),
)
