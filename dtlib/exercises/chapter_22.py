"""Graders of chapter 22, Offloading."""

import math
import random
from functools import cache
from numbers import Real
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, unaided, whole
from dtlib.exercises.judge import formula as judge_formula
from dtlib.exercises.verdict import NotYet

ms = 1e-3


@grader("ex-seventy-billion-streamed")
def seventy_billion_streamed(answer: Any) -> str:
    weights, layer, factor = items(answer, "(pass_seconds, (link, compute), factor)", 3)
    link, compute = items(layer, "(link_seconds, compute_seconds)", 2)
    number(weights, 4.375, "(a)", "s", mistakes={
        2.1875: "bf16 has two bytes; and 32 GB/s are one direction already",
        8.75: "that is for a forward and a backward pass, or for fp32",
    })  # fmt: skip
    number(link, 4.375 / 80, "(b), the link", "s", mistakes={54.6875: "in seconds, please"})
    number(compute, 0.025, "(b), computing", "s", mistakes={25: "in seconds, please"})
    number(factor, 2.1875, "(c)", mistakes={
        2: "a batch twice as large computes for 50 ms on a layer: is that enough?",
        1 / 2.1875: "the other way up",
    })  # fmt: skip
    return "one pass, one layer, and a factor that is no power of two"


@grader("ex-what-is-left-to-hide")
def what_is_left_to_hide(answer: Any) -> str:
    a, b, c, saved = items(answer, "(share_a, share_b, share_c, saved_seconds)", 4)
    percent = "as a share of the whole, please, not in percent"
    number(a, 100 / 185, "(a)", tolerance=0.002, mistakes={
        100 / 180: "the meeting takes its time, too", 100 / 1.85: percent,
    })  # fmt: skip
    number(b, 100 / 105, "(b)", tolerance=0.002, mistakes={
        100 / 185: "side by side only the longer one counts",
        1: "the meeting is not hidden", 100 / 1.05: percent,
    })  # fmt: skip
    number(c, 100 / 101, "(c)", tolerance=0.002, mistakes={1: "a short meeting is one, too"})
    if not isinstance(saved, Real) or isinstance(saved, bool) or not math.isfinite(saved):
        raise NotYet(f"(d) must be a number in s, got {saved!r}")
    if abs(saved) > 1e-6:
        raise NotYet("(d): which of the two is the longer one in (b), before and after?")
    return "what is hidden cannot be hidden better"


@grader("ex-who-leaves-first")
def who_leaves_first(answer: Any) -> str:
    act, weights, optim, hide = items(answer, "(act, weights, optim, {...})", 4)
    gb = "in bytes a second, please"
    number(act, 400e12 / (24 * 4096), "(a)", "B/s", mistakes={
        400e12 / (12 * 4096): "the input is written and read: both are bytes that move",
        400e12 / (18 * 4096): "the forward pass is computed twice",
        989e12 / (24 * 4096): "at the rate that it reaches, not at the peak",
        400e3 / (24 * 4096): gb,
    })  # fmt: skip
    number(weights, 400e12 / 8192, "(b)", "B/s", mistakes={
        989e12 / 8192: "at the rate that it reaches, not at the peak",
        400e12 / 6144: "the forward pass is computed twice",
        400e3 / 8192: gb,
    })  # fmt: skip
    number(optim, 400e12 / 2048, "(c)", "B/s", mistakes={
        400e12 / 4096: "the state is read and written",
        400e12 / 8192: "that is what the weights need",
        989e12 / 2048: "at the rate that it reaches, not at the peak",
    })  # fmt: skip
    if not isinstance(hide, set | frozenset) or not hide <= {"act", "weights", "optim"}:
        raise NotYet('(d) must be a set of "act", "weights" and "optim"')
    if hide != {"act", "weights"}:
        raise NotYet("(d): compare each of your three numbers with 64 GB/s")
    return "24 H, the tokens, and a quarter of the tokens"


@grader("ex-third-buffer")
def third_buffer(answer: Any) -> str:
    def right(compute, fetch, latency, buffers):
        return max(compute, fetch, (compute + fetch + latency) / buffers)

    wrong = [
        (lambda c, t, a, b: max(c, t), "what of the latency, and of a single buffer?"),
        (
            lambda c, t, a, b: max(c, (t + a) / b),
            "two transfers at once share the lane: what of a long one?",
        ),
        (
            lambda c, t, a, b: max(c, t, (t + a) / b),
            "a buffer is occupied while its layer is computed, too",
        ),
        (
            lambda c, t, a, b: max(c, t, (c + t + a) / (b + 1)),
            "how many layers are in the buffers, the one that is computed on included?",
        ),
        (lambda c, t, a, b: max(c, t + a), "latency leaves the lane free for others"),
        (lambda c, t, a, b: max(c, (c + t + a) / b), "no number of buffers outruns the lane"),
    ]
    values = [(50, 80, 0, 1), (50, 80, 0, 2), (50, 80, 0, 3), (50, 80, 0, 8), (80, 50, 0, 2)]
    values += [(50, 40, 100, b) for b in (1, 2, 3, 4, 9)] + [(3, 70, 500, 4), (1, 1, 1, 1)]
    names = ("compute", "fetch", "latency", "buffers")
    cases = [dict(zip(names, value, strict=True)) for value in values]
    with unaided("dtlib.memory.offload.cost", "dtlib.memory.offload.pipeline", write="it"):
        judge_formula(answer, right, f"layer_time({', '.join(names)})", cases, wrong=wrong)
    return "one buffer, two, and many; with latency and without"


@grader("ex-adam-on-the-host")
def adam_on_the_host(answer: Any) -> str:
    a, b, c = items(answer, "(seconds_a, seconds_b, seconds_c)", 3)
    link, adam = 14e9 / 64e9, 28 * 7e9 / 250e9
    number(a, 2 * link + adam, "(a)", "s", mistakes={
        2 * link: "the processor needs its time: its memory moves all of the state",
        link + adam: "the new weights must come back",
        2 * link + adam / 2: "the state is read and written",
        2 * link + 12 * 7e9 / 250e9: "the state is read and written, with gradient and weight",
        2 * link + 24 * 7e9 / 250e9: "Adam reads the gradient and writes the weight, as well",
    })  # fmt: skip
    number(b, adam, "(b)", "s", mistakes={
        2 * link: "the two directions of the link are two lanes",
        link: "which of the three is the slowest?",
        2 * link + adam: "that is one after the other",
    })  # fmt: skip
    number(c, 30 * 7e9 / 250e9, "(c)", "s", tolerance=0.005, mistakes={
        adam: "Adam reads more now",
        2 * link: "which of the three is the slowest, now?",
        32 * 7e9 / 250e9: "the new weights still have 16 bits",
    })  # fmt: skip
    return "three lanes, and the slowest is no link"


@grader("ex-pack-it")
def pack_it(answer: Any) -> str:
    a, b, c, d, e = items(answer, "(a, b, c, d, e)", 5)
    arrive = 10 / 10.5
    number(a, 10 / 7, "(a)", "s", mistakes={10 / 7e9: "how many bytes are 10 GB?"})
    number(b, arrive + 5, "(b)", "s", mistakes={
        arrive: "unpacking takes its time, too",
        10 / 7 + 5: "fewer bytes come over the link",
        arrive + 10 / 3: "the codec's rate counts what comes out of it",
        15 / 7 + 5: "packed bytes are fewer",
    })  # fmt: skip
    number(c, arrive + 0.2, "(c)", "s", tolerance=0.004, mistakes={
        arrive: "even a fast codec takes its time",
        arrive + 0.2 / 1.5: "the codec's rate counts what comes out of it",
    })  # fmt: skip
    number(d, 5, "(d)", "s", mistakes={
        arrive + 5: "the pieces overlap: only the slower of the two counts",
        arrive: "which of the two is slower?",
        10 / 3: "the codec's rate counts what comes out of it",
    })  # fmt: skip
    number(e, 10 / 7 + 0.2, "(e)", "s", mistakes={
        10 / 7: "what arrives must still be unpacked",
        arrive + 0.2: "noise does not pack",
    })  # fmt: skip
    return "packing pays in one of these four"


@grader("ex-half-a-trillion")
def half_a_trillion(answer: Any) -> str:
    if not isinstance(answer, dict) or set(answer) != set("abcde"):
        raise NotYet("pass a dict with the keys a, b, c, d, e")
    number(answer["a"], 8e12, "(a)", "B", mistakes={
        7e12: "weights, gradients and three numbers of 4 bytes for each parameter",
        6e12: "and the weights and gradients?",
    })  # fmt: skip
    if not isinstance(answer["b"], bool) and type(answer["b"]).__name__ not in ("bool_", "bool"):
        raise NotYet(f"(b) must be True or False, got {answer['b']!r}")
    if answer["b"]:
        raise NotYet("(b): add the two up, and leave the host what it needs")
    number(answer["c"], 12e12 / 28e9, "(c)", "s", mistakes={
        6e12 / 28e9: "what is read must be written back",
        16e12 / 28e9: "weights and gradients are not asked for here",
        8e12 / 28e9: "weights and gradients are not asked for here; and both directions count",
    })  # fmt: skip
    number(answer["d"], 1e12 / 256e9, "(d)", "s", mistakes={
        1e12 / 32e9: "there are eight links, and each carries its eighth",
        1e12 / 512e9: "32 GB/s are one direction already, and weights have two bytes",
    })  # fmt: skip
    number(answer["e"], 2e12 / 256e9, "(e)", "s", mistakes={
        1e12 / 256e9: "the backward pass needs the weights, too",
        2e12 / 32e9: "there are eight links, and each carries its eighth",
    })  # fmt: skip
    return "the disks decide, by two orders of magnitude"


@grader("ex-two-waits")
def two_waits(answer: Any) -> str:
    import torch

    from dtlib.memory import HostStore, LateStore

    function(answer, "swap(store, x, use)")
    for Kind in (LateStore, HostStore):
        seen: dict[str, Any] = {}
        x = torch.arange(1.0, 7.0)
        original, place = x.clone(), x.data_ptr()

        class Watched(Kind):
            def put(self, key, tensor, after=(), seen=seen):
                seen["put"] = tensor.data_ptr()
                return super().put(key, tensor, after)

            def get(self, key, into=None, after=(), place=place):
                if into is None or into.data_ptr() != place:
                    raise NotYet("bring it back into x itself: there is no memory for a second")
                return super().get(key, into, after)

        def use(tensor, seen=seen, place=place):
            if not isinstance(tensor, torch.Tensor) or tensor.data_ptr() != place:
                raise NotYet("use must be given x itself: it is this memory that is lent")
            seen["uses"] = seen.get("uses", 0) + 1
            tensor.fill_(-1.0)

        with Watched() as store:
            back = call(answer, store, x, use)
            if seen.get("put") is None:
                raise NotYet("nothing was sent to the store")
            if seen["put"] != place:
                raise NotYet("what was sent is a copy: there is no memory for one")
            if seen.get("uses") != 1:
                raise NotYet(f"use was called {seen.get('uses', 0)} times, not once")
            if not isinstance(back, torch.Tensor) or back.data_ptr() != place:
                raise NotYet("return x, in the memory in which it was")
            if not torch.equal(back, original) or not torch.equal(x, original):
                raise NotYet("x was read before its contents were back")
            if store.received != x.nbytes:
                raise NotYet(f"{store.received} bytes came back, and x has {x.nbytes}")
    return "with the slowest store that is allowed, and with a quick one"


@grader("ex-least-lookahead")
def least_lookahead(answer: Any) -> str:
    function(answer, "least(compute, fetch, latency)")
    draw = random.Random(22)
    cases = [(50, 80, 0), (80, 50, 0), (7, 7, 0), (8, 5, 3), (8, 5, 4), (1, 1, 100), (3, 9, 10**6)]
    cases += [tuple(draw.randint(1, 60) for _ in range(3)) for _ in range(60)]
    slips = (
        (lambda c, t, a: math.ceil(t / c), "look-ahead does not hide a slow lane"),
        (lambda c, t, a: math.ceil((a + t) / c), "nothing is computed faster than the lane moves"),
        (lambda c, t, a: math.ceil((a + t + c) / max(c, t)), "that many buffers; and look-ahead?"),
        (lambda c, t, a: (a + t + c) // max(c, t) - 1, "rounded down, some latency still shows"),
        (lambda c, t, a: math.ceil(a / max(c, t)), "a turn is fetched and computed, too"),
        (lambda c, t, a: 1, "latency needs more than one"),
    )
    given = []
    for case in cases:
        with unaided("dtlib.memory.offload.cost", "dtlib.memory.offload.pipeline", write="it"):
            given.append(whole(call(answer, *case), "the look-ahead"))
    right = [-(-(a + t + c) // max(c, t)) - 1 for c, t, a in cases]
    if given == right:
        return f"{len(cases)} pipelines, to the exact count"
    for slip, hint in slips:
        if given == [slip(*case) for case in cases]:
            raise NotYet(hint)
    for case, found, expected in zip(cases, given, right, strict=True):
        if found != expected:
            c, t, a = case
            what = "less would do" if found > expected else "more would be faster"
            raise NotYet(f"compute {c}, fetch {t}, latency {a}: {what}")
    raise NotYet("another number for the same pipeline")


@grader("ex-farthest-use")
def farthest_use(answer: Any) -> str:
    function(answer, "victim(here, coming)")
    draw = random.Random(1966)
    sequences = [
        ("a loop of five layers", [*range(5)] * 3, 3),
        ("there and back", [*range(5), *range(4, -1, -1)] * 2, 3),
        ("a layer that is never used again", [0, 1, 2, 3, 1, 2, 3, 1], 3),
    ]
    for _ in range(25):
        layers, room = draw.randint(3, 6), draw.randint(2, 4)
        sequence = [draw.randrange(layers) for _ in range(14)]
        sequences.append((f"a sequence of {layers} layers", sequence, room))
    for name, sequence, room in sequences:
        found = _fetches(answer, sequence, room)
        if found > _fewest(tuple(sequence), room):
            raise NotYet(
                f"{name}, room for {room}: {found} fetches with your choices, and fewer would do"
            )
    return f"{len(sequences)} sequences, none of which can be done with fewer fetches"


def _fetches(victim, sequence: list[int], room: int) -> int:
    here: list[int] = []
    count = 0
    for i, layer in enumerate(sequence):
        if layer in here:
            continue
        count += 1
        if len(here) == room:
            leaves = call(victim, list(here), list(sequence[i:]))
            if isinstance(leaves, bool) or leaves not in here:
                raise NotYet(f"{leaves!r} is not among those that are here, {here}")
            here.remove(leaves)
        here.append(layer)
    return count


@cache
def _fewest(sequence: tuple[int, ...], room: int) -> int:
    """The fewest fetches, over all choices."""
    costs = {frozenset(): 0}
    for layer in sequence:
        after: dict[frozenset, int] = {}
        for here, cost in costs.items():
            if layer in here:
                options = [(here, cost)]
            elif len(here) < room:
                options = [(here | {layer}, cost + 1)]
            else:
                options = [((here - {leaves}) | {layer}, cost + 1) for leaves in here]
            for state, price in options:
                after[state] = min(price, after.get(state, price))
        costs = after
    return min(costs.values())


@grader("ex-the-loop")
def the_loop(answer: Any) -> str:
    function(answer, "stream(store, keys, work, lookahead)")
    for count, lookahead in ((5, 1), (6, 2), (4, 0), (3, 5), (1, 1)):
        _stream(answer, count, lookahead)
    return "in order, ahead and no further, and all of it back"


def _stream(answer, count: int, lookahead: int) -> None:
    import torch

    from dtlib.memory import LateStore

    where = f"{count} tensors, look-ahead {lookahead}"
    keys = [f"layer {i}" for i in range(count)]
    originals = {key: torch.arange(3.0) + 10 * i for i, key in enumerate(keys)}
    asked: list = []
    sent: list = []
    waited: set = set()
    worked: list = []

    class Watched(LateStore):
        def get(self, key, into=None, after=()):
            asked.append(key)
            return watch(super().get(key, into, after), ("get", key))

        def put(self, key, tensor, after=()):
            if not isinstance(tensor, torch.Tensor):
                raise NotYet(f"{where}: what is put back must be a tensor")
            sent.append(key)
            return watch(super().put(key, tensor, after), ("put", key))

        def flush(self):
            waited.update(("put", key) for key in sent)
            super().flush()

    def watch(transfer, name):
        plain = transfer.wait

        def wait():
            waited.add(name)
            return plain()

        transfer.wait = wait
        return transfer

    def work(tensor):
        i = len(worked)
        if i == count:
            raise NotYet(f"{where}: work was called more than once for a tensor")
        if not isinstance(tensor, torch.Tensor) or not torch.equal(tensor, originals[keys[i]]):
            raise NotYet(f"{where}: turn {i} works on something else than {keys[i]!r}")
        due = min(count, i + 1 + lookahead)
        side = "too few" if len(asked) < due else "too many" if len(asked) > due else ""
        if side:
            raise NotYet(f"{where}: in turn {i}, {side} have been asked for")
        early = [key for key in keys[i + 1 :] if ("get", key) in waited]
        if early:
            raise NotYet(f"{where}: {early[0]!r} is waited for before its turn")
        if sent != keys[:i]:
            raise NotYet(f"{where}: in turn {i}, what was done before is not on its way back")
        if i and ("put", keys[i - 1]) in waited:
            raise NotYet(f"{where}: turn {i} waits until the one before is back")
        worked.append(keys[i])
        return tensor * 3 + i

    with Watched() as store:
        for key, tensor in originals.items():
            LateStore.put(store, key, tensor.clone()).wait()
        with unaided("dtlib.memory.offload.stream", write="the loop"):
            try:
                answer(store, list(keys), work, lookahead)
            except NotImplementedError:
                raise NotYet("there is nothing here yet") from None
            except NotYet:
                raise
            except Exception as error:
                raise NotYet(f"{where}: {type(error).__name__}: {error}"[:250]) from None
        if worked != keys:
            raise NotYet(f"{where}: {len(worked)} of {count} tensors were worked on")
        left = [key for key in keys if ("put", key) not in waited]
        if left:
            raise NotYet(f"{where}: {left[0]!r} may not be back yet when the function returns")
        for i, key in enumerate(keys):
            if not torch.equal(LateStore.get(store, key).wait(), originals[key] * 3 + i):
                raise NotYet(f"{where}: the store does not hold the new {key!r}")
