"""How far is the model of NCCL's collectives from measured times?

    python benchmarks/collectives/nccl_model.py --data DIR

DIR holds aic_nccl.csv, times that ai-dynamo/aiconfigurator publishes, with columns system, op_name,
num_gpus, bytes and latency_ms; and, if there is one, nccl_bekman.csv, times that S. Bekman
publishes, with columns system, n, op, bytes, time_us, busbw_GBps and tool. All are of one node. An
error is the mean of |predicted/measured - 1|.

Three models are judged, the first two on all samples of a machine that determine them. The third,
`CollectiveModel`, is fitted to the machines of the first file; of the others only the start is. It
is also judged on what it was not fitted to: every other size, each group size from the others, and
one machine with the constants of another, its bandwidths scaled by those on the data sheets. Then
it says what each constant is worth: the error without it, the others fitted anew.
"""

import argparse
import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dtlib.collectives.nccl.fit import (
    RING,
    CollectiveFit,
    CollectiveTime,
    fit_collectives,
    residuals,
)
from dtlib.collectives.nccl.model import CollectiveModel, nccl_models

FILES = ("aic_nccl.csv", "nccl_bekman.csv")
OPERATIONS = {"alltoall": "all_to_all"}
SYSTEMS = {
    "a100_sxm": "a100-sxm",
    "h100_sxm": "h100-sxm",
    "A100-SXM NVLink3 8x": "a100-sxm, slow start",
    "H200 NVLink4 8x (NVLS)": "h200-sxm, slow start",
    "H200 NVLink4": "h200-sxm, slow start",
}
SLOW_START_OF = {"a100-sxm, slow start": "a100-sxm", "h200-sxm, slow start": "h100-sxm"}
# bytes/s per direction of a GPU's links, for one machine predicted from another
LINKS = {"a100-sxm": 300e9, "h100-sxm": 450e9}
# Where the fit begins: it decides only which all-reduces are taken for those of a switch at first.
GUESS = CollectiveModel("guess", 1e-5, 1e-6, 5e-6, 2e11, 8e11, 3e-6)
SWITCH_GUESS = replace(GUESS, beta=4e11, handover=3e-6, switch_setup=6e-5, switch_beta=3e11)
STARTS = {"a100-sxm": GUESS, "h100-sxm": SWITCH_GUESS}
LARGE = 2**26
NOTHING = CollectiveModel("nothing", 0.0, 0.0, 0.0, np.inf, np.inf)


def read(directory: Path) -> dict[str, list[CollectiveTime]]:
    """The samples, machine by machine; systems that no model is for are named."""
    samples: dict[str, list[CollectiveTime]] = {name: [] for name in nccl_models}
    left_out: dict[str, int] = {}
    for file in (directory / name for name in FILES if (directory / name).exists()):
        with file.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if row["system"] in SYSTEMS:
                    samples[SYSTEMS[row["system"]]].append(_sample(row))
                else:
                    left_out[row["system"]] = left_out.get(row["system"], 0) + 1
    for system, count in left_out.items():
        print(f"left out: {system}, {count} rows; no model of it")
    return {name: found for name, found in samples.items() if found}


def _sample(row: dict[str, str]) -> CollectiveTime:
    label = row.get("op", row.get("op_name"))
    operation = OPERATIONS.get(label.split()[0], label.split()[0])
    n, P = int(row["bytes"]), int(row.get("n") or row["num_gpus"])
    if "latency_ms" in row:
        return CollectiveTime(operation, n, P, float(row["latency_ms"]) / 1e3)
    how = f"{label} {row['tool']}".lower()
    path = "ring" if "ring" in how else "switch" if "nvls" in how else None
    if row["time_us"]:
        return CollectiveTime(operation, n, P, float(row["time_us"]) / 1e6, path)
    sent = (2 if operation == "all_reduce" else 1) * (P - 1) / P * n
    return CollectiveTime(operation, n, P, sent / (float(row["busbw_GBps"]) * 1e9), path)


def constants_of(start: CollectiveModel) -> tuple[str, ...]:
    switched = ("switch_setup", "switch_beta") if start.adds_in_switch else ()
    return (*RING, "exchange", *switched)


def fitted(name: str, samples: list[CollectiveTime]) -> CollectiveFit:
    start = STARTS[name]
    return fit_collectives(samples, start=start, free=constants_of(start), name=name)


def one_pair(samples: list[CollectiveTime], latency: str) -> np.ndarray:
    """Errors of two constants for all that a machine does: a latency and the bandwidth of a ring.

    The latency is paid in each step ("alpha") or once ("launch").
    """
    samples = [sample._replace(path=None) for sample in samples]
    return fit_collectives(samples, start=NOTHING, free=(latency, "beta")).residuals


def pair_each(samples: list[CollectiveTime]) -> tuple[np.ndarray, int]:
    """Errors of a line for each operation and group size that has two sizes, and how many lines."""
    groups: dict[tuple, list[CollectiveTime]] = {}
    for sample in samples:
        key = (sample.operation, sample.P, sample.path)
        groups.setdefault(key, []).append(sample._replace(path=None))
    lines = [group for group in groups.values() if len({s.n for s in group}) > 1]
    fits = [fit_collectives(line, start=NOTHING, free=("launch", "beta")) for line in lines]
    return np.concatenate([fit.residuals for fit in fits]), 2 * len(lines)


def without(model: CollectiveModel, constant: str) -> CollectiveModel:
    """The starting point of a fit that has to do without one constant."""
    if constant in ("own_beta", "beta"):
        return replace(model, **{constant: np.inf})
    return replace(model, **{constant: 0.0})


def size(errors: Iterable[float]) -> float:
    return float(np.mean(np.abs(errors)))


def print_table(samples: dict[str, list[CollectiveTime]]) -> None:
    """The errors of the models, all constants as they stand in the library."""
    print(f"\n{'mean error':<42}constants     all" + "".join(f"{name:>24}" for name in samples))

    def line(title: str, constants: int, errors: list[np.ndarray]) -> None:
        shown = "".join(f"{size(each):>24.1%}" for each in errors)
        print(f"{title:<42}{constants:>9}{size(np.concatenate(errors)):>8.1%}{shown}", flush=True)

    for latency, words in (("alpha", "in each step"), ("launch", "once")):
        errors = [one_pair(found, latency) for found in samples.values()]
        line(f"one pair a machine, latency {words}", 2 * len(samples), errors)
    pairs = [pair_each(found) for found in samples.values()]
    line("a pair an operation and group size", sum(c for _, c in pairs), [e for e, _ in pairs])
    count = sum(len(constants_of(STARTS[n])) if n in STARTS else 1 for n in samples)
    line("streamed", count, [residuals(nccl_models[n], found) for n, found in samples.items()])


def print_fit(name: str, fit: CollectiveFit, others: dict[str, CollectiveFit]) -> None:
    """A machine's constants, the errors on what they were not fitted to, and what each is worth."""
    print(f"\n{name}: {fit}")
    print(f"  every other size predicted: {fit.held_out_error('n'):.1%}")
    print(f"  each group size predicted from the others: {fit.held_out_error('P'):.1%}")
    for other, its in others.items():
        model = replace(its.model, beta=its.model.beta * LINKS[name] / LINKS[other])
        if not fit.model.adds_in_switch:
            model = replace(model, switch_setup=None, switch_beta=None)
        print_transfer(other, model, fit)
    for operation in sorted({sample.operation for sample in fit.samples}):
        of_it = [sample.operation == operation for sample in fit.samples]
        print(f"  {operation}: {size(fit.residuals[of_it]):.1%}")
    for constant in (*RING, "exchange"):
        if constant != "beta":
            start = without(STARTS[name], constant)
            free = tuple(c for c in constants_of(start) if c != constant)
            error = fit_collectives(fit.samples, start=start, free=free).mean_error
            print(f"  without {constant}: {error:.1%}")
    if fit.model.adds_in_switch:
        error = fit_collectives(fit.samples, start=GUESS).mean_error
        print(f"  without the switch: {error:.1%}")


def print_transfer(other: str, model: CollectiveModel, fit: CollectiveFit) -> None:
    """The errors of another machine's model on the samples of a fit."""
    errors = residuals(model, fit.samples)
    large = errors[[sample.n >= LARGE for sample in fit.samples]]
    shown = f", {size(large):.1%} from 64 MiB" if len(large) else ""
    print(f"  predicted from {other}: {size(errors):.1%}{shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=f"the directory of {FILES[0]}")
    samples = read(parser.parse_args().data)
    total = sum(map(len, samples.values()))
    print(f"{total} collectives: " + ", ".join(f"{len(s)} {n}" for n, s in samples.items()))
    print_table(samples)
    fits = {name: fitted(name, samples[name]) for name in samples if name in STARTS}
    for name, fit in fits.items():
        print_fit(name, fit, {other: fits[other] for other in fits if other != name})
    for name, other in SLOW_START_OF.items():
        if name in samples and other in fits:
            model = fits[other].model
            fit = fit_collectives(samples[name], start=model, free=("launch",))
            print(f"\n{name}: {fit}")
            print_transfer(other, model, fit)


if __name__ == "__main__":
    main()
