"""Every check of the lab on data parallelism: the solution passes; stub, slips, libraries fail."""

from contextlib import contextmanager

import pytest
import torch
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check
from dtlib.exercises.lab_ddp_from_hooks import SPEC
from dtlib.exercises.worlds import TransportError, record_replicas
from dtlib.models import GPT

SENT = 4 * SPEC.params() * 3 // 2


def predicted(**changes):
    right = {
        "naive_calls": 19,
        "flat_calls": 1,
        "sent_bytes": SENT,
        "sent_bytes_without_no_sync": 4 * SENT,
    }
    return right | changes


def average_each(module, comm, divide=True, some=slice(None)):
    for parameter in list(module.parameters())[some]:
        comm.all_reduce(parameter.grad)
        if divide:
            parameter.grad /= comm.size


def average_each_at_once(module, comm):
    works = [comm.all_reduce(p.grad, async_op=True) for p in module.parameters()]
    for parameter, work in zip(module.parameters(), works, strict=True):
        work.wait()
        parameter.grad /= comm.size


def average_each_without_waiting(module, comm):
    for parameter in module.parameters():
        comm.all_reduce(parameter.grad, async_op=True)
        parameter.grad /= comm.size


def average_flat(module, comm, divide=True, copy_back=True):
    gradients = [p.grad for p in module.parameters()]
    flat = torch.cat([g.flatten() for g in gradients])
    comm.all_reduce(flat)
    if divide:
        flat /= comm.size
    for gradient, piece in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        if copy_back:
            gradient.copy_(piece.view_as(gradient))


def average_flat_padded(module, comm):
    module.grad_of_nothing = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    module.grad_of_nothing.grad = torch.zeros_like(module.grad_of_nothing)
    average_flat(module, comm)
    del module.grad_of_nothing


def make_buckets(parameters, bucket_bytes):
    buckets, room = [], -1
    for parameter in reversed(list(parameters)):
        if parameter.nbytes > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(parameter)
        room -= parameter.nbytes
    return buckets


def forward_buckets(parameters, bucket_bytes):
    return make_buckets(reversed(list(parameters)), bucket_bytes)


def overfull_buckets(parameters, bucket_bytes):
    buckets, size = [[]], 0
    for parameter in reversed(list(parameters)):
        if size >= bucket_bytes:
            buckets.append([])
            size = 0
        buckets[-1].append(parameter)
        size += parameter.nbytes
    return buckets


def counted_buckets(parameters, bucket_bytes):
    """Counts numbers where bytes are meant."""
    return make_buckets(parameters, bucket_bytes // 8)


class Overlapped:
    def __init__(self, module, comm, bucket_bytes):
        self.module, self.comm = module, comm
        trainable = [p for p in module.parameters() if p.requires_grad]
        self.buckets = make_buckets(trainable, bucket_bytes)
        self.bucket_of = {p: i for i, bucket in enumerate(self.buckets) for p in bucket}
        self.missing = [len(bucket) for bucket in self.buckets]
        self.flying = {}
        for parameter in trainable:
            parameter.register_post_accumulate_grad_hook(self.ready)

    def ready(self, parameter):
        i = self.bucket_of[parameter]
        self.missing[i] -= 1
        if self.missing[i] == 0:
            self.start(i)

    def start(self, i):
        flat = torch.cat([p.grad.flatten() for p in self.buckets[i]])
        self.flying[i] = flat, self.comm.all_reduce(flat, async_op=True)

    def finish(self):
        for i, (flat, work) in self.flying.items():
            work.wait()
            flat /= self.comm.size
            pieces = flat.split([p.numel() for p in self.buckets[i]])
            for parameter, piece in zip(self.buckets[i], pieces, strict=True):
                parameter.grad.copy_(piece.view_as(parameter))
        self.flying.clear()
        self.missing = [len(bucket) for bucket in self.buckets]


class Accumulating(Overlapped):
    quiet = False

    @contextmanager
    def no_sync(self):
        self.quiet = True
        try:
            yield
        finally:
            self.quiet = False

    def ready(self, parameter):
        if not self.quiet:
            super().ready(parameter)


class Robust(Accumulating):
    next = 0

    def ready(self, parameter):
        if self.quiet:
            return
        self.missing[self.bucket_of[parameter]] -= 1
        while self.next < len(self.buckets) and self.missing[self.next] == 0:
            self.start(self.next)
            self.next += 1

    def start(self, i):
        for parameter in self.buckets[i]:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        super().start(i)

    def finish(self):
        for i in range(self.next, len(self.buckets)):
            self.start(i)
        self.next = 0
        super().finish()


class Summing(Overlapped):
    def finish(self):
        self.comm.size, size = 1, self.comm.size
        super().finish()
        self.comm.size = size


class WaitingInHooks(Overlapped):
    def start(self, i):
        super().start(i)
        self.flying[i][1].wait()


class AllAtTheEnd(Overlapped):
    def ready(self, parameter):
        pass

    def finish(self):
        for i in range(len(self.buckets)):
            self.start(i)
        super().finish()


class WhenAllAreThere(Overlapped):
    def ready(self, parameter):
        self.missing[self.bucket_of[parameter]] -= 1
        if not any(self.missing):
            for i in range(len(self.buckets)):
                self.start(i)


class Impatient(Overlapped):
    def finish(self):
        works = [work for _, work in self.flying.values()]
        for i, (flat, _) in self.flying.items():
            pieces = flat.split([p.numel() for p in self.buckets[i]])
            for parameter, piece in zip(self.buckets[i], pieces, strict=True):
                parameter.grad.copy_(piece.view_as(parameter) / self.comm.size)
        for work in works:
            work.wait()


class DividingInFlight(Overlapped):
    def start(self, i):
        super().start(i)
        self.flying[i][0].fill_(0.0)


class OneStepOnly(Overlapped):
    def finish(self):
        super().finish()
        self.missing = [0] * len(self.buckets)


class BucketPerParameter(Overlapped):
    def __init__(self, module, comm, bucket_bytes):
        super().__init__(module, comm, 1)


class NeverQuiet(Accumulating):
    def ready(self, parameter):
        Overlapped.ready(self, parameter)

    def start(self, i):
        super().start(i)
        self.missing[i] = len(self.buckets[i])


class AlwaysSyncing(Accumulating):
    """As if there were no no_sync: averages after every micro-batch."""

    def ready(self, parameter):
        Overlapped.ready(self, parameter)
        if self.quiet and not any(self.missing):
            Overlapped.finish(self)


class QuietForEver(Accumulating):
    @contextmanager
    def no_sync(self):
        self.quiet = True
        yield


class FlushingOutOfOrder(Accumulating):
    """Starts at the end what no hook has started, but the others whenever they are complete."""

    def finish(self):
        for i in range(len(self.buckets)):
            if i not in self.flying:
                for parameter in self.buckets[i]:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                self.start(i)
        super().finish()


class InOrderWithoutFlush(Robust):
    def finish(self):
        self.next = 0
        Overlapped.finish(self)


class TiedTwice(Robust):
    """Lists the parameters module by module: a tied one is in two buckets."""

    def __init__(self, module, comm, bucket_bytes):
        super().__init__(module, comm, bucket_bytes)
        own = [p for part in module.modules() for p in part._parameters.values() if p is not None]
        trainable = [p for p in own if p.requires_grad]
        self.buckets = make_buckets(trainable, bucket_bytes)
        self.bucket_of = {p: i for i, bucket in enumerate(self.buckets) for p in bucket}
        self.missing = [len(bucket) for bucket in self.buckets]


def loss_factor(comm, tokens, rule=lambda P, N, own: P / N):
    total = torch.tensor(float(tokens), device=comm.device)
    comm.all_reduce(total)
    return rule(comm.size, float(total), tokens)


def torch_ddp(module, comm, bucket_bytes):
    return torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=1)


def dtlib_data_parallel(module, comm, bucket_bytes):
    from dtlib.parallelism import DataParallel

    return DataParallel(module, comm, bucket_bytes=bucket_bytes)


def from_the_library(module, comm, bucket_bytes):
    names = {"Overlapped": Overlapped, "__name__": "dtlib.parallelism.data.replica", "torch": torch}
    source = """
class Library(Overlapped):
    def start(self, i):
        flat = torch.cat([p.grad.flatten() for p in self.buckets[i]])
        self.flying[i] = flat, self.comm.all_reduce(flat, async_op=True)
"""
    exec(source, names)
    return names["Library"](module, comm, bucket_bytes)


LIBRARIES = [
    (torch.nn.parallel.DistributedDataParallel, "write your own|must take"),
    (torch_ddp, "rank 0 raised"),
    (dtlib_data_parallel, "rank 0 raised"),
    (from_the_library, "comes from dtlib.parallelism: write your own"),
]

CASES = {
    "ex-ddp-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(naive_calls=18), "both ends"),
            (predicted(naive_calls=SPEC.params()), "tensors"),
            (predicted(flat_calls=2), "flat_calls"),
            (predicted(sent_bytes=SENT / 2), "one phase"),
            (predicted(sent_bytes=SENT / 4), "how large is a float32"),
            (predicted(sent_bytes=SENT * 4), "all ranks|how many of the four"),
            (predicted(sent_bytes_without_no_sync=SENT), "how many of the four backward"),
            (19, "keys naive_calls"),
        ],
        secret=[SENT, 4 * SENT],
    ),
    "ex-ddp-naive": Case(
        solution=average_each,
        also_right=[average_each_at_once],
        wrong=[
            (lambda module, comm: average_each(module, comm, divide=False), "a sum is no mean"),
            (
                lambda module, comm: average_each(module, comm, some=slice(1, None)),
                "P = 2: the ranks hold different gradients of 0.weight",
            ),
            (lambda module, comm: None, "the ranks hold different gradients"),
            (average_each_without_waiting, "never waits for its all-reduce 1"),
            (average_flat, "right, but in 1 all-reduce where 6"),
            (
                lambda module, comm: (average_each(module, comm), average_each(module, comm)),
                "right, but in 12",
            ),
        ],
    ),
    "ex-ddp-flat": Case(
        solution=average_flat,
        wrong=[
            (average_each, "right, but in 6 all-reduces where 1 would do: put the gradients"),
            (average_flat_padded, "another size than the gradients"),
            (lambda module, comm: average_flat(module, comm, divide=False), "P times too large"),
            (
                lambda module, comm: average_flat(module, comm, copy_back=False),
                "different gradients",
            ),
        ],
    ),
    "ex-ddp-buckets": Case(
        solution=make_buckets,
        wrong=[
            (forward_buckets, "begins with the parameter whose gradient is last"),
            (overfull_buckets, "holds more than the cap"),
            (counted_buckets, "had room in the one before"),
            (lambda parameters, cap: [list(parameters)[::-1]], "holds more than the cap"),
            (lambda parameters, cap: make_buckets(parameters, cap)[:-1], "in one bucket"),
            (lambda parameters, cap: [*make_buckets(parameters, cap), []], "a bucket is empty"),
            (lambda parameters, cap: 1, "TypeError"),
        ],
    ),
    "ex-ddp-hooks": Case(
        solution=Overlapped,
        also_right=[Accumulating, Robust],
        wrong=[
            (Summing, "P = 2: the gradient of 0.weight is P times too large"),
            (WaitingInHooks, "waits inside the backward pass"),
            (AllAtTheEnd, "start after the backward pass"),
            (WhenAllAreThere, "buckets start together"),
            (Impatient, "0.weight is read before wait"),
            (DividingInFlight, "changes the buffer of all-reduce 1 in flight"),
            (OneStepOnly, "second step: the ranks hold different"),
            (BucketPerParameter, "all-reduces for . buckets, or of other sizes"),
            *LIBRARIES,
        ],
    ),
    "ex-ddp-no-sync": Case(
        solution=Accumulating,
        also_right=[Robust],
        wrong=[
            (Overlapped, "no attribute 'no_sync'"),
            (AlwaysSyncing, "starts inside no_sync: that average is paid for twice"),
            (NeverQuiet, "inside no_sync|different gradients|never waits"),
            (QuietForEver, "the ranks hold different gradients"),
            *LIBRARIES,
        ],
    ),
    "ex-ddp-loss-factor": Case(
        solution=loss_factor,
        wrong=[
            (lambda c, t: loss_factor(c, t, lambda P, N, own: 1 / N), "P times too small"),
            (
                lambda c, t: loss_factor(c, t, lambda P, N, own: own / N),
                "the weight of a rank's mean",
            ),
            (
                lambda c, t: loss_factor(c, t, lambda P, N, own: P * own / N),
                "but this loss is a sum",
            ),
            (lambda c, t: 1 / t, "averages the ranks' means"),
            (lambda c, t: 1.0, "over ranks, not over tokens"),
        ],
    ),
    "ex-ddp-robust": Case(
        solution=Robust,
        wrong=[
            (Accumulating, "a parameter frozen after it is wrapped: the ranks hold different"),
            (FlushingOutOfOrder, "all ranks must reduce the same in the same order"),
            (InOrderWithoutFlush, "frozen after it is wrapped: the ranks hold different gradients"),
            (TiedTwice, "a tied parameter: right, but 6 all-reduces for 4 buckets"),
            (AllAtTheEnd, "start after the backward pass"),
            *LIBRARIES,
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_a_replica_that_never_comes_is_named():
    def program(comm):
        x = torch.ones(2)
        if comm.rank == 0:
            comm.all_reduce(x)

    with pytest.raises(TransportError, match="all-reduce 1 of rank 1, which has finished"):
        record_replicas(program, 2)


def test_replicas_sum_in_the_order_of_ranks_and_count():
    def program(comm):
        x = torch.full((3,), float(comm.rank + 1))
        comm.all_reduce(x)
        return x.tolist()

    trace = record_replicas(program, 4)
    assert trace.results == [[10.0] * 3] * 4
    assert trace.numbers() == [3]
    assert trace.nbytes() == 12
    assert "all-reduce 1 starts, 3 numbers" in repr(trace)


def test_a_whole_gpt_with_a_tied_head_passes_through_the_solution():
    """The lab's own model, by the lab's own wrapper: the gradients of the whole batch."""
    from dataclasses import replace

    from dtlib.models import gradients, next_token_loss, relative_errors, worst

    spec = replace(SPEC, hidden=16, vocab=32, ffn=None, head_dim=None, tied=True)
    tokens = torch.randint(32, (4, 9), generator=torch.Generator().manual_seed(0))

    def program(comm):
        model = GPT(spec, dtype=torch.float64)
        wrapped = Robust(model, comm, 4000)
        mine = tokens[comm.rank :: comm.size]
        next_token_loss(model(mine[:, :-1]), mine[:, 1:]).backward()
        wrapped.finish()
        return gradients(model)

    model = GPT(spec, dtype=torch.float64)
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    for found in record_replicas(program, 4).results:
        assert worst(relative_errors(found, gradients(model)))[1] < 1e-12


def test_the_prediction_is_that_of_the_model_of_the_lab():
    assert len(list(GPT(SPEC).parameters())) == predicted()["naive_calls"]
    with pytest.raises(NotYet):
        check("ex-ddp-predict", predicted(sent_bytes=SENT + 4000))
