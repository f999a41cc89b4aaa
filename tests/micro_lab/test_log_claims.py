"""Honest logs pass the six claims; a log that is edited in one place fails the claim it breaks."""

import copy

import pytest

from dtlib.exercises.practice.logs import BUCKETS, practice_logs, replica_log
from dtlib.micro_lab.claims import ClaimError, check_claims, check_rebuilt
from dtlib.micro_lab.step_log import LogError, of_step

PARAMS = sum(BUCKETS) // 4


@pytest.fixture
def logs():
    return copy.deepcopy(practice_logs())


def lines(logs, engine, op, step=1, rank=0):
    return [r for r in logs[engine] if (r["op"], r["step"], r["rank"]) == (op, step, rank)]


@pytest.mark.parametrize("P", [2, 4])
def test_honest_logs_pass_and_say_what_was_seen(P):
    seen = check_claims(practice_logs(P), BUCKETS)
    assert list(seen) == list("abcdef")
    assert seen["a"] == "1 bucket in step 0, then 7, of the predicted bytes."
    assert "39% of the bytes" in seen["b"] and "2,711,048 bytes" in seen["c"]
    assert "1.50 times" in seen["d"] and "in every bit" in seen["f"]


def test_the_optimizer_of_mini_is_halved(logs):
    assert "1,355,524 numbers of the optimizer become 677,762" in check_claims(logs, BUCKETS)["e"]


def rebuilt_at_once(logs):
    logs["torch-ddp"] = replica_log(rebuilt=False)


def never_rebuilt(logs):
    for record in logs["torch-ddp"]:
        if record["op"] == "all_reduce" and record["step"] > 0:
            record["bytes"] = sum(BUCKETS)


def one_bucket_dropped(logs):
    logs["torch-ddp"].remove(lines(logs, "torch-ddp", "all_reduce")[2])


def bytes_moved_to_the_next_bucket(logs):
    first, second = lines(logs, "torch-ddp", "all_reduce")[:2]
    first["bytes"] -= 4
    second["bytes"] += 4


def late_bucket(logs):
    line = lines(logs, "ddp", "all_reduce")[3]
    line["launch_ms"] = line["bwd_done_ms"] + 1
    line["done_ms"] = line["launch_ms"] + 1


def early_last_bucket(logs):
    line = lines(logs, "torch-ddp", "all_reduce", step=2)[-1]
    line["launch_ms"] = line["bwd_done_ms"] - 1


def a_gradient_twice(logs):
    lines(logs, "ddp", "all_reduce")[0]["bytes"] *= 2


def a_gradient_forgotten(logs):
    logs["ddp"].remove(lines(logs, "ddp", "all_reduce", step=0)[0])


def a_gather_dropped(logs):
    logs["zero3"].remove(lines(logs, "zero3", "all_gather")[1])


def scattered_before_gathered(logs):
    line = lines(logs, "zero3", "all_gather")[-1]
    line["op"] = "reduce_scatter"


def smaller_gathers(logs):
    for line in lines(logs, "zero3", "all_gather"):
        line["bytes"] //= 2


def the_whole_optimizer(logs):
    lines(logs, "zero3", "mem", step=0)[0]["opt"] = 2 * PARAMS


def nothing_in_the_optimizer(logs):
    lines(logs, "zero3", "mem", step=0, rank=1)[0]["opt"] = 0


def another_loss(logs):
    lines(logs, "zero3", "step")[0]["loss"] += 1e-5


def another_single_loss(logs):
    lines(logs, "single", "step")[0]["loss"] += 2e-3


def a_rank_is_missing(logs):
    logs["ddp"] = [r for r in logs["ddp"] if r["op"] != "step" or r["rank"] == 0]


def another_engine(logs):
    logs["ddp"] = copy.deepcopy(logs["torch-ddp"])


def an_end_of_its_own(logs):
    for moment in ("launch_ms", "done_ms", "bwd_done_ms"):
        lines(logs, "torch-ddp", "all_reduce")[3][moment] += 100.0


def a_loss_that_is_no_number(logs):
    lines(logs, "zero3", "step", step=2)[0]["loss"] = float("nan")


def no_losses(logs):
    logs["zero3"] = [r for r in logs["zero3"] if r["op"] != "step"]


def a_step_less(logs):
    logs["zero3"] = [r for r in logs["zero3"] if r["step"] < 2]


def a_step_erased_everywhere(logs):
    for name, records in logs.items():
        logs[name] = [r for r in records if r["step"] != 1]


def memory_of_one_rank(logs):
    logs["zero3"].remove(lines(logs, "zero3", "mem", step=0, rank=1)[0])


def half_a_replica(logs):
    lines(logs, "ddp", "mem", step=0)[0]["opt"] //= 2


def a_gather_of_other_bytes(logs):
    first, second = lines(logs, "zero3", "all_gather")[:2]
    first["bytes"], second["bytes"] = first["bytes"] + 4, second["bytes"] - 4


EDITS = [
    (another_engine, "the log that is called ddp was written by torch-ddp"),
    (an_end_of_its_own, "torch-ddp, rank 0, step 1: a line of all_reduce has another bwd_done_ms"),
    (a_loss_that_is_no_number, "f: zero3, step 2 has a loss that is no number"),
    (no_losses, "f: the log of zero3 has no losses"),
    (a_step_less, "zero3 has 2 steps, but ddp has 3"),
    (a_step_erased_everywhere, "single, rank 0: the log does not have each of 2 steps"),
    (memory_of_one_rank, "the log of zero3, rank 1 has no line 'mem'"),
    (half_a_replica, "e: ddp keeps 677,762 numbers of opt, not 1,355,524"),
    (
        a_gather_of_other_bytes,
        "d: zero3, rank 0, step 1: a unit is not gathered and scattered whole",
    ),
    (rebuilt_at_once, "a: torch-ddp, rank 0, step 0 has 7 buckets, but 1 were predicted"),
    (never_rebuilt, "a: torch-ddp, rank 0, step 1 has buckets of other sizes"),
    (one_bucket_dropped, "a: torch-ddp, rank 0, step 1 has 6 buckets, but 7"),
    (bytes_moved_to_the_next_bucket, "a: .* of other sizes, .*: bucket 0 has 330,756 bytes"),
    (late_bucket, "b: ddp, rank 0, step 1: bucket 3 is not the last one"),
    (early_last_bucket, "b: torch-ddp, rank 0, step 2: the last bucket is launched before"),
    (a_gradient_twice, "c: ddp, rank 0, step 1 reduces .* have fewer"),
    (a_gradient_forgotten, "c: ddp, rank 0, step 0 reduces .* have more"),
    (a_gather_dropped, "d: zero3, rank 0, step 1: .* has all_gather, reduce_scatter; expected"),
    (scattered_before_gathered, "d: zero3, rank 0, step 1: layer.0 has all_gather, reduce"),
    (smaller_gathers, "d: zero3, rank 0, step 1: 1.000 times the volume"),
    (the_whole_optimizer, "e: zero3, rank 0 keeps 1,355,524 numbers of opt, .* one of 2 parts"),
    (nothing_in_the_optimizer, "e: zero3, rank 1 keeps 0 numbers of opt"),
    (another_loss, "f: in step 1 the loss of zero3 is 5e-06 away from that of ddp"),
    (another_single_loss, "f: in step 1 the loss of single is 0.002 away"),
    (a_rank_is_missing, "f: ddp, step 0 has 1 losses of 2 ranks"),
]


@pytest.mark.parametrize(("edit", "says"), EDITS, ids=[edit.__name__ for edit, _ in EDITS])
def test_an_edited_log_fails_the_claim_that_it_breaks(logs, edit, says):
    edit(logs)
    with pytest.raises(ClaimError, match=says):
        check_claims(logs, BUCKETS)


def test_a_missing_log_is_named(logs):
    del logs["zero3"]
    logs["single"] = []
    with pytest.raises(ClaimError, match="no log of single and of zero3"):
        check_claims(logs, BUCKETS)


def test_a_record_without_schema_is_named(logs):
    del logs["ddp"][3]["bytes"]
    with pytest.raises(LogError, match="ddp, record 4: all_reduce lacks 'bytes'"):
        check_claims(logs, BUCKETS)


def test_a_log_without_collectives_is_no_log(logs):
    logs["torch-ddp"] = [r for r in logs["torch-ddp"] if r["op"] != "all_reduce"]
    with pytest.raises(ClaimError, match="torch-ddp has sent nothing"):
        check_claims(logs, BUCKETS)


def test_other_buckets_than_predicted_are_refused():
    with pytest.raises(ClaimError, match="step 0 has buckets of other sizes"):
        check_rebuilt(replica_log(), [4, 8])
    assert len(of_step(replica_log(), 1)) == 7
