"""The recording transport has the rules of real point-to-point: each one broken is caught."""

import threading

import numpy as np
import pytest
import torch

from dtlib.exercises import Deadlock, TransportError, record
from dtlib.exercises.worlds import record_replicas, record_team, threads


@pytest.fixture(params=[True, False], ids=["threads", "steps"], autouse=True)
def kind(request, monkeypatch):
    """Both kinds of world have the same rules, and the same words."""
    monkeypatch.setattr(threads, "threads_start", lambda: request.param)
    return request.param


def ranks(P, n=4):
    return [np.full(n, float(r)) for r in range(P)]


def pass_right(comm, x):
    """Each rank passes its vector once around the ring, with isend."""
    into = np.empty_like(x)
    for _ in range(comm.size - 1):
        comm.sendrecv(x, (comm.rank + 1) % comm.size, into, (comm.rank - 1) % comm.size)
        x = into.copy()
    return x


@pytest.mark.parametrize("P", [1, 2, 3, 4, 8, 16])
def test_a_vector_passed_around_the_ring_arrives_at_the_left_neighbour(P):
    trace = record(pass_right, ranks(P))
    assert [int(x[0]) for x in trace.results] == [(r + 1) % P for r in range(P)]
    assert trace.rounds == P - 1
    assert trace.sent_bytes() == trace.received_bytes() == [(P - 1) * 32] * P
    assert trace.sent_messages() == [P - 1] * P
    assert all(m.dst == (m.src + 1) % P for m in trace.messages)


def test_messages_keep_the_values_that_travelled():
    trace = record(pass_right, ranks(3))
    assert [(m.round, m.src, m.dst, int(m.values[0])) for m in trace.messages] == [
        (1, 0, 1, 0),
        (1, 1, 2, 1),
        (1, 2, 0, 2),
        (2, 0, 1, 2),
        (2, 1, 2, 0),
        (2, 2, 0, 1),
    ]


def test_rounds_are_the_longest_chain_not_the_number_of_messages():
    def even_first(comm, x):
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        into = np.empty_like(x)
        if comm.rank % 2 == 0:
            comm.send(x, right)
            comm.recv(into, left)
        else:
            comm.recv(into, left)
            comm.send(x, right)

    assert record(even_first, ranks(4)).rounds == 2


def test_the_trace_is_the_same_on_every_run():
    first = repr(record(pass_right, ranks(5)).messages)
    assert all(repr(record(pass_right, ranks(5)).messages) == first for _ in range(10))


def test_inputs_are_copied_and_buffers_show_what_happened_in_place():
    inputs = ranks(2)

    def double(comm, x):
        x *= 2

    trace = record(double, inputs)
    assert [b[0] for b in trace.buffers] == [0.0, 2.0]
    assert [x[0] for x in inputs] == [0.0, 1.0]


def test_torch_tensors_travel_too():
    def swap(comm, x):
        into = torch.empty_like(x)
        comm.sendrecv(x, 1 - comm.rank, into, 1 - comm.rank)
        return into

    trace = record(swap, [torch.arange(3.0), torch.arange(3.0) + 10])
    assert torch.equal(trace.results[0], torch.arange(3.0) + 10)
    assert trace.sent_bytes() == [12, 12]


def all_send_first(comm, x):
    comm.send(x, (comm.rank + 1) % comm.size)
    comm.recv(x, (comm.rank - 1) % comm.size)


def nobody_sends(comm, x):
    comm.recv(x, (comm.rank - 1) % comm.size)


def rank_0_leaves_early(comm, x):
    if comm.rank == 1:
        comm.recv(x, 0)


def sends_to_the_wrong_neighbour(comm, x):
    if comm.rank == 0:
        comm.send(x, 2)
    else:
        comm.recv(x, comm.rank - 1)


DEADLOCKS = {
    "deadlock: rank 0 waits to send to rank 1, which waits to send to rank 2, "
    "which waits to send to rank 0": (all_send_first, 3),
    "deadlock: rank 0 waits to receive from rank 2, which waits to receive from rank 1, "
    "which waits to receive from rank 0": (nobody_sends, 3),
    "deadlock: rank 1 waits to receive from rank 0, which has finished": (rank_0_leaves_early, 2),
    "deadlock: rank 0 waits to send to rank 2, which waits to receive from rank 1, "
    "which waits to receive from rank 0": (sends_to_the_wrong_neighbour, 3),
}


@pytest.mark.parametrize("message", DEADLOCKS)
def test_a_deadlock_says_who_waits_for_whom(message):
    program, P = DEADLOCKS[message]
    with pytest.raises(Deadlock) as caught:
        record(program, ranks(P))
    assert str(caught.value) == message


def test_two_separate_deadlocks_are_both_told():
    def pairs(comm, x):
        comm.recv(x, comm.rank ^ 1)

    with pytest.raises(Deadlock, match=r"rank 0 waits .* rank 1, .*; rank 2 waits .* rank 3"):
        record(pairs, ranks(4))


def changes_a_buffer_in_flight(comm, x):
    if comm.rank == 0:
        sending = comm.isend(x, 1)
        x += 1
        sending.wait()
    else:
        comm.recv(x, 0)


def forgets_to_wait(comm, x):
    if comm.rank == 0:
        comm.isend(x, 1)
    else:
        comm.recv(x, 0)


def counts_past_the_last_rank(comm, x):
    comm.send(x, comm.rank + 1)


def sends_to_itself(comm, x):
    comm.send(x, comm.rank)


def receives_into_half(comm, x):
    if comm.rank == 0:
        comm.send(x, 1)
    else:
        comm.recv(x[:2], 0)


def receives_another_dtype(comm, x):
    if comm.rank == 0:
        comm.send(x, 1)
    else:
        comm.recv(np.empty(4, np.int64), 0)


def sends_a_stride(comm, x):
    comm.send(x[::2], 1 - comm.rank)


def sends_a_list(comm, x):
    comm.send([1.0], 1 - comm.rank)


def divides_by_zero(comm, x):
    if comm.rank == 1:
        return 1 // 0
    comm.recv(x, 1)


def is_a_stub(comm, x):
    raise NotImplementedError


BROKEN_RULES = {
    changes_a_buffer_in_flight: "rank 0 changed the buffer of its send to rank 1",
    forgets_to_wait: "rank 0 never waited for its send to rank 1",
    counts_past_the_last_rank: "rank 1 sends to rank 2, but the ranks are 0 to 1",
    sends_to_itself: "sends to itself",
    receives_into_half: "rank 0 sends 4 elements to rank 1, which has room for 2",
    receives_another_dtype: "rank 0 sends float64 to rank 1, which has room for int64",
    sends_a_stride: "contiguous",
    sends_a_list: "numpy array or a torch tensor, got list",
    divides_by_zero: r"rank 1 raised ZeroDivisionError: .*, at: return 1 // 0",
    is_a_stub: "nothing here yet",
}


@pytest.mark.parametrize("program", BROKEN_RULES, ids=lambda p: p.__name__)
def test_every_broken_rule_is_named(program):
    with pytest.raises(TransportError, match=BROKEN_RULES[program]):
        record(program, ranks(2))


def test_a_receive_buffer_read_before_wait_holds_nan():
    def reads_too_early(comm, x):
        into = np.zeros_like(x)
        receiving, sending = comm.irecv(into, 1 - comm.rank), comm.isend(x, 1 - comm.rank)
        early = into.copy()
        receiving.wait()
        sending.wait()
        return early

    assert all(np.isnan(early).all() for early in record(reads_too_early, ranks(2)).results)


@pytest.mark.parametrize("kind", [True], indirect=True)
def test_a_loop_that_never_ends_is_reported_with_its_rank(kind):
    release = threading.Event()

    def loops(comm, x):
        if comm.rank == 1:
            release.wait()
        else:
            comm.recv(x, 1)

    try:
        with pytest.raises(TransportError, match="rank 1 neither finishes nor waits"):
            record(loops, ranks(2), timeout=0.2)
    finally:
        release.set()


def test_errors_are_one_line_in_a_notebook():
    with pytest.raises(Deadlock) as caught:
        record(all_send_first, ranks(2))
    assert caught.value._render_traceback_() == [
        "Deadlock: rank 0 waits to send to rank 1, which waits to send to rank 0"
    ]
    with pytest.raises(TransportError) as caught:
        record(sends_to_itself, ranks(2))
    assert caught.value._render_traceback_() == ["TransportError: rank 0 sends to itself"]


def test_of_several_failing_ranks_the_first_is_reported_every_time():
    def overwrites_what_it_sends(comm, x):
        sending = comm.isend(x, (comm.rank + 1) % comm.size)
        comm.recv(x, (comm.rank - 1) % comm.size)
        sending.wait()

    for _ in range(20):
        with pytest.raises(TransportError, match=r"^rank 0 changed the buffer of its send"):
            record(overwrites_what_it_sends, ranks(4))


def test_code_of_a_package_may_be_kept_from_sending():
    from dtlib.collectives import execute, ring_all_reduce

    def librarys_ring(comm, x):
        return execute(ring_all_reduce(comm.size), x, transport=comm)

    assert record(librarys_ring, ranks(4)).sent_bytes() == [48] * 4
    with pytest.raises(TransportError, match=r"comes from dtlib\.collectives: write your own"):
        record(librarys_ring, ranks(4), without="dtlib.collectives")


def test_a_rank_that_skips_a_sum_is_named_and_so_are_calls_that_do_not_fit():
    def skips(comm):
        return comm.all_reduce(torch.ones(2)) if comm.rank else None

    with pytest.raises(Deadlock, match=r"rank 1 waits in .* for rank 0, which has finished"):
        record_team(skips, 2)
    with pytest.raises(TransportError, match=r"of shape \[.\] on rank ., but .* of shape \[.\]"):
        record_team(lambda comm: comm.all_reduce(torch.ones(comm.rank + 1)), 2)
    with pytest.raises(TransportError, match="gives a int to all-reduce"):
        record_team(lambda comm: comm.all_reduce(1), 2)
    with pytest.raises(TransportError, match="op = 'mean'"):
        record_team(lambda comm: comm.all_reduce(torch.ones(1), "mean"), 2)


def test_a_team_counts_what_a_ring_sends():
    def program(comm):
        comm.all_reduce(torch.ones(8))
        comm.all_gather(torch.ones(2, 3))
        return [str(call) for call in comm.calls], comm.sent_bytes

    for calls, sent in record_team(program, 4):
        assert calls == ["all-reduce of 8 numbers, 48 B sent", "all-gather of 6 numbers, 72 B sent"]
        assert sent == 120


def test_a_replica_that_never_comes_is_named():
    def program(comm):
        if comm.rank == 0:
            comm.all_reduce(torch.ones(2))

    with pytest.raises(Deadlock, match="all-reduce 1 of rank 1, which has finished"):
        record_replicas(program, 2)


def test_replicas_sum_in_the_order_of_ranks_and_count():
    def program(comm):
        x = torch.full((3,), float(comm.rank + 1))
        comm.all_reduce(x)
        return x.tolist()

    trace = record_replicas(program, 4)
    assert trace.results == [[10.0] * 3] * 4
    assert (trace.numbers(), trace.nbytes()) == ([3], 12)
    assert "all-reduce 1 starts, 3 numbers" in repr(trace)


def test_a_reduce_scatter_gives_every_rank_its_part_of_the_sum_and_counts():
    def program(comm):
        part = comm.reduce_scatter(torch.arange(6.0) + 10 * comm.rank)
        return part.tolist(), [str(call) for call in comm.calls]

    (first, calls), (second, _) = record_team(program, 2)
    assert (first, second) == ([10.0, 12.0, 14.0], [16.0, 18.0, 20.0])
    assert calls == ["reduce-scatter of 6 numbers, 12 B sent"]
    with pytest.raises(TransportError, match=r"shape \[5\]; it takes a flat one"):
        record_team(lambda comm: comm.reduce_scatter(torch.zeros(5)), 2)


def test_gathered_bytes_are_those_that_still_exist():
    def program(comm):
        whole = comm.all_gather(torch.zeros(5))
        view, found = whole[2:4], [comm.gathered_bytes]
        del whole
        found.append(comm.gathered_bytes)
        del view
        emptied = comm.all_gather(torch.zeros(4))
        emptied.untyped_storage().resize_(0)
        return [*found, comm.gathered_bytes, comm.most_gathered_bytes]

    assert record_team(program, 2) == [[40, 40, 0, 40]] * 2


def test_an_all_to_all_in_memory_refuses_counts_that_do_not_fit():
    def says(program, match, kind=TransportError):
        with pytest.raises(kind, match=match):
            record_team(program, 2)

    x = torch.ones(3, 2)
    says(lambda c: c.all_to_all(x, [1, 1], [1, 1]), r"in all 2 rows, of an x of shape \[3, 2\]")
    says(lambda c: c.all_to_all(x, [1, 2], [1, 2]), "rank 0 expects 2 rows from rank 1, which")
    says(lambda c: c.all_to_all(x, [3], [3]), "one number of rows for each rank")
    says(lambda c: c.all_to_all(3, [1, 2], [1, 2]), "gives a int to all-to-all")
    says(lambda c: c.rank or c.all_to_all(x, [0, 3], [0, 3]), "which has finished", Deadlock)


def test_an_all_to_all_in_memory_counts_the_rows_that_leave():
    def program(comm):
        send, receive = ([2, 1], [2, 0]) if comm.rank == 0 else ([0, 4], [1, 4])
        x = torch.arange(3.0 + comm.rank) + 10 * comm.rank
        rows = comm.all_to_all(x[:, None].repeat(1, 5), send, receive)
        return rows[:, 0].tolist(), comm.sent_bytes

    assert record_team(program, 2) == [([0, 1], 1 * 5 * 4), ([2, 10, 11, 12, 13], 0)]


def test_a_team_splits_into_teams_that_fail_with_it():
    groups = [[0, 2], [1, 3]]

    def program(comm):
        few = comm.split(groups)
        return few.rank, few.all_reduce(torch.tensor([comm.rank])).item()

    assert record_team(program, 4) == [(0, 2), (0, 4), (1, 2), (1, 4)]

    def leaves(comm):
        return comm.rank == 3 or comm.split(groups).all_reduce(torch.ones(1))

    with pytest.raises(Deadlock, match=r"rank 1 waits in .* for rank 3, which has finished"):
        record_team(leaves, 4)

    def crosses(comm):
        few = comm.split(groups) if comm.rank < 2 else comm
        return few.all_reduce(torch.ones(1))

    with pytest.raises(Deadlock, match=r"rank 0 waits in all-reduce .* for rank 2, which waits"):
        record_team(crosses, 4)


def test_a_team_of_a_team_is_named_by_the_ranks_of_the_whole():
    def program(comm):
        half = comm.split([[0, 1], [2, 3]])
        return half.split([[0], [1]]).rank, half.split([[1, 0]]).all_reduce(
            torch.tensor([comm.rank])
        ).item()

    assert record_team(program, 4) == [(0, 1), (0, 1), (0, 5), (0, 5)]
