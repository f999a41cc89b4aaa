"""Graders of the lab 'All-reduce from send and receive'."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import function, items, number, whole
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import Stripes, Trace, record

SIZES = (2, 3, 4, 7, 1)


@grader("ex-lab-predict")
def predict(answer: Any) -> str:
    asked = ("messages", "sent_bytes", "rounds")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    chunks = "chunks a rank sends, phase by phase"
    mistakes = {
        3: "that is one phase of two",
        4: f"count the {chunks}",
        8: f"count the {chunks}",
        24: "that is all ranks together",
    }
    number(whole(answer["messages"], "messages"), 6, "messages", mistakes=mistakes)
    size, per_phase = 4_000_000, 3_000_000
    mistakes = {
        per_phase: "that is one phase of two",
        2 * size: f"count the {chunks}",
        4 * 2 * per_phase: "that is all ranks together",
        2 * per_phase / 4: "bytes, please: how large is a float32?",
        size: "a rank sends more than it holds",
    }
    number(answer["sent_bytes"], 2 * per_phase, "sent_bytes", "bytes", mistakes=mistakes)
    mistakes = {3: "that is one phase of two", 4: "a chunk that is at home need not travel"}
    number(whole(answer["rounds"], "rounds"), 6, "rounds", mistakes=mistakes)
    return "messages, bytes and rounds of one rank; the real ranks will be held to them"


@grader("ex-lab-shift")
def shift(answer: Any) -> str:
    function(answer, "shift(comm, x)")
    for P in (2, 3, 4, 5, 8):
        stripes = Stripes(P, P)
        trace = _run(answer, stripes)
        for rank, got in enumerate(trace.results):
            left = (rank - 1) % P
            _require(stripes, got, {left}, range(P), f"P = {P}: rank {rank}, result")
        if any(count != 1 for count in trace.sent_messages()):
            rank = next(r for r in range(P) if trace.sent_messages()[r] != 1)
            raise NotYet(f"P = {P}: rank {rank} sends {trace.sent_messages()[rank]} messages")
        if trace.rounds > 3:
            raise NotYet(
                f"P = {P}: right, but the messages wait for one another, {trace.rounds} in a row: "
                "only one rank dares to begin"
            )
    return "on 2 to 8 ranks every vector moves one rank to the right, and no rank waits in a row"


@grader("ex-lab-reduce-scatter")
def reduce_scatter(answer: Any) -> str:
    function(answer, "reduce_scatter(comm, x)")
    for P in SIZES:
        stripes = Stripes(P, P)
        trace = _run(answer, stripes)
        for rank, got in enumerate(trace.results):
            _require(stripes, got, set(range(P)), range(rank, rank + 1), f"P = {P}: rank {rank}")
        _require_ring(trace, 1, P - 1, 8 * stripes.width)
        _require_inputs_untouched(trace, stripes)
    return f"on {_ranks()} ranks each rank owns its chunk of the sum, to the right, P - 1 messages"


@grader("ex-lab-all-gather")
def all_gather(answer: Any) -> str:
    function(answer, "all_gather(comm, mine)")
    for P in SIZES:
        stripes = Stripes(P, P)
        total = sum(stripes.inputs()).reshape(P, -1)
        trace = _run(answer, stripes, inputs=list(total))
        for rank, got in enumerate(trace.results):
            _require(stripes, got, set(range(P)), range(P), f"P = {P}: rank {rank}")
        _require_ring(trace, 1, P - 1, 8 * stripes.width)
    return f"on {_ranks()} ranks every rank has every chunk, to the right, P - 1 messages each"


@grader("ex-lab-all-reduce")
def all_reduce(answer: Any) -> str:
    function(answer, "all_reduce(comm, x)")
    _judge_sum(answer, step=1, messages=lambda P: 2 * (P - 1), message_bytes=lambda s: 8 * s.width)
    return f"on {_ranks()} ranks the sum is everywhere, and no rank sends a byte more than it must"


@grader("ex-lab-patient")
def patient(answer: Any) -> str:
    function(answer, "patient_sum(comm, x)")
    _judge_sum(answer, step=-1, messages=lambda P: P - 1, message_bytes=lambda s: 8 * s.n)
    return f"on {_ranks()} ranks, to the left, and no buffer changes while it is in flight"


@grader("ex-lab-tree-and-ring")
def tree_and_ring(answer: Any) -> str:
    names = ("ring messages", "tree messages", "ring bytes", "tree bytes")
    given = items(answer, f"({', '.join(names)})", 4)
    n = 1_000_000
    rights = (24, 6, 6 * n, 6 * n)
    slips = (
        {6: "that is one rank of four", 12: "that is one phase of two"},
        {3: "the sum must come down the tree again", 8: "who sends in each round of a tree?"},
        {1.5 * n: "that is one rank of four", 3 * n: "that is one phase of two"},
        {3 * n: "the sum must come down the tree again", 2 * n: "that is one rank of four"},
    )
    for name, value, right, mistakes in zip(names, given, rights, slips, strict=True):
        number(value, right, name, tolerance=1e-9, mistakes=mistakes)
    return "that is why, where all traffic shares one memory, the tree is hard to beat"


def _judge_sum(answer: Callable, step: int, messages: Callable, message_bytes: Callable) -> None:
    for P in SIZES:
        stripes = Stripes(P, P)
        trace = _run(answer, stripes)
        for rank, got in enumerate(trace.results):
            _require(stripes, got, set(range(P)), range(P), f"P = {P}: rank {rank}")
        _require_ring(trace, step, messages(P), message_bytes(stripes))
        _require_inputs_untouched(trace, stripes)


def _run(program: Callable, stripes: Stripes, inputs: list | None = None) -> Trace:
    """The program on torch tensors, over messages of its own."""
    import torch

    tensors = [torch.tensor(x) for x in inputs or stripes.inputs()]
    trace = record(program, tensors, without="dtlib.collectives")
    for rank, result in enumerate(trace.results):
        if not isinstance(result, torch.Tensor):
            raise NotYet(f"rank {rank} returns {type(result).__name__}, not a tensor")
    return trace


def _require(stripes: Stripes, got: Any, ranks: set[int], chunks: range, where: str) -> None:
    fault = stripes.fault(got.numpy(), ranks, chunks)
    if fault:
        raise NotYet(f"{where}: {fault}" if fault.startswith("chunk") else f"{where} {fault}")


def _require_ring(trace: Trace, step: int, messages: int, message_bytes: int) -> None:
    """Every rank sends ``messages`` times ``message_bytes`` to the neighbour ``step`` away."""
    P = trace.size
    side = "right" if step == 1 else "left"
    for m in trace.messages:
        if m.dst != (m.src + step) % P:
            raise NotYet(
                f"P = {P}: right, but rank {m.src} sends to rank {m.dst}; "
                f"in this ring messages go to the {side}-hand neighbour"
            )
    for rank, sent in enumerate(trace.sent_bytes()):
        if sent != messages * message_bytes:
            much = "more" if sent > messages * message_bytes else "fewer"
            raise NotYet(f"P = {P}: right, but rank {rank} sends {much} bytes than this ring needs")
    if trace.rounds > 2 * messages:
        raise NotYet(
            f"P = {P}: right, but {trace.rounds} messages wait for one another in a row: "
            "send and receive at the same time"
        )


def _require_inputs_untouched(trace: Trace, stripes: Stripes) -> None:
    for rank, (x, before) in enumerate(zip(trace.buffers, stripes.inputs(), strict=True)):
        if (x.numpy() != before).any():
            raise NotYet(f"rank {rank} writes into x, which belongs to the caller: clone it")


def _ranks() -> str:
    *first, last = map(str, sorted(SIZES))
    return f"{', '.join(first)} and {last}"
