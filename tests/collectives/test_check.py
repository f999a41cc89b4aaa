"""The checker sees everything: right schedules pass, and every way to spoil one is noticed.

The independent reference is arithmetic: rank r holds the number 2^r in every chunk, so that a sum
tells which ranks are in it, and NaN where it holds nothing. `emulate` does the sums.
"""

import numpy as np
import pytest
from every_algorithm import (
    CHECKS,
    POWER_OF_TWO,
    chain_all_reduce_in_three_segments,
    double_tree_in_three_segments,
    multi_rail_in_pairs,
    name,
    sizes,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlib import collectives as c
from dtlib.collectives import Schedule, ScheduleError, Send

each_builder = pytest.mark.parametrize("build", CHECKS, ids=name)
LARGE = (
    c.pairwise_all_to_all,
    c.bruck_all_to_all,
    c.half_ring_all_reduce,
    c.two_way_ring_all_reduce,
    double_tree_in_three_segments,
    chain_all_reduce_in_three_segments,
    multi_rail_in_pairs,
)
STARTS = {
    c.check_scatter: c.at_root,
    c.check_gather: c.at_owners,
    c.check_all_gather: c.at_owners,
    c.check_broadcast: c.at_root,
    c.check_all_to_all: c.in_rows,
}


def most_ranks(build) -> int:
    return 4 if build in LARGE else 8 if build in POWER_OF_TWO else 6


def few_ranks(build) -> int:
    """Enough for every way to spoil a send, of which there are many for each."""
    return 4 if build in POWER_OF_TWO else min(5, most_ranks(build))


def computes(schedule, check) -> bool:
    """Whether the numbers come out right; for schedules with the chunks of a right one."""
    P, chunks = schedule.P, schedule.chunks
    held = STARTS.get(check, c.everywhere)(schedule).any(axis=2)
    numbers = np.where(held, 2.0 ** np.arange(P)[:, None], np.nan)
    results = np.array(c.emulate(schedule, list(numbers)))
    chunk, everyone = np.arange(chunks), 2.0**P - 1
    if check is c.check_all_reduce:
        return (results == everyone).all()
    if check is c.check_reduce:
        return (results[0] == everyone).all()
    if check is c.check_reduce_scatter:
        return (results[chunk, chunk] == everyone).all()
    if check is c.check_broadcast:
        return (results == 1).all()
    if check is c.check_scatter:
        return (results[chunk, chunk] == 1).all()
    if check is c.check_gather:
        return (results[0] == 2.0**chunk).all()
    if check is c.check_all_gather:
        return (results == 2.0**chunk).all()
    return (results[chunk % P, chunk] == 2.0 ** (chunk // P)).all()


def passes(schedule, check) -> bool:
    try:
        check(schedule)
    except ScheduleError:
        return False
    return True


def with_rounds(schedule, rounds):
    return Schedule(schedule.P, schedule.chunks, rounds, schedule.name, schedule.parts)


def replaced(rounds, t, i, *sends):
    """The rounds with send ``i`` of round ``t`` replaced by others."""
    before, after = list(rounds[t])[:i], list(rounds[t])[i + 1 :]
    return [*rounds[:t], [*before, *sends, *after], *rounds[t + 1 :]]


def every_send(schedule):
    rounds = schedule.rounds
    return rounds, [(t, i, send) for t, sends in enumerate(rounds) for i, send in enumerate(sends)]


def without_a_send(schedule):
    rounds, sends = every_send(schedule)
    for t, i, _ in sends:
        yield with_rounds(schedule, replaced(rounds, t, i))


def with_a_send_repeated(schedule):
    rounds, sends = every_send(schedule)
    for t, i, send in sends:
        yield with_rounds(schedule, replaced(rounds, t, i, send, send))
        for later in range(t + 1, len(rounds) + 1):
            yield with_rounds(schedule, [*rounds[:later], [send], *rounds[later:]])


def with_a_send_changed(schedule):
    """One send goes to another rank, carries another chunk, or is kept instead of added."""
    rounds, sends = every_send(schedule)
    for t, i, send in sends:
        changed = [send._replace(reduce=not send.reduce)]
        ranks = set(range(schedule.P)) - {send.src, send.dst}
        changed += [send._replace(dst=dst) for dst in ranks]
        chunks = set(range(schedule.chunks - send.count + 1)) - {send.chunk}
        changed += [send._replace(chunk=chunk) for chunk in chunks]
        for wrong in changed:
            yield with_rounds(schedule, replaced(rounds, t, i, wrong))


@each_builder
def test_the_reference_agrees_that_the_algorithms_are_right(build):
    for P in sizes(build, most_ranks(build)):
        assert computes(build(P), CHECKS[build])


@each_builder
def test_sabotage_every_dropped_send_is_noticed(build):
    for P in sizes(build, most_ranks(build)):
        for schedule in without_a_send(build(P)):
            assert not passes(schedule, CHECKS[build]), str(schedule)
            assert not computes(schedule, CHECKS[build])


@each_builder
def test_sabotage_every_repeated_send_is_noticed(build):
    for P in sizes(build, few_ranks(build)):
        for schedule in with_a_send_repeated(build(P)):
            assert not passes(schedule, CHECKS[build]), str(schedule)


@each_builder
def test_sabotage_every_misdirected_send_is_noticed_unless_the_sums_are_right_all_the_same(build):
    """Sums that take another way to the same result are no mistake; most changes are one."""
    verdicts = []
    for P in sizes(build, few_ranks(build)):
        for schedule in with_a_send_changed(build(P)):
            verdicts.append(passes(schedule, CHECKS[build]))
            assert not verdicts[-1] or computes(schedule, CHECKS[build]), str(schedule)
    assert sum(verdicts) < 0.4 * len(verdicts)


def test_a_send_may_take_another_way_to_the_same_sums():
    """Rank 0 hands chunk 2 to rank 2, its owner, at once: rank 1 then passes on its own only."""
    ring = list(c.ring_reduce_scatter(3))
    first, *others = ring[0]
    assert first == Send(0, 1, 2, reduce=True)
    c.check_reduce_scatter(Schedule(3, 3, [[first._replace(dst=2), *others], ring[1]]))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_passes_is_right_and_has_no_send_to_spare(data):
    """However a schedule is spoiled: sends shuffled between rounds, dropped, added, changed."""
    build = data.draw(st.sampled_from(list(CHECKS)))
    right = build(data.draw(st.sampled_from(sizes(build, 5)[1:])))
    rank, chunk = st.integers(0, right.P - 1), st.integers(0, right.chunks - 1)
    rounds = [list(round) for round in right]
    for _ in range(data.draw(st.integers(1, 4))):
        sends = data.draw(st.sampled_from(rounds))
        if sends and data.draw(st.booleans()):
            moved = sends.pop(data.draw(st.integers(0, len(sends) - 1)))
            if data.draw(st.booleans()):
                data.draw(st.sampled_from(rounds)).append(moved)
        else:
            src, dst = data.draw(st.lists(rank, min_size=2, max_size=2, unique=True))
            sends.append(Send(src, dst, data.draw(chunk), data.draw(st.booleans())))
    schedule, check = with_rounds(right, rounds), CHECKS[build]
    if passes(schedule, check):
        assert computes(schedule, check)
        assert not any(passes(less, check) for less in without_a_send(schedule))


def problems(schedule, check=c.check_all_reduce) -> list[str]:
    with pytest.raises(ScheduleError) as error:
        check(schedule)
    return [str(problem) for problem in error.value.problems]


def both_add(*rounds, P=2, chunks=1):
    return Schedule(P, chunks, rounds, "mine")


THERE, BACK = Send(0, 1, 0, True), Send(1, 0, 0, True)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (both_add(), ["rank 0, chunk 0: lacks ranks [1]", "rank 1, chunk 0: lacks ranks [0]"]),
        (both_add([THERE]), ["rank 0, chunk 0: lacks ranks [1]"]),
        (both_add([THERE], [BACK]), ["round 1, rank 0, chunk 0: counts rank 0 twice"]),
        (
            both_add([THERE, BACK], [THERE]),
            ["round 1, rank 1, chunk 0: counts ranks [0, 1] twice"],
        ),
        (
            both_add([THERE, BACK], [THERE._replace(reduce=False)]),
            ["round 1, rank 1, chunk 0: receives nothing new, from rank 0"],
        ),
        (
            both_add([THERE._replace(reduce=False), BACK]),
            ["round 0, rank 1, chunk 0: is overwritten while it is being sent, from rank 0"],
        ),
        (
            both_add([THERE, Send(2, 1, 0)], P=3),
            [
                "round 0, rank 1, chunk 0: is overwritten by one message while another arrives, "
                f"from rank {src}"
                for src in (0, 2)
            ],
        ),
    ],
)
def test_an_error_names_the_round_the_rank_the_chunk_and_the_difference(schedule, expected):
    assert problems(schedule) == expected


def test_an_error_lists_the_first_problems_and_counts_the_rest():
    with pytest.raises(ScheduleError, match=r"(?s)^mine is no all-reduce\n  rank 0.*and 12 more$"):
        c.check_all_reduce(both_add(P=5, chunks=4))


def test_a_send_whose_sum_nobody_uses_is_redundant():
    up, down = c.flat_all_reduce(3)
    wasted = [Send(1, 2, 0, reduce=True)]
    assert computes(Schedule(3, 1, [up, wasted, down]), c.check_all_reduce)
    assert problems(Schedule(3, 1, [up, wasted, down])) == [
        "round 1, rank 2, chunk 0: is never used, from rank 1"
    ]


def test_adding_to_memory_that_holds_nothing_is_an_error():
    gather = c.ring_all_gather(2)
    adds = with_rounds(gather, [[send._replace(reduce=True) for send in gather.sends()]])
    assert problems(adds, c.check_all_gather) == [
        "round 0, rank 1, chunk 0: is added to before it holds anything, from rank 0",
        "round 0, rank 0, chunk 1: is added to before it holds anything, from rank 1",
    ]


def test_broadcast_and_reduce_know_their_root():
    shifted = [Send((s.src + 1) % 4, (s.dst + 1) % 4, 0, True) for s in c.flat_reduce(4).sends()]
    c.check_reduce(Schedule(4, 1, [shifted]), root=1)
    c.check_broadcast(Schedule(4, 1, [shifted]).reversed(), root=1)
    with pytest.raises(ScheduleError, match="no reduce to rank 0"):
        c.check_reduce(Schedule(4, 1, [shifted]))


def test_ranks_may_own_several_chunks():
    halves = [Send(src, 1 - src, 2 * (1 - src), True, count=2) for src in (0, 1)]
    c.check_reduce_scatter(Schedule(2, 4, [halves]))
    with pytest.raises(ScheduleError, match="a multiple of P chunks; mine has P = 2 ranks and 3"):
        c.check_reduce_scatter(both_add(chunks=3))
    with pytest.raises(ScheduleError, match="P x P chunks"):
        c.check_all_to_all(both_add(chunks=2))


@each_builder
def test_states_begin_with_the_addends_and_end_with_the_sums(build):
    schedule = build(4)
    tables = list(c.states(schedule, STARTS.get(CHECKS[build], c.everywhere)))
    assert len(tables) == len(schedule) + 1
    assert tables[0].sum() <= 4 * schedule.chunks
    assert tables[-1].max() == 1 and tables[-1].shape == (4, schedule.chunks, 4)


def test_states_show_what_is_counted_twice():
    *_, last = c.states(both_add([THERE], [BACK]))
    assert last[0, 0].tolist() == [2, 1]


def test_sixty_four_ranks_are_checked_like_four():
    c.check_all_reduce(c.ring_all_reduce(64))
    c.check_all_reduce(c.halving_doubling_all_reduce(64))
