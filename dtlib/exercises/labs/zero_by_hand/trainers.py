"""Flat tensors, shards and trainers of ZeRO 1 and 2, and the slips that one makes in them."""

from dtlib.later import torch


def lay_out(tensors, P, *, filling=None, value=0.0, order=1):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors[::order]])
    missing = -len(flat) % P if filling is None else filling(len(flat), P)
    return torch.cat([flat, flat.new_full((missing,), value)])


def lay_out_in_place(tensors, P):
    return tensors[0].reshape(-1) if len(tensors) == 1 and P == 1 else lay_out(tensors, P)


def cut(flat, shapes):
    sizes = [shape.numel() for shape in shapes]
    pieces = flat[: sum(sizes)].split(sizes)
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def cut_copies(flat, shapes):
    return [piece.clone() for piece in cut(flat, shapes)]


def cut_flat(flat, shapes):
    return list(flat[: sum(s.numel() for s in shapes)].split([s.numel() for s in shapes]))


def cut_one_by_one(flat, shapes):
    for shape in shapes:
        yield flat[: shape.numel()].unflatten(0, shape) if len(shape) else flat[0]
        flat = flat[shape.numel() :]


class Shard:
    def __init__(self, parameters, comm):
        self.comm, self.parameters = comm, list(parameters)
        self.whole = lay_out(self.parameters, comm.size)
        shapes = [p.shape for p in self.parameters]
        for parameter, view in zip(self.parameters, cut(self.whole, shapes), strict=True):
            parameter.data = view
        self.part = torch.nn.Parameter(self.whole.chunk(comm.size)[comm.rank])

    def reduce(self):
        flat = lay_out([p.grad for p in self.parameters], self.comm.size)
        mean = self.comm.reduce_scatter(flat) / self.comm.size
        self.part.grad = mean if self.part.grad is None else self.part.grad + mean
        for parameter in self.parameters:
            parameter.grad = None

    def gather(self):
        self.whole.copy_(self.comm.all_gather(self.part.detach()))


class SummingShard(Shard):
    def reduce(self):
        before = self.part.grad
        self.part.grad = None
        super().reduce()
        self.part.grad *= self.comm.size
        if before is not None:
            self.part.grad += before


class ForgetfulShard(Shard):
    def reduce(self):
        self.part.grad = None
        super().reduce()


class KeepingShard(Shard):
    def reduce(self):
        kept = [p.grad for p in self.parameters]
        super().reduce()
        for p, gradient in zip(self.parameters, kept, strict=True):
            p.grad = gradient


class ReducingAllShard(Shard):
    def reduce(self):
        flat = self.comm.all_reduce(lay_out([p.grad for p in self.parameters], self.comm.size))
        mean = flat.chunk(self.comm.size)[self.comm.rank] / self.comm.size
        self.part.grad = mean if self.part.grad is None else self.part.grad + mean
        for parameter in self.parameters:
            parameter.grad = None


class LonelyShard(Shard):
    def gather(self):
        self.comm.all_gather(self.part.detach())


class OwnGradientShard(Shard):
    def reduce(self):
        flat = lay_out([p.grad for p in self.parameters], self.comm.size)
        self.comm.reduce_scatter(flat)
        mean = flat.chunk(self.comm.size)[self.comm.rank]
        self.part.grad = mean if self.part.grad is None else self.part.grad + mean
        for parameter in self.parameters:
            parameter.grad = None


class ElsewhereShard(Shard):
    def gather(self):
        gathered = self.comm.all_gather(self.part.detach())
        views = cut(gathered, [p.shape for p in self.parameters])
        for p, view in zip(self.parameters, views, strict=True):
            p.data = view


class WastefulShard(Shard):
    """The right calls of P times as many numbers: everybody gets everything."""

    def reduce(self):
        P = self.comm.size
        flat = lay_out([p.grad for p in self.parameters], P)
        mean = (self.comm.reduce_scatter(flat.repeat(P)) / P).chunk(P)[self.comm.rank].clone()
        self.part.grad = mean if self.part.grad is None else self.part.grad + mean
        for parameter in self.parameters:
            parameter.grad = None


class Stage1:
    def __init__(self, units, comm, make_optimizer):
        self.shards = [Shard(unit.parameters(), comm) for unit in units]
        self.optimizer = make_optimizer([shard.part for shard in self.shards])

    def step(self):
        for shard in self.shards:
            shard.reduce()
        self.optimizer.step()
        for shard in self.shards:
            shard.gather()
            shard.part.grad = None


class NeverGathering(Stage1):
    def step(self):
        for shard in self.shards:
            shard.reduce()
        self.optimizer.step()
        self.optimizer.zero_grad()


class NeverForgetting(Stage1):
    def step(self):
        for shard in self.shards:
            shard.reduce()
        self.optimizer.step()
        for shard in self.shards:
            shard.gather()


class UpdatingFirst(Stage1):
    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        for shard in self.shards:
            shard.reduce()
            shard.gather()


class NeverUpdating(Stage1):
    def step(self):
        for shard in self.shards:
            shard.reduce()
            shard.gather()
            shard.part.grad = None


class GatheringTwice(Stage1):
    def step(self):
        super().step()
        for shard in self.shards:
            shard.gather()


class WithAnArchive(Stage1):
    def __init__(self, units, comm, make_optimizer):
        super().__init__(units, comm, make_optimizer)
        self.archive = [shard.whole.clone() for shard in self.shards]


class WholeOptimizer(Stage1):
    """Updates everything everywhere: data parallelism with a detour."""

    def __init__(self, units, comm, make_optimizer):
        self.comm = comm
        self.parameters = [p for unit in units for p in unit.parameters()]
        self.optimizer = make_optimizer(self.parameters)

    def step(self):
        for p in self.parameters:
            p.grad = self.comm.all_reduce(p.grad) / self.comm.size
        self.optimizer.step()
        self.optimizer.zero_grad()


class GatheringWholes(Stage1):
    def step(self):
        for shard in self.shards:
            shard.reduce()
        self.optimizer.step()
        self.optimizer.zero_grad()
        for shard in self.shards:
            P = shard.comm.size
            wholes = shard.comm.all_gather(shard.whole).chunk(P)
            shard.whole.copy_(torch.cat([wholes[rank].chunk(P)[rank] for rank in range(P)]))


class InReverse(Stage1):
    def step(self):
        for shard in reversed(self.shards):
            shard.reduce()
        self.optimizer.step()
        self.optimizer.zero_grad()
        for shard in reversed(self.shards):
            shard.gather()


class Stage2(Stage1):
    def __init__(self, units, comm, make_optimizer):
        super().__init__(units, comm, make_optimizer)
        self.missing = {shard: len(shard.parameters) for shard in self.shards}
        for shard in self.shards:
            for parameter in shard.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, s=shard: self.ready(s))

    def ready(self, shard):
        self.missing[shard] -= 1
        if self.missing[shard] == 0:
            shard.reduce()
            self.missing[shard] = len(shard.parameters)

    def step(self):
        self.optimizer.step()
        for shard in self.shards:
            shard.gather()
            shard.part.grad = None


class OnceOnly(Stage2):
    def ready(self, shard):
        self.missing[shard] -= 1
        if self.missing[shard] == 0:
            shard.reduce()


class AllTogether(Stage2):
    def ready(self, shard):
        self.missing[shard] -= 1
        if not any(self.missing.values()):
            for each in self.shards:
                each.reduce()
                self.missing[each] = len(each.parameters)


class LookingAtGradients(Stage2):
    """Counts nothing: a unit is ready when all its gradients are there."""

    def ready(self, shard):
        if all(p.grad is not None for p in shard.parameters):
            shard.reduce()


class AtTheFirst(Stage2):
    def ready(self, shard):
        if self.missing[shard] == len(shard.parameters):
            shard.comm.all_reduce(torch.zeros(1))
        super().ready(shard)


class ReducingTwice(Stage2):
    def step(self):
        for shard in self.shards:
            for p in shard.parameters:
                p.grad = torch.zeros_like(p)
        Stage1.step(self)


def clip_norms(parts, max_norm, comm):
    norm = comm.all_reduce(sum(part.grad.square().sum() for part in parts).sqrt())
    for part in parts:
        part.grad *= min(1.0, max_norm / float(norm))
    return norm


def clip_everything(parts, max_norm, comm):
    whole = torch.cat([comm.all_gather(part.grad) for part in parts])
    for part in parts:
        part.grad *= min(1.0, max_norm / float(whole.norm()))
    return whole.norm()


def clip_dividing(parts, max_norm, comm):
    norm = float(clip(parts, 1e30, comm))
    for part in parts:
        part.grad *= min(1.0, max_norm / norm)
    return norm


def mean_part(comm, gradient):
    return comm.reduce_scatter(gradient) / comm.size


def gather_whole(comm, part, *, backward=mean_part):
    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part):
            return comm.all_gather(part)

        @staticmethod
        def backward(ctx, gradient):
            return backward(comm, gradient)

    return Gather.apply(part)


def clip(parts, max_norm, comm, *, others=True, limit=1.0):
    square = sum(part.grad.square().sum() for part in parts)
    norm = (comm.all_reduce(square) if others else square).sqrt()
    for part in parts:
        part.grad *= (max_norm / norm).clamp(max=limit)
    return norm


def clip_by_gathering_squares(parts, max_norm, comm):
    square = sum(part.grad.square().sum() for part in parts)
    norm = comm.all_gather(square.reshape(1)).sum().sqrt().item()
    if norm > max_norm:
        for part in parts:
            part.grad = part.grad * (max_norm / norm)
    return norm


def librarys_stage(units, comm, make_optimizer):
    from dtlib.memory import ShardedOptimizer

    parameters = [p for unit in units for p in unit.parameters()]
    return ShardedOptimizer(parameters, torch.optim.AdamW, comm, lr=0.05)
