"""Every check of the micro-lab: the solution passes; stub, slips and edited logs fail."""

from copy import deepcopy

import pytest
import torch
import torch.distributed as dist
from exercise_cases import Case, EveryExercise
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from dtlib.exercises.lab_micro_lab import BASE, MINI
from dtlib.exercises.practice_logs import BUCKETS, practice_logs, replica_log
from dtlib.micro_lab import Encoder, encoder_specs
from dtlib.micro_lab.engines import logging_hook
from dtlib.parallelism.data.overlap import overlapped_steps


def predicted(**changes):
    right = {
        "gradient_bytes": 4 * BASE,
        "ddp_sent_bytes": 4 * BASE,
        "sharded_sent_bytes": 6 * BASE,
        "kept_sent_bytes": 4 * BASE,
        "ddp_state_bytes": 16 * BASE,
        "sharded_state_bytes": 8 * BASE,
        "ddp_optimizer_numbers": 2 * MINI,
        "sharded_optimizer_numbers": MINI,
    }
    return right | changes


def bucket_bytes(sizes, limits):
    buckets, filled = [], 0
    for size in sizes:
        filled += size
        if filled >= limits[min(len(buckets), len(limits) - 1)]:
            buckets.append(filled)
            filled = 0
    return buckets + [filled] * (filled > 0)


def of_two_limits(sizes, limits):
    return bucket_bytes(sizes, [limits[0], limits[1]])


def looking_ahead(sizes, limits):
    buckets = []
    for size in sizes:
        limit = limits[min(max(len(buckets) - 1, 0), len(limits) - 1)]
        if buckets and buckets[-1] + size <= limit:
            buckets[-1] += size
        else:
            buckets.append(size)
    return buckets


def by_torchs_function(sizes, limits):
    tensors = [torch.empty(size // 4, device="meta") for size in sizes]
    groups, _ = dist._compute_bucket_assignment_by_size(tensors, limits)
    return [sum(sizes[i] for i in group) for group in groups]


def without_the_last(sizes, limits):
    return bucket_bytes([*sizes, 10**9], limits)[:-1]


def mean_of(buffer, group):
    return buffer.div_(dist.get_world_size(group))


def hook_with(
    before=mean_of,
    size=lambda buffer: buffer.nbytes,
    number=lambda bucket: bucket.index(),
    over=lambda group: group,
):
    """A hook that is right but for what is given here: each wrong one differs in one place."""

    def hook(state, bucket):
        log, group = state
        buffer = before(bucket.buffer(), group)
        travel = log.travel("all_reduce", size(buffer), bucket=number(bucket))
        work = dist.all_reduce(buffer, group=over(group), async_op=True)

        def finish(future):
            travel.done()
            return future.value()[0]

        return work.get_future().then(finish)

    return hook


my_hook = hook_with()
summing = hook_with(before=lambda buffer, group: buffer)
counting_numbers = hook_with(size=lambda buffer: buffer.numel())
always_bucket_0 = hook_with(number=lambda bucket: 0)
dividing_by_two = hook_with(before=lambda buffer, group: buffer.div_(2))
over_all_ranks = hook_with(over=lambda group: None)


def dividing_afterwards(state, bucket):
    log, group = state
    travel = log.travel("all_reduce", bucket.buffer().nbytes, bucket=bucket.index())
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)

    def finish(future):
        travel.done()
        return future.value()[0] / dist.get_world_size(group)

    return work.get_future().then(finish)


def waiting(state, bucket):
    log, group = state
    buffer = bucket.buffer().div_(dist.get_world_size(group))
    travel = log.travel("all_reduce", buffer.nbytes, bucket=bucket.index())
    work = dist.all_reduce(buffer, group=group, async_op=True)
    work.wait()
    travel.done()
    return work.get_future().then(lambda future: future.value()[0])


def silent(state, bucket):
    buffer = bucket.buffer().div_(2)
    work = dist.all_reduce(buffer, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def keeping_to_itself(state, bucket):
    import torch

    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def never_done(state, bucket):
    log, group = state
    buffer = bucket.buffer().div_(2)
    log.travel("all_reduce", buffer.nbytes, bucket=bucket.index())
    work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def waiting_for_the_future(state, bucket):
    log, group = state
    buffer = bucket.buffer().div_(dist.get_world_size(group))
    travel = log.travel("all_reduce", buffer.nbytes, bucket=bucket.index())
    future = dist.all_reduce(buffer, group=group, async_op=True).get_future()
    future.wait()
    travel.done()
    return future.then(lambda future: future.value()[0])


def done_at_once(state, bucket):
    log, group = state
    buffer = bucket.buffer().div_(dist.get_world_size(group))
    travel = log.travel("all_reduce", buffer.nbytes, bucket=bucket.index())
    work = dist.all_reduce(buffer, group=group, async_op=True)
    travel.done()
    return work.get_future().then(lambda future: future.value()[0])


def returning_nothing(state, bucket):
    my_hook(state, bucket)


def returning_a_list(state, bucket):
    log, group = state
    mean = bucket.buffer() / dist.get_world_size(group)
    travel = log.travel("all_reduce", mean.nbytes, bucket=bucket.index())
    return travel.follow(dist.all_reduce(mean, group=group, async_op=True)).get_future()


def with_its_own_future(state, bucket):
    log, group = state
    travel = log.travel("all_reduce", bucket.buffer().nbytes, bucket=bucket.index())
    mean = torch.futures.Future()

    def finish(future):
        travel.done()
        mean.set_result(future.value()[0] / group.size())

    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    work.get_future().add_done_callback(finish)
    return mean


def following(state, bucket):
    log, group = state
    mean = bucket.buffer() / dist.get_world_size(group)
    travel = log.travel("all_reduce", mean.nbytes, bucket=bucket.index())
    work = travel.follow(dist.all_reduce(mean, group=group, async_op=True))
    return work.get_future().then(lambda future: future.value()[0])


def imported_hook(state, bucket):
    return logging_hook(state, bucket)


def torchs_hook(state, bucket):
    log, group = state
    travel = log.travel("all_reduce", bucket.buffer().nbytes, bucket=bucket.index())

    def finish(future):
        travel.done()
        return future.value()

    return allreduce_hook(group, bucket).then(finish)


def library_hook(state, bucket):
    from dtlib.micro_lab.engines import logging_hook

    return logging_hook(state, bucket)


def other_names(log, gradients):
    return my_hook(log, gradients)


def after_backward(lines):
    end = lines[0]["bwd_done_ms"]
    late = sum(line["bytes"] for line in lines if line["launch_ms"] >= end)
    last = max(line["done_ms"] for line in lines)
    return late / sum(line["bytes"] for line in lines), max(0.0, last - end)


def late_buckets(lines):
    late = [line for line in lines if line["launch_ms"] >= line["bwd_done_ms"]]
    return len(late) / len(lines), after_backward(lines)[1]


def strictly_after(lines):
    late = sum(line["bytes"] for line in lines if line["launch_ms"] > line["bwd_done_ms"])
    return late / sum(line["bytes"] for line in lines), after_backward(lines)[1]


def last_line(lines):
    return after_backward(lines)[0], max(0.0, lines[-1]["done_ms"] - lines[-1]["bwd_done_ms"])


def own_time(lines):
    late = [line for line in lines if line["launch_ms"] >= line["bwd_done_ms"]]
    return after_backward(lines)[0], sum(line["done_ms"] - line["launch_ms"] for line in late)


def signed(lines):
    return after_backward(lines)[0], max(r["done_ms"] for r in lines) - lines[0]["bwd_done_ms"]


def sent_bytes(lines, P, phases=2, kept=1, factor=1):
    total = 0
    for line in lines:
        times = phases if line["op"] == "all_reduce" else 1
        total += times * (P - kept) / P * line["bytes"] * factor
    return total


def audit(records, params, count, ranks=None, steps=None, first=True):
    broken = set()
    groups = {}
    for record in records:
        if record["step"] >= 0:
            lines = groups.setdefault((record["rank"], record["step"]), [])
            lines += [record] * (record["op"] == "all_reduce")
    for (rank, step), lines in groups.items():
        if (ranks is not None and rank not in ranks) or (steps is not None and step not in steps):
            continue
        if len(lines) != (1 if step == 0 and first else count):
            broken.add("a")
        if any(line["launch_ms"] >= line["bwd_done_ms"] for line in lines[:-1]):
            broken.add("b")
        if sum(line["bytes"] for line in lines) != 4 * params:
            broken.add("c")
    return broken


def audit_sums(records, params, count):
    """The bytes of all ranks of a step together."""
    ranks = {record["rank"] for record in records}
    totals = {}
    for record in records:
        if record["op"] == "all_reduce":
            totals[record["step"]] = totals.get(record["step"], 0) + record["bytes"]
    broken = audit(records, params, count) - {"c"}
    wrong = any(total != 4 * params * len(ranks) for total in totals.values())
    return broken | ({"c"} if wrong else set())


def audit_of_lines(records, params, count):
    """Sees only steps in which something was sent."""
    sent = {(r["rank"], r["step"]) for r in records if r["op"] == "all_reduce"}
    return audit([r for r in records if (r["rank"], r["step"]) in sent], params, count)


def last_end(ready, sizes, alpha, beta):
    end = 0.0
    for moment, size in zip(ready, sizes, strict=True):
        end = max(end, moment) + alpha + size / beta
    return end


def with_library(ready, sizes, alpha, beta):
    return overlapped_steps(ready, [alpha + n / beta for n in sizes])[-1]


def own_logs(steps):
    """Logs that are not those of the checks, record for record."""
    logs = deepcopy(practice_logs(steps=steps))
    for records in logs.values():
        for record in records:
            record["t"] += 0.002
    return logs


def edited(engine, change):
    logs = deepcopy(own_logs(steps=6))
    change(logs[engine])
    return logs


def without_a_bucket(records):
    records.remove(next(r for r in records if r["op"] == "all_reduce" and r["step"] == 3))


def without_a_gather(records):
    records.remove(next(r for r in records if r["op"] == "all_gather" and r["step"] == 2))


def with_another_loss(records):
    next(r for r in records if r["op"] == "step" and r["step"] == 4)["loss"] += 0.01


def with_a_string(records):
    records[4]["bytes"] = "many"


def with_its_own_end(records):
    for record in records:
        if (record["op"], record["step"], record.get("bucket")) == ("all_reduce", 3, 2):
            for moment in ("launch_ms", "done_ms", "bwd_done_ms"):
                record[moment] += 100.0


def without_a_rank_s_memory(records):
    records.remove(next(r for r in records if r["op"] == "mem" and r["rank"] == 1))


def with_no_loss(records):
    next(r for r in records if r["op"] == "step" and r["step"] == 4)["loss"] = float("nan")


def without_losses(records):
    records[:] = [r for r in records if r["op"] != "step"]


def with_half_a_model(records):
    for record in (r for r in records if r["op"] == "mem"):
        record |= {what: record[what] // 2 for what in ("params", "grads", "opt")}


def with_moved_gathers(records):
    first, second = [r for r in records if r["op"] == "all_gather" and r["step"] == 3][:2]
    first["bytes"], second["bytes"] = first["bytes"] + 4, second["bytes"] - 4


def with_fewer_steps(records):
    records[:] = [r for r in records if r["step"] < 5]


def of_another(name, engine):
    logs = own_logs(steps=6)
    return {**logs, name: logs[engine]}


def without_step_3():
    logs = own_logs(steps=6)
    return {name: [r for r in records if r["step"] != 3] for name, records in logs.items()}


def without(name):
    return {k: v for k, v in own_logs(steps=6).items() if k != name}


CASES = {
    "ex-micro-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(gradient_bytes=BASE), "how large is a float32"),
            (predicted(ddp_sent_bytes=2 * BASE), "one phase of the ring"),
            (predicted(ddp_sent_bytes=8 * BASE), "all parts but its own"),
            (predicted(sharded_sent_bytes=4 * BASE), "count the phases"),
            (predicted(kept_sent_bytes=6 * BASE), "need not be gathered a second time"),
            (predicted(ddp_state_bytes=12 * BASE), "that is four numbers"),
            (predicted(sharded_state_bytes=16 * BASE), "a whole replica"),
            (predicted(ddp_optimizer_numbers=MINI), "two moments"),
            (predicted(sharded_optimizer_numbers=2 * MINI), "what a replica keeps"),
            ({"gradient_bytes": 4 * BASE}, "keys gradient_bytes, ddp_sent_bytes"),
        ],
        secret=[4 * BASE, 6 * BASE, 8 * BASE, 16 * BASE, MINI, 2 * MINI],
    ),
    "ex-micro-buckets": Case(
        solution=bucket_bytes,
        wrong=[
            (by_torchs_function, "torch's own function"),
            (of_two_limits, "raises IndexError"),
            (lambda sizes, limits: bucket_bytes(sizes, limits[:2]), "limits .60, 300, 900."),
            (lambda n, limits: bucket_bytes(n, [x + 1 for x in limits]), "just reached its limit"),
            (looking_ahead, "torch does not look ahead"),
            (without_the_last, "some gradients are in no bucket|two buckets"),
            (lambda sizes, limits: bucket_bytes(sizes, limits[:1]), "one limit for all"),
            (lambda sizes, limits: bucket_bytes(sizes, limits[1:]), "one limit for all"),
            (lambda sizes, limits: bucket_bytes(sizes[::-1], limits), "get ready"),
            (lambda sizes, limits: list(sizes), "bucket 1 has another size"),
            (lambda sizes, limits: [*bucket_bytes(sizes, limits), 0], "a bucket is empty"),
            (lambda sizes, limits: 3, "return a list of sizes"),
            (lambda sizes, limits: sizes[99], "raises IndexError"),
            (lambda sizes: sizes, "must take"),
        ],
    ),
    "ex-micro-hook": Case(
        solution=my_hook,
        also_right=[dividing_afterwards, following, with_its_own_future],
        wrong=[
            (summing, "but wrong ones: is it a mean, and once"),
            (keeping_to_itself, "their gradients were not averaged"),
            (waiting, "it waits for the sum"),
            (silent, "the log has no line about it"),
            (counting_numbers, "in step 0 a line has another bytes"),
            (always_bucket_0, "in step 1 a line has another bucket"),
            (never_done, "on the ranks: .*bucket.* was launched, but never said to be done"),
            (done_at_once, "says that a sum is done before it is there"),
            (returning_nothing, "must return a future, got NoneType"),
            (returning_a_list, "must be the summed tensor, not a list"),
            (over_all_ranks, "not over `group`"),
            (dividing_by_two, "a group of one rank gets no mean"),
            (waiting_for_the_future, "it waits for the sum"),
            (imported_hook, "the library's own logging_hook: write the lines"),
            (torchs_hook, "the library's own allreduce_hook: write the lines"),
            (other_names, "looks the arguments up by their names"),
            (logging_hook, "a library's own hook: write yours"),
            (library_hook, "the library's own logging_hook: write the lines"),
        ],
    ),
    "ex-micro-exposed": Case(
        solution=after_backward,
        also_right=[lambda lines: list(after_backward(lines))],
        wrong=[
            (late_buckets, "a share of the buckets; bytes are asked for"),
            (last_line, "the last line is not always the last to end|another time"),
            (strictly_after, "launched exactly at bwd_done_ms is late"),
            (own_time, "earlier buckets may still be on their way|another time"),
            (signed, "a time cannot be negative"),
            (lambda lines: (100 * after_backward(lines)[0], 0), "not a percentage"),
            (lambda lines: (1 - after_backward(lines)[0], 0), "what sets out in time"),
            (lambda lines: after_backward(lines)[0], "return a pair"),
            (lambda lines: (0.5, 1.0), "launched at or after bwd_done_ms is another"),
        ],
    ),
    "ex-micro-volume": Case(
        solution=sent_bytes,
        wrong=[
            (lambda lines, P: sent_bytes(lines, P, phases=1), "how many phases"),
            (lambda lines, P: sent_bytes(lines, P, kept=0), "a part, which it need not send"),
            (lambda lines, P: sent_bytes(lines, P, factor=P), "the whole tensor, not a part"),
            (lambda lines, P: sum(line["bytes"] for line in lines), "too|keeps one|phases"),
            (lambda lines, P: 2 * sum(n["bytes"] for n in lines) * (P - 1) / P, "how many phases"),
        ],
    ),
    "ex-micro-audit": Case(
        solution=audit,
        also_right=[lambda *given: "".join(sorted(audit(*given)))],
        wrong=[
            (lambda r, p, c: audit(r, p, c, ranks=[0]), "sets out late: .* claim b is broken"),
            (lambda r, p, c: audit(r, p, c, steps=[0, 1]), "sets out late: .* claim b"),
            (lambda r, p, c: audit(r, p, c, first=False), "an honest log: claim a holds, but"),
            (lambda r, p, c: audit(r, 4 * p, c), "an honest log: claim c holds"),
            (lambda r, p, c: audit(r, p, c, ranks=[1]), "five steps .* claim b is broken"),
            (lambda r, p, c: audit(r, p, c, steps=[0, 1, 2]), "five steps .* claim b"),
            (lambda r, p, c: audit(r, MINI, 7), "five buckets: claim a holds"),
            (audit_sums, "that another lacks: .* claim c"),
            (audit_of_lines, "sends nothing in one step: .* claim a"),
            (lambda r, p, c: set(), "all buckets: you do not see that claim a"),
            (lambda r, p, c: {"a", "d"}, "letters of a, b, c; got d"),
            (lambda r, p, c: 3, "return the letters"),
            (lambda r, p, c: audit(r, p, c, steps=[1, 2]), "all buckets: .* claim a is broken"),
        ],
    ),
    "ex-micro-time": Case(
        solution=last_end,
        wrong=[
            (lambda r, n, a, b: r[-1] + a + n[-1] / b, "may have to wait for those before"),
            (lambda r, n, a, b: sum(a + x / b for x in n), "when are the gradients there"),
            (lambda r, n, a, b: r[-1] + sum(a + x / b for x in n), "nothing overlaps here"),
            (lambda r, n, a, b: r[0] + sum(a + x / b for x in n), "cannot leave before"),
            (lambda r, n, a, b: last_end(r, n, 0, b), "pays alpha|too small"),
            (with_library, "overlapped_steps"),
        ],
    ),
    "ex-micro-logs": Case(
        solution=own_logs(steps=6),
        wrong=[
            (without("zero3"), "there is no log of zero3"),
            (edited("torch-ddp", without_a_bucket), "a: torch-ddp, rank 0, step 3 has 6 buckets"),
            (edited("ddp", without_a_bucket), "c: ddp, rank 0, step 3 reduces"),
            (edited("zero3", without_a_gather), "d: zero3, rank 0, step 2"),
            (edited("zero3", with_another_loss), "f: in step 4 the loss of zero3"),
            (edited("ddp", with_a_string), "ddp, record 5: bytes of all_reduce is 'many'"),
            (practice_logs(steps=6), "made up for the checks"),
            (of_another("ddp", "torch-ddp"), "is called ddp was written by torch-ddp"),
            (of_another("fsdp", "zero3"), "is called fsdp was written by zero3"),
            (edited("torch-ddp", with_its_own_end), "another bwd_done_ms than the step"),
            (edited("zero3", without_a_rank_s_memory), "zero3, rank 1 has no line 'mem'"),
            (edited("zero3", with_no_loss), "step 4 has a loss that is no number"),
            (edited("zero3", without_losses), "the log of zero3 has no losses"),
            (edited("ddp", with_half_a_model), "e: ddp keeps .* numbers of params, not"),
            (edited("zero3", with_moved_gathers), "a unit is not gathered and scattered whole"),
            (edited("zero3", with_fewer_steps), "zero3 has 5 steps, but ddp has 6"),
            (without_step_3(), "does not have each of 5 steps"),
            (own_logs(steps=3), "3 steps are too few"),
            (own_logs(steps=6)["ddp"], "pass the dict of your logs"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("cap", [None, 0.25, 1])
def test_the_solution_fills_buckets_as_torchs_own_function(cap):
    from dtlib.micro_lab.engines import native_bucket_bytes

    parameters = list(Encoder(encoder_specs["mini"]).parameters())
    limits = [2**20, 25 * 2**20] if cap is None else [int(cap * 2**20)]
    sizes = [p.nbytes for p in parameters[::-1]]
    assert bucket_bytes(sizes, limits) == native_bucket_bytes(parameters, cap)


def test_practice_logs_have_the_buckets_of_mini():
    from dtlib.micro_lab.engines import native_bucket_bytes

    assert native_bucket_bytes(Encoder(encoder_specs["mini"]).parameters(), 0.25) == list(BUCKETS)
    assert audit(replica_log(), MINI, len(BUCKETS)) == set()
