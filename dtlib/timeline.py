"""Who did what, when: spans of time on ranks, from a simulator or from a real run.

The nouns:

- **Span**: ``rank`` was busy in ``lane`` with ``name`` from ``start`` to ``stop``. Its ``kind`` is
  "forward", "backward", "weight", "communication" or "other".
- **Lane**: what a rank has one of, such as its processor or its network port. Lanes run at once.
- **Work**: every kind but "communication". A rank that only communicates, or waits, is idle.
- **Timeline**: spans; it measures them, draws them, and exports them for a trace viewer.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from dtlib.drawing.svg import PAGE, schedule_svg
from dtlib.files import write_whole

KINDS = ("forward", "backward", "weight", "communication", "other")
WORK = tuple(kind for kind in KINDS if kind != "communication")


class Span(NamedTuple):
    """``rank`` was busy in ``lane`` with ``name`` from ``start`` to ``stop``, in seconds."""

    rank: int
    lane: str
    name: str
    start: float
    stop: float
    kind: str = "other"


class Timeline:
    """Spans of one or many ranks.

    Arguments: ``spans``; ``unit``, of their times: "s", or "" for the steps of a simulation that
    have no duration; ``names``, what a drawing calls a kind in its legend, or a rank beside its
    rows, if not by its own name;
    ``ranks`` that were there (None: those that have a span): one without a span was idle all along.
    Raises ValueError for a span that stops before it starts, or of another kind.

    >>> two_stages = Timeline(
    ...     [
    ...         Span(0, "compute", "F0", 0, 1, "forward"),
    ...         Span(1, "compute", "F0", 1, 2, "forward"),
    ...         Span(1, "compute", "B0", 2, 4, "backward"),
    ...         Span(0, "compute", "B0", 4, 6, "backward"),
    ...     ]
    ... )
    >>> two_stages
    Timeline of 2 ranks: 4 spans in 6 s, 50% idle
    >>> two_stages.makespan, two_stages.busy(0), two_stages.busy(0, "forward")
    (6, 3, 1)
    >>> two_stages.bubble_fraction, two_stages.stage_bubble
    (0.5, 3)
    """

    def __init__(
        self,
        spans: Iterable[Span],
        unit: str = "s",
        names: Mapping[str | int, str] | None = None,
        ranks: Iterable[int] | None = None,
    ):
        spans = (span if type(span) is Span else Span._make(span) for span in spans)
        self.spans = sorted(spans, key=itemgetter(0, 3))
        self.unit = unit
        self.names = dict(names or {})
        self.ranks = sorted({*(ranks or ()), *self._by_rank})
        for span in self.spans:
            if span.stop < span.start:
                raise ValueError(f"span {span.name!r} of rank {span.rank} stops before it starts")
            if span.kind not in KINDS:
                allowed = ", ".join(map(repr, KINDS))
                raise ValueError(f"kind must be one of {allowed}; got {span.kind!r}")

    @property
    def makespan(self):
        """Last stop minus first start, over all ranks."""
        return _reach([time for rank in self.ranks for time in self._times(rank)])

    def of(self, rank: int) -> list[Span]:
        """The spans of one rank, by their start."""
        return list(self._by_rank.get(rank, ()))

    @cached_property
    def _by_rank(self) -> dict[int, list[Span]]:
        return {rank: list(own) for rank, own in groupby(self.spans, key=itemgetter(0))}

    def _times(self, rank: int, *kinds: str) -> list[tuple]:
        """When the spans of one rank begin and end: of these kinds, or of any if none is named."""
        return [(s.start, s.stop) for s in self.of(rank) if not kinds or s.kind in kinds]

    def busy(self, rank: int, *kinds: str):
        """Time in which a rank had a span: of one of these kinds, or of any if none is named."""
        return _covered(self._times(rank, *kinds))

    def work(self, rank: int):
        """Time in which a rank did anything but communicate."""
        return _covered(self._times(rank, *WORK))

    def exposed_communication(self, rank: int):
        """Time in which a rank communicated and did no work meanwhile."""
        return self.busy(rank) - self.work(rank)

    @property
    def bubble_fraction(self) -> float:
        """The share of ranks x makespan in which a rank does no work."""
        whole = len(self.ranks) * self.makespan
        return 1 - sum(map(self.work, self.ranks)) / whole if whole else 0.0

    @property
    def stage_bubble(self):
        """The longest idle time of any rank between its own first start and its own last stop."""
        return max((_reach(self._times(rank)) - self.work(rank) for rank in self.ranks), default=0)

    def __repr__(self) -> str:
        from dtlib.formulas.units import format_quantity

        ranks, spans = len(self.ranks), len(self.spans)
        length = format_quantity(float(self.makespan), self.unit) if self.unit else self.makespan
        working = any(map(self.work, self.ranks))
        idle = f", {float(self.bubble_fraction):.0%} idle" if working else ""
        return (
            f"Timeline of {ranks} rank{'s' * (ranks != 1)}: {spans} span{'s' * (spans != 1)} "
            f"in {length}{'' if self.unit else ' steps'}{idle}"
        )

    def draw(self, alt: str = "", width: float = PAGE) -> str:
        """The spans as bars, ranks from top to bottom and time from left to right; an SVG text.

        A bar shows its kind by colour and by lines, and its name where there is room for it. `alt`
        says what to see; without it the timeline says what it is. `width` is in px. It needs
        QuickJS.
        """
        lanes = self._lanes()
        used = {rank: {span.lane for span in self.of(rank)} for rank in self.ranks}
        rows = [
            (rank, lane)
            for rank in self.ranks
            for lane in [one for one in lanes if one in used[rank]] or [""]
        ]
        origin = min((span.start for span in self.spans), default=0)
        shown = {span.kind for span in self.spans}
        return schedule_svg(
            rows=[{"label": self._row_name(*row), "height": 24, "gap": 4} for row in rows],
            spans=[
                {"row": rows.index((rank, lane)), "start": float(start - origin),
                 "stop": float(stop - origin), "look": f"pale {kind}", "name": name}
                for rank, lane, name, start, stop, kind in self.spans
            ],
            kinds=[(f"pale {kind}", self.names.get(kind, kind)) for kind in KINDS if kind in shown],
            stop=float(self.makespan) or 1,
            unit=self.unit,
            alt=alt or repr(self),
            width=width,
        )  # fmt: skip

    def _row_name(self, rank: int, lane: str) -> str:
        several = len(self._lanes()) > 1
        if several and len(self.ranks) == 1:
            return lane
        name = self.names.get(rank, f"rank {rank}")
        return name + (f", {lane}" if several and lane else "")

    def _lanes(self) -> list[str]:
        """The lanes, in the order in which they appear."""
        return list(dict.fromkeys(span.lane for span in self.spans))

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write the spans as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open.

        A rank is shown as a process, a lane as a thread, and times start at 0. Returns the path.
        """
        origin = min((span.start for span in self.spans), default=0)
        lanes = self._lanes()
        events = [_metadata("process_name", rank, 0, f"rank {rank}") for rank in self.ranks]
        for rank in self.ranks:
            own = dict.fromkeys(span.lane for span in self.of(rank))
            events += [_metadata("thread_name", rank, lanes.index(lane), lane) for lane in own]
        events += [
            {
                "ph": "X",
                "name": span.name,
                "cat": span.kind,
                "pid": span.rank,
                "tid": lanes.index(span.lane),
                "ts": float((span.start - origin) * 1_000_000),
                "dur": float((span.stop - span.start) * 1_000_000),
            }
            for span in self.spans
        ]
        path = Path(path)
        write_whole(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, indent=1))
        return path


class Recorder:
    """Records spans of a real run, on one rank.

    The clock is the machine's: spans of several processes of one machine fit together.

    >>> recorder = Recorder(rank=0)
    >>> with recorder.span("F0", "forward"):
    ...     total = sum(range(1000))
    >>> [(span.name, span.kind, span.stop > span.start) for span in recorder.spans]
    [('F0', 'forward', True)]
    """

    def __init__(self, rank: int):
        self.rank = rank
        self.spans: list[Span] = []

    @contextmanager
    def span(self, name: str, kind: str = "other", lane: str = "compute") -> Iterator[None]:
        """Record what runs inside this ``with`` block as one span."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spans.append(Span(self.rank, lane, name, start, time.perf_counter(), kind))


def _metadata(what: str, rank: int, lane: int, name: str) -> dict:
    return {"ph": "M", "name": what, "pid": rank, "tid": lane, "args": {"name": name}}


def _reach(times: list[tuple]):
    """Last stop minus first start."""
    if not times:
        return 0
    starts, stops = zip(*times, strict=True)
    return max(stops) - min(starts)


def _covered(times: list[tuple]):
    """The length of the union of the times from start to stop."""
    covered, until = 0, None
    for start, stop in sorted(times):
        start = start if until is None else max(start, until)
        if stop > start:
            covered, until = covered + stop - start, stop
    return covered
