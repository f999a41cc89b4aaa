"""Receives that are posted rounds before they are needed: what `execute` makes of gloo's handshake.

The wires below hand a message over as soon as both sides have posted it, as gloo may, and the
ranks take turns in random order: whatever is posted too early is overwritten too early.
"""

import random
import weakref
from collections import defaultdict, deque

import numpy as np
import pytest
from every_algorithm import CHECKS, name, sizes

from dtlib.collectives import (
    Round,
    Schedule,
    Send,
    emulate,
    on_ranks,
    recursive_doubling_all_reduce,
    ring_all_reduce,
)
from dtlib.collectives.on_ranks import RankMessages, Worker, messages_for
from dtlib.collectives.transport import Mailboxes

POSTED_EARLY = on_ranks._posted_early
PASSED_ON = Schedule(3, 1, [[Send(1, 2, 0)], [Send(0, 1, 0)]], "passed on")


class Handed:
    """The handle of a message: done once it was handed over."""

    def __init__(self, buffer):
        self.buffer, self.done = buffer, False

    def wait(self):
        assert self.done


class Wires:
    """Between all ranks; a message is handed over when its send and its receive are both posted."""

    def __init__(self):
        self.sends, self.receives = defaultdict(deque), defaultdict(deque)

    def post(self, waiting, pair, buffer):
        handle = Handed(buffer)
        waiting[pair].append(handle)
        while self.sends[pair] and self.receives[pair]:
            sent, received = self.sends[pair].popleft(), self.receives[pair].popleft()
            received.buffer[...] = sent.buffer
            sent.done = received.done = True
        return handle


class Wire:
    early_receives = True

    def __init__(self, wires, rank, size):
        self.wires, self.rank, self.size = wires, rank, size

    def isend(self, buffer, dst):
        return self.wires.post(self.wires.sends, (self.rank, dst), buffer)

    def irecv(self, buffer, src):
        return self.wires.post(self.wires.receives, (src, self.rank), buffer)


def in_random_order(schedule, tensors, seed):
    """What the ranks hold when each starts and finishes its rounds whenever it can."""
    draw, wires = random.Random(seed), Wires()
    results = [tensor.copy() for tensor in tensors]
    workers = [Worker(schedule, x, Wire(wires, r, schedule.P)) for r, x in enumerate(results)]

    def steps(worker):
        for t in range(len(schedule)):
            worker.start(t)
            due = [worker.arriving[i] for i in range(len(worker.messages.rounds[t][1]))]
            while not all(handle.done for handle in due + worker.leaving):
                yield
            worker.finish(t)
            yield

    ranks = [steps(worker) for worker in workers]
    turns = 0
    while ranks:
        rank = draw.choice(ranks)
        if next(rank, "over") == "over":
            ranks.remove(rank)
        turns += 1
        assert turns < 100_000, "the ranks wait for each other"
    return results


def addends(P, numel=29):
    return [np.array([f"{rank}" for _ in range(numel)], dtype=object) for rank in range(P)]


def wrong(schedule, seeds):
    """With how many of the random orders the ranks end with something else than `emulate` says."""
    expected = [x.tolist() for x in emulate(schedule, addends(schedule.P))]
    return sum(
        [x.tolist() for x in in_random_order(schedule, addends(schedule.P), seed)] != expected
        for seed in range(seeds)
    )


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_early_receives_change_no_letter_in_whatever_order_the_ranks_run(build):
    for P in sizes(build, 6):
        assert wrong(build(P), seeds=5) == 0
    assert wrong(PASSED_ON, seeds=20) == 0


SWAPPED = Schedule(2, 1, [[Send(0, 1, 0, reduce=False), Send(1, 0, 0, reduce=False)]], "swapped")


@pytest.mark.parametrize("P", [2, 4, 8])
def test_what_leaves_while_another_arrives_in_its_place_is_what_was_there(P):
    back = recursive_doubling_all_reduce(P).reversed()
    assert [x.tolist() for x in emulate(SWAPPED, addends(2, 1))] == [["1"], ["0"]]
    assert wrong(SWAPPED, seeds=20) == wrong(back, seeds=20) == 0


def test_sabotage_what_is_not_copied_is_overwritten(monkeypatch):
    monkeypatch.setattr(on_ranks, "messages_for", RankMessages)
    expected = [x.tolist() for x in emulate(SWAPPED, addends(2))]
    monkeypatch.setattr(on_ranks, "clone", lambda part: part)
    held = [[x.tolist() for x in in_random_order(SWAPPED, addends(2), seed)] for seed in range(20)]
    assert any(one != expected for one in held)


def all_at_once(rounds, room):
    """The sabotage: every receive is posted at the start, each with a landing of its own."""
    placed, landed = [], 0
    for out, into in rounds:
        placed.append((out, [m.behind(landed) for m in into]))
        landed += max((m.landing.stop for m in into if m.landing), default=0)
    first = [m for _, into in placed for m in into]
    return placed, [first, *([] for _ in rounds[1:])]


def one_landing(rounds, room):
    """The sabotage: receives come early, but land where others have landed."""
    _, posts = POSTED_EARLY(rounds, room)
    received = iter([m for _, into in rounds for m in into])
    return rounds, [[next(received) for _ in post] for post in posts]


@pytest.mark.parametrize(
    ("sabotage", "schedule"), [(all_at_once, PASSED_ON), (one_landing, ring_all_reduce(4))]
)
def test_sabotage_receives_that_come_too_early_are_seen(monkeypatch, sabotage, schedule):
    monkeypatch.setattr(on_ranks, "messages_for", RankMessages)
    monkeypatch.setattr(on_ranks, "_posted_early", sabotage)
    assert wrong(schedule, seeds=20) > 0


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_receives_are_posted_in_the_order_of_the_rounds_and_none_too_late(build):
    for P in sizes(build, 8):
        for rank in range(P):
            messages = RankMessages(build(P), rank, 96)
            due, posted = [], []
            for post, (_, into) in zip(messages.posts, messages.rounds, strict=True):
                posted += post
                due += into
                assert posted[: len(due)] == due
            assert posted == due


@pytest.mark.parametrize("P", range(2, 10))
def test_a_ring_all_reduce_posts_its_receives_at_two_moments_in_memory_of_one_buffer(P):
    for rank in range(P):
        messages = RankMessages(ring_all_reduce(P), rank, 12 * P)
        moments = [t for t, post in enumerate(messages.posts) if post]
        assert moments == [0, P - 1]
        assert messages.scratch_size == 12 * (P - 1)


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_what_lands_early_takes_no_more_memory_than_the_buffer_or_the_largest_round(build):
    for P in sizes(build, 8):
        for rank in range(P):
            messages = RankMessages(build(P), rank, 96)
            sizes_of = [
                [m.landing.stop - m.landing.start for m in into if m.landing]
                for _, into in messages.rounds
            ]
            assert messages.scratch_size <= max([96, *map(sum, sizes_of)])


class Remembered:
    """A handle that says, when it is waited for, how many of those before it are gone."""

    def __init__(self, all_handles):
        self.all_handles = all_handles
        all_handles.append(weakref.ref(self))

    def wait(self):
        self.gone = sum(handle() is None for handle in self.all_handles)
        assert self.gone == 0, f"{self.gone} handles were thrown away"


class Remembering:
    def __init__(self):
        self.rank, self.size, self.handles = 0, 4, []

    def isend(self, buffer, dst):
        return Remembered(self.handles)

    irecv = isend


class Careless(Worker):
    def finish(self, t):
        super().finish(t)
        self.over.clear()


@pytest.mark.parametrize("early", [False, True])
def test_no_handle_is_thrown_away_before_all_rounds_are_over(early):
    def run(worker):
        worker.transport.early_receives = early
        for t in range(6):
            worker.start(t)
            worker.finish(t)

    run(Worker(ring_all_reduce(4), np.ones(8), Remembering()))
    with pytest.raises(AssertionError, match="thrown away"):
        run(Careless(ring_all_reduce(4), np.ones(8), Remembering()))


def test_a_schedule_is_compared_with_its_equal_once_however_often_it_is_run(monkeypatch):
    compared = []
    equal = type(ring_all_reduce(2).rounds[0].traffic).__eq__

    def counted(self, other):
        compared.append(1)
        return equal(self, other)

    monkeypatch.setattr(type(ring_all_reduce(2).rounds[0].traffic), "__eq__", counted)
    known, again = ring_all_reduce(7), ring_all_reduce(7)
    plan = messages_for(known, 0, 70)
    assert messages_for(again, 0, 70) is plan
    assert compared  # the twin: it can count
    compared.clear()
    assert messages_for(again, 0, 70) is plan
    assert known == again
    assert not compared
    assert known != ring_all_reduce(8)
    other = Schedule(7, 7, [Round.of(list(r)[1:]) for r in known], "with a message less")
    assert known != other
    assert again != other


def test_a_transport_that_says_nothing_has_every_receive_in_its_own_round():
    class Silent:
        rank, size = 0, 4

    worker = Worker(ring_all_reduce(4), np.ones(8), Silent())
    assert worker.posts == [into for _, into in worker.messages.rounds]
    early = Worker(ring_all_reduce(4), np.ones(8), Mailboxes(4).of(0))
    assert [len(post) for post in early.posts] == [3, 0, 0, 3, 0, 0]
