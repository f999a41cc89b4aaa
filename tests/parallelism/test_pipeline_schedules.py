"""Closed forms of pipeline schedules against the simulator, by exact fractions."""

from fractions import Fraction
from itertools import product

import pytest

from dtlib.parallelism.pipeline import (
    Action,
    PipelineError,
    PipelineSchedule,
    check_schedule,
    draw_pipeline,
    dual_pipe,
    dual_pipe_v,
    dual_pipe_wait_time,
    gpipe,
    interleaved,
    interleaved_held_count,
    interleaved_peak_count,
    one_f_one_b,
    one_f_one_b_peak_count,
    pipeline_bubble_fraction,
    pipeline_sent_bytes,
    pipeline_step_time,
    simulate,
    zb_v,
    zero_bubble,
    zero_bubble_peak_count,
    zero_bubble_wait_time,
)
from dtlib.parallelism.pipeline.messages import messages
from dtlib.timeline import Timeline

TIMES = [(1, 1, 1), (2, 3, 1), (1, 2, 0), (Fraction(1, 3), 1, Fraction(1, 2)), (3, 1, 2)]


def exactly(schedule, f=1, b=1, w=1, comm=0):
    return simulate(schedule, *map(Fraction, (f, b, w, comm)))


@pytest.mark.parametrize("builder", [gpipe, one_f_one_b])
def test_gpipe_and_1f1b_wait_equally_long_for_any_times(builder):
    for p, m, (f, b, w) in product(range(1, 7), (1, 2, 3, 5, 8, 13), TIMES):
        timeline = exactly(builder(p, m), f, b, w)
        assert timeline.makespan == (m + p - 1) * (f + b + w)
        assert timeline.bubble_fraction == Fraction(p - 1, m + p - 1)
        assert timeline.stage_bubble == (p - 1) * (f + b + w)


def test_gpipe_holds_all_micro_batches_and_1f1b_one_per_stage_to_come():
    for p, m in product(range(1, 9), range(1, 20)):
        assert gpipe(p, m).peak_activations == [m] * p
        assert one_f_one_b(p, m).peak_activations == [min(m, p - r) for r in range(p)]


def test_v_stages_per_rank_divide_the_bubble_by_v():
    for p, v, turns, (f, b, w) in product(range(1, 6), (2, 3, 4), (1, 2, 3), TIMES):
        timeline = exactly(interleaved(p, turns * p, v), f, b, w)
        assert timeline.bubble_fraction == Fraction(p - 1, v * turns * p + p - 1)


def test_v_stages_per_rank_hold_more_activations():
    for p, v, turns in product(range(1, 7), (2, 3, 4), (2, 3, 5)):
        peaks = [Fraction(x) for x in interleaved(p, turns * p, v).peak_activations]
        assert peaks == [p + Fraction(p - 1 - 2 * r, v) for r in range(p)]
        assert peaks[0] == p * (1 + Fraction(p - 1, p * v))
    for p, v in product(range(1, 7), (2, 3)):
        assert interleaved(p, p, v).peak_activations[0] == p  # all there are


def test_interleaving_with_one_stage_per_rank_only_holds_more():
    for p in (2, 4, 5):
        once, plain = interleaved(p, 2 * p, 1), one_f_one_b(p, 2 * p)
        assert exactly(once).makespan == exactly(plain).makespan
        assert once.peak_activations[0] > plain.peak_activations[0]


@pytest.mark.parametrize("c", [1, 2])
def test_zero_bubble_saves_c_weight_gradients_per_stage(c):
    times = [(1, 1, 1), (2, 3, 1), (3, 2, 2), (Fraction(1, 3), 1, Fraction(1, 4)), (2, 2, 0)]
    for p, more, (f, b, w) in product(range(1, 9), (0, 1, 2, 5, 11), times):
        m = c * (p - 1) + 1 + more
        schedule = zero_bubble(p, m, c)
        assert exactly(schedule, f, b, w).stage_bubble == max(0, (p - 1) * (f + b - c * w))
        assert schedule.peak_activations == [c * (p - 1) + 1] * p


def test_zb_h1_ends_after_3m_plus_p_minus_1_exactly_from_m_equals_p():
    for p, m in product(range(2, 9), range(1, 24)):
        timeline = exactly(zero_bubble(p, m, 1))
        assert (timeline.makespan == 3 * m + p - 1) is (m >= p)
        if m >= p:
            idle = [own[-1].stop - own[0].start - 3 * m for own in map(timeline.of, range(p))]
            assert idle == [p - 1 - r for r in range(p)]


def test_zb_h2_waits_nowhere_exactly_from_m_equals_2p_minus_1():
    for p, m in product(range(2, 9), range(1, 30)):
        timeline = exactly(zero_bubble(p, m, 2))
        assert timeline.stage_bubble == max(0, 2 * p - 1 - m)
        if m >= 2 * p - 1:  # and yet the ranks begin and end at different times
            assert timeline.makespan == 3 * m + p - 1
            assert timeline.bubble_fraction == exactly(zero_bubble(p, m, 1)).bubble_fraction


def test_more_than_two_micro_batches_ahead_cost_memory_and_save_nothing():
    for p in (2, 4, 6):
        two, three = zero_bubble(p, 6 * p, 2), zero_bubble(p, 6 * p, 3)
        assert exactly(three).makespan == exactly(two).makespan
        assert three.peak_activations[0] == 3 * (p - 1) + 1 > two.peak_activations[0]


def test_between_the_two_zero_bubble_schedules_every_c_is_a_pipeline():
    for p, c in product((2, 3, 4, 6), (0, 0.5, 1.25, 1.5, 1.75, 4)):
        check_schedule(zero_bubble(p, 3 * p, c))


def test_below_one_the_closed_form_of_zero_bubble_fails():
    assert exactly(zero_bubble(4, 12, 0.5)).stage_bubble != 3 * (2 - Fraction(1, 2))


def greedy(p, m):
    """ZB-H1's warm-up, then B before F before W, W only when there is nothing else to do."""
    done, rows, clock = {}, [[] for _ in range(p)], [0] * p
    forward, backward, weight = ([0] * p for _ in range(3))
    now = 0
    while sum(weight) < p * m:
        for r in range(p):
            if clock[r] > now:
                continue
            f, b, w = forward[r], backward[r], weight[r]
            ready_b = b < f and (r == p - 1 or done.get(("B", r + 1, b), now + 1) <= now)
            room = f - w < p
            ready_f = f < m and room and (r == 0 or done.get(("F", r - 1, f), now + 1) <= now)
            if not (ready_b or ready_f or w < b):
                continue
            kind = "B" if ready_b else "F" if ready_f else "W"
            counts = {"F": forward, "B": backward, "W": weight}[kind]
            rows[r].append(Action(kind, r, counts[r]))
            done[kind, r, counts[r]] = clock[r] = now + 1
            counts[r] += 1
        now += 1
    return PipelineSchedule(rows, m, name="greedy")


def test_filling_every_gap_at_once_is_slower_than_a_fixed_lag():
    assert exactly(zero_bubble(4, 8, 1)).makespan == 27
    assert exactly(greedy(4, 8)).makespan == 29


def test_zb_v_waits_nowhere_from_m_equals_2p_minus_1_with_p_micro_batches():
    for p, m in product(range(1, 8), range(1, 24)):
        schedule = zb_v(p, m)
        timeline = exactly(schedule)
        assert timeline.stage_bubble == max(0, 2 * p - 1 - m)
        assert timeline.makespan == 3 * m + max(Fraction(p - 1, 2), 2 * p - 1 - m)
        if m >= 2 * p - 1:
            assert schedule.peak_activations == [p] * p


def test_zb_v_needs_equal_times():
    assert exactly(zb_v(4, 16), 1, 2, 1).stage_bubble == 3


def test_dual_pipe_has_the_bubble_of_its_paper():
    for p, more, (f, w) in product(
        (2, 4, 6, 8, 12), (0, 2, 4, 10), ((1, 1), (2, 1), (3, 2), (1, 0))
    ):
        schedule = dual_pipe(p, 2 * p + more)
        both = f + f + w
        assert exactly(schedule, f, f, w).stage_bubble == (p // 2 - 1) * (both + f + w - 3 * w)
        assert schedule.peak_activations == [p + 1] * p


def test_dual_pipe_of_eight_ranks():
    assert exactly(dual_pipe(8, 16)).stage_bubble == 6
    assert exactly(dual_pipe(8, 16)).makespan == 54
    assert exactly(dual_pipe(8, 20)).makespan == 66
    assert exactly(dual_pipe(8, 20), 1, 2, 1).stage_bubble != 3 * (4 + 3 - 3)


def test_dual_pipe_holds_every_stage_twice():
    schedule = dual_pipe(6, 12)
    assert [schedule.stages_of(r) for r in range(6)] == [[r, 5 - r] if r < 3 else [5 - r, r]
                                                         for r in range(6)]  # fmt: skip


def test_dual_pipe_v_is_half_of_dual_pipe():
    for p, more in product(range(1, 6), (0, 1, 3)):
        m = 2 * p + more
        whole, half = exactly(dual_pipe(2 * p, 2 * m), 1, 1, 1), exactly(dual_pipe_v(p, m), 2, 2, 2)
        for rank in range(p):
            spans = [(s.start, s.stop, s.kind) for s in whole.of(rank)]
            assert spans == [(s.start, s.stop, s.kind) for s in half.of(rank)]


EVERY = [
    *(f(p, m) for f in (gpipe, one_f_one_b, zb_v) for p in (1, 2, 3, 5) for m in (1, 2, 7)),
    *(interleaved(p, k * p, v) for p in (1, 2, 4) for k in (1, 2) for v in (1, 2, 3)),
    *(zero_bubble(p, m, c) for p in (1, 2, 5) for m in (1, 4, 11) for c in (0, 1, 1.5, 2, 3)),
    *(dual_pipe(p, 2 * p + 2) for p in (2, 4, 6)),
    *(dual_pipe_v(p, 2 * p + 1) for p in (1, 2, 5)),
]  # fmt: skip


@pytest.mark.parametrize("schedule", EVERY, ids=repr)
def test_every_schedule_is_a_pipeline_and_without_any_action_it_is_none(schedule):
    check_schedule(schedule)
    for rank, row in enumerate(schedule.rows):
        for at in {0, len(row) // 2, len(row) - 1}:
            with pytest.raises(PipelineError, match="nobody does"):
                check_schedule(schedule.with_row(rank, row[:at] + row[at + 1 :]))
            with pytest.raises(PipelineError, match="is done twice"):
                check_schedule(schedule.with_row(rank, (*row, row[at])))


@pytest.mark.parametrize("schedule", EVERY[::5], ids=repr)
def test_what_another_rank_has_arrives_comm_later(schedule):
    """An independent account: start = the latest of what is needed, straight from the spans."""
    f, b, w, comm = Fraction(2), Fraction(3), Fraction(1), Fraction(1, 5)
    timeline = simulate(schedule, f, b, w, comm)
    made = {}
    for span in timeline.spans:
        for result in Action.read(span.name).gives():
            made[result] = span
    for rank in range(schedule.p):
        before = 0
        for step in schedule.rows[rank]:
            span = made[step.actions[0].gives()[0]]
            ready = [
                made[need].stop + comm * (made[need].rank != rank)
                for need in step.needs(schedule.stages)
            ]
            assert span.start == max([before, *ready])
            before = span.stop
            length = sum({"F": f, "B": b, "W": w, "BW": b + w}[a.kind] for a in step.actions)
            assert span.stop - span.start == length / schedule.v


def needed_and_given(schedule):
    """What each step needs and gives as its numbers say it, and as the action itself does."""
    results = schedule.results
    nobody = set(results.made_by_nobody)
    for rank, row in enumerate(schedule.rows):
        for step, needs, gives in zip(row, results.needs[rank], results.gives[rank], strict=True):
            by_number = [results.named(n) for n in (*needs, *gives) if n not in nobody]
            yield by_number, [str(Action(*x)) for x in step.needs(schedule.stages) + step.gives()]


@pytest.mark.parametrize("schedule", EVERY, ids=repr)
def test_what_is_needed_and_given_by_number_is_what_is_needed_and_given_by_name(schedule):
    assert all(by_number == by_name for by_number, by_name in needed_and_given(schedule))


def test_sabotage_a_number_of_the_stage_beside_is_noticed():
    schedule = one_f_one_b(2, 3)
    schedule.results.needs[1][0] = tuple(n + 3 for n in schedule.results.needs[1][0])
    assert any(by_number != by_name for by_number, by_name in needed_and_given(schedule))


@pytest.mark.parametrize("schedule", EVERY[::3], ids=repr)
def test_a_simulation_measures_itself_as_its_spans_would_and_makes_none(schedule):
    for times in ((1, 2, 0, 0), (0.3, 0.5, 0.1, 0.01), (*[Fraction(2, 7)] * 3, Fraction(1, 9))):
        timeline = simulate(schedule, *times)
        alone = [timeline.makespan, timeline.bubble_fraction, timeline.stage_bubble]
        alone += [timeline.busy(rank) for rank in timeline.ranks]
        assert "spans" not in vars(timeline)
        by_spans = Timeline(timeline.spans, "", ranks=range(schedule.p))
        right = [by_spans.makespan, by_spans.bubble_fraction, by_spans.stage_bubble]
        assert alone == right + [by_spans.busy(rank) for rank in by_spans.ranks]
        forward = [(t.busy(0, "forward"), len(t.of(0))) for t in (timeline, by_spans)]
        assert forward[0] == forward[1]


def test_the_slowest_stage_sets_the_pace_of_gpipe():
    for f, b in (([1, 1, 3, 1], [2, 2, 6, 2]), ([4, 1, 1, 2], [1, 3, 2, 1]), ([1, 2], [5, 2])):
        for m in range(1, 9):
            timeline = simulate(gpipe(len(f), m), f, b, [0] * len(f))
            assert timeline.makespan == sum(f) + sum(b) + (m - 1) * (max(f) + max(b))


def test_whole_numbers_stay_whole_and_floats_agree():
    schedule = zb_v(3, 7)
    assert isinstance(simulate(one_f_one_b(4, 8)).makespan, int)
    exact = exactly(schedule, 1, 2, Fraction(1, 7)).makespan
    assert simulate(schedule, 1.0, 2.0, 1 / 7).makespan == pytest.approx(float(exact), rel=1e-12)


def test_an_inverted_warm_up_deadlocks_and_the_error_goes_round_the_circle():
    """Rank r begins with r forward passes, in the place of p - 1 - r."""
    p, m = 4, 8
    rows = []
    for r in range(p):
        row = [f"{r}F{i}" for i in range(r)]
        for i in range(m):
            row += [f"{r}F{r + i}"] * (r + i < m) + [f"{r}BW{i}"]
        rows.append(row)
    with pytest.raises(PipelineError) as caught:
        check_schedule(PipelineSchedule(rows, m, name="inverted"))
    assert "never ends: ranks 0, 1 wait for each other" in str(caught.value)
    assert "rank 0 stands at 0BW0 and waits for 1B0, which rank 1 does after 1F1" in str(
        caught.value
    )
    assert "!0BW0" in str(caught.value) and "!1F1" in str(caught.value)


def test_the_grid_of_an_error_shows_the_columns_around_the_fault():
    schedule = one_f_one_b(4, 64)
    row = schedule.rows[2]
    with pytest.raises(PipelineError) as caught:
        check_schedule(schedule.with_row(2, (*row[:90], row[90], *row[90:])))
    grid = str(caught.value).splitlines()[-4:]
    assert "!" in grid[2] and all(len(line) < 110 for line in grid)
    assert all("| ..." in line and line.endswith("...") for line in grid)


def test_a_backward_pass_before_its_own_forward_pass_is_named():
    with pytest.raises(PipelineError, match="rank 1 has 1BW0 before 1F0, which it needs"):
        check_schedule(PipelineSchedule(["0F0 0BW0", "1BW0 1F0"], m=1))
    with pytest.raises(PipelineError, match="rank 0 has 0W0 before 0B0, which it needs"):
        check_schedule(PipelineSchedule(["0F0 0W0 0B0"], m=1))


def test_a_backward_pass_away_from_its_activations_is_named():
    with pytest.raises(PipelineError, match="rank 1 does 0B0; the forward pass was on rank 0"):
        check_schedule(PipelineSchedule(["0F0", "1F0 1BW0 0BW0"], m=1))


def test_two_together_cannot_need_each_other():
    with pytest.raises(PipelineError, match="out of order"):
        check_schedule(PipelineSchedule(["0F0&0BW0"], m=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpipe(0, 4), "p must be at least 1; got p = 0"),
        (lambda: one_f_one_b(4, 0), "m must be at least 1; got m = 0"),
        (lambda: interleaved(4, 6, 2), "m must be a multiple of p, .* got m = 6, p = 4"),
        (lambda: interleaved(4, 8, 0), "v must be at least 1"),
        (lambda: zero_bubble(4, 8, -1), "c must not be negative; got c = -1"),
        (lambda: dual_pipe(3, 8), "p must be even, .* got p = 3"),
        (lambda: dual_pipe(4, 9), "m must be even, .* got m = 9"),
        (lambda: dual_pipe(4, 6), "m must be at least 2 p, .* got m = 6, p = 4"),
        (lambda: dual_pipe_v(4, 7), "m must be at least 2 p, .* got m = 7, p = 4"),
        (lambda: simulate(gpipe(2, 2), f=-1), "f must not be negative; got -1"),
        (lambda: simulate(gpipe(2, 2), comm=-1), "comm must not be negative"),
        (lambda: simulate(gpipe(2, 2), w=[1, 2, 3]), "w must be one time, or one for each"),
        (lambda: PipelineSchedule(["0G0"], m=1), "'0G0' is no action"),
        (lambda: PipelineSchedule(["1F0"], m=1), "rank 0: 1F0 does not exist; .* stages 0..0"),
        (lambda: PipelineSchedule(["0F1"], m=1), "micro-batches 0..0"),
        (lambda: PipelineSchedule([[("F", 0.5, 0)]], m=1), "0.5F0 does not exist"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_with_its_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_drawing_has_a_box_for_every_action():
    for schedule in (one_f_one_b(4, 8), dual_pipe(4, 8), interleaved(2, 4, 2)):
        svg = draw_pipeline(schedule)
        boxes = svg.count("<rect") - svg.count('width="14" height="11"')
        assert boxes == sum(len(schedule.actions(r)) for r in range(schedule.p))


def test_the_formulas_are_the_simulator():
    f, b, w = Fraction(2), Fraction(2), Fraction(1)
    for p, k, v in product((2, 4, 6), (2, 3), (2, 3)):
        plain, folded = one_f_one_b(p, k * p), interleaved(p, k * p, v)
        for schedule, stages in ((plain, 1), (folded, v)):
            timeline = exactly(schedule, f, b, w)
            assert timeline.bubble_fraction == pipeline_bubble_fraction(p, k * p, Fraction(stages))
            assert timeline.makespan == pipeline_step_time(p, k * p, Fraction(stages), f, b, w)
            borders = messages(schedule)
            assert 10 * len(borders) == pipeline_sent_bytes(10, k * p, p, stages)
        for rank in range(p):
            assert plain.peak_activations[rank] == one_f_one_b_peak_count(p, k * p, rank)
            peak = Fraction(folded.peak_activations[rank])
            assert peak == interleaved_peak_count(p, Fraction(v), rank)
            for most in (p, k * p):
                peak = Fraction(interleaved(p, most, v).peak_activations[rank])
                assert peak == interleaved_held_count(p, most, Fraction(v), rank)
        for c in (1, 2):
            zero = zero_bubble(p, 2 * p, c)
            assert exactly(zero, f, b, w).stage_bubble == zero_bubble_wait_time(p, c, f, b, w)
            assert set(zero.peak_activations) == {zero_bubble_peak_count(p, c)}
        dual = exactly(dual_pipe(p, 2 * p), f, b, w)
        assert dual.stage_bubble == dual_pipe_wait_time(Fraction(p), f, b, w)


def test_a_rank_between_two_others_sends_twice_m_messages_for_each_of_its_stages():
    for schedule, v in ((one_f_one_b(4, 8), 1), (interleaved(4, 8, 2), 2)):
        for rank in (1, 2):
            assert sum(m.src == rank for m in messages(schedule)) == 2 * 8 * v
