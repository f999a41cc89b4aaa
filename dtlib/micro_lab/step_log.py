"""What a training run says about its steps: one line of JSON for each event, and how to read it.

It stands beside `timeline`: there a run is spans that are drawn, here it is lines that a program
can be held to. Every strategy may write one, so it belongs to no part of the book.

The nouns:

- **Record**: a dict with `t` (seconds since the log began), `rank`, `step` and `op`, and what
  `FIELDS` lists for that operation. Steps count from 0; what belongs to no step has step -1.
- **Mark**: a moment, taken by a `Clock`: of the host, or on a GPU of the stream that does the work.
- **bwd_done_ms**: when the last gradient was there. What ends later was not hidden by backward.

All milliseconds count from the beginning of the record's step.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dtlib.errors import DtlibError
from dtlib.timeline import Span, Timeline

_TRAVELS = {"bytes": int, "launch_ms": float, "done_ms": float, "bwd_done_ms": float}
FIELDS: dict[str, dict[str, type]] = {
    "run": {"engine": str, "world": int, "params": int, "tensors": int, "first_bytes": int},
    "all_reduce": {"bucket": int, **_TRAVELS},
    "all_gather": {"unit": str, **_TRAVELS},
    "reduce_scatter": {"unit": str, **_TRAVELS},
    "step": {"loss": float, "forward_ms": float, "bwd_done_ms": float, "step_ms": float},
    "mem": {"params": int, "grads": int, "opt": int},
}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
_ALWAYS = {"t": float, "rank": int, "step": int, "op": str}


class LogError(DtlibError, ValueError):
    """A record that does not follow the schema."""


def check_record(record: Any, where: str = "record") -> None:
    """Raise LogError unless a record has exactly the fields of its operation, with their types.

    >>> check_record({"t": 0.1, "rank": 0, "step": 0, "op": "mem", "params": 8, "grads": 8})
    Traceback (most recent call last):
    dtlib.micro_lab.step_log.LogError: record: mem lacks 'opt'
    """
    if not isinstance(record, dict) or record.get("op") not in tuple(FIELDS):
        raise LogError(f"{where}: op must be one of {', '.join(FIELDS)}; got {record!r:.80}")
    op, wanted = record["op"], {**_ALWAYS, **FIELDS[record["op"]]}
    for name, kind in wanted.items():
        if name not in record:
            raise LogError(f"{where}: {op} lacks {name!r}")
        value = record[name]
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or isinstance(value, bool):
            raise LogError(f"{where}: {name} of {op} is {value!r}, but must be a {kind.__name__}")
    if extra := sorted(set(record) - set(wanted)):
        raise LogError(f"{where}: {op} has no field {extra[0]!r}")
    if "done_ms" in record and record["done_ms"] < record["launch_ms"]:
        raise LogError(f"{where}: {op} is done before it is launched")


class Clock:
    """Takes marks: of the processor's time, or where `device` is a GPU, events of its stream."""

    def __init__(self, device: Any = None):
        self.on_gpu = getattr(device, "type", "cpu") == "cuda"

    def mark(self) -> Any:
        """Now, as far as the work is that has been asked for."""
        if not self.on_gpu:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def ms(self, start: Any, stop: Any) -> float:
        """Milliseconds between two marks; on a GPU this waits until the second has come."""
        if not self.on_gpu:
            return 1000 * (stop - start)
        stop.synchronize()
        return start.elapsed_time(stop)


class Travel:
    """A collective under way: launched now, and done when `follow`'s handle says so."""

    def __init__(self, log: "StepLog", op: str, nbytes: int, what: dict):
        self.log, self.op, self.nbytes, self.what = log, op, nbytes, what
        self.launched, self.finished, self.future = log.clock.mark(), None, None

    def follow(self, work: Any) -> Any:
        """Note when this handle's collective has ended; returns a handle to wait on.

        Some collectives of gloo do not tell when they end: for them it is when they are awaited.
        """
        if work is None:
            return None
        try:
            self.future = work.get_future().then(self._note)
        except RuntimeError:
            return _Awaited(self, work)
        return work

    def done(self) -> None:
        """It has ended now."""
        self.finished = self.log.clock.mark()

    def _note(self, future: Any) -> None:
        self.done()


class _Awaited(NamedTuple):
    """A handle whose collective counts as done when somebody has waited for it."""

    travel: Travel
    work: Any

    def wait(self) -> None:
        self.work.wait()
        self.travel.done()


class StepLog:
    """Collects the records of one rank, and writes a step's lines when the step is over.

    Arguments: `rank`; `file`, to which lines are appended (None: they are only kept, in `records`);
    `device`, whose clock counts. While no step is open, nothing is noted.

        log.begin(); ...; log.forward_done(); ...; log.gradient_ready(); ...; log.end(loss)
    """

    def __init__(self, rank: int, file: Path | None = None, device: Any = None):
        self.rank, self.file, self.clock = rank, file, Clock(device)
        self.records: list[dict] = []
        self.step, self._began, self._travels = -1, None, []
        self._zero = time.perf_counter()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("", encoding="utf-8")

    def begin(self) -> None:
        """A step begins."""
        self.step += 1
        self._travels, self._began = [], self.clock.mark()
        self._forward = self._gradient = self._began

    def forward_done(self) -> None:
        """The loss is there."""
        self._forward = self.clock.mark()

    def gradient_ready(self, *ignored: Any) -> None:
        """One more gradient is there; the last call of a step is the end of backward."""
        self._gradient = self.clock.mark()

    def travel(self, op: str, nbytes: int, **what: Any) -> Travel:
        """A collective is about to start; follow its handle."""
        travel = Travel(self, op, nbytes, what)
        if self._began is not None:
            self._travels.append(travel)
        return travel

    def end(self, loss: float) -> None:
        """The step is over: write its lines, in the order of their launch."""
        stop, start = self.clock.mark(), self._began
        for travel in self._travels:
            if travel.future is not None:
                travel.future.wait()
        since = {"bwd_done_ms": self._ms(self._gradient)}
        for travel in self._travels:
            if travel.finished is None:
                raise LogError(f"{travel.op} {travel.what} was launched, but never said to be done")
            times = {"launch_ms": self._ms(travel.launched), "done_ms": self._ms(travel.finished)}
            self.write(travel.op, **travel.what, bytes=travel.nbytes, **times, **since)
        step_ms = round(self.clock.ms(start, stop), 3)
        self.write("step", loss=loss, forward_ms=self._ms(self._forward), **since, step_ms=step_ms)
        self._began = None

    def write(self, op: str, **fields: Any) -> None:
        """One line, checked before it is written."""
        step = self.step if self._began is not None else -1
        seconds = round(time.perf_counter() - self._zero, 6)
        record = {"t": seconds, "rank": self.rank, "step": step, "op": op, **fields}
        check_record(record)
        self.records.append(record)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(record) + "\n")

    def _ms(self, mark: Any) -> float:
        return round(self.clock.ms(self._began, mark), 3)


def read_log(files: Path | Iterable[Path]) -> list[dict]:
    """The records of one file or of several (one for each rank), each checked.

    Raises LogError that names the file and the line.
    """
    records = []
    for file in [files] if isinstance(files, Path) else sorted(files):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            where = f"{file.name}, line {number}"
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise LogError(f"{where}: no JSON: {error.msg}") from None
            check_record(record, where)
            records.append(record)
    return records


def of_step(records: Iterable[dict], step: int, rank: int = 0) -> list[dict]:
    """The collectives of one step of one rank, in the order of their launch."""
    return [r for r in records if (r["step"], r["rank"]) == (step, rank) and r["op"] in COLLECTIVES]


def step_timeline(records: Iterable[dict], step: int) -> Timeline:
    """One step as spans: forward, backward, and the collectives, which wait for one another."""
    spans, free = [], {}
    for record in records:
        if record["step"] != step:
            continue
        rank = record["rank"]
        if record["op"] == "step":
            middle, end = record["forward_ms"] / 1000, record["bwd_done_ms"] / 1000
            spans += [Span(rank, "compute", "F", 0.0, middle, "forward")]
            spans += [Span(rank, "compute", "B", middle, max(middle, end), "backward")]
        elif record["op"] in COLLECTIVES:
            name = str(record.get("bucket", record.get("unit")))
            start, stop = record["launch_ms"] / 1000, record["done_ms"] / 1000
            start = min(max(start, free.get(rank, 0.0)), stop)
            free[rank] = stop
            spans.append(Span(rank, "network", name, start, stop, "communication"))
    return Timeline(spans)
