"""What the answers of the lab 'Plan a run' are held to."""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dtlib.exercises.judge import call, function, items, number, real
from dtlib.exercises.labs.plan_a_run.job import (
    Job,
    Line,
    Machine,
    Samples,
    all_layouts,
    lab_job,
)
from dtlib.exercises.labs.plan_a_run.model import predict
from dtlib.exercises.labs.plan_a_run.trials import LONGEST
from dtlib.exercises.verdict import NotYet
from dtlib.models.spec import TransformerSpec

SHARED = Machine(4, 2.0, Line(0.01, 0.005), Line(2e-4, 1e-9), Line(3e-4, 5e-10))
OWN = Machine(4, 4.0, Line(0.002, 0.02), Line(5e-5, 2e-10), Line(4e-5, 4e-10))
SLOW_LINKS = Machine(4, 4.0, Line(0.001, 0.004), Line(2e-3, 2e-8), Line(1e-3, 1e-8))
_LATE = (1, 1, 3, 1, 1.4, 1, 6, 1, 1)  # times as long: three of nine samples are late


def samples_from(machine: Machine, late=_LATE) -> Samples:
    """What a machine would say of itself, if some of its samples came late."""
    work, P = machine.work, machine.ranks
    steps = 2 * (P - 1)
    times = {
        "alone": {b: work.time(b) for b in (1, 2, 4, 8, 16)},
        "crowd": {b: work.time(b) * P / machine.cores for b in (1, 2, 4, 8, 16)},
        "sum": {
            n: steps * machine.sum.start + machine.sum.each * steps / P * n
            for n in (4096, 65_536, 1_048_576)
        },
        "hop": {n: machine.hop.time(n) for n in (4096, 65_536, 1_048_576)},
    }
    return {
        kind: [(size, t * x) for x in late for size, t in of_kind.items()]
        for kind, of_kind in times.items()
    }


def machine_cases() -> Iterator[tuple[str, tuple]]:
    """Machines with late samples; the last computes faster with all ranks than with one."""
    for name, machine in (
        ("four ranks on two cores", SHARED),
        ("four ranks on four cores", OWN),
        ("three ranks", replace(SLOW_LINKS, ranks=3, cores=2.5)),
        ("two ranks that were a little faster together", replace(OWN, ranks=2, cores=2.1)),
    ):
        yield name, (samples_from(machine), machine.ranks)


def machine_law(given: Any, right: Machine, *args: Any) -> None:
    if not isinstance(given, Machine):
        raise NotYet(f"a Machine is asked for, got {type(given).__name__}")
    if given.ranks != right.ranks:
        raise NotYet("ranks is the number that came as an argument")
    number(given.cores, right.cores, "cores", tolerance=0.02)
    for name in ("work", "sum", "hop"):
        line, due = getattr(given, name), getattr(right, name)
        for field in Line._fields:
            if not isinstance(line, Line):
                raise NotYet(f"{name} is a Line, got {type(line).__name__}")
            value = getattr(line, field)
            number(value, getattr(due, field), f"{name}.{field}", "s", tolerance=0.02)


def jobs() -> tuple[Job, Job]:
    """The lab's own job, and one of which nothing is the same."""
    spec = TransformerSpec("other", 8, 96, 12, 240, norm="rms", bias=False)
    return lab_job(), Job(spec, batch=24, seq=20)


def traffic_cases() -> Iterator[tuple[str, tuple]]:
    """All layouts of two jobs, on four ranks and on eight."""
    for job in jobs():
        for ranks in (4, 8):
            for layout in all_layouts(job, ranks):
                yield f"{job.spec.name}, {layout}", (layout, job)


def traffic_law(given: Any, right: Mapping[str, tuple], *args: Any) -> None:
    if not isinstance(given, Mapping) or set(given) != set(right):
        axes = ", ".join(given) if isinstance(given, Mapping) else type(given).__name__
        raise NotYet(f"a dict with the axes that have more than one rank is asked for, got {axes}")
    for axis, due in right.items():
        calls, sent = items(given[axis], axis, 2)
        number(calls, due[0], f"{axis}: the number of calls", tolerance=1e-9)
        number(sent, due[1], f"{axis}: what rank 0 sends", "bytes", tolerance=1e-9)


def predict_cases() -> Iterator[tuple[str, tuple]]:
    """All layouts on machines that share cores, have their own, and have slow links."""
    names = {"shared cores": SHARED, "own cores": OWN, "slow links": SLOW_LINKS}
    for name, machine in names.items():
        for job in jobs():
            for layout in all_layouts(job, machine.ranks):
                yield f"{name}, {job.spec.name}, {layout}", (layout, job, machine)


def predict_law(given: Any, right: Mapping[str, float], *args: Any) -> None:
    if not isinstance(given, Mapping) or set(given) != set(right):
        raise NotYet(f"a dict with the keys {', '.join(right)} is asked for")
    for cause, due in right.items():
        if due == 0 and abs(real(given[cause], cause, "s")) > 1e-12:
            raise NotYet(f"{cause}: there is nothing of it here")
        number(given[cause], due, cause, "s", tolerance=1e-9)


def three_law(answer: Any) -> None:
    choose = function(answer, "choose(times, e)")
    for times, e in _fields():
        given = call(choose, dict(times), e)
        if not isinstance(given, list | tuple):
            raise NotYet(f"a list of names is asked for, got {type(given).__name__}")
        _judge_three(list(given), times, e)
    flat = {name: 1 + 0.01 * i for i, name in enumerate("abcdef")}
    if list(call(choose, flat, 0.2)):
        raise NotYet("where all are alike no three are safe: return an empty list")


def _judge_three(names: list, times: Mapping[str, float], e: float) -> None:
    where = f"errors up to {e:.0%} among {len(times)}"
    if len(names) != 3 or not set(names) <= set(times):
        raise NotYet(f"{where}: three names of the dict are asked for, and there are such three")
    seconds = [times[name] for name in names]
    if seconds[0] > min(times.values()):
        raise NotYet(f"{where}: the first is not the fastest as predicted")
    if seconds[2] > LONGEST * seconds[0]:
        raise NotYet(f"{where}: the last would take more than {LONGEST} times as long")
    for a, b in pairwise(seconds):
        if a >= b:
            raise NotYet(f"{where}: the faster first, please")
        if (1 - e) * b < (1 + e) * a:
            raise NotYet(f"{where}: with both errors at their worst, two of them change places")


def _fields() -> Iterator[tuple[dict[str, float], float]]:
    """Predicted times, in no order, of which three are far enough apart."""
    for machine in (SHARED, OWN, SLOW_LINKS):
        for job in jobs():
            times = {
                str(layout): sum(predict(layout, job, machine).values())
                for layout in all_layouts(job, 4)
            }
            yield times, 0.1
    yield {"c": 4.9, "a": 1.0, "b": 2.05, "d": 5.5, "f": 1.9}, 0.33
    yield {"b": 1.5, "a": 1.0, "c": 2.3, "d": 1.4}, 0.19


class World:
    """Trials of a machine that is slow at first, and in some minutes; it keeps a diary."""

    def __init__(self, names: str, slow: range):
        self.diary: list[str] = []
        self.slow, self.seconds = slow, {name: 1.0 + i for i, name in enumerate(names)}
        self.said: dict[str, list[float]] = {name: [] for name in names}

    def trials(self) -> dict:
        return {name: lambda name=name: self.run(name) for name in self.seconds}

    def run(self, name: str) -> float:
        first = name not in self.diary
        late = 50 if first else 3 if len(self.diary) in self.slow else 1
        self.diary.append(name)
        taken = self.seconds[name] * late + 1e-3 * len(self.diary)
        self.said[name].append(taken)
        return taken


def measure_law(answer: Any) -> None:
    measure = function(answer, "measure(trials, rounds)")
    for names, rounds in (("abc", 9), ("ab", 4), ("abcd", 5)):
        world = World(names, range(len(names) * 3, len(names) * 5))
        given = call(measure, world.trials(), rounds)
        if not isinstance(given, Mapping) or set(given) != set(names):
            raise NotYet("a dict with the names of the trials is asked for")
        _judge_diary(world, rounds)
        for name in names:
            seconds = items(given[name], f"the times of {name}", rounds)
            if world.said[name][0] in seconds:
                raise NotYet("the first step of a layout is no sample: memory and links are new")
            if list(seconds) != world.said[name][1:]:
                raise NotYet("return what was measured, in the order of the rounds, and all of it")


def _judge_diary(world: World, rounds: int) -> None:
    names, wide = list(world.seconds), len(world.seconds)
    for name in names:
        ran = world.diary.count(name)
        if ran != rounds + 1:
            raise NotYet(
                f"{rounds} rounds: a trial ran {ran} times; one to warm up, and the rounds"
            )
    for turn in range(rounds + 1):
        if set(world.diary[turn * wide : (turn + 1) * wide]) != set(names):
            raise NotYet(
                "a slow minute hits one layout alone: let each have its turn in each round"
            )


def verdict_cases() -> Iterator[tuple[str, tuple]]:
    """Predicted times, and measured ones that agree, disagree, leave it open, or drift together."""
    predicted = {"b": 2.0, "a": 1.0, "c": 4.0}
    base = [1.0, 1.1, 0.9, 1.3, 1.0, 1.2, 0.95, 1.05, 1.0]
    drift = [1.0, 1.0, 3.0, 3.1, 2.9, 1.2, 1.0, 5.0, 1.1]
    scenes = {
        "all as predicted": (1.0, 2.2, 3.0),
        "two have turned round": (1.0, 0.8, 3.0),
        "all have turned round": (3.0, 2.0, 1.0),
    }
    for name, scale in scenes.items():
        measured = {n: [s * x for x in base] for n, s in zip("abc", scale, strict=True)}
        yield name, (predicted, measured)
    slower = [1.02 * x for x in drift]
    measured = {"a": drift, "b": slower, "c": [0.5 * x for x in drift]}
    yield "the machine was slow in some rounds", (predicted, measured)
    mixed = [2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0]
    measured = {"a": base, "b": [x * y for x, y in zip(base, mixed, strict=True)], "c": base}
    yield "rounds that disagree, and rounds that are the same", (predicted, measured)
    for won in (7, 8):
        b = [1.1 * x if i < won else 0.9 * x for i, x in enumerate(base)]
        yield f"{won} of 9 rounds", ({"a": 1.0, "b": 2.0}, {"a": base, "b": b})
    tied = [1.1 * x if i < 6 else x for i, x in enumerate(base)]
    yield "6 rounds and 3 ties", ({"a": 1.0, "b": 2.0}, {"a": base, "b": tied})
    few = {"a": base[:5], "b": [1.1 * x for x in base[:5]]}
    yield "five rounds that agree", ({"a": 1.0, "b": 2.0}, few)
    turned = {"a": sorted(base), "b": [1.1 * x for x in sorted(base, reverse=True)]}
    yield "slow rounds of one are quick ones of the other", ({"a": 1.0, "b": 2.0}, turned)
    one = [20.0] + [0.9 * x for x in base[1:]]
    yield "one round that took long", ({"a": 1.0, "b": 2.0}, {"a": base, "b": one})


def verdict_law(given: Any, right: Mapping, *args: Any) -> None:
    if not isinstance(given, Mapping) or set(given) != set(right):
        raise NotYet("a dict is asked for, a key for each pair, the faster as predicted first")
    for pair, due in right.items():
        if given[pair] not in ("as predicted", "turned round", "open"):
            raise NotYet(f"{given[pair]!r} is no verdict of the three")
        if given[pair] != due:
            raise NotYet(f"for {' and '.join(pair)} the verdict {given[pair]!r} is wrong")


def blame_cases() -> Iterator[tuple[str, tuple]]:
    """Layouts on machines, of which one cause takes k times as long, with a little noise."""
    for name, machine, cause, k in (
        ("cores", SHARED, "computing", 2.0),
        ("slow links", SLOW_LINKS, "sums", 0.4),
        ("a bubble that is not there", OWN, "waiting", 0.1),
        ("an exchange", SLOW_LINKS, "exchange", 5.0),
        ("late messages", OWN, "sends", 30.0),
    ):
        draw = random.Random(name)
        parts = [predict(layout, lab_job(), machine) for layout in all_layouts(lab_job(), 4)]
        measured = [
            (sum(of.values()) + (k - 1) * of[cause]) * draw.uniform(0.98, 1.02) for of in parts
        ]
        yield name, (parts, measured)


def blame_law(given: Any, right: tuple[str, float], *args: Any) -> None:
    cause, k = items(given, "(cause, factor)", 2)
    if cause != right[0]:
        raise NotYet(f"{cause!r} with any factor leaves larger errors than another cause")
    if not math.isclose(real(k, "the factor"), right[1], rel_tol=1e-3, abs_tol=1e-6):
        raise NotYet(f"{cause} is the cause, but with another factor the errors would be smaller")
