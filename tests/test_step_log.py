"""A log has one schema, in memory and in the file; each departure from it is named."""

import json

import pytest

from dtlib.exercises.practice_logs import practice_logs
from dtlib.step_log import LogError, StepLog, check_record, of_step, read_log, step_timeline

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


def test_a_collective_that_nobody_said_to_be_done_is_named():
    log = StepLog(0)
    log.begin()
    log.travel("all_reduce", 8, bucket=3)
    with pytest.raises(LogError, match=r"all_reduce \{'bucket': 3\} was launched, but never"):
        log.end(0.5)
