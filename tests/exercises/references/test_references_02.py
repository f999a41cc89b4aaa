"""What the exercises of chapter 2 compare with, and the jobs that are to be diagnosed."""

import pytest

from dtlib.exercises import PracticeJob
from dtlib.exercises.chapters.foundations.ch02 import _JOBS, _clusters, _largest_cluster, _lost
from dtlib.exercises.practice.job import RunsSpent


def waits(P, batch, nics, width, peak, beta):
    """Whether the all-reduce takes longer than the backward pass, parameter by parameter."""
    return 4 * batch / P / peak < 2 * (P - 1) / P * width / (nics * beta)


def test_in_the_largest_cluster_nobody_waits_and_with_one_more_they_do():
    for _, cluster in _clusters():
        P = _largest_cluster(*cluster)
        assert [waits(P, *cluster), waits(P + 1, *cluster)] == [False, True]


@pytest.mark.parametrize(("cause", "facts"), _JOBS)
def test_each_job_has_one_cause_that_is_clearly_the_largest(cause, facts):
    lost = _lost(PracticeJob(**facts))
    *_, second, largest = sorted(lost.values())
    if cause == "memory":
        assert largest < 0.03
    else:
        assert max(lost, key=lost.get) == cause
        assert largest > 0.15 and largest > 1.5 * second


def test_a_job_has_as_many_runs_as_were_paid_for():
    job = PracticeJob(runs=1)
    job.run()
    with pytest.raises(RunsSpent):
        job.run()


@pytest.mark.parametrize(
    ("changes", "said"), [({"data": "none"}, "'real' or"), ({"micro_batches": 0}, "at least 1")]
)
def test_a_job_refuses_runs_that_do_not_exist(changes, said):
    with pytest.raises(ValueError, match=said):
        PracticeJob().run(**changes)


def test_without_collectives_nobody_waits_for_a_straggler():
    job = PracticeJob(straggler=2.0)
    assert job.run().step > 1.9
    assert job.run(collectives=False).step < 1.1
    assert max(job.run().busy) > 1.9
