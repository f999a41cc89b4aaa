"""The lab 'Plan a run': what rank 0 sends is counted on real ranks, laws tell causes apart."""

from fractions import Fraction
from itertools import product

import pytest

from dtlib import launch
from dtlib.exercises.labs.plan_a_run import laws, model, real, trials
from dtlib.exercises.labs.plan_a_run.job import Job, all_layouts, lab_job
from dtlib.foundations import TransformerSpec
from dtlib.layout import Layout
from dtlib.parallelism.pipeline import one_f_one_b, simulate

SMALL = Job(TransformerSpec("tiny", 4, 16, 4, 32, norm="rms", bias=False), batch=8, seq=6)
SOME = [
    Layout(dp=4, micro_batch=2), Layout(tp=4, micro_batch=4), Layout(pp=4, micro_batch=2),
    Layout(tp=2, dp=2, micro_batch=4), Layout(pp=2, dp=2, micro_batch=2),
    Layout(tp=2, pp=2, micro_batch=4),
]  # fmt: skip


@pytest.fixture(scope="module")
def four():
    with launch(4, backend="gloo") as ranks:
        yield ranks


def seen(job, layouts):
    """On each rank: what it sent under each layout, and the largest error of a gradient."""
    return [(real.counted_traffic(at, job), real.largest_error(at, job)) for at in layouts]


def test_what_rank_0_sends_is_what_real_ranks_count_and_gradients_are_one_processes(four):
    for at, (counted, error) in zip(SOME, four.run(seen, SMALL, SOME)[0], strict=True):
        due = model.traffic(at, SMALL)
        assert {axis: (c, round(n, 6)) for axis, (c, n) in counted.items()} == {
            axis: (c, round(n, 6)) for axis, (c, n) in due.items()
        }, at
        assert error < 1e-12
    assert model.traffic(SOME[1], SMALL, ends=False) != model.traffic(SOME[1], SMALL)


def samples_and_trials(job, layouts):
    """Samples of the machine, three layouts timed in turn, and what that says of an order."""
    samples = real.samples_of(job, 2)
    predicted = {str(at): model.step_time(at, job, laws.OWN) for at in layouts}
    with real.trials_of({str(at): at for at in layouts}, job) as some:
        measured = trials.measure(some, 6)
    return samples, measured, trials.verdicts(predicted, measured)


def test_all_ranks_come_to_the_same_samples_times_and_verdicts(four):
    first, *others = four.run(samples_and_trials, SMALL, SOME[:3])
    assert all(one == first for one in others)
    samples, measured, said = first
    sizes = {"alone": real.SEQUENCES, "crowd": real.SEQUENCES, "sum": real.BYTES, "hop": real.BYTES}
    for kind, due in sizes.items():
        assert [size for size, _ in samples[kind]] == [*due, *due]
        assert all(seconds > 0 for _, seconds in samples[kind])
    assert len(said) == 3 and {len(times) for times in measured.values()} == {6}


@pytest.mark.parametrize(("p", "m"), [*product((1, 2, 4), (1, 2, 8))])
def test_with_a_core_for_each_rank_computing_and_waiting_are_the_simulated_pipeline(p, m):
    job = Job(SMALL.spec, batch=m * (4 // p), seq=6)
    parts = model.predict(Layout(pp=p, dp=4 // p), job, laws.OWN)
    one = laws.OWN.work.time(1) / p
    f, b = Fraction(1, 3), Fraction(2, 3)
    turns = simulate(one_f_one_b(p, m), f=f, b=b / 2, w=b / 2).makespan
    assert parts["computing"] + parts["waiting"] == pytest.approx(float(turns) * one)


def rows_of_1f1b(p, m):
    """What each stage does, in order: first forwards, then one of each in turn, last backwards."""
    rows = []
    for stage in range(p):
        ahead = min(p - 1 - stage, m)
        row = [("F", i) for i in range(ahead)]
        for i in range(m - ahead):
            row += [("F", ahead + i), ("B", i)]
        rows.append(row + [("B", i) for i in range(m - ahead, m)])
    return rows


def ready(stage, action, done, p):
    """Whether what an action needs of its neighbour has been done."""
    kind, i = action
    before = (stage - 1, ("F", i)) if kind == "F" else (stage + 1, ("B", i))
    return not 0 <= before[0] < p or before in done


def shared_makespan(p, m, replicas, cores, lengths):
    """The time of so many equal pipelines on cores that all who have work share alike."""
    rows, done, left, now = rows_of_1f1b(p, m), set(), {}, Fraction(0)
    while any(rows) or left:
        for stage, row in enumerate(rows):
            if row and stage not in left and ready(stage, row[0], done, p):
                left[stage] = [row.pop(0), None]
                left[stage][1] = lengths[left[stage][0][0]]
        pace = min(Fraction(1), Fraction(cores) / (replicas * len(left)))
        span = min(rest for _, rest in left.values())
        now += span / pace
        for stage in [*left]:
            left[stage][1] -= span
            if left[stage][1] == 0:
                done.add((stage, left.pop(stage)[0]))
    return now


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
def test_shared_cores_take_at_least_work_and_chain_and_at_most_both_together(cores):
    lengths = {"F": Fraction(1, 3), "B": Fraction(2, 3)}
    between = 0
    for p, m in product((1, 2, 4), (1, 2, 3, 8)):
        work, chain = Fraction(4 * m, cores), m + p - 1
        taken = shared_makespan(p, m, 4 // p, cores, lengths)
        assert max(work, chain) <= taken <= work + chain
        between += taken > max(work, chain)
        if cores == 4:
            assert taken == chain
        if cores == 1:
            assert taken == work
    assert cores in (1, 4) or between  # neither bound is the time itself


def test_on_one_core_nobody_waits_and_all_work_is_done_one_after_the_other():
    machine = laws.replace(laws.SHARED, cores=1.0)
    for at in all_layouts(lab_job(), 4):
        parts = model.predict(at, lab_job(), machine)
        assert parts["waiting"] == 0
        m = at.micro_batches(16)
        passes = machine.work.start + machine.work.each * at.micro_batch / at.tp
        assert parts["computing"] == pytest.approx(4 / at.pp * m * passes)


def test_the_cause_that_was_changed_is_found_with_its_factor_and_another_is_not():
    due = [("computing", 2.0), ("sums", 0.4), ("waiting", 0.1), ("exchange", 5.0), ("sends", 30.0)]
    for (name, (parts, measured)), (cause, k) in zip(laws.blame_cases(), due, strict=True):
        found, factor = trials.blame(parts, measured)
        assert found == cause, name
        assert factor == pytest.approx(k, rel=0.1, abs=0.1)


def test_a_coin_that_falls_on_one_side_as_often_as_counted():
    for n in range(1, 10):
        for wins in range(n // 2 + 1, n + 1):
            sides = list(product((0, 1), repeat=n))
            rare = sum(max(sum(x), n - sum(x)) >= wins for x in sides)
            assert trials.by_chance(wins, n) == rare / len(sides)
