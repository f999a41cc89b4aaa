"""Data parallelism from hooks, and the slips that one makes in writing it."""

from contextlib import contextmanager

from dtlib.later import torch


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


def average_flat(module, comm, divide=True, copy_back=True, padding=0):
    gradients = [p.grad for p in module.parameters()]
    flat = torch.cat([g.flatten() for g in gradients])
    flat = torch.cat([flat, flat.new_zeros(padding)])
    comm.all_reduce(flat)
    if divide:
        flat /= comm.size
    pieces = flat[: len(flat) - padding].split([g.numel() for g in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        if copy_back:
            gradient.copy_(piece.view_as(gradient))


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


def librarys(module, comm, bucket_bytes):
    from dtlib.parallelism import DataParallel

    return DataParallel(module, comm, bucket_bytes=bucket_bytes)
