"""A log has one schema, in memory and in the file; each departure from it is named."""

import itertools
import json

import pytest
import torch

from dtlib.exercises.practice.logs import practice_logs
from dtlib.micro_lab.step_log import (
    LogError,
    StepLog,
    check_record,
    of_step,
    read_log,
    step_timeline,
)

GOOD = {"t": 0.1, "rank": 0, "step": 2, "op": "all_reduce", "bucket": 3, "bytes": 28_351_488}
GOOD |= {"launch_ms": 41.2, "done_ms": 63.9, "bwd_done_ms": 70.1}


class Handle:
    """A collective that has ended, or one that does not tell."""

    def __init__(self, tells=True):
        self.tells = tells

    def get_future(self):
        if not self.tells:
            raise RuntimeError("Work::getFuture not implemented.")
        return self

    def then(self, note):
        note(self)
        return self

    def wait(self):
        self.waited = True


def a_step(log, tells=True):
    log.begin()
    log.forward_done()
    log.gradient_ready()
    handle = log.travel("all_reduce", 400, bucket=0).follow(Handle(tells))
    handle.wait()
    log.end(0.7)


def test_a_record_that_follows_the_schema_is_accepted():
    check_record(GOOD)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"op": "broadcast"}, "op must be one of run, all_reduce"),
        ({"bytes": "many"}, "bytes of all_reduce is 'many', but must be a int"),
        ({"bytes": True}, "bytes of all_reduce is True"),
        ({"done_ms": 41.0}, "all_reduce is done before it is launched"),
        ({"unit": "root"}, "all_reduce has no field 'unit'"),
        ({"rank": None}, "rank of all_reduce is None"),
    ],
)
def test_every_departure_is_named(change, says):
    with pytest.raises(LogError, match=says):
        check_record(GOOD | change)


@pytest.mark.parametrize("name", GOOD)
def test_no_field_may_be_missing(name):
    record = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(LogError, match=f"lacks '{name}'" if name != "op" else "op must be"):
        check_record(record)


def test_what_is_written_is_read(tmp_path):
    logs = [StepLog(rank, tmp_path / f"rank{rank}.jsonl") for rank in range(2)]
    for log in logs:
        log.write("mem", params=1, grads=1, opt=2)
        a_step(log)
        a_step(log)
    records = read_log(tmp_path.glob("*.jsonl"))
    assert records == logs[0].records + logs[1].records
    assert [r["step"] for r in logs[0].records] == [-1, 0, 0, 1, 1]
    line = of_step(records, step=1, rank=1)[0]
    assert line["bytes"] == 400 and line["launch_ms"] >= line["bwd_done_ms"]
    assert (tmp_path / "rank0.jsonl").read_text().count("\n") == 5


def test_a_new_run_does_not_add_to_an_old_file(tmp_path):
    for _ in range(2):
        a_step(StepLog(0, tmp_path / "log.jsonl"))
    assert len(read_log(tmp_path / "log.jsonl")) == 2


def test_a_handle_that_does_not_tell_counts_as_done_when_it_is_awaited():
    log = StepLog(0)
    a_step(log, tells=False)
    line = of_step(log.records, 0)[0]
    assert line["done_ms"] >= line["launch_ms"]


def test_outside_a_step_nothing_is_noted():
    log = StepLog(0)
    log.travel("all_reduce", 4, bucket=0).follow(Handle())
    a_step(log)
    assert len(of_step(log.records, 0)) == 1


def test_a_bad_line_is_named_with_its_file(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD)[:-2] + "\n")
    with pytest.raises(LogError, match=r"log\.jsonl, line 2: no JSON"):
        read_log(file)
    file.write_text(json.dumps(GOOD | {"bytes": 1.5}) + "\n")
    with pytest.raises(LogError, match=r"log\.jsonl, line 1: bytes of all_reduce is 1\.5"):
        read_log(file)


def test_a_step_becomes_a_timeline():
    timeline = step_timeline(practice_logs()["torch-ddp"], step=1)
    assert timeline.ranks == [0, 1]
    assert sum(span.kind == "communication" for span in timeline.of(0)) == 7
    assert timeline.exposed_communication(0) > 0


def spans_as_the_records_say(records, timeline):
    """Whether every span has the name and the seconds of the record that it was made of."""
    steps = {r["rank"]: r for r in records if (r["op"], r["step"]) == ("step", 1)}
    for rank, step in steps.items():
        passes = [s for s in timeline.of(rank) if s.lane == "compute"]
        middle, end = step["forward_ms"] / 1000, step["bwd_done_ms"] / 1000
        if [s[2:] for s in passes] != [
            ("F", 0.0, middle, "forward"),
            ("B", middle, end, "backward"),
        ]:
            return False
        travels = of_step(records, 1, rank)
        spans = [s for s in timeline.of(rank) if s.lane == "network"]
        if [s.name for s in spans] != [str(r.get("bucket", r.get("unit"))) for r in travels]:
            return False
        if [s.stop for s in spans] != [r["done_ms"] / 1000 for r in travels]:
            return False
        launched = [r["launch_ms"] / 1000 for r in travels]
        if any(s.start < launch for s, launch in zip(spans, launched, strict=True)):
            return False
    return bool(steps)


@pytest.mark.parametrize("engine", practice_logs())
def test_a_span_has_the_name_and_the_seconds_of_its_record(engine):
    records = practice_logs()[engine]
    assert spans_as_the_records_say(records, step_timeline(records, step=1))


@pytest.mark.parametrize("change", ["forward_ms", "bwd_done_ms", "done_ms", "bucket", "unit"])
def test_sabotage_a_number_or_a_name_of_another_record_is_seen(change):
    records = practice_logs()["torch-ddp" if change != "unit" else "zero3"]
    other = [
        r | {change: f"{r[change]}9" if change in ("bucket", "unit") else r[change] * 1.001}
        if change in r
        else r
        for r in records
    ]
    assert not spans_as_the_records_say(records, step_timeline(other, step=1))


def test_collectives_wait_for_one_another_on_the_network_of_their_rank():
    first = GOOD | {"step": 0, "bucket": 0, "launch_ms": 10, "done_ms": 50}
    records = [
        first,
        first | {"bucket": 1, "launch_ms": 20, "done_ms": 70},
        first | {"bucket": 2, "launch_ms": 30, "done_ms": 60},
        first | {"bucket": 0, "rank": 1, "launch_ms": 20, "done_ms": 30},
        first | {"bucket": 3, "step": 1},
    ]
    spans = [(s.rank, s.name, s.start, s.stop) for s in step_timeline(records, step=0).spans]
    assert sorted(spans) == [
        (0, "0", 0.010, 0.050),
        (0, "1", 0.050, 0.070),
        (0, "2", 0.060, 0.060),
        (1, "0", 0.020, 0.030),
    ]


def ticking(log):
    """The log with a clock that ticks a second at every mark."""
    log.clock.mark = itertools.count(1.0).__next__
    return log


def test_the_milliseconds_of_a_step_count_from_its_beginning():
    log = ticking(StepLog(0))
    log.begin()
    log.forward_done()
    travel = log.travel("all_reduce", 400, bucket=7)
    log.gradient_ready()
    travel.follow(Handle())
    log.end(0.7)
    travelled, step = log.records
    fields = {"bucket": 7, "bytes": 400, "launch_ms": 2000, "done_ms": 4000, "bwd_done_ms": 3000}
    assert travelled == travelled | {"op": "all_reduce", "rank": 0, "step": 0, **fields}
    fields = {"loss": 0.7, "forward_ms": 1000, "bwd_done_ms": 3000, "step_ms": 5000}
    assert step == step | {"op": "step", "rank": 0, "step": 0, **fields}


def test_the_seconds_of_a_log_count_from_its_beginning(monkeypatch):
    monkeypatch.setattr(
        "dtlib.micro_lab.step_log.time.perf_counter", itertools.count(100.0, 2.0).__next__
    )
    log = StepLog(0)
    log.write("mem", params=1, grads=1, opt=2)
    log.write("mem", params=1, grads=1, opt=2)
    assert [record["t"] for record in log.records] == [2, 4]
    assert [record["step"] for record in log.records] == [-1, -1]


def test_on_the_clock_of_the_machine_a_step_ends_after_its_passes():
    log = StepLog(0)
    a_step(log)
    step = log.records[-1]
    assert step["step_ms"] >= step["bwd_done_ms"] >= step["forward_ms"] >= 0


class Event:
    """What a GPU's clock marks with: a moment that has come when it was waited for."""

    moments = itertools.count(1.0)

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at, self.came = 500 * next(self.moments), False

    def synchronize(self):
        self.came = True

    def elapsed_time(self, stop):
        assert stop.came, "the time of an event that has not come"
        return stop.at - self.at


def test_a_gpu_is_timed_by_events_of_its_stream(monkeypatch):
    monkeypatch.setattr("torch.cuda.Event", Event)
    log = StepLog(0, device=torch.device("cuda", 0))
    a_step(log)
    step = log.records[-1]
    assert (step["forward_ms"], step["bwd_done_ms"], step["step_ms"]) == (500, 1000, 2500)
    assert not StepLog(0, device=torch.device("cpu")).clock.on_gpu


def test_a_collective_that_nobody_said_to_be_done_is_named():
    log = StepLog(0)
    log.begin()
    log.travel("all_reduce", 8, bucket=3)
    with pytest.raises(LogError, match=r"all_reduce \{'bucket': 3\} was launched, but never"):
        log.end(0.5)
