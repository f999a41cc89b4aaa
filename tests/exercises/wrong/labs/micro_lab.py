"""Wrong answers of the micro-lab that no slip derives: (exercise, answer, what it must be told)."""

import torch
import torch.distributed as dist

from dtlib.exercises.labs.micro_lab import MINI, _audit, _closed_at, _exposed
from dtlib.micro_lab.engines import logging_hook


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


def of_two_limits(sizes, limits):
    """Knows no third limit, and no first one alone."""
    return _closed_at(sizes, [limits[0], limits[1]])


def audit_of_sums(records, params, count):
    """The bytes of all ranks of a step together."""
    totals = {}
    for record in records:
        if record["op"] == "all_reduce":
            totals[record["step"]] = totals.get(record["step"], 0) + record["bytes"]
    whole = 4 * params * len({record["rank"] for record in records})
    wrong = any(total != whole for total in totals.values())
    return _audit(records, params, count) - {"c"} | ({"c"} if wrong else set())


BUCKETS, HOOK, EXPOSED = "ex-micro-buckets", "ex-micro-hook", "ex-micro-exposed"
AUDIT, TIME = "ex-micro-audit", "ex-micro-time"
RIGHT = [(HOOK, hook) for hook in (hook_with(), dividing_afterwards, with_its_own_future)]
RIGHT += [
    (EXPOSED, lambda lines: list(_exposed(lines))),
    (AUDIT, lambda *given: "".join(sorted(_audit(*given)))),
]

# fmt: off
WRONG = [
    ("ex-micro-predict", {"gradient_bytes": 1}, "keys gradient_bytes, ddp_sent_bytes"),
    (BUCKETS, of_two_limits, "raises IndexError"),
    (BUCKETS, lambda sizes, limits: _closed_at(sizes, limits[:2]), "limits .60, 300, 900."),
    (BUCKETS, lambda sizes, limits: list(sizes), "bucket 1 has another size"),
    (BUCKETS, lambda sizes, limits: [*_closed_at(sizes, limits), 0], "a bucket is empty"),
    (BUCKETS, lambda sizes, limits: 3, "return a list of sizes"),
    (BUCKETS, lambda sizes, limits: sizes * 2, "are in two buckets"),
    (BUCKETS, lambda sizes: sizes, "must take"),
    (HOOK, hook_with(before=lambda buffer, group: buffer), "but wrong ones: is it a mean"),
    (HOOK, hook_with(size=lambda buffer: buffer.numel()), "in step 0 a line has another bytes"),
    (HOOK, hook_with(number=lambda bucket: 0), "in step 1 a line has another bucket"),
    (HOOK, hook_with(before=lambda buffer, group: buffer.div_(2)), "of one rank gets no mean"),
    (HOOK, hook_with(over=lambda group: None), "not over `group`"),
    (HOOK, keeping_to_itself, "their gradients were not averaged"),
    (HOOK, waiting, "it waits for the sum"),
    (HOOK, waiting_for_the_future, "it waits for the sum"),
    (HOOK, silent, "the log has no line about it"),
    (HOOK, never_done, "on the ranks: .*bucket.* was launched, but never said to be done"),
    (HOOK, done_at_once, "says that a sum is done before it is there"),
    (HOOK, returning_a_list, "must be the summed tensor, not a list"),
    (HOOK, logging_hook, "the library's own logging_hook"),
    (EXPOSED, lambda lines: _exposed(lines)[0], "a pair .share, milliseconds. must have 2 items"),
    (EXPOSED, lambda lines: (0.5, 1.0), "launched at or after bwd_done_ms is another"),
    (EXPOSED, lambda lines: (_exposed(lines)[0], 1.0), "it is another time"),
    (AUDIT, lambda r, p, c: _audit(r, p, c, ranks=[1]), "five steps .* claim b is broken"),
    (AUDIT, lambda r, p, c: _audit(r, p, c, steps=[0, 1, 2]), "five steps .* claim b"),
    (AUDIT, lambda r, p, c: _audit(r, p, c, steps=[1, 2]), "all buckets: .* claim a is broken"),
    (AUDIT, lambda r, p, c: _audit(r, MINI, 7), "five buckets: claim a holds"),
    (AUDIT, audit_of_sums, "that another lacks: .* claim c"),
    (AUDIT, lambda r, p, c: set(), "all buckets: you do not see that claim a"),
    (AUDIT, lambda r, p, c: {"a", "d"}, "letters of a, b, c; got d"),
    (AUDIT, lambda r, p, c: 3, "return the letters"),
]
