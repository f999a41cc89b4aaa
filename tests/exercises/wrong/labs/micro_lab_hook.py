"""Wrong hooks of the micro-lab, which need torch: (exercise, answer, what it must be told)."""

import torch
import torch.distributed as dist

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


HOOK = "ex-micro-hook"
RIGHT = [(HOOK, hook) for hook in (hook_with(), dividing_afterwards, with_its_own_future)]

# fmt: off
WRONG = [
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
]
