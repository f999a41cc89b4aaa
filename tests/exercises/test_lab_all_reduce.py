"""Every check of the all-reduce lab: the solution passes; the stub, wrong answers, dtlib's fail."""

import torch
from exercise_cases import Case, EveryExercise

from dtlib.collectives import execute, ring_all_reduce, ring_reduce_scatter
from dtlib.exercises import record


def predicted(**changes):
    return {"messages": 6, "sent_bytes": 6_000_000, "rounds": 6} | changes


def neighbours(comm):
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


def shift(comm, x):
    left, right = neighbours(comm)
    into = torch.empty_like(x)
    comm.sendrecv(x, right, into, left)
    return into


def shift_by_parity(comm, x):
    left, right = neighbours(comm)
    into = torch.empty_like(x)
    if comm.rank % 2 == 0:
        comm.send(x, right)
        comm.recv(into, left)
    else:
        comm.recv(into, left)
        comm.send(x, right)
    return into


def shift_send_first(comm, x):
    left, right = neighbours(comm)
    into = torch.empty_like(x)
    comm.send(x, right)
    comm.recv(into, left)
    return into


def shift_from_rank_0_on(comm, x):
    left, right = neighbours(comm)
    into = torch.empty_like(x)
    if comm.rank == 0:
        comm.send(x, right)
        comm.recv(into, left)
    else:
        comm.recv(into, left)
        comm.send(x, right)
    return into


def shift_to_the_left(comm, x):
    left, right = neighbours(comm)
    into = torch.empty_like(x)
    comm.sendrecv(x, left, into, right)
    return into


def reduce_scatter(comm, x, step=1, first=-1, copy=True, rounds=-1):
    P, r = comm.size, comm.rank
    chunks = list((x.clone() if copy else x).chunk(P))
    incoming = torch.empty_like(chunks[0])
    for t in range(P + rounds):
        comm.sendrecv(
            chunks[(r + step * (first - t)) % P], (r + step) % P, incoming, (r - step) % P
        )
        chunks[(r + step * (first - t - 1)) % P] += incoming
    return chunks[r]


def reduce_scatter_by_gathering_all(comm, x):
    P, r = comm.size, comm.rank
    everything = [x]
    for _ in range(P - 1):
        everything.append(shift(comm, everything[-1]))
    return sum(everything).chunk(P)[r]


def reduce_scatter_one_rank_after_another(comm, x):
    P, r = comm.size, comm.rank
    left, right = neighbours(comm)
    chunks = list(x.clone().chunk(P))
    incoming = torch.empty_like(chunks[0])
    for t in range(P - 1):
        mine, theirs = chunks[(r - t - 1) % P], chunks[(r - t - 2) % P]
        if r == 0:
            comm.send(mine, right)
            comm.recv(incoming, left)
        else:
            comm.recv(incoming, left)
            comm.send(mine, right)
        theirs += incoming
    return chunks[r]


def reduce_scatter_of_dtlib(comm, x):
    out = execute(ring_reduce_scatter(comm.size), x.clone(), transport=comm)
    return out.chunk(comm.size)[comm.rank]


def all_gather(comm, mine, first=0):
    P, r = comm.size, comm.rank
    chunks = [torch.empty_like(mine) for _ in range(P)]
    chunks[r].copy_(mine)
    for t in range(P - 1):
        comm.sendrecv(
            chunks[(r + first - t) % P], (r + 1) % P, chunks[(r + first - t - 1) % P], (r - 1) % P
        )
    return torch.cat(chunks)


def all_gather_in_order_of_arrival(comm, mine):
    chunks = [mine]
    for _ in range(comm.size - 1):
        chunks.append(shift(comm, chunks[-1]))
    return torch.cat(chunks)


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x))


def all_reduce_over_rank_0(comm, x):
    total = x.clone()
    incoming = torch.empty_like(x)
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


def all_reduce_of_dtlib(comm, x):
    return execute(ring_all_reduce(comm.size), x.clone(), transport=comm)


def hasty_sum(comm, x, wait=True, spare=False):
    left, right = neighbours(comm)
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


def patient_sum(comm, x):
    return hasty_sum(comm, x, spare=True)


CASES = {
    "ex-lab-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(messages=3), "messages: that is one phase"),
            (predicted(messages=8), "count the chunks"),
            (predicted(sent_bytes=1_500_000), "how large is a float32"),
            (predicted(sent_bytes=4_000_000), "more than it holds"),
            (predicted(sent_bytes=48e6), "bits or bytes"),
            (predicted(rounds=4), "need not travel"),
            (6, "keys messages, sent_bytes, rounds"),
        ],
        secret=[6_000_000],
    ),
    "ex-lab-shift": Case(
        solution=shift,
        also_right=[shift_by_parity],
        wrong=[
            (shift_send_first, "deadlock: rank 0 waits to send to rank 1, which waits to send"),
            (shift_from_rank_0_on, "only one rank dares"),
            (shift_to_the_left, "rank 0, result: chunk 0: lacks the contribution"),
            (lambda comm, x: x, "rank 0, result: chunk 0"),
            (lambda comm, x: 1, "rank 0 returns int, not a tensor"),
        ],
    ),
    "ex-lab-reduce-scatter": Case(
        solution=reduce_scatter,
        wrong=[
            (
                lambda comm, x: reduce_scatter(comm, x, first=0),
                "lacks the contribution",
            ),
            (lambda comm, x: reduce_scatter(comm, x, rounds=-2), "lacks the contribution"),
            (
                lambda comm, x: reduce_scatter(comm, x, rounds=0),
                "sends more bytes",
            ),
            (lambda comm, x: reduce_scatter(comm, x, step=-1), "to the right-hand neighbour"),
            (lambda comm, x: reduce_scatter(comm, x, copy=False), "writes into x"),
            (reduce_scatter_by_gathering_all, "sends more bytes"),
            (reduce_scatter_one_rank_after_another, "deadlock|in a row"),
            (reduce_scatter_of_dtlib, "comes from dtlib.collectives: write your own"),
        ],
    ),
    "ex-lab-all-gather": Case(
        solution=all_gather,
        wrong=[
            (lambda comm, mine: all_gather(comm, mine, first=1), "rank 0: chunk 0"),
            (all_gather_in_order_of_arrival, "holds what belongs into chunk"),
            (lambda comm, mine: mine, "holds 2 elements, but 4 belong there"),
        ],
    ),
    "ex-lab-all-reduce": Case(
        solution=all_reduce,
        wrong=[
            (all_reduce_over_rank_0, "in this ring|more bytes"),
            (lambda comm, x: reduce_scatter(comm, x), "holds 2 elements, but 4"),
            (all_reduce_of_dtlib, "write your own"),
        ],
    ),
    "ex-lab-patient": Case(
        solution=patient_sum,
        wrong=[
            (hasty_sum, "changed the buffer of its send to rank . while the message"),
            (
                lambda comm, x: hasty_sum(comm, x, wait=False, spare=True),
                "never waited for its send",
            ),
            (all_reduce, "to the left-hand neighbour"),
            (lambda comm, x: x, "chunk 0: lacks the contribution"),
        ],
    ),
    "ex-lab-tree-and-ring": Case(
        solution=(24, 6, 6_000_000, 6_000_000),
        wrong=[
            ((6, 6, 6e6, 6e6), "ring messages: that is one rank"),
            ((24, 3, 6e6, 6e6), "come down the tree"),
            ((24, 6, 1.5e6, 6e6), "ring bytes: that is one rank"),
            ((24, 6, 6e6, 3e6), "tree bytes: the sum must come down"),
        ],
        secret=[6_000_000],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_a_recorded_ring_sends_what_the_librarys_schedule_says():
    P = 5
    schedule = ring_all_reduce(P)
    trace = record(all_reduce, [torch.arange(10.0, dtype=torch.float64) + r for r in range(P)])
    assert trace.sent_bytes() == schedule.sent_bytes(80)
    assert trace.rounds == len(schedule)
    own = record(all_reduce_of_dtlib, [torch.arange(10.0, dtype=torch.float64)] * P)
    assert [(m.round, m.src, m.dst) for m in own.messages] == [
        (m.round, m.src, m.dst) for m in trace.messages
    ]
