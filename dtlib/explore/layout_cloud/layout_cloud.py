"""LayoutCloud: a run's layouts as a cloud of time and memory, in which the reader looks for one."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.require import require
from dtlib.formulas.units import format_quantity
from dtlib.layout import POLICIES

# What the reader chooses, and how it is called; replicas are the rest.
CHOICES = {
    "tp": "tensor parallel",
    "pp": "pipeline stages",
    "micro_batch": "micro-batch",
    "recompute": "Recompute",
    "zero": "ZeRO stage",
    "interleave": "interleaved parts of a stage",
}
FOLDED = ("zero", "interleave")
DIGITS = 4


class LayoutRow(NamedTuple):
    """A legal layout, the ``seconds`` of its step and the ``bytes`` of its fullest GPU."""

    tp: int
    pp: int
    dp: int
    zero: int
    interleave: int
    micro_batch: int
    recompute: str
    seconds: float
    bytes: float

    @property
    def choices(self) -> dict:
        """What the reader chooses of it."""
        return {name: getattr(self, name) for name in CHOICES}


class LayoutCloud(Widget):
    """Every legal layout of a run as a dot, and the reader's own, with its distance from the best.

    Arguments: `rows`, called once, gives the legal layouts as `LayoutRow`s, or as sequences in its
    order, with those that do not fit; `limit`, the bytes that a GPU may hold; `start`, what is
    chosen first, by the names of CHOICES; `within`, the task: by which share a layout may be slower
    than the fastest that fits. Which that is, is shown when the reader asks for it. A choice that
    is the same in all rows has no control.
    Raises ValueError for no row, for a layout that is there twice, for a policy that is not in
    `dtlib.layout.POLICIES`, if nothing fits, and for a start that is no row, or that is good enough
    already.
    """

    def __init__(
        self,
        *,
        title: str,
        rows: Callable[[], Iterable[LayoutRow]],
        limit: float,
        start: Mapping[str, int | str],
        within: float = 0.05,
    ):
        self._rows = _by_choices(rows())
        self._limit = limit
        values = {name: _values(name, self._rows) for name in CHOICES}
        fitting = [row for row in self._rows.values() if row.bytes <= limit]
        require(fitting, "LayoutCloud", "limit", limit, "enough for one layout at least")
        legal = tuple(start[name] for name in CHOICES) in self._rows
        require(legal, "LayoutCloud", "start", dict(start), "the choices of a row")
        self._best = min(fitting, key=lambda row: (row.seconds, row.bytes))
        self._fixed = {name: one for name, (one, *more) in values.items() if not more}
        free = {name: some for name, some in values.items() if name not in self._fixed}
        super().__init__(
            title=title,
            controls=[_control(name, some, start[name]) for name, some in free.items()],
            task=self._task(within, free),
            limit=limit,
            fixed=self._fixed,
            cloud=[
                [_place(row, free), row.dp, row.seconds, row.bytes] for row in self._rows.values()
            ],
            start={"shown": 0},
        )

    def _task(self, within: float, free: Mapping) -> Task:
        share = format_quantity(within, "%")
        return Task(
            f"Find a layout that fits and is at most {share} slower than the fastest.",
            f"fits == 1 and behind <= {within}",
            {name: value for name, value in self._best.choices.items() if name in free},
            f"The fastest takes at most {share} less.",
        )

    def names(self, **chosen) -> dict[str, float]:
        row = self._rows.get(tuple((self._fixed | chosen)[name] for name in CHOICES))
        if row is None:
            return {"legal": 0, "fits": 0, "seconds": 0, "behind": 0}
        return {
            "legal": 1,
            "fits": int(row.bytes <= self._limit),
            "seconds": row.seconds,
            "behind": row.seconds / self._best.seconds - 1,
        }


def _by_choices(rows: Iterable[LayoutRow]) -> dict[tuple, LayoutRow]:
    """The rows by what is chosen, their numbers to so many digits as a page needs."""
    found: dict[tuple, LayoutRow] = {}
    for row in map(LayoutRow._make, rows):
        key = tuple(row.choices.values())
        policies = f"one of {', '.join(POLICIES)}"
        require(row.recompute in POLICIES, "LayoutCloud", "recompute", row.recompute, policies)
        require(key not in found, "LayoutCloud", "rows", row, "a layout that is there once")
        numbers = (float(f"{value:.{DIGITS}g}") for value in (row.seconds, row.bytes))
        found[key] = LayoutRow(*row[:-2], *numbers)
    require(found, "LayoutCloud", "rows", [], "at least one layout")
    return found


def _values(name: str, rows: Mapping[tuple, LayoutRow]) -> list:
    """What may be chosen, in order."""
    found = {getattr(row, name) for row in rows.values()}
    return sorted(found, key=POLICIES.index if name == "recompute" else None)


def _control(name: str, values: list, start) -> dict:
    more = {"folded": True} if name in FOLDED else {}
    if name == "recompute":
        return choice(name, CHOICES[name], {value: value for value in values}, start) | more
    return slider(name, CHOICES[name], values, start) | more


def _place(row: LayoutRow, free: Mapping[str, list]) -> int:
    """The number of its choices among all of them."""
    place = 0
    for name, values in free.items():
        place = place * len(values) + values.index(getattr(row, name))
    return place
