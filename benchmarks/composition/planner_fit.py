"""Do the planner's constants hold for runs that they were not fitted to?

    python -m benchmarks.composition.planner_fit --data DIR

Each table is cut in two, all runs of one configuration on one side. The constants start at 0.7 or
1.4 times what they are, at random, are fitted to one half of every table, and are judged on the
other; then the halves change places. Beside these errors stand those of the library's constants,
which saw all runs, and of the start.

The fit moves one constant at a time, up and down by a factor, as long as the sum of the tables'
errors falls; then by smaller factors. None may leave the range from a third to three times of what
it is in the library: on half of the runs several of them can stand for one another.
"""

import argparse
import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.composition.planner_accuracy import (
    NANOTRON,
    TABLES,
    error,
    is_plain,
    predicted,
    read_tables,
)
from benchmarks.published_times import Run
from dtlib.composition.planner.machine import SUSTAINED
from dtlib.composition.planner.software import software_profiles

FACTORS = (1.5, 1.2, 1.08, 1.03)
FIELDS = {
    ("megatron-2021", "deepspeed"): "layer_host call_host send_host ends_host slowness",
    ("megatron",): "layer_host call_host send_host ends_host step_host tensor_overlap unfused",
    ("nanotron",): "layer_host call_host step_host tensor_overlap unfused optimizer_bytes",
    ("fsdp", "torchtitan-eager"): "unfused",
    ("fsdp", "torchtitan", "torchtitan-eager"): "layer_host overlap",
}
KERNELS = (
    "attention_fraction attention_start forward_touches backward_touches sharpness grouped_share "
    "arrival"
)


@dataclass(frozen=True)
class Constant:
    """One number of the model: how it is read and set, and on which libraries it has a bearing.

    `middle` is what it is in the library; `most`, what it may never exceed.
    """

    name: str
    get: Callable[[], float]
    set: Callable[[float], None]
    software: tuple[str, ...]
    middle: float
    most: float = np.inf

    def allows(self, value: float) -> bool:
        return self.middle / 3 <= value <= min(3 * self.middle, self.most)


def of_profiles(profiles: tuple[str, ...], field: str) -> Constant:
    def put(value):
        for name in profiles:
            software_profiles[name] = replace(software_profiles[name], **{field: value})

    def get():
        return getattr(software_profiles[profiles[0]], field)

    most = 1.0 if "overlap" in field else np.inf
    return Constant(f"{profiles[0]}.{field}", get, put, profiles, get(), most)


def of_kernels(field: str) -> Constant:
    def put(value):
        for name, profile in software_profiles.items():
            kernels = replace(profile.kernels, **{field: value})
            software_profiles[name] = replace(profile, kernels=kernels)

    def get():
        return getattr(software_profiles["megatron"].kernels, field)

    return Constant(field, get, put, tuple(software_profiles), get())


def of_gpu(name: str) -> Constant:
    def put(value):
        SUSTAINED[name] = value

    def get():
        return SUSTAINED[name]

    return Constant(name, get, put, tuple(software_profiles), get(), 1.0)


def constants() -> list[Constant]:
    """All constants that are fitted."""
    found = [of_gpu(name) for name in ("a100-sxm", "h100-sxm", "b200-sxm")]
    found += [of_kernels(field) for field in KERNELS.split()]
    return found + [
        of_profiles(profiles, field)
        for profiles, fields in FIELDS.items()
        for field in fields.split()
    ]


def half(run: Run) -> bool:
    """On which side a run is: a hash of its configuration says so."""
    key = f"{run.spec.name} {run.node.name} {run.layout} {run.spec.context} {run.batch}"
    return hashlib.sha256(key.encode()).digest()[0] % 2 == 0


def table_error(name: str, runs: list[Run]) -> float:
    """As the accuracy is judged: a mean, and a median where the ruler is faulty."""
    ratios = predicted(runs) / [run.seconds for run in runs]
    return error(list(ratios), median if name == NANOTRON else mean)


def fit(moved: list[Constant], tables: dict[str, list[Run]]) -> None:
    """Move each constant as long as the tables' errors fall."""
    written = {name: {run.software for run in runs} for name, runs in tables.items()}

    def loss(constant: Constant) -> float:
        bearing = [name for name in tables if written[name] & set(constant.software)]
        return sum(table_error(name, tables[name]) for name in bearing)

    for factor in FACTORS:
        for constant in moved:
            least = loss(constant)
            for step in (factor, 1 / factor):
                while constant.allows(constant.get() * step):
                    before = constant.get()
                    constant.set(before * step)
                    found = loss(constant)
                    if found >= least - 1e-5:
                        constant.set(before)
                        break
                    least = found


@dataclass(frozen=True)
class Fitted:
    """The errors of a table: at the start, on runs not seen, of the library's constants."""

    start: float
    unseen: float
    library: float


def unseen_errors(tables: dict[str, list[Run]]) -> dict[str, Fitted]:
    """By the name of each table. The constants are the library's again afterwards."""
    tables = {name: [run for run in runs if name != NANOTRON or is_plain(run)]
              for name, runs in tables.items()}  # fmt: skip
    moved, dice = constants(), random.Random(0)
    start = {c.name: min(c.middle * dice.choice([0.7, 1.4]), c.most) for c in moved}
    library = {name: table_error(name, runs) for name, runs in tables.items()}
    before, unseen = {}, {name: [] for name in tables}
    for side in (True, False):
        sides = [
            {name: [r for r in runs if half(r) == at] for name, runs in tables.items()}
            for at in (side, not side)
        ]
        for constant in moved:
            constant.set(start[constant.name])
        before = {name: table_error(name, runs) for name, runs in tables.items()}
        fit(moved, {name: runs for name, runs in sides[0].items() if runs})
        print({c.name: float(f"{c.get():.3g}") for c in moved}, flush=True)
        for name, runs in sides[1].items():
            if runs:
                unseen[name].append((table_error(name, runs), len(runs)))
    for constant in moved:
        constant.set(constant.middle)
    found = {}
    for name, errors in unseen.items():
        value = np.average([e for e, _ in errors], weights=[n for _, n in errors])
        found[name] = Fitted(before[name], float(value), library[name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with CSV files")
    found = unseen_errors(read_tables(parser.parse_args().data))
    print(f"{'':<34} {'start':>8} {'unseen':>8} {'library':>8}")
    for name, errors in found.items():
        print(
            f"{TABLES[name]:<34} {errors.start:>8.1%} {errors.unseen:>8.1%} {errors.library:>8.1%}"
        )


if __name__ == "__main__":
    main()
