"""The lab 'Plan a run'."""

from functools import partial

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.labs.plan_a_run import laws, model, trials

# fmt: off
machine = Function(
    "ex-plan-machine",
    About("Your machine, written down", "design", 2, 15,
          "turn samples, of which some are late, into a start and a rate each"),
    "machine_of(samples, ranks)",
    model.machine_of, laws.machine_cases, laws.machine_law,
    "three lines and the cores of 4 machines, with three of nine samples late",
    {
        "a mean carries every late sample": model.mean_machine,
        "that start is of a whole all-reduce: how many steps has it?":
            partial(model.machine_of, whole=True),
        "for each byte that a rank sends: an all-reduce of n bytes sends more than n":
            partial(model.machine_of, sent=False),
        "there are no more cores at work than ranks": partial(model.machine_of, most=False),
    },
)

traffic = Function(
    "ex-plan-traffic",
    About("What rank 0 sends", "derive", 2, 20,
          "count calls and bytes of a step along every axis, to the byte"),
    "traffic(layout, job)",
    model.traffic, laws.traffic_cases, laws.traffic_law,
    "calls and bytes along every axis, on all layouts of two jobs on four ranks and eight",
    {
        "the sums of table, head and loss are missing": partial(model.traffic, ends=False),
        "a block has two sums forward, and how many backward?":
            partial(model.traffic, backward=False),
        "every micro-batch sends": partial(model.traffic, micro=False),
        "a rank of tp has a part of each matrix only": partial(model.traffic, cut=False),
        "norms have gradients, too": partial(model.traffic, norms=False),
        "a sum is first added and then handed out": partial(model.traffic, factor=1),
        "the loss is added up as well": partial(model.traffic, loss=False),
    },
)

step = Function(
    "ex-plan-step",
    About("What a step takes", "derive", 3, 20,
          "price a layout by cause, on ranks that share cores"),
    "predict(layout, job, machine)",
    model.predict, laws.predict_cases, laws.predict_law,
    "five causes of all layouts, on shared cores, on own ones, and on slow links",
    {
        "when all ranks compute, has each a core of its own?": partial(model.predict, shared=False),
        "each micro-batch has a start, however small it is": partial(model.predict, starts=False),
        "a pipeline fills and drains": partial(model.predict, depth=False),
        "while a rank waits, another one may have its core": partial(model.predict, hidden=False),
        "a rank that waits for a message pays for it, too": partial(model.predict, both=False),
        "an all-reduce has more than one step": partial(model.predict, steps=False),
    },
)

three = Made(
    "ex-plan-three",
    About("Three to run", "design", 2, 10,
          "choose trials whose order no error of a given size can turn"),
    laws.three_law, lambda: trials.three,
    "three of each field that stay in order with every error at its worst",
    {
        "two of them change places": lambda: partial(trials.three, reach=1.0001),
        "more than 5 times as long": lambda: partial(trials.three, longest=1e9),
        "the first is not the fastest": lambda: lambda times, e: sorted(times, key=times.get)[-3:],
        "three names of the dict": lambda: lambda times, e: [],
        "the faster first": lambda: lambda times, e: [
            min(times, key=times.get), *trials.three(times, e)[:0:-1]],
        "no three are safe": lambda: lambda times, e: trials.three(times, e) or sorted(times)[:3],
        "a list of names is asked for": lambda: lambda times, e: "abc",
    },
)

measure = Made(
    "ex-plan-measure",
    About("Taking turns", "design", 1, 8,
          "time several things so that a slow minute hits all of them"),
    laws.measure_law, lambda: trials.measure,
    "every trial in every round, and none that was the first",
    {
        "a slow minute hits one layout alone": lambda: lambda some, rounds: {
            name: [run() for _ in range(rounds + 1)][1:] for name, run in some.items()},
        "a trial ran 9 times": lambda: lambda some, rounds: trials.measure(some, rounds - 1),
        "the first step of a layout is no sample": lambda: lambda some, rounds: {
            name: [*times, 0.0][:rounds] for name, times in _with_the_first(some, rounds).items()},
        "in the order of the rounds": lambda: lambda some, rounds: {
            name: sorted(times, reverse=True)
            for name, times in trials.measure(some, rounds).items()},
        "the names of the trials": lambda: lambda some, rounds: [
            *trials.measure(some, rounds).values()],
    },
)

verdict = Function(
    "ex-plan-verdict",
    About("Did the order come true?", "design", 2, 15,
          "say of a noisy comparison what it shows, and when it shows nothing"),
    "verdicts(predicted, measured)",
    trials.verdicts, laws.verdict_cases, laws.verdict_law,
    "orders that came true, were turned round, and those that nine rounds leave open",
    {
        "compare within a round: what was slow there was slow for both":
            partial(trials.verdicts, paired=False),
        "a coin has two sides that would have surprised you": partial(trials.verdicts, sides=1),
        "a round in which both are the same says nothing": partial(trials.verdicts, ties=True),
        "some rounds are not enough to tell": partial(trials.verdicts, doubt=2.0),
    },
)

cause = Function(
    "ex-plan-blame",
    About("Which cause was it?", "derive", 3, 15,
          "find the cause, and its factor, that explain the errors of several predictions"),
    "blame(parts, measured)",
    trials.blame, laws.blame_cases, laws.blame_law,
    "the cause that was off, and by which factor, on 5 machines with noise",
    {
        "relative errors, please: a step of a second counts as much as one of a tenth":
            partial(trials.blame, relative=False),
        "the other causes stay as they are": partial(trials.blame, rest=False),
        "the cause with the largest factor need not explain most":
            partial(trials.blame, least=lambda found: max(found, key=lambda c: found[c][1])),
    },
)


def _with_the_first(some: dict, rounds: int) -> dict:
    times = {name: [] for name in some}
    for _ in range(rounds + 1):
        for name, run in some.items():
            times[name].append(run())
    return times
