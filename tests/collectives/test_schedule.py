"""The algebra of schedules: what may be built, joined, reversed and counted."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from every_algorithm import CHECKS, name, sizes

from dtlib.collectives import (
    Round,
    Run,
    Schedule,
    Send,
    ring_all_gather,
    ring_reduce_scatter,
)

each_builder = pytest.mark.parametrize("build", CHECKS, ids=name)


def test_a_round_from_arrays_is_the_round_from_sends():
    sends = [Send(0, 1, 2, True), Send(1, 2, 0, False, 2)]
    assert list(Round([0, 1], [1, 2], [2, 0], [True, False], [1, 2])) == sends
    assert list(Round.of(sends)) == sends
    assert list(Round.of([(0, 1, 2, True), (1, 2, 0, False, 2)])) == sends


def test_a_send_prints_what_happens():
    assert str(Send(2, 0, 1, True)) == "2→0 adds chunk 1"
    assert str(Send(2, 0, 4, count=3)) == "2→0 keeps chunks 4..6"


def test_plain_lists_of_sends_are_a_schedule():
    schedule = Schedule(2, 1, [[Send(0, 1, 0, True)], [], [Send(1, 0, 0)]])
    assert len(schedule) == 2
    assert list(schedule.sends()) == [Send(0, 1, 0, True), Send(1, 0, 0)]


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([[Send(0, 1, 0)], [Send(0, 4, 0)]], "round 1: 0→4 keeps chunk 0, but the ranks are 0..3"),
        ([[Send(-1, 1, 0)]], "round 0: -1→1 keeps chunk 0, but the ranks are 0..3"),
        ([[Send(0, 1, 2)]], "round 0: 0→1 keeps chunk 2, but the chunks are 0..1"),
        ([[Send(0, 1, -1)]], "but the chunks are 0..1"),
        ([[Send(0, 1, 1, count=2)]], "round 0: 0→1 keeps chunks 1..2, but the chunks are 0..1"),
        ([[Send(0, 1, 0, count=0)]], "a send carries at least 1 chunk; got count = 0"),
        ([[Send(2, 2, 0)]], "rank 2 sends to itself"),
        ([[Send(0.5, 2, 0)]], "must be whole numbers"),
    ],
)
def test_a_send_that_cannot_be_is_refused(rounds, message):
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        Schedule(4, 2, rounds)


@pytest.mark.parametrize("P", [0, -3])
def test_no_builder_takes_less_than_one_rank(P):
    for build in CHECKS:
        with pytest.raises(ValueError, match="P must be"):
            build(P)


@each_builder
def test_on_one_rank_nothing_is_sent(build):
    assert len(build(1)) == build(1).messages() == 0


@each_builder
def test_a_schedule_reversed_twice_is_itself(build):
    for P in sizes(build, 9):
        assert build(P).reversed().reversed() == build(P)


def test_the_reverse_of_a_sequence_is_the_sequence_of_the_reverses():
    scatter, gather = ring_reduce_scatter(5), ring_all_gather(5)
    assert (scatter >> gather).reversed() == gather.reversed() >> scatter.reversed()


def test_schedules_are_equal_when_their_sends_are():
    assert ring_reduce_scatter(4) == ring_reduce_scatter(4).named("another name")
    assert hash(ring_reduce_scatter(4)) == hash(ring_reduce_scatter(4))
    assert ring_reduce_scatter(4) != ring_all_gather(4)
    assert ring_reduce_scatter(4) != ring_reduce_scatter(5)


def test_schedules_that_do_not_fit_are_not_joined():
    with pytest.raises(ValueError, match="has P = 4, ring all-gather has P = 5"):
        ring_reduce_scatter(4) >> ring_all_gather(5)
    with pytest.raises(ValueError, match="has chunks = 4, other has chunks = 2"):
        ring_reduce_scatter(4) >> Schedule(4, 2, [], "other")


@each_builder
def test_what_is_sent_is_received(build):
    for P in sizes(build, 9):
        schedule = build(P)
        assert sum(schedule.sent_bytes(1000)) == sum(schedule.received_bytes(1000))
        assert schedule.reversed().sent_bytes(1000) == schedule.received_bytes(1000)


def test_bytes_are_exact_where_chunks_are_not_whole():
    assert ring_reduce_scatter(3).sent_bytes(1) == [Fraction(2, 3)] * 3


def test_messages_of_several_chunks_spell_out_their_chunks():
    round = Round([0, 3], [1, 2], [4, 1], [True, False], [3, 1])
    columns = [column.tolist() for column in round.one_chunk_each()]
    assert columns == [[0, 0, 0, 3], [1, 1, 1, 2], [4, 5, 6, 1], [True, True, True, False]]


def test_a_ring_of_two_thousand_ranks_is_data_like_any_other():
    schedule = ring_reduce_scatter(2048)
    assert schedule.messages() == 2047 * 2048
    assert np.array_equal(schedule.rounds[0].chunk, (np.arange(2048) - 1) % 2048)


# Runs: rounds that are alike, built when somebody asks for them.


def turning(P, times, count=1):
    """``times`` rounds around a ring of P ranks; the chunks change, the traffic does not."""
    r = np.arange(P)
    return Run(times, lambda t: Round(r, (r + 1) % P, (r - t) % P, reduce=True, count=count))


@pytest.mark.parametrize("times", [0, 1, 2, 7])
def test_a_run_is_its_rounds(times):
    lazily = Schedule(5, 5, [[Send(0, 1, 0)], turning(5, times), turning(5, 2)])
    rounds = [[Send(0, 1, 0)], *turning(5, times), *turning(5, 2)]
    built = Schedule(5, 5, [list(round) for round in rounds])
    assert lazily == built and hash(lazily) == hash(built) and str(lazily) == str(built)
    assert lazily.reversed() == built.reversed()
    assert lazily >> built == built >> lazily
    assert (len(lazily), lazily.messages()) == (len(built), built.messages())
    assert lazily.sent_bytes(7) == built.sent_bytes(7)
    assert [list(round) for round in lazily.rounds[-3:]] == list(map(list, built.rounds[-3:]))
    assert list(lazily.rounds[-1]) == list(built.rounds[-1])
    assert pickle.loads(pickle.dumps(lazily)) == built


def test_a_run_builds_two_of_its_rounds_and_the_others_when_asked():
    built = []

    def round_of(t):
        built.append(t)
        return Round([0, 1], [1, 0], chunk=t)

    schedule = Schedule(2, 100, Run(100, round_of))
    again = (schedule >> schedule.reversed()).named("there and back")
    assert again.messages() == 400 and again.sent_bytes(1) == [2, 2]
    assert sorted(built) == [0, 99]
    assert list(again.rounds[150]) == [Send(1, 0, 49, True), Send(0, 1, 49, True)]
    assert sorted(built) == [0, 49, 99]


def test_a_run_whose_rounds_are_not_alike_is_found_out():
    with pytest.raises(ValueError, match="round 4 of a run of 5 has other traffic"):
        Run(5, lambda t: Round(0, 1 + t // 4, chunk=0))
    for column in ("src", "dst", "count"):
        columns = {"src": [0, 1], "dst": [2, 3], "chunk": [0, 0], "count": [1, 1]}
        other = columns | {column: [5, 4]}
        run = Run(
            3, lambda t, other=other, columns=columns: Round(**(other if t == 1 else columns))
        )
        with pytest.raises(ValueError, match="round 1 of a run of 3 has other traffic"):
            list(run)


def test_a_chunk_that_a_run_cannot_send_is_refused_at_the_latest_when_it_is_sent():
    with pytest.raises(ValueError, match=r"round 1: 3→0 adds chunks 3..4, but the chunks are 0..3"):
        Schedule(4, 4, [[Send(0, 1, 0)], turning(4, 3, count=2)])
    dipping = Run(5, lambda t: Round(0, 1, chunk=abs(t - 2) - 1))
    schedule = Schedule(2, 2, [[Send(0, 1, 0)], dipping])
    with pytest.raises(ValueError, match=r"round 3: 0→1 keeps chunk -1, but the chunks are 0..1"):
        list(schedule)
    with pytest.raises(ValueError, match=r"the ranks are 0..3"):
        Schedule(4, 5, turning(5, 3))
