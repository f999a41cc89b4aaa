"""Answers of the lab 'Plan a run' that no slip derives; right ones, too."""

from dataclasses import astuple, replace
from functools import partial

from dtlib.exercises.labs.plan_a_run import model, trials
from dtlib.exercises.labs.plan_a_run.job import Line

MACHINE, TRAFFIC, STEP = "ex-plan-machine", "ex-plan-traffic", "ex-plan-step"
THREE, MEASURE, VERDICT, BLAME = (
    "ex-plan-three", "ex-plan-measure", "ex-plan-verdict", "ex-plan-blame",
)  # fmt: skip


def through_two_points(samples, ranks):
    """Right, too: a line through the medians of the smallest and the largest size."""

    def line(kind):
        times = model._middles(samples[kind], model.median)
        low, high = min(times), max(times)
        each = (times[high] - times[low]) / (high - low)
        return Line(times[low] - each * low, each)

    found = model.machine_of(samples, ranks)
    total, steps = line("sum"), 2 * (ranks - 1)
    step = Line(total.start / steps, total.each * ranks / steps)
    return replace(found, work=line("alone"), sum=step, hop=line("hop"))


def of_the_crowd(samples, ranks):
    """Takes the pace under load for that of a rank alone."""
    return model.machine_of({**samples, "alone": samples["crowd"]}, ranks)


def random_order(some, rounds):
    """Right, too: every round in another order."""
    times = {name: [] for name in some}
    for turn in range(rounds + 1):
        names = sorted(some, reverse=bool(turn % 2))
        for name in names:
            times[name].append(some[name]())
    return {name: found[1:] for name, found in times.items()}


def by_medians(predicted, measured):
    """The smaller median wins, always."""
    found = trials.verdicts(predicted, measured)
    middle = {name: model.median(some) for name, some in measured.items()}
    return {(a, b): "as predicted" if middle[a] < middle[b] else "turned round" for a, b in found}


def widest_gaps(times, e):
    """Right, too: of all triples that are safe, one whose smaller gap is the largest."""
    order = sorted(times, key=times.get)
    best, reach = order[0], (1 + e) / (1 - e)
    last = [name for name in order if times[name] <= trials.LONGEST * times[best]][-1]
    middle = max(order, key=lambda name: min(times[name] / times[best], times[last] / times[name]))
    gap = min(times[middle] / times[best], times[last] / times[middle])
    return [best, middle, last] if gap > reach else []


WRONG = [
    (MACHINE, of_the_crowd, "cores"),
    (MACHINE, lambda samples, ranks: astuple(model.machine_of(samples, ranks)), "a Machine is"),
    (MACHINE, lambda samples, ranks: replace(model.machine_of(samples, ranks), ranks=1),
     "came as an argument"),
    (MACHINE, lambda samples, ranks: replace(model.machine_of(samples, ranks), hop=(1, 2)),
     "hop is a Line"),
    (TRAFFIC, lambda layout, job: {"tp": (0, 0)}, "more than one rank"),
    (TRAFFIC, lambda layout, job: {axis: (calls, 8 * n) for axis, (calls, n)
                                   in model.traffic(layout, job).items()}, "bits or bytes"),
    (STEP, lambda *args: sum(model.predict(*args).values()), "a dict with the keys"),
    (STEP, lambda *args: model.predict(*args) | {"waiting": 1.0}, "there is nothing of it here"),
    (THREE, lambda times, e: 3 * [min(times, key=times.get)], "the faster first"),
    (THREE, partial(trials.three, reach=1.21), "change places"),
    (MEASURE, lambda some, rounds: {name: [1.0] * rounds for name in some}, "ran 0 times"),
    (VERDICT, by_medians, "not enough to tell"),
    (VERDICT, lambda *args: dict.fromkeys(trials.verdicts(*args), "true"), "no verdict"),
    (VERDICT, lambda *args: {}, "a key for each pair"),
    (BLAME, lambda parts, measured: (trials.blame(parts, measured)[0], 1.0), "with another factor"),
    (BLAME, lambda parts, measured: ("sends", 1.0), "leaves larger errors"),
]  # fmt: skip
RIGHT = [
    (MACHINE, through_two_points),
    (MEASURE, random_order),
    (THREE, widest_gaps),
]
