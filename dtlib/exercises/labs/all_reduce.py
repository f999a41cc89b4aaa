"""The lab 'All-reduce from send and receive'."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.judges.tensors import as_tensor
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.messages import record
from dtlib.exercises.worlds.stripes import Stripes
from dtlib.exercises.worlds.trace import Trace
from dtlib.later import torch

# fmt: off
_SIZES = (2, 3, 4, 7, 1)
_RANKS = "on 1, 2, 3, 4 and 7 ranks"
_CHUNKS = "count the chunks a rank sends, phase by phase"
_MB = 1_000_000

predict = Numbers(
    "ex-lab-predict",
    About("Predict the traffic", "compute", 1, 5,
          "count messages, bytes and rounds before running"),
    [
        Asked("messages", 6, slips={3: "that is one phase of two", 4: _CHUNKS, 8: _CHUNKS,
              24: "that is all ranks together"}),
        Asked("sent_bytes", 6 * _MB, "bytes", {3 * _MB: "that is one phase of two",
              8 * _MB: _CHUNKS, 24 * _MB: "that is all ranks together",
              1.5 * _MB: "bytes, please: how large is a float32?",
              4 * _MB: "a rank sends more than it holds"}),
        Asked("rounds", 6, slips={3: "that is one phase of two",
              4: "a chunk that is at home need not travel"}),
    ],
    "messages, bytes and rounds of one rank; the real ranks will be held to them",
    keyed=True,
)
# fmt: on


def _shift(comm, x, *, order="at once", step=1):
    before, after = (comm.rank - step) % comm.size, (comm.rank + step) % comm.size
    into = torch.empty_like(x)
    if order == "at once":
        comm.sendrecv(x, after, into, before)
    elif order == "send first" or comm.rank == 0:
        comm.send(x, after)
        comm.recv(into, before)
    else:
        comm.recv(into, before)
        comm.send(x, after)
    return into


def _shift_law(answer: Callable, P: int) -> None:
    stripes = Stripes(P, P)
    trace = _recorded(answer, stripes)
    for rank, got in enumerate(trace.results):
        _require(stripes, got, {(rank - 1) % P}, range(P), f"rank {rank}, result")
    for rank, count in enumerate(trace.sent_messages()):
        if count != 1:
            raise NotYet(f"rank {rank} sends {count} messages")
    if trace.rounds > 3:
        raise NotYet(
            f"right, but the messages wait for one another, {trace.rounds} in a row: "
            "only one rank dares to begin"
        )


# fmt: off
shift = OnRanks(
    "ex-lab-shift",
    About("One hop without a deadlock", "repair", 2, 15,
          "order sends and receives so that somebody can always go on", needs="torch"),
    "shift(comm, x)",
    _shift,
    _shift_law,
    "on 2 to 8 ranks every vector moves one rank to the right, and no rank waits in a row",
    {
        "deadlock: rank 0 waits to send to rank 1, which waits to send": {"order": "send first"},
        "only one rank dares": {"order": "from rank 0 on"},
        "rank 0, result: chunk 0: lacks the contribution": {"step": -1},
        "rank 0, result: chunk 0": lambda comm, x: x,
        "int where a tensor should be": lambda comm, x: 1,
    },
    sizes=(3, 2, 4, 5, 8),
)
# fmt: on


def _reduce_scatter(comm, x, *, step=1, first=-1, copy=True, more=0, order="at once"):
    P, r = comm.size, comm.rank
    chunks = list((x.clone() if copy else x).chunk(P))
    for t in range(P - 1 + more):
        mine, theirs = ((r + step * (first - t - k)) % P for k in (0, 1))
        chunks[theirs] += _shift(comm, chunks[mine], order=order, step=step)
    return chunks[r]


def _whole_vectors(comm, x):
    everything = [x]
    for _ in range(comm.size - 1):
        everything.append(_shift(comm, everything[-1]))
    return sum(everything).chunk(comm.size)[comm.rank]


def _librarys(builder: str) -> Callable:
    def program(comm, x):
        from dtlib import collectives

        out = collectives.execute(getattr(collectives, builder)(comm.size), x, transport=comm)
        return out if "all" in builder else out.chunk(comm.size)[comm.rank]

    return program


def _reduce_scatter_law(answer: Callable, P: int) -> None:
    stripes = Stripes(P, P)
    trace = _recorded(answer, stripes)
    for rank, got in enumerate(trace.results):
        _require(stripes, got, set(range(P)), range(rank, rank + 1), f"rank {rank}")
    _require_ring(trace, 1, P - 1, 8 * stripes.width)
    _require_inputs_untouched(trace, stripes)


# fmt: off
reduce_scatter = OnRanks(
    "ex-lab-reduce-scatter",
    About("Reduce-scatter", "design", 2, 20,
          "write a ring reduce-scatter from point-to-point messages", needs="torch"),
    "reduce_scatter(comm, x)",
    _reduce_scatter,
    _reduce_scatter_law,
    f"{_RANKS} each rank owns its chunk of the sum, to the right, P - 1 messages",
    {
        "rank 0: chunk 0: lacks the contribution": {"first": 0},
        "lacks the contribution": {"more": -1},
        "right, but rank 0 sends more bytes": {"more": 1},
        "to the right-hand neighbour": {"step": -1},
        "writes into x": {"copy": False},
        "sends more bytes": _whole_vectors,
        "in a row": {"order": "from rank 0 on"},
        "comes from dtlib.collectives: write your own": _librarys("ring_reduce_scatter"),
    },
    sizes=_SIZES,
)
# fmt: on


def _all_gather(comm, mine, *, first=0):
    P, r = comm.size, comm.rank
    chunks = [torch.empty_like(mine) for _ in range(P)]
    chunks[r].copy_(mine)
    for t in range(P - 1):
        out, into = (chunks[(r + first - t - k) % P] for k in (0, 1))
        comm.sendrecv(out, (r + 1) % P, into, (r - 1) % P)
    return torch.cat(chunks)


def _in_order_of_arrival(comm, mine):
    chunks = [mine]
    for _ in range(comm.size - 1):
        chunks.append(_shift(comm, chunks[-1]))
    return torch.cat(chunks)


def _all_gather_law(answer: Callable, P: int) -> None:
    stripes = Stripes(P, P)
    trace = _recorded(answer, stripes, list(sum(stripes.inputs()).reshape(P, -1)))
    for rank, got in enumerate(trace.results):
        _require(stripes, got, set(range(P)), range(P), f"rank {rank}")
    _require_ring(trace, 1, P - 1, 8 * stripes.width)


# fmt: off
all_gather = OnRanks(
    "ex-lab-all-gather",
    About("All-gather", "design", 2, 8, "write a ring all-gather from point-to-point messages",
          needs="torch"),
    "all_gather(comm, mine)",
    _all_gather,
    _all_gather_law,
    f"{_RANKS} every rank has every chunk, to the right, P - 1 messages each",
    {
        "rank 0: chunk 0": {"first": 1},
        "holds what belongs into chunk": _in_order_of_arrival,
        "holds 2 elements, but 4 belong there": lambda comm, mine: mine,
    },
    sizes=_SIZES,
)
# fmt: on


def _all_reduce(comm, x):
    return _all_gather(comm, _reduce_scatter(comm, x))


def _over_rank_0(comm, x):
    total, incoming = x.clone(), torch.empty_like(x)
    for other in range(1, comm.size):
        if comm.rank == 0:
            comm.recv(incoming, other)
            total += incoming
        elif comm.rank == other:
            comm.send(x, 0)
    for other in range(1, comm.size):
        if comm.rank == 0:
            comm.send(total, other)
        elif comm.rank == other:
            comm.recv(total, 0)
    return total


def _sum_law(answer: Callable, P: int, step: int, messages: int, message_bytes: int) -> None:
    stripes = Stripes(P, P)
    trace = _recorded(answer, stripes)
    for rank, got in enumerate(trace.results):
        _require(stripes, got, set(range(P)), range(P), f"rank {rank}")
    _require_ring(trace, step, messages, message_bytes)
    _require_inputs_untouched(trace, stripes)


# fmt: off
all_reduce = OnRanks(
    "ex-lab-all-reduce",
    About("All-reduce", "design", 1, 5, "compose two halves, and keep the bytes at the bound",
          needs="torch"),
    "all_reduce(comm, x)",
    _all_reduce,
    lambda answer, P: _sum_law(answer, P, 1, 2 * (P - 1), 16),
    f"{_RANKS} the sum is everywhere, and no rank sends a byte more than it must",
    {
        "messages go to the right-hand neighbour": _over_rank_0,
        "holds 2 elements, but": _reduce_scatter,
        "write your own": _librarys("ring_all_reduce"),
    },
    sizes=_SIZES,
)
# fmt: on


def _patient(comm, x, *, wait=True, spare=True):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    travelling, total = x.clone(), x.clone()
    for _ in range(comm.size - 1):
        sending = comm.isend(travelling, left)
        incoming = torch.empty_like(x) if spare else travelling
        comm.recv(incoming, right)
        if wait:
            sending.wait()
        travelling = incoming
        total += travelling
    return total


# fmt: off
patient = OnRanks(
    "ex-lab-patient",
    About("Hands off the buffer", "repair", 2, 12, "find a buffer that is changed while in flight",
          needs="torch"),
    "patient_sum(comm, x)",
    _patient,
    lambda answer, P: _sum_law(answer, P, -1, P - 1, 16 * P),
    f"{_RANKS}, to the left, and no buffer changes while it is in flight",
    {
        "changed the buffer of its send to rank": {"spare": False},
        "never waited for its send": {"wait": False},
        "to the left-hand neighbour": _all_reduce,
        "chunk 0: lacks the contribution": lambda comm, x: x,
    },
    sizes=_SIZES,
)

tree_and_ring = Numbers(
    "ex-lab-tree-and-ring",
    About("Why the tree wins here", "compute", 1, 5, "count the traffic of all ranks together"),
    [
        Asked("ring messages", 24, slips={
              6: "that is one rank of four", 12: "that is one phase of two"}),
        Asked("tree messages", 6, slips={3: "the sum must come down the tree again",
              8: "who sends in each round of a tree?"}),
        Asked("ring bytes", 6 * _MB, slips={
              1.5 * _MB: "that is one rank of four", 3 * _MB: "that is one phase of two"}),
        Asked("tree bytes", 6 * _MB, slips={3 * _MB: "the sum must come down the tree again",
              2 * _MB: "that is one rank of four"}),
    ],
    "that is why, where all traffic shares one memory, the tree is hard to beat",
)
# fmt: on


def _recorded(program: Callable, stripes: Stripes, inputs: list | None = None) -> Trace:
    """The program on torch tensors, over messages of its own."""
    tensors = [torch.tensor(x) for x in inputs or stripes.inputs()]
    trace = record(program, tensors, without="dtlib.collectives")
    for rank, result in enumerate(trace.results):
        as_tensor(result, f"rank {rank} returns")
    return trace


def _require(stripes: Stripes, got: Any, ranks: set[int], chunks: range, where: str) -> None:
    fault = stripes.fault(got.numpy(), ranks, chunks)
    if fault:
        raise NotYet(f"{where}: {fault}" if fault.startswith("chunk") else f"{where} {fault}")


def _require_ring(trace: Trace, step: int, messages: int, message_bytes: int) -> None:
    """Every rank sends ``messages`` times ``message_bytes`` to the neighbour ``step`` away."""
    side = "right" if step == 1 else "left"
    for m in trace.messages:
        if m.dst != (m.src + step) % trace.size:
            raise NotYet(
                f"right, but rank {m.src} sends to rank {m.dst}; "
                f"in this ring messages go to the {side}-hand neighbour"
            )
    for rank, sent in enumerate(trace.sent_bytes()):
        if sent != messages * message_bytes:
            much = "more" if sent > messages * message_bytes else "fewer"
            raise NotYet(f"right, but rank {rank} sends {much} bytes than this ring needs")
    if trace.rounds > 2 * messages:
        raise NotYet(
            f"right, but {trace.rounds} messages wait for one another in a row: "
            "send and receive at the same time"
        )


def _require_inputs_untouched(trace: Trace, stripes: Stripes) -> None:
    for rank, (x, before) in enumerate(zip(trace.buffers, stripes.inputs(), strict=True)):
        if (x.numpy() != before).any():
            raise NotYet(f"rank {rank} writes into x, which belongs to the caller: clone it")
