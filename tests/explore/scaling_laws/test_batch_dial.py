"""The batch dial: its valley has its foot where the formula says."""

import pytest

from dtlib.explore import BatchDial, Task, between
from dtlib.scaling_laws import fastest_batch, loss_cost


def dial(**more):
    return BatchDial(
        title="A dial", batch=between(8, 16384, start=1024), P=between(8, 4096, start=64),
        noise_batch=between(64, 4096, start=512), fixed_time=between(0.01, 1, start=0.1),
        fewest_steps=60_000, sample_time=0.4, price=0.0005, **more,
    )  # fmt: skip


def test_no_batch_is_sooner_than_the_one_at_the_foot_of_the_valley():
    figure = dial()
    state = {"P": 1024, "noise_batch": 512, "fixed_time": 0.1}
    best = fastest_batch(noise_batch=512, sample_time=0.4, P=1024, fixed_time=0.1)
    values = figure.spec["controls"][0]["values"]
    times = {batch: figure.names(batch=batch, **state)["time"] for batch in values}
    foot = min(times, key=times.get)
    nearest = min(values, key=lambda batch: abs(batch / best - 1))
    assert foot == nearest


def test_the_price_is_that_of_all_ranks_and_fewer_samples_than_ranks_do_not_fit():
    state = {"batch": 64, "P": 128, "noise_batch": 512, "fixed_time": 0.1}
    names = dial().names(**state)
    due = loss_cost(60_000, 512, 64, sample_time=0.4, P=128, fixed_time=0.1, price=0.0005)
    assert names["cost"] == due and names["fits"] == 0
    assert dial().names(**{**state, "batch": 128})["fits"] == 1


def test_a_task_that_is_met_at_the_start_is_refused():
    with pytest.raises(ValueError, match="start"):
        dial(task=Task("Any.", "time > 0", {"batch": 256}, "Met."))
