"""Ranks that are stepped in one thread do what ranks in threads do, word for word."""

from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dtlib.exercises import NotYet, TransportError, record
from dtlib.exercises.manifest import exercises_of
from dtlib.exercises.worlds import Steps, record_replicas, record_team, threads

RANKS, AT_ONCE = 3, st.booleans()
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.permutations(range(RANKS)), AT_ONCE, AT_ONCE),
        st.tuples(st.sampled_from(["double", "wait", "fail", "leave"]), st.integers(0, RANKS - 1)),
    ),
    max_size=9,
)
LOST = st.none() | st.tuples(st.integers(0, RANKS - 1), st.integers(0, 3))


def acts_of(events, lost) -> list[list]:
    """What each rank does, so that every message has its receive, but for one act that is lost."""
    acts = [[] for _ in range(RANKS)]
    for event in events:
        if isinstance(event[0], str):
            acts[event[1]].append(event)
            continue
        (src, dst, _), send_waits, receive_waits = event
        acts[src].append(("send" if send_waits else "isend", dst))
        acts[dst].append(("recv" if receive_waits else "irecv", src))
    if lost:
        del acts[lost[0]][lost[1] : lost[1] + 1]
    return acts


def program(comm, x, acts):
    """Carries out what was drawn for this rank, on one buffer that is changed all the time."""
    under_way, into, heard = [], np.zeros_like(x), []
    for act, peer in acts[comm.rank]:
        if act == "double":
            x *= 2
        elif act == "wait" and under_way:
            under_way.pop(0).wait()
        elif act == "fail":
            raise ValueError(f"rank {comm.rank} has heard {heard}")
        elif act == "leave":
            return heard
        elif act in ("send", "isend"):
            handle = getattr(comm, act)(x, peer)
            under_way += [handle] if handle else []
        elif act in ("recv", "irecv"):
            handle = getattr(comm, act)(into, peer)
            under_way += [handle] if handle else []
            heard.append(into.tolist())
    for handle in under_way:
        handle.wait()
    return heard, into.tolist()


def outcome(run, stepped: bool) -> str:
    """What a run ends with, in the kind of world that is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "threads_start", lambda: not stepped)
        try:
            found = run()
        except (TransportError, NotYet) as error:
            return f"{type(error).__name__}: {error}"
    shown = vars(found) if hasattr(found, "results") else found
    return repr(shown)


def recorded(acts):
    return record(program, [np.full(2, 1.0 + rank) for rank in range(RANKS)], acts)


@given(EVENTS, LOST)
@example([([1, 0, 2], False, False), ("double", 0)], None)
def test_random_programs_end_alike_in_threads_and_in_steps(events, lost):
    acts = acts_of(events, lost)
    assert outcome(lambda: recorded(acts), True) == outcome(lambda: recorded(acts), False)


def test_a_run_that_starts_with_what_it_has_spoiled_is_told_from_an_honest_one(monkeypatch):
    acts = [[("double", 0), ("recv", 1), ("send", 1)], [("send", 0), ("recv", 0)], []]
    honest = outcome(lambda: recorded(acts), stepped=True)
    monkeypatch.setattr("dtlib.exercises.worlds.buffers.copy", lambda x: x)
    assert outcome(lambda: recorded(acts), stepped=True) != honest
    assert outcome(lambda: recorded(acts), stepped=False) == honest


@pytest.mark.parametrize("to_the_left", [-1, 7])
def test_a_ring_of_eight_is_the_same_trace_and_so_is_the_error_of_a_wrong_one(to_the_left):
    def ring(comm, x):
        for _ in range(comm.size - 1):
            into, left = np.empty_like(x), comm.rank + to_the_left
            comm.sendrecv(x, (comm.rank + 1) % 8, into, left % 8 if left > 0 else left)
            x = into + comm.rank
        return x

    def run():
        return record(ring, [np.full(4, 1.0 * rank) for rank in range(8)])

    assert outcome(run, stepped=True) == outcome(run, stepped=False)


TEAM = {
    "sums": lambda comm: comm.all_reduce(np.arange(3.0) + comm.rank).tolist(),
    "nobody waits for rank 0": lambda comm: comm.rank and comm.all_gather(np.ones(1)),
    "shapes": lambda comm: comm.all_gather(np.ones(1 + comm.rank)),
    "one after the other": lambda comm: [
        comm.reduce_scatter(np.arange(6.0) * i).tolist() for i in range(1, 4)
    ],
    "parts": lambda comm: comm.split([[0, 2], [1]]).all_reduce(np.ones(1) + comm.rank).tolist(),
}


@pytest.mark.parametrize("name", TEAM)
def test_collectives_end_alike(name):
    assert outcome(lambda: record_team(TEAM[name], 3, arrays=True), True) == outcome(
        lambda: record_team(TEAM[name], 3, arrays=True), False
    )


def test_sums_that_overlap_with_work_end_alike():
    import torch

    def replica(comm, forgets):
        works = []
        for i in range(3):
            x = torch.full((2,), float(comm.rank + i))
            works.append((comm.all_reduce(x, async_op=True), x))
            comm.note(f"bucket {i}")
        for work, _ in works[forgets:]:
            work.wait()
        return [x.tolist() for _, x in works]

    for forgets in (0, 1):
        run = lambda f=forgets: record_replicas(replica, 3, f)  # noqa: E731
        assert outcome(run, stepped=True) == outcome(run, stepped=False)


def test_what_a_rank_prints_is_printed_once(capsys):
    def talks(comm, x):
        for i in range(3):
            print(f"rank {comm.rank} is in round {i}")
            comm.sendrecv(x, 1 - comm.rank, np.empty_like(x), 1 - comm.rank)

    outcome(lambda: record(talks, [np.ones(1), np.ones(1)]), stepped=True)
    said = capsys.readouterr().out.splitlines()
    assert sorted(said) == [f"rank {r} is in round {i}" for r in (0, 1) for i in range(3)]


def test_who_swallows_everything_is_unwound_at_the_next_call():
    def swallows(comm, x):
        with suppress(BaseException):
            comm.recv(x, 1 - comm.rank)
        comm.send(x, 1 - comm.rank)

    says = outcome(lambda: record(swallows, [np.ones(1), np.ones(1)]), stepped=True)
    assert says.startswith("Deadlock: deadlock: rank 0 waits to receive from rank 1, which waits")


def test_the_verdicts_of_chapter_20_are_those_of_threads():
    for exercise in exercises_of("20"):
        for answer, _ in exercise.declaration.wrong():
            run = lambda e=exercise, a=answer: e.declaration.judge(a)  # noqa: E731
            assert outcome(run, stepped=True) == outcome(run, stepped=False)


def test_ranks_that_are_stepped_start_no_thread(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refused)
    assert Steps(3).run(lambda rank: rank, timeout=1) == [0, 1, 2]
    assert threads.threads_start()
    monkeypatch.setattr("sys.thread_info", SimpleNamespace(name="pthread-stubs"))
    assert isinstance(threads.world_of(2), Steps)
