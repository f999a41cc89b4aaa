"""The algebra of schedules: what may be built, joined, reversed and counted."""

from fractions import Fraction

import numpy as np
import pytest
from every_algorithm import CHECKS, name, sizes

from dtlib.collectives import Round, Schedule, Send, ring_all_gather, ring_reduce_scatter

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
