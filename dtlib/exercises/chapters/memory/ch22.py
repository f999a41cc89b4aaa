"""The exercises of chapter 22, Offloading, in the order of its page."""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.judge import items, whole
from dtlib.exercises.judges.evictions import victim_law
from dtlib.exercises.verdict import NotYet

# fmt: off
_SECONDS = "in seconds, please"

_PASS = Asked("(a)", 4.375, "s", {
    2.1875: "bf16 has two bytes; and 32 GB/s are one direction already",
    8.75: "that is for a forward and a backward pass, or for fp32"})
_LAYER = (Asked("(b), the link", 4.375 / 80, "s", {54.6875: _SECONDS}),
          Asked("(b), computing", 0.025, "s", {25: _SECONDS}))
_FACTOR = Asked("(c)", 2.1875, slips={
    2: "a batch twice as large computes for 50 ms on a layer: is that enough?",
    1 / 2.1875: "the other way up"})


def _streamed_law(answer: Any) -> None:
    weights, layer, factor = items(answer, "(pass_seconds, (link, compute), factor)", 3)
    link, compute = items(layer, "(link_seconds, compute_seconds)", 2)
    for asked, given in zip((_PASS, *_LAYER, _FACTOR), (weights, link, compute, factor),
                            strict=True):
        asked.judge(given)


seventy_billion_streamed = Made(
    "ex-seventy-billion-streamed",
    About("Seventy billion, streamed", "compute", 1, 8,
          "set the transfer of a layer against its arithmetic", ("x22.1",)),
    _streamed_law, lambda: (4.375, (4.375 / 80, 0.025), 2.1875),
    "one pass, one layer, and a factor that is no power of two",
    {
        "bf16 has two bytes": lambda: (2.1875, (4.375 / 80, 0.025), 2.1875),
        "forward and a backward": lambda: (8.75, (4.375 / 80, 0.025), 2.1875),
        "(b), the link: in seconds": lambda: (4.375, (54.6875, 25), 2.1875),
        "(b), computing: in seconds": lambda: (4.375, (4.375 / 80, 25), 2.1875),
        "is that enough": lambda: (4.375, (4.375 / 80, 0.025), 2),
        "the other way up": lambda: (4.375, (4.375 / 80, 0.025), 1 / 2.1875),
    },
)

_PERCENT = "as a share of the whole, please, not in percent"
_LONGER = "which of the two is the longer one in (b), before and after?"

what_is_left_to_hide = Numbers(
    "ex-what-is-left-to-hide",
    About("What is left to hide", "compute", 1, 6,
          "say how much of a step is arithmetic, with and without overlap", ("x22.3",)),
    [
        Asked("(a)", 100 / 185, slips={
              100 / 180: "the meeting takes its time, too", 100 / 1.85: _PERCENT},
              tolerance=0.002),
        Asked("(b)", 100 / 105, slips={
              100 / 185: "side by side only the longer one counts",
              1: "the meeting is not hidden", 100 / 1.05: _PERCENT}, tolerance=0.002),
        Asked("(c)", 100 / 101, slips={
              1: "a short meeting is one, too", 100 / 1.01: _PERCENT}, tolerance=0.002),
        Asked("(d)", 0, "s", {0.04: _LONGER, 0.02: _LONGER, 40: _LONGER}),
    ],
    "what is hidden cannot be hidden better",
)

_IN_BYTES = "in bytes a second, please"
_REACHED = "at the rate that it reaches, not at the peak"
_TWICE = "the forward pass is computed twice"
_NEEDED = (
    Asked("(a)", 400e12 / (24 * 4096), "B/s", {
          400e12 / (12 * 4096): "the input is written and read: both are bytes that move",
          400e12 / (18 * 4096): _TWICE, 989e12 / (24 * 4096): _REACHED,
          400e3 / (24 * 4096): _IN_BYTES}),
    Asked("(b)", 400e12 / 8192, "B/s", {
          989e12 / 8192: _REACHED, 400e12 / 6144: _TWICE, 400e3 / 8192: _IN_BYTES}),
    Asked("(c)", 400e12 / 2048, "B/s", {
          400e12 / 4096: "the state is read and written",
          400e12 / 8192: "that is what the weights need",
          989e12 / 2048: _REACHED, 400e3 / 2048: _IN_BYTES}),
)


def _leaves_law(answer: Any) -> None:
    *numbers, hide = items(answer, "(act, weights, optim, {...})", 4)
    for asked, given in zip(_NEEDED, numbers, strict=True):
        asked.judge(given)
    if not isinstance(hide, set | frozenset) or not hide <= {"act", "weights", "optim"}:
        raise NotYet('(d) must be a set of "act", "weights" and "optim"')
    if hide != {"act", "weights"}:
        raise NotYet("(d): compare each of your three numbers with 64 GB/s")


def _leaves(*factors: float, hide: Any = frozenset({"act", "weights"})) -> Callable:
    return lambda: (*(a.value * f for a, f in zip(_NEEDED, factors, strict=True)), hide)


who_leaves_first = Made(
    "ex-who-leaves-first",
    About("Who leaves first", "compute", 1, 10,
          "rank tensors by the work that they bring for each byte"),
    _leaves_law, _leaves(1, 1, 1), "24 H, the tokens, and a quarter of the tokens",
    {
        "(a): the input is written and read": _leaves(2, 1, 1),
        "(a): the forward pass is computed twice": _leaves(4 / 3, 1, 1),
        "(a): in bytes a second": _leaves(1e-9, 1, 1),
        "(b): at the rate that it reaches": _leaves(1, 989 / 400, 1),
        "(b): the forward pass is computed twice": _leaves(1, 4 / 3, 1),
        "(c): the state is read and written": _leaves(1, 1, 1 / 2),
        "(c): that is what the weights need": _leaves(1, 1, 1 / 4),
        "compare each of your three numbers": _leaves(1, 1, 1, hide={"act", "weights", "optim"}),
        "(d) must be a set": _leaves(1, 1, 1, hide=["act"]),
    },
)


def _layer_time(compute, fetch, latency, buffers):
    return max(compute, fetch, (compute + fetch + latency) / buffers)


_BUFFERED = [(50, 80, 0, 1), (50, 80, 0, 2), (50, 80, 0, 3), (50, 80, 0, 8), (80, 50, 0, 2),
             *((50, 40, 100, b) for b in (1, 2, 3, 4, 9)), (3, 70, 500, 4), (1, 1, 1, 1)]

third_buffer = Formula(
    "ex-third-buffer",
    About("The third buffer, repaired", "repair", 2, 10,
          "tell what a buffer adds from what a lane must carry", ("x22.4",)),
    "layer_time(compute, fetch, latency, buffers)", _layer_time,
    lambda: (("", values) for values in _BUFFERED), same_number,
    "one buffer, two, and many; with latency and without",
    {
        "what of the latency, and of a single buffer?": lambda c, t, a, b: max(c, t),
        "two transfers at once share the lane: what of a long one?":
            lambda c, t, a, b: max(c, (t + a) / b),
        "a buffer is occupied while its layer is computed, too":
            lambda c, t, a, b: max(c, t, (t + a) / b),
        "how many layers are in the buffers, the one that is computed on included?":
            lambda c, t, a, b: _layer_time(c, t, a, b + 1),
        "latency leaves the lane free for others": lambda c, t, a, b: max(c, t + a),
        "no number of buffers outruns the lane": lambda c, t, a, b: max(c, (c + t + a) / b),
    },
)

_LINK, _ADAM = 14e9 / 64e9, 28 * 7e9 / 250e9
_SLOWEST = "which of the three is the slowest?"

adam_on_the_host = Numbers(
    "ex-adam-on-the-host",
    About("Adam on the host", "compute", 1, 8, "count the time of an update on the processor"),
    [
        Asked("(a)", 2 * _LINK + _ADAM, "s", {
              2 * _LINK: "the processor needs its time: its memory moves all of the state",
              _LINK + _ADAM: "the new weights must come back",
              2 * _LINK + _ADAM / 2: "the state is read and written",
              2 * _LINK + 12 / 28 * _ADAM: "the state is read and written, with both others",
              2 * _LINK + 24 / 28 * _ADAM: "Adam reads the gradient and writes the weight, too"}),
        Asked("(b)", _ADAM, "s", {
              2 * _LINK: "the two directions of the link are two lanes", _LINK: _SLOWEST,
              2 * _LINK + _ADAM: "that is one after the other"}),
        Asked("(c)", 30 / 28 * _ADAM, "s", {
              _ADAM: "Adam reads more now", 2 * _LINK: _SLOWEST,
              32 / 28 * _ADAM: "the new weights still have 16 bits"}, tolerance=0.005),
    ],
    "three lanes, and the slowest is no link",
)

_RAW, _ARRIVE = 10 / 7, 10 / 10.5
_OUTPUT = "the codec's rate counts what comes out of it"

pack_it = Numbers(
    "ex-pack-it",
    About("Pack it?", "compute", 2, 12,
          "decide whether packing pays, with the rate of unpacking and the real ratio", ("x22.5",)),
    [
        Asked("(a)", _RAW, "s", {_RAW / 1e9: "how many bytes are 10 GB?"}),
        Asked("(b)", _ARRIVE + 5, "s", {
              _ARRIVE: "unpacking takes its time, too", _RAW + 5: "fewer bytes come over the link",
              _ARRIVE + 10 / 3: _OUTPUT, 1.5 * _RAW + 5: "packed bytes are fewer"}),
        Asked("(c)", _ARRIVE + 0.2, "s", {
              _ARRIVE: "even a fast codec takes its time", _ARRIVE + 0.2 / 1.5: _OUTPUT},
              tolerance=0.004),
        Asked("(d)", 5, "s", {
              _ARRIVE + 5: "the pieces overlap: only the slower of the two counts",
              _ARRIVE: "which of the two is slower?", 10 / 3: _OUTPUT}),
        Asked("(e)", _RAW + 0.2, "s", {
              _RAW: "what arrives must still be unpacked", _ARRIVE + 0.2: "noise does not pack"}),
    ],
    "packing pays in one of these four",
)

_NO_WEIGHTS = "weights and gradients are not asked for here"
_EIGHT = "there are eight links, and each carries its eighth"

half_a_trillion = Numbers(
    "ex-half-a-trillion",
    About("Half a trillion", "design", 2, 15,
          "place the training state over GPUs, host and disks", ("x22.2",)),
    [
        Asked("a", 8e12, "B", {
              7e12: "weights, gradients and three numbers of 4 bytes for each parameter",
              6e12: "and the weights and gradients?"}),
        Chosen("b", False, {True: "add the two up, and leave the host what it needs"}),
        Asked("c", 12e12 / 28e9, "s", {
              6e12 / 28e9: "what is read must be written back", 16e12 / 28e9: _NO_WEIGHTS,
              8e12 / 28e9: f"{_NO_WEIGHTS}; and both directions count"}),
        Asked("d", 1e12 / 256e9, "s", {
              1e12 / 32e9: _EIGHT,
              1e12 / 512e9: "32 GB/s are one direction already, and weights have two bytes"}),
        Asked("e", 2e12 / 256e9, "s", {
              1e12 / 256e9: "the backward pass needs the weights, too", 2e12 / 32e9: _EIGHT}),
    ],
    "the disks decide, by two orders of magnitude",
    keyed=True,
)


def _swap_law(answer: Any) -> None:
    from dtlib.exercises.judges.stores import swap_law

    swap_law(answer)


def _swap(store, x, use, *, first=True, second=True, copied=False):
    leaving = store.put("x", x.clone() if copied else x)
    if first:
        leaving.wait()
    use(x)
    coming = store.get("x", into=x)
    if second:
        coming.wait()
    return x


two_waits = Made(
    "ex-two-waits",
    About("Two waits", "repair", 2, 12, "wait before memory is changed and before it is read",
          needs="torch"),
    _swap_law, lambda: _swap, "with the slowest store that is allowed, and with a quick one",
    {
        "was changed while it was on its way": lambda: partial(_swap, first=False),
        "before its contents were back": lambda: partial(_swap, second=False),
        "is a copy": lambda: partial(_swap, copied=True),
    },
)


def _least(compute, fetch, latency):
    return -(-(latency + fetch + compute) // max(compute, fetch)) - 1


def _pipelines() -> Iterator[tuple[str, tuple]]:
    draw = random.Random(22)
    known = [(50, 80, 0), (80, 50, 0), (7, 7, 0), (8, 5, 3), (8, 5, 4), (1, 1, 100), (3, 9, 10**6)]
    for case in known + [tuple(draw.randint(1, 60) for _ in range(3)) for _ in range(60)]:
        yield "", case


def _least_law(given: Any, right: int, *case: int) -> None:
    if whole(given, "the look-ahead") != right:
        raise NotYet("less would do" if given > right else "more would be faster")


least_lookahead = Function(
    "ex-least-lookahead",
    About("The least look-ahead", "derive", 2, 15, "derive how far ahead latency makes one ask",
          ("x22.6",)),
    "least(compute, fetch, latency)", _least, _pipelines, _least_law,
    "67 pipelines, to the exact count",
    {
        "look-ahead does not hide a slow lane": lambda c, t, a: math.ceil(t / c),
        "nothing is computed faster than the lane moves": lambda c, t, a: math.ceil((a + t) / c),
        "that many buffers; and look-ahead?": lambda c, t, a: _least(c, t, a) + 1,
        "rounded down, some latency still shows": lambda c, t, a: (a + t + c) // max(c, t) - 1,
        "a turn is fetched and computed, too": lambda c, t, a: math.ceil(a / max(c, t)),
        "latency needs more than one": lambda c, t, a: 1,
    },
)


def _victim(here: list[int], coming: list[int], never: int = 99) -> int:
    return max(here, key=lambda layer: coming.index(layer) if layer in coming else never)


farthest_use = Made(
    "ex-farthest-use",
    About("Farthest use", "design", 3, 20, "choose what leaves by its next use"),
    victim_law, lambda: _victim, "28 sequences, none of which can be done with fewer fetches",
    {
        "a loop of five layers": lambda: lambda here, coming: here[0],
        "fewer would do": lambda: partial(_victim, never=-1),
        "is not among those": lambda: lambda here, coming: coming[0],
        "raises ValueError": lambda: lambda here, coming: max(here, key=coming.index),
    },
)


def _stream_law(answer: Any) -> None:
    from dtlib.exercises.judges.stores import stream_law

    stream_law(answer)


def _stream(store, keys, work, lookahead, *, ahead=lambda k: k, late=False, waits=False, ends=True):
    first = ahead(lookahead) + 1
    coming = {key: store.get(key) for key in keys[:first]}
    leaving = []
    for i, key in enumerate(keys):
        done = work(coming.pop(key).wait())
        leaving.append(store.put(key, done))
        if waits:
            leaving[-1].wait()
        coming.update((later, store.get(later)) for later in keys[i + first : i + first + 1])
    for transfer in leaving if ends else ():
        transfer.wait()


the_loop = Made(
    "ex-the-loop",
    About("The loop", "design", 3, 30, "write a loop that fetches ahead, works and sends back",
          needs="torch"),
    _stream_law, lambda: _stream, "in order, ahead and no further, and all of it back",
    {
        "too few have been asked for": lambda: partial(_stream, ahead=lambda k: 0),
        "too many have been asked for": lambda: partial(_stream, ahead=lambda k: k + 1),
        "waits until the one before is back": lambda: partial(_stream, waits=True),
        "may not be back yet": lambda: partial(_stream, ends=False),
    },
)
