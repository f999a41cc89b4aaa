"""On ranks: the meter equals one process, schedules do not ask how many ranks there are."""

import math

import pytest
import torch
import torch.distributed as dist

from dtlib.parallelism.data.replica import average_flat
from dtlib.runtime import launch
from dtlib.scaling_laws import (
    BatchRamp,
    NoiseMeter,
    SampleSchedule,
    consumed_by_all,
    noise_scale,
)


def model_and_rows(steps, batch):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return model.double(), torch.randn(steps, batch, 6, dtype=torch.float64)


def loss_of(model, rows):
    return (model(rows[:, :5]).squeeze(1) - rows[:, 5]).square().mean()


def measured_on_ranks(steps, own, averaged=True):
    group = dist.group.WORLD
    P, rank = dist.get_world_size(), dist.get_rank()
    model, rows = model_and_rows(steps, P * own)
    meter = NoiseMeter(own, group)
    for batch in rows:
        model.zero_grad()
        loss_of(model, batch[rank * own : (rank + 1) * own]).backward()
        meter.before(model)
        if averaged:
            average_flat(model, group)
        meter.after(model)
    return meter.scale()


def measured_alone(steps, own, P):
    model, rows = model_and_rows(steps, P * own)

    def square(part):
        found = torch.autograd.grad(loss_of(model, part), list(model.parameters()))
        return sum(g.square().sum().item() for g in found)

    small = [sum(map(square, batch.split(own))) / P for batch in rows]
    return noise_scale(small, list(map(square, rows)), own, P * own)


@pytest.mark.parametrize("P", [2, 4])
def test_ranks_measure_what_one_process_does(P):
    alone = measured_alone(6, 3, P)
    with launch(P, timeout=60) as ranks:
        for found in ranks.run(measured_on_ranks, 6, 3):
            for name in ("signal", "noise", "low", "high"):
                assert math.isclose(getattr(found, name), getattr(alone, name), rel_tol=1e-12)


def test_a_forgotten_all_reduce_is_seen():
    alone = measured_alone(6, 3, 2)
    with launch(2, timeout=60) as ranks:
        found = ranks.run(measured_on_ranks, 6, 3, averaged=False)
    assert all(abs(scale.noise / alone.noise - 1) > 0.05 for scale in found)


def uneven(other):
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    if other == "batch":
        meter = NoiseMeter(4 if dist.get_rank() else 5, dist.group.WORLD)
    else:
        meter = NoiseMeter(4, dist.group.WORLD)
        if dist.get_rank() == 1:
            model.weight.grad.fill_(math.nan)
    try:
        meter.before(model)
    except ValueError as error:
        return str(error)


def test_ranks_with_other_batches_are_named_on_every_rank():
    with launch(2, timeout=60) as ranks:
        said = ranks.run(uneven, "batch")
        assert all("the same on every rank; ranks 0 to 1 have [5, 4]" in words for words in said)
        bad = ranks.run(uneven, "gradient")
        assert all("ranks without a finite gradient is [1]" in words for words in bad)


def one_alone():
    try:
        NoiseMeter(4, dist.group.WORLD)
    except ValueError as error:
        return str(error)


def test_one_rank_alone_has_one_size_of_batch():
    with launch(1, timeout=60) as ranks:
        assert "gradients of one batch size" in ranks.run(one_alone)[0]


def rates_of_a_run(schedule, ramp, counted):
    P, consumed, found = dist.get_world_size(), 0, []
    while consumed < schedule.total:
        own = ramp.batch(consumed) // P
        found.append((consumed, schedule.factor(consumed), own * P))
        seen = consumed_by_all(own, dist.group.WORLD)
        consumed += seen if counted == "all" else own
    return found


def test_a_schedule_is_the_same_on_one_two_and_eight_ranks():
    schedule = SampleSchedule(total=640, warm=64, decay=300)
    ramp = BatchRamp(((0, 16), (128, 32)))
    runs, wrong = {}, {}
    for P in (1, 2, 8):
        with launch(P, timeout=60) as ranks:
            runs[P] = ranks.run(rates_of_a_run, schedule, ramp, "all")[0]
            wrong[P] = ranks.run(rates_of_a_run, schedule, ramp, "own")[0]
    assert runs[1] == runs[2] == runs[8]
    assert [batch for _, _, batch in runs[1]] == list(ramp.steps(640))
    assert wrong[1] == runs[1] and len(wrong[8]) > 6 * len(runs[8])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SampleSchedule(total=10, warm=8, decay=4), "warm . decay is 12"),
        (lambda: SampleSchedule(total=0), "total"),
        (lambda: SampleSchedule(total=10).factor(-1), "consumed is -1"),
        (lambda: BatchRamp(((4, 2),)), r"starts of stages is \[4\]"),
        (lambda: BatchRamp(((0, 2), (0, 4))), "rise from stage to stage"),
        (lambda: BatchRamp(((0, 0),)), "batch is 0"),
    ],
)
def test_schedules_refuse_what_they_cannot_be(make, says):
    with pytest.raises(ValueError, match=says):
        make()
