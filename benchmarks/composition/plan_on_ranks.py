"""A small model under eight layouts on four real ranks, and what the machine could do meanwhile.

    plan-on-ranks    seconds of a pass of so many sequences on one rank alone ("alone 4") and on
                     all at once ("crowd 4"), of an all-reduce ("sum 65536") and of a message to the
                     next rank ("hop 65536") by bytes, and of a step by layout, round by round

The machine is measured before the steps, between them and behind them, since it may slow down.
"""

from collections import defaultdict
from dataclasses import asdict

from dtlib import launch, recordings
from dtlib.exercises.labs.plan_a_run.job import lab_job
from dtlib.layout import Layout

NAME = "plan-on-ranks"
BLOCKS, ROUNDS = 3, 5
LAYOUTS = (
    Layout(dp=4, micro_batch=4), Layout(dp=4), Layout(tp=4, micro_batch=16), Layout(tp=4),
    Layout(pp=4, micro_batch=16), Layout(pp=4, micro_batch=2), Layout(tp=2, dp=2, micro_batch=8),
    Layout(pp=2, dp=2, micro_batch=4),
)  # fmt: skip


def runs(job, layouts, blocks, rounds):
    """On each rank: samples of the machine, and the steps' times by layout."""
    from dtlib.exercises.labs.plan_a_run import real, trials

    samples, times = defaultdict(list), defaultdict(list)
    with real.trials_of({str(at): at for at in layouts}, job) as some:
        for block in range(blocks + 1):
            for kind, pairs in real.samples_of(job, rounds).items():
                for size, seconds in pairs:
                    samples[f"{kind} {size}"].append(round(seconds, 7))
            if block < blocks:
                for name, seconds in trials.measure(some, rounds).items():
                    times[name] += [round(t, 6) for t in seconds]
    return dict(samples) | dict(times)


def measure_plan_on_ranks() -> None:
    """Write the recording."""
    job = lab_job()
    with launch(4, backend="gloo", timeout=1200) as ranks:
        samples = ranks.run(runs, job, LAYOUTS, BLOCKS, ROUNDS)[0]
    shown = {
        str(at): {k: v for k, v in asdict(at).items() if k in ("tp", "pp", "dp", "micro_batch")}
        for at in LAYOUTS
    }
    recordings.save(NAME, samples, unit="s", ranks=4, layouts=shown, rounds=BLOCKS * ROUNDS)


if __name__ == "__main__":
    measure_plan_on_ranks()
