"""One absolute value for every quantity that a pipeline has: ratios alone would not see a scale."""

import importlib
import re
from fractions import Fraction

import pytest
import torch
import torch.distributed as dist

from dtlib.parallelism.pipeline import (
    PipelineError,
    PipelineSchedule,
    check_schedule,
    draw_pipeline,
    dual_pipe,
    dual_pipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    post,
    simulate,
    zb_v,
    zero_bubble,
)
from dtlib.parallelism.pipeline.border import HEADER, Layout, header_of, read_header
from dtlib.parallelism.pipeline.messages import messages

# of 4 ranks and 8 micro-batches: makespan, longest wait, held by each rank, messages
NUMBERS = {
    gpipe(4, 8): (33, 9, [8, 8, 8, 8], 48),
    one_f_one_b(4, 8): (33, 9, [4, 3, 2, 1], 48),
    interleaved(4, 8, 2): (28.5, 4.5, [5.5, 4.5, 3.5, 2.5], 112),
    interleaved(4, 8, 3): (27, 3, [5, Fraction(13, 3), Fraction(11, 3), 3], 176),
    zero_bubble(4, 8, 1): (27, 3, [4, 4, 4, 4], 48),
    zero_bubble(4, 8, 1.5): (27, 2, [5, 5, 5, 5], 48),
    zero_bubble(4, 8, 2): (27, 0, [7, 7, 7, 7], 48),
    zb_v(4, 8): (25.5, 0, [4, 4, 4, 4], 96),
    dual_pipe(4, 8): (26, 2, [5, 5, 5, 5], 48),
    dual_pipe_v(4, 8): (27, 3, [4.5, 4.5, 4.5, 4.5], 96),
}


@pytest.mark.parametrize("schedule", NUMBERS, ids=repr)
def test_every_builders_step_wait_memory_and_messages_in_whole_numbers(schedule):
    timeline = simulate(schedule)
    makespan, wait, held, sent = NUMBERS[schedule]
    assert (timeline.makespan, timeline.stage_bubble) == (makespan, wait)
    assert timeline.peak_activations == held and len(messages(schedule)) == sent
    work = 8 * 3
    assert timeline.bubble_fraction == pytest.approx(1 - work / makespan, abs=1e-15)
    assert [timeline.busy(rank) for rank in range(4)] == [work] * 4


@pytest.mark.parametrize(
    ("times", "makespan"),
    [
        ({}, 27),
        ({"f": 2}, 38),
        ({"b": 2}, 38),
        ({"w": 2}, 35),
        ({"comm": 1}, 41),
        ({"f": [1, 1, 1, 3]}, 43),
        ({"w": Fraction(1, 2)}, Fraction(49, 2)),
    ],
)
def test_every_option_of_simulate_changes_the_step(times, makespan):
    assert simulate(zero_bubble(4, 8, 1), **times).makespan == makespan


# of 8 ranks and 16 micro-batches: makespan, longest wait, most held, copies of the weights
EIGHT = {
    gpipe(8, 16): (69, 21, 16, 1),
    one_f_one_b(8, 16): (69, 21, 8, 1),
    interleaved(8, 16, 2): (58.5, 10.5, 11.5, 1),
    interleaved(8, 16, 4): (53.25, 5.25, 9.75, 1),
    zero_bubble(8, 16, 1): (55, 7, 8, 1),
    zero_bubble(8, 16, 2): (55, 0, 15, 1),
    zb_v(8, 16): (51.5, 0, 8, 1),
    dual_pipe(8, 16): (54, 6, 9, 2),
}


@pytest.mark.parametrize("schedule", EIGHT, ids=repr)
def test_eight_ranks_wait_hold_and_take_what_chapter_16_prints(schedule):
    timeline = simulate(schedule)
    copies = sum(len(schedule.stages_of(rank)) for rank in range(8)) / schedule.stages
    found = timeline.makespan, timeline.stage_bubble, max(timeline.peak_activations), copies
    assert found == EIGHT[schedule]


def test_messages_that_take_a_quarter_step_cost_what_chapter_16_prints():
    later = {
        gpipe(4, 8): 34.5,
        one_f_one_b(4, 8): 37,
        one_f_one_b(4, 32): 118,
        interleaved(4, 8, 2): 32,
        zero_bubble(4, 8, 2): 27.75,
    }
    for schedule, makespan in later.items():
        assert simulate(schedule, comm=Fraction(1, 4)).makespan == makespan
    slow = [Fraction(6, 5)] + [1] * 7
    assert simulate(one_f_one_b(8, 64), slow, slow, slow).makespan == Fraction(2472, 10)
    assert [simulate(zero_bubble(4, 16, c)).stage_bubble for c in range(5)] == [96, 3, 0, 0, 0]


def test_a_drawing_has_the_times_that_it_is_given():
    svg = draw_pipeline(zero_bubble(4, 8, 1), f=2)
    left, right = map(float, re.search(r'<line x1="([\d.]+)" x2="([\d.]+)"', svg).groups())
    first = float(re.search(r'width="([\d.]+)" height="24"', svg)[1])
    assert (right - left) / (first + 0.7) == pytest.approx(38 / 2, rel=1e-3)
    assert re.findall(r">(\w+): [^<]+<", svg) == ["F", "B", "W"]


def test_a_scale_that_is_forgotten_is_noticed(monkeypatch):
    """Sabotage: times are whole multiples of a common part, which is then not divided out."""
    simulator = importlib.import_module("dtlib.parallelism.pipeline.simulation")
    monkeypatch.setattr(simulator.Unit, "given", lambda unit, count: count)
    assert simulate(interleaved(4, 8, 2)).makespan == 2 * 28.5


def test_a_rank_with_nothing_to_do_counts_as_idle():
    rows = ["0F0 0F1 0BW0 0BW1", "", "1F0 1BW0 1F1 1BW1"]
    timeline = simulate(PipelineSchedule(rows, m=2, stages=2), *[Fraction(2)] * 3)
    assert timeline.ranks == [0, 1, 2] and timeline.peak_activations == [3, 0, 1.5]
    assert timeline.bubble_fraction == 1 - Fraction(2 * 2 * 9, 3 * 27)
    assert "Timeline of 3 ranks" in repr(timeline)
    assert len(re.findall(r">rank \d<", draw_pipeline(timeline.schedule))) == 3


@pytest.mark.parametrize("schedule", NUMBERS, ids=repr)
def test_the_forward_passes_of_every_schedule_are_a_pipeline_that_keeps_nothing(schedule):
    forward = schedule.forward_only
    check_schedule(forward)
    assert forward.peak_activations == [0] * 4 and not forward.splits_backward
    assert 2 * len(messages(forward)) == len(messages(schedule))
    assert len(simulate(forward).spans) == 8 * schedule.stages
    assert forward.name == f"{schedule.name}, forward only"


def test_a_validation_of_four_ranks_takes_m_and_the_stairs():
    assert simulate(gpipe(4, 8).forward_only).makespan == 8 + 3
    with pytest.raises(PipelineError, match="nobody does 1F0"):
        check_schedule(PipelineSchedule(["0F0", ""], m=1, owed="F"))
    with pytest.raises(PipelineError, match="nobody does 0B0"):
        check_schedule(PipelineSchedule(["0F0"], m=1))
    with pytest.raises(ValueError, match="0BW0 does not exist; kinds are F, stages"):
        PipelineSchedule(["0F0 0BW0"], m=1, owed="F")
    with pytest.raises(ValueError, match="owed must be 'FBW' or 'F'; got 'FB'"):
        PipelineSchedule(["0F0"], m=1, owed="FB")


class OnGPU:
    """As much of a tensor on a GPU as the post looks at."""

    is_cuda = True


class Sent:
    def __init__(self, log, done):
        self.log, self.done = log, done

    def wait(self):
        self.log.append("waited")

    def is_completed(self):
        return self.done


def test_messages_on_gpus_start_as_one_batch_and_wait_for_all_of_it(monkeypatch):
    log, batches = [], []

    def start(operations):
        batches.append(operations)
        return [Sent(log, True), Sent(log, len(batches) > 1)]

    monkeypatch.setattr(dist, "P2POp", lambda *arguments: arguments)
    monkeypatch.setattr(dist, "batch_isend_irecv", start)
    monkeypatch.setattr(dist, "get_global_rank", lambda group, peer: 10 + peer)
    there, here = OnGPU(), OnGPU()
    operations = [(dist.isend, there, 1), (dist.irecv, here, 2)]
    one, two = post.exchange(operations, "group")
    assert batches == [[(dist.isend, there, 11, "group"), (dist.irecv, here, 12, "group")]]
    assert not one.is_completed()
    two.wait()
    assert log == ["waited", "waited"]
    assert post.exchange(operations, "group")[0].is_completed()
    assert post.exchange([], "group") == [] and len(batches) == 2


def test_a_span_on_a_gpu_ends_when_the_gpu_is_done(monkeypatch):
    from dtlib.parallelism.pipeline.execute import _Worker

    worker, done = _Worker.__new__(_Worker), []
    worker.times, worker.like = [], OnGPU()
    worker.like.device = "cuda:3"
    monkeypatch.setattr(
        torch.cuda, "synchronize", lambda device: done.append((device, len(worker.times)))
    )
    with worker.timed():
        assert done == [] and len(worker.times) == 1
    assert done == [("cuda:3", 1)] and len(worker.times) == 2


def test_a_header_says_every_dtype_and_shape_and_refuses_what_does_not_fit():
    from dtlib.parallelism.pipeline.border import DTYPES

    for dtype in DTYPES:
        layouts = (Layout(dtype, (3, 0, 2)), Layout(torch.bool, ()))
        assert read_header(header_of(layouts)) == layouts
    assert header_of([]).numel() == HEADER == 64 and read_header(header_of([])) == ()
    with pytest.raises(ValueError, match="take 81 numbers; a header has 64"):
        header_of([Layout(torch.float32, (2, 2))] * 20)
    with pytest.raises(ValueError, match="float8_e4m3fn, which is not among"):
        header_of([Layout(torch.float8_e4m3fn, (2,))])
