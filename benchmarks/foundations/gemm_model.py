"""How far are the models of a matrix product from measured times?

    python benchmarks/foundations/gemm_model.py --data DIR

DIR holds aic_gemm_bf16.csv: a table of times that ai-dynamo/aiconfigurator publishes, with columns
system, gemm_dtype, m, n, k and latency_ms. An error is the mean of |predicted/measured - 1|.

Three models are judged, on each GPU and on rows that took no part in choosing their constants. For
that the constants are fitted anew, once on each half of the shapes (a shape is in the same half on
every GPU) and once on each GPU alone, and judged on the rest. Every GPU counts the same in a fit.
Then it says what each part of the last model is worth: the error without it, nothing fitted anew.
"""

import argparse
import csv
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dtlib.foundations import GPU, catalog
from dtlib.foundations.roofline.gemm import (
    GemmModel,
    gemm_derated_time,
    gemm_roofline_time,
    gemm_time,
)

FILE = "aic_gemm_bf16.csv"


@dataclass(frozen=True)
class Rows:
    """Measured products of one GPU, as arrays; `half` is 0 or 1, by shape."""

    gpu: GPU
    rows: np.ndarray
    columns: np.ndarray
    inner: np.ndarray
    seconds: np.ndarray
    half: np.ndarray

    def where(self, chosen: np.ndarray) -> "Rows":
        arrays = (self.rows, self.columns, self.inner, self.seconds, self.half)
        return Rows(self.gpu, *(array[chosen] for array in arrays))


@dataclass(frozen=True)
class Model:
    """A model of the time and its constants: `predict(rows, constants)` gives seconds."""

    name: str
    predict: Callable[[Rows, dict], np.ndarray]
    constants: dict[str, float]

    def error(self, rows: Rows, constants: dict | None = None) -> float:
        predicted = self.predict(rows, self.constants if constants is None else constants)
        return float(np.mean(np.abs(predicted / rows.seconds - 1)))


def _roofline(rows: Rows, _: dict) -> np.ndarray:
    gpu = rows.gpu
    return gemm_roofline_time(
        rows.rows, rows.columns, rows.inner, 2, gpu.peak("bf16"), gpu.hbm_bandwidth
    )


def _derated(rows: Rows, constants: dict) -> np.ndarray:
    gpu = rows.gpu
    return gemm_derated_time(
        rows.rows, rows.columns, rows.inner, 2, gpu.peak("bf16"), gpu.hbm_bandwidth, **constants
    )


def _tiled(rows: Rows, constants: dict) -> np.ndarray:
    model = replace(GemmModel(), **constants)
    return gemm_time(rows.rows, rows.columns, rows.inner, rows.gpu, model=model)


FITTED = ("bandwidth_fraction", "launch_cycles", "tile_cycles", "edge", "overlap")
MODELS = [
    Model("pure roofline", _roofline, {}),
    Model("three constants", _derated,
          {"peak_fraction": 0.8, "bandwidth_fraction": 0.8, "launch": 4e-6}),
    Model("tiles and waves", _tiled, {name: getattr(GemmModel(), name) for name in FITTED}),
]  # fmt: skip
WITHOUT = {
    "all parts": {},
    "no time to start": {"launch_cycles": 0},
    "no time between tiles": {"tile_cycles": 0},
    "tiles of any size equally good": {"edge": 0},
    "perfect overlap": {"overlap": 1},
    "full memory bandwidth": {"bandwidth_fraction": 1},
    "sums never split": {"splits": (1,)},
    "128 x 128 tiles only": {"tiles": ((128, 128),)},
}


def read(directory: Path) -> list[Rows]:
    """The bf16 rows, GPU by GPU; systems that the hardware catalog does not know are named."""
    by_system: dict[str, list[tuple[float, ...]]] = {}
    with (directory / FILE).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["gemm_dtype"] == "bfloat16":
                shape = tuple(int(row[side]) for side in "mnk")
                half = zlib.crc32("x".join(map(str, shape)).encode()) % 2
                values = (*shape, float(row["latency_ms"]) / 1000, half)
                by_system.setdefault(row["system"].replace("_", "-"), []).append(values)
    for system in sorted(set(by_system) - set(catalog)):
        print(f"left out: {system}, {len(by_system.pop(system))} rows; not in the catalog")
    return [Rows(catalog[s], *np.array(values).T) for s, values in sorted(by_system.items())]


def fit(model: Model, groups: list[Rows], rounds: int = 10) -> dict[str, float]:
    """The constants with the least mean error over the groups: each is moved in turn, then less."""
    best, step = dict(model.constants), 0.2
    least = np.mean([model.error(rows) for rows in groups])
    for _ in range(rounds):
        moved = False
        for name in best:
            for factor in (1 + step, 1 / (1 + step)):
                trial = best | {name: best[name] * factor}
                if trial.get("overlap", 0) > 1:
                    continue
                error = np.mean([model.error(rows, trial) for rows in groups])
                if error < least:
                    best, least, moved = trial, error, True
        step = step if moved else step / 2
    return best


def held_out(model: Model, groups: list[Rows]) -> float:
    """The error on the half of the shapes that the constants were not fitted to, both ways."""
    errors = []
    for half in (0, 1):
        constants = fit(model, [rows.where(rows.half == half) for rows in groups])
        errors += [model.error(rows.where(rows.half != half), constants) for rows in groups]
    return float(np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=f"the directory of {FILE}")
    groups = read(parser.parse_args().data)
    names = [rows.gpu.name for rows in groups]
    total = sum(len(rows.seconds) for rows in groups)
    print(f"{total} products, bf16: " + ", ".join(f"{len(r.seconds)} {r.gpu.name}" for r in groups))

    columns = [*names, "all", "other half", *(f"fit elsewhere: {name}" for name in names)]
    print(f"\n{'mean error':<32}constants" + "".join(f"{c:>{len(c) + 3}}" for c in columns))
    for model in MODELS:
        errors = [model.error(rows) for rows in groups]
        every = sum(e * len(r.seconds) for e, r in zip(errors, groups, strict=True)) / total
        cells = [*errors, every, held_out(model, groups)]
        for rows in groups:
            others = [other for other in groups if other is not rows]
            cells.append(model.error(rows, fit(model, others) if others else None))
        line = "".join(f"{cell:>{len(c) + 3}.1%}" for cell, c in zip(cells, columns, strict=True))
        print(f"{model.name:<32}{len(model.constants):>9}{line}", flush=True)

    print(f"\n{'tiles and waves':<32}" + "".join(f"{name:>12}" for name in names))
    for name, change in WITHOUT.items():
        errors = [MODELS[-1].error(rows, MODELS[-1].constants | change) for rows in groups]
        print(f"{name:<32}" + "".join(f"{error:>12.1%}" for error in errors))
    best = fit(MODELS[-1], groups)
    print("\nbest fit to all rows: " + ", ".join(f"{k} {v:.3g}" for k, v in best.items()))


if __name__ == "__main__":
    main()
