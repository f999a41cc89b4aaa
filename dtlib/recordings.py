"""Measured numbers, kept as small JSON files: what was measured, where, when and with what.

A page prints a recording, never a fresh timing, so that it is the same on every build. Each file
holds its samples together with the machine, the date, the versions and the spread.

    recordings.save("all-reduce-4-ranks", {"ring": [0.0121, 0.0118]}, unit="s", payload="16 MB")
    recordings.load("all-reduce-4-ranks").median("ring")
"""

import datetime
import json
import os
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from dtlib.files import write_whole

_LIBRARIES = ("torch", "numpy")
_FACTS = ("machine", "date", "versions", "spread", "samples")


@dataclass(frozen=True)
class Recording:
    """Samples and where they come from.

    `samples` is as it was saved: a mapping from a label to its repeated measurements, or a list of
    pairs such as (bytes, seconds). `machine` names processor and cores, `versions` the libraries,
    `about` is everything else that was saved. `spread` gives, for each label or first member of
    a pair, the number of samples, the median and the 10th and 90th percentile.
    """

    name: str
    samples: dict | list
    machine: dict[str, str | int]
    date: str
    versions: dict[str, str]
    spread: dict[str, dict[str, float]]
    about: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        processor, cores = self.machine["processor"], self.machine["cores"]
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"Recording({self.name!r}: {processor}, {cores} cores, {self.date}, {versions})"

    def median(self, label) -> float:
        """The median of one label's samples. Raises KeyError, which lists the labels."""
        return self._spread(label)["median"]

    def interval(self, label) -> tuple[float, float]:
        """The 10th and the 90th percentile of one label's samples."""
        spread = self._spread(label)
        return spread["low"], spread["high"]

    def values(self, label) -> list[float]:
        """The samples of one label, or of one first member where samples are pairs."""
        self._spread(label)
        return _series(self.samples)[str(label)]

    def _spread(self, label) -> dict[str, float]:
        if str(label) not in self.spread:
            raise KeyError(f"{self.name}: no {label!r}; recorded are {', '.join(self.spread)}")
        return self.spread[str(label)]


def directory() -> Path:
    """Where recordings lie: in the installed package, or in book/measurements of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "measurements"
    return installed if installed.is_dir() else package.parent / "book" / "measurements"


def available() -> list[str]:
    """The names that `load` knows."""
    return sorted(path.stem for path in directory().glob("*.json"))


def load(name: str) -> Recording:
    """The recording of that name. Raises FileNotFoundError, which lists the names there are."""
    path = directory() / f"{name}.json"
    if not path.is_file():
        known = ", ".join(available()) or "none yet"
        raise FileNotFoundError(f"no recording {name!r}; recordings: {known}")
    stored = json.loads(path.read_text(encoding="utf-8"))
    about = {key: value for key, value in stored.items() if key not in _FACTS}
    return Recording(name, about=about, **{key: stored[key] for key in _FACTS})


def save(name: str, samples, **about) -> Recording:
    """Store samples with this machine, today's date, the versions and the spread.

    `samples` maps labels to lists of numbers, or lists (x, y) pairs; `about` is whatever else the
    reader of the numbers needs, for example ``unit="s"`` or ``ranks=4``. An existing recording
    of that name is replaced, whole or not at all. Raises ValueError when there is nothing to
    record, or when `about` uses a name that a recording has already.
    """
    taken = [key for key in about if key in _FACTS]
    if taken:
        raise ValueError(f"about: {taken[0]!r} is what a recording stores by itself")
    samples = _plain(samples)
    spread = {label: _summary(values) for label, values in _series(samples).items()}
    if not spread:
        raise ValueError(f"samples of {name!r}: there is nothing to record")
    facts = {
        **about,
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "versions": versions(),
        "spread": spread,
        "samples": samples,
    }
    path = directory() / f"{name}.json"
    write_whole(path, _json(facts))
    return load(name)


def machine() -> dict[str, str | int]:
    """The processor and how many cores this process may use; never the name of the host."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": _processor(), "cores": cores, "system": platform.system()}


def versions() -> dict[str, str]:
    """Python's version and those of the libraries that measurements depend on, if installed."""
    from importlib import metadata  # late, because a page of the site has none

    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library).split("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _series(samples: dict | list) -> dict[str, list[float]]:
    """The samples as labelled lists; pairs are grouped by their first member."""
    if isinstance(samples, dict):
        return {label: list(values) for label, values in samples.items()}
    series: dict[str, list[float]] = {}
    for x, y in samples:
        series.setdefault(str(x), []).append(y)
    return series


def _summary(values: list[float]) -> dict[str, float]:
    deciles = statistics.quantiles(values, n=10, method="inclusive") if values[1:] else values
    return {
        "count": len(values),
        "median": statistics.median(values),
        "low": deciles[0],
        "high": deciles[-1],
    }


def _plain(value):
    """The value with keys as text and numbers as Python's own, as JSON stores it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | float | None):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value]


def _json(facts: dict) -> str:
    """One fact a line, and one line for each member of a mapping: small and pleasant to diff."""

    def member(value, indent: str) -> str:
        if not isinstance(value, dict):
            return json.dumps(value, ensure_ascii=False)
        inner = ",\n".join(
            f"{indent}  {json.dumps(key, ensure_ascii=False)}: {json.dumps(item)}"
            for key, item in value.items()
        )
        return f"{{\n{inner}\n{indent}}}"

    lines = ",\n".join(
        f"  {json.dumps(key)}: {member(value, '  ')}" for key, value in facts.items()
    )
    return f"{{\n{lines}\n}}\n"
