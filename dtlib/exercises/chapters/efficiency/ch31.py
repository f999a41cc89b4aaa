"""The exercises of chapter 31, Overlap, in the order of its page."""

import itertools
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from dtlib.efficiency.overlap.buckets import best_cut, cut_ends
from dtlib.efficiency.overlap.cost import collective_matmul_time, contended_bucketed_time
from dtlib.efficiency.overlap.queues import Kernel, simulate_queues
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers, one_of
from dtlib.exercises.judge import Limit, whole
from dtlib.exercises.verdict import NotYet
from dtlib.foundations import bucketed_time

# fmt: off
five_buckets = Numbers(
    "ex-five-buckets",
    About("Five buckets", "compute", 1, 8, "add up a step whose sums run beside it", ("x31.1",)),
    [
        Asked("(a)", 56e-3, "s", {
              50e-3: "when is the last bucket ready, and when is it reduced?",
              80e-3: "the sums may run beside the backward pass",
              36e-3: "and the forward pass?", 56: "in seconds, please"}),
        Asked("(b)", 24 / 30, slips={
              1: "the last bucket has nothing to hide under", 6 / 30: "that is what sticks out",
              24 / 50: "as a share of the communication"}),
        Asked("(c)", 50.1e-3, "s", {
              50e-3: "one bucket is left, however small it is",
              50.3e-3: "300 buckets, not 100"}, 1e-4),
    ],
    "all but the last bucket",
)

_RING = {"backward": 480e-3, "comm": 2 * 255 / 256 * 700e6 / 25e9, "start_time": 2 * 255 * 10e-6}
_LAYERS = {each: bucketed_time(k=96 / each, **_RING) for each in (1, 2, 96)}
_FLOOR = "the last bucket is ready when the backward pass is over: what does it still need?"
faster_than_itself = Numbers(
    "ex-faster-than-itself",
    About("Faster than its own arithmetic", "compute", 2, 12,
          "test a printed table against a lower bound", ("C.10",)),
    [
        Asked("one", _LAYERS[1], "s", {
              480e-3 + 1 / 96 * _RING["comm"] + _RING["start_time"]:
                  "does the network keep up with a layer every 5 ms?",
              480e-3: _FLOOR}, 2e-3),
        Asked("two", _LAYERS[2], "s", {480e-3: _FLOOR}, 2e-3),
        Asked("all", _LAYERS[96], "s", {480e-3: _FLOOR}, 2e-3),
        Chosen("best", 2, {1: "the network does not keep up", 4: "a larger last bucket",
               96: "nothing runs beside anything"}),
        Asked("floor", 480e-3 + _RING["start_time"] + _RING["comm"] / 96, "s", {480e-3: _FLOOR},
              2e-3),
    ],
    "no bucket is below the floor, and two layers a bucket come near it",
    keyed=True,
)

_BETA, _ALPHA = 12.5e9, 100e-6
two_objectives = Numbers(
    "ex-two-objectives",
    About("Two objectives", "derive", 2, 12, "say what is to be least before it is made least",
          ("x31.2",)),
    [
        Asked("size", 9 * _ALPHA * _BETA, "B", {
              10 * _ALPHA * _BETA: "its bytes are nine tenths of the time, the start is one tenth",
              _ALPHA * _BETA: "there start and bytes take equally long",
              0.9 * _ALPHA * _BETA: "then the start is more than half"}),
        Asked("many", 89, slips={80: "how many of that size are 1 GB?"}, tolerance=0.002),
        Asked("best", 22, slips={89: "that is the other objective", 500: "50 ms over 100 µs; and?"},
              tolerance=0.025),
        Asked("lost", bucketed_time(50e-3, 80e-3, 89, _ALPHA)
              - bucketed_time(50e-3, 80e-3, 22, _ALPHA), "s",
              {67 * _ALPHA: "more starts, and a smaller first bucket"}, 0.02),
    ],
    "an efficient wire is not a short step",
    keyed=True,
)


def _launched(ready: list, buckets: list, *, ordered=True, complete=True) -> list[list[int]]:
    there, sent, found = set(), set(), []
    for name in ready:
        there.add(name)
        now = []
        for i, names in enumerate(buckets):
            full = there >= set(names) if complete else not there.isdisjoint(names)
            if full and i not in sent:
                now.append(i)
            elif ordered and not full:
                break
        sent.update(now)
        found.append(now)
    return found


def _passes() -> Iterator[tuple[str, tuple]]:
    yield "the example", (["d", "c", "b", "a"], [["d", "c"], ["b", "a"]])
    yield "a weight that is used twice", (["c", "b", "a", "d"], [["d", "c"], ["b"], ["a"]])
    yield "one bucket", (["b", "a"], [["a", "b"]])
    draw = random.Random(31)
    for _ in range(20):
        names, cuts = list("abcdefgh"), [0, *sorted(draw.sample(range(1, 8), 3)), 8]
        ready = draw.sample(names, 8)
        yield f"ready in the order {' '.join(ready)}", (
            ready, [names[a:b] for a, b in itertools.pairwise(cuts)])


def _launch_law(given: Any, right: list, ready: list, buckets: list) -> None:
    if not isinstance(given, list) or len(given) != len(ready):
        raise NotYet("return a list with one list of buckets for each gradient that gets ready")
    for name, own, true in zip(ready, given, right, strict=True):
        if list(own) != true:
            what = "nothing starts" if not true else "something else starts"
            raise NotYet(f"when {name} is ready, {what}")


who_starts_when = Function(
    "ex-who-starts-when",
    About("Who starts when", "repair", 2, 15, "launch buckets complete and in one order",
          ("x31.3",)),
    "launched(ready, buckets)", _launched, _passes, _launch_law,
    "complete, and on every rank in the same order",
    {
        "two ranks may complete their buckets in two orders, and would add different ones":
            {"ordered": False},
        "a bucket travels when its last gradient is there, not its first": {"complete": False},
    },
)

look_ahead = Numbers(
    "ex-look-ahead",
    About("How far ahead", "compute", 1, 8, "tell latency from bandwidth", ("x31.4",)),
    [
        Asked("(a)", 194e-3, "s", {
              192e-3: "the first gather has nothing to hide under",
              240e-3: "the gather of the next layer may run beside this one", 194: "in seconds"},
              0.005),
        Asked("(b)", 49e-3, "s", {
              48e-3: "after the last gather a layer is still to be computed",
              26e-3: "the network takes 2 ms for each layer, however far ahead it is asked",
              72e-3: "the gather of the next layer may run beside this one"}, 0.005),
        Chosen("(c)", 1, {0: "then nothing is hidden", 2: "what does the second one add?",
               8: "what do the others add?"}),
        Asked("(d)", 70e9 * 2 / 24, "B", {
              70e9 * 4 / 24: "bf16 has two bytes", 140e9: "of one layer"}, 0.005),
    ],
    "one layer ahead is all that bandwidth can use",
)

which_fraction = Numbers(
    "ex-which-fraction",
    About("Which fraction", "compute", 1, 6, "say what a fraction is of", ("x31.5",)),
    [
        Asked("(a)", 0.5, slips={0.75: "of all communication", 30: "as a share"}),
        Asked("(b)", 0.75, slips={0.5: "of what could be hidden", 0.3: "of the 40 ms"}),
        Asked("(c)", 120e-3, "s", {
              100e-3: "only 40 ms of arithmetic may run beside it", 120: "in seconds"}),
        Asked("(d)", 100e-3, "s", {120e-3: "now all of the arithmetic may run beside it",
              160e-3: "side by side the longer one counts"}),
    ],
    "two fractions of one run, and both are right",
)

a_step_behind = Numbers(
    "ex-a-step-behind",
    About("A step behind", "derive", 2, 10, "say what is bought by overlapping across steps",
          ("x31.6",)),
    [
        Asked("bytes", 28e9, "B", {14e9: "gradients of 4 bytes",
              56e9: "one more buffer than before"}),
        Asked("stale", 1, slips={2: "how many updates were made since it was computed?"}),
        Asked("step", 100e-3, "s", {150e-3: "the sum may take the whole next step",
              120e-3: "only the sum of the step before is under way"}),
        Chosen("same", False, {True: "at which weights was the gradient taken?"}),
    ],
    "no exposed time, four bytes a parameter, and another algorithm",
    keyed=True,
)

_CASES = [(80, 40, 10, 0.5, 0.2), (50, 80, 22, 0.1, 0.15), (50, 16, 4, 0.1, 0.3),
          (10, 10, 1, 1, 0.5), (7, 3, 5, 0, 0.25), (100, 50, 20, 0.05, 0)]

what_it_slows = Formula(
    "ex-what-it-slows",
    About("What it slows", "derive", 2, 15, "follow a resource that two things share"),
    "my_time(backward, comm, k, start, share)",
    lambda b, c, k, s, h: contended_bucketed_time(b, c, k, s, h),
    lambda: (("", case) for case in _CASES), same_number,
    "six steps, on a fast network and on a slow one",
    {
        "that is without contention": lambda b, c, k, s, h: bucketed_time(b, c, k, s),
        "beside the last bucket nothing is computed any more":
            lambda b, c, k, s, h: max(b + h * (c + k * s) + c / k + s, b / k + c + k * s),
        "on a slow network the arithmetic waits anyway":
            lambda b, c, k, s, h: bucketed_time(b, c, k, s) + h * (k - 1) * (c / k + s),
        "the arithmetic is slower only while the network is busy":
            lambda b, c, k, s, h: max(b / (1 - h) + c / k + s, b / k + c + k * s),
        "a start holds processors, too":
            lambda b, c, k, s, h: max(b + h * (k - 1) * c / k + c / k + s, b / k + c + k * s),
    },
    (Limit("share = 0", {"share": 0}, "what is left is the time without contention"),
     Limit("k = 1", {"k": 1}, "a single bucket runs beside nothing")),
)


def _rows() -> Iterator[tuple[str, tuple]]:
    yield "four equal gradients", ([1, 2, 3, 4], [2, 2, 2, 2], 1, 1)
    yield "starts that are dear", ([1, 2, 3, 4], [1, 1, 1, 1], 50, 1)
    yield "one gradient", ([3], [5], 1, 2)
    draw = random.Random(7)
    for n in (3, 5, 8, 12, 30):
        for _ in range(4):
            sizes = [draw.randint(1, 9) for _ in range(n)]
            gaps = [draw.randint(0, 6) for _ in range(n)]
            ready = [sum(gaps[: i + 1]) for i in range(n)]
            yield f"{n} gradients", (ready, sizes, draw.randint(0, 9), draw.choice([0.5, 1, 2, 4]))


def _cut_law(given: Any, right: list, ready, sizes, alpha, beta) -> None:
    if not isinstance(given, list) or not given or any(whole(n, "a bucket") < 1 for n in given):
        raise NotYet("return a list: how many gradients each bucket has, the first ready first")
    if sum(given) != len(ready):
        raise NotYet(f"the buckets hold {sum(given)} gradients of {len(ready)}")
    ends = [cut_ends(cut, ready, sizes, alpha, beta)[-1] for cut in (given, right)]
    if ends[0] > ends[1] * (1 + 1e-9):
        raise NotYet("another cut ends earlier")


def _greedy(ready, sizes, alpha, beta) -> list[int]:
    cut, at, free = [], 0, 0
    while at < len(ready):
        begin = max(free, ready[at])
        count = sum(1 for r in ready[at:] if r <= begin)
        free = begin + alpha + sum(sizes[at: at + count]) / beta
        cut.append(count)
        at += count
    return cut


best_of_all_cuts = Function(
    "ex-best-of-all-cuts",
    About("Best of all cuts", "design", 3, 30, "turn an optimum over many cuts into a recurrence"),
    "my_cut(ready, sizes, alpha, beta)", best_cut, _rows, _cut_law,
    "23 rows of gradients, up to 30 long",
    {
        "sending what is there whenever the network is free is not the best": _greedy,
        "starts cost, too": lambda r, s, a, b: [1] * len(r),
        "one bucket hides nothing": lambda r, s, a, b: [len(r)],
    },
)

one_connection = Numbers(
    "ex-one-connection",
    About("One connection", "derive", 2, 12, "follow launches, streams and shares by hand"),
    [
        Asked("one", 8.75e-3, "s", {
              8e-3: "beside the sum the product has three quarters of the GPU",
              11e-3: "the sum was launched first", 28e-3 / 3: "for how long has it less than all?",
              8.75: "in seconds"}, 0.005),
        Asked("many", 11e-3, "s", {
              8.75e-3: "the product takes all of the GPU before the sum is there",
              8e-3: "the sum finds no processors free", 11: "in seconds"}, 0.005),
        Chosen("prefetch", "last", {"all": "they were launched before it, into the same queue",
               "first": "the gather stands behind all of them",
               "none": "it may start once all before it have started"}),
    ],
    "one queue keeps an order, which helps one program and hurts another",
    keyed=True,
)


def _starts(kernels: list, connections: int, *, streams=True, heads=True, waits=True) -> list:
    names = [str(i) for i in range(len(kernels))]
    launched = [Kernel(name, stream if streams else name, seconds, "other", 0, 0,
                       tuple(map(str, after)) if waits else ())
                for name, (stream, seconds, after) in zip(names, kernels, strict=True)]
    spans = simulate_queues(launched, connections if heads else None).spans
    begins = {span.name: span.start for span in spans}
    return [begins[name] for name in names]


def _programs() -> Iterator[tuple[str, tuple]]:
    implicit = [("net", 3, []), ("sm", 2, [0]), ("sm", 2, []), ("net", 3, []), ("sm", 2, [3])]
    for connections in (1, 2):
        yield f"a prefetch, {connections} connections", (implicit, connections)
    draw = random.Random(3)
    for _ in range(12):
        kernels = [(draw.choice("abc"), draw.randint(1, 9),
                    sorted(draw.sample(range(i), min(i, draw.randint(0, 1))))) for i in range(7)]
        yield f"{kernels}", (kernels, draw.choice([1, 2, 3]))


def _starts_law(given: Any, right: list, kernels: list, connections: int) -> None:
    if not isinstance(given, list) or len(given) != len(right):
        raise NotYet("return a list with the time at which each kernel starts")
    for i, (own, true) in enumerate(zip(given, right, strict=True)):
        if own != true:
            raise NotYet(f"kernel {i} starts {'earlier' if own > true else 'later'}")


head_of_the_line = Function(
    "ex-head-of-the-line",
    About("Head of the line", "design", 3, 30, "write a simulator of queues that block"),
    "starts(kernels, connections)", _starts, _programs, _starts_law,
    "14 programs on one to three connections",
    {
        "what waits at the head of a connection keeps all behind it": partial(_starts, heads=False),
        "kernels of one stream run one after the other": partial(_starts, streams=False),
        "a kernel waits for those that it names": partial(_starts, waits=False),
    },
)

_PIECES = partial(collective_matmul_time, 8e-3, 400e6, beta=50e9)
in_pieces = Numbers(
    "ex-in-pieces",
    About("In pieces", "compute", 2, 12, "say when a product should be cut, and how far"),
    [
        Asked("plain", 15.7e-3, "s", {15e-3: "and the starts?",
              16.1e-3: "a rank has its own piece already: seven messages", 15.7: "in seconds"},
              0.005),
        Asked("pieces", _PIECES(P=8, alpha=1e-4), "s", {
              8e-3: "each message has a start", 7.7e-3: "and the last piece?"}, 0.005),
        Asked("many", _PIECES(P=64, alpha=1e-4), "s", {
              8e-3: "how long does one message take now, and one piece?"}, 0.005),
        Chosen("limit", "latency", {"bandwidth": "what is most of a message of 6 MB?",
               "arithmetic": "which is longer, a piece or a message?"}),
    ],
    "pieces hide bytes, until each of them is a start",
    keyed=True,
)

which_signal = Numbers(
    "ex-which-signal",
    About("Which signal", "derive", 2, 10, "find the signal whose absence makes a race"),
    one_of(
        ("arrived", "begun", "neither"),
        a=("arrived", "who tells the receiver that the bytes are there?"),
        b=("begun", "who tells the sender that the place is free?"),
        c=("begun", "who could write into the data before this call began?"),
        d=("neither", "who else writes into that number?"),
    ),
    "a message needs two signals, one in each direction",
    keyed=True,
)
