"""Every check of the lab on ZeRO: the solution passes; stub, slips and the library's own fail."""

from functools import partial
from typing import ClassVar

import pytest
import torch
from exercise_cases import Case, EveryExercise
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from dtlib.exercises import NotYet, check
from dtlib.exercises.lab_zero_by_hand import SPEC
from dtlib.exercises.shards import adamw, held_bytes
from dtlib.exercises.worlds import TransportError, record_team
from dtlib.models import GPT

N = SPEC.params()
OPTIMIZERS = {}


def predicted(**changes):
    right = {
        "held": [16 * N, 10 * N, 7 * N, 4 * N],
        "sent": [6 * N, 6 * N, 6 * N, 9 * N],
        "sent_4": [6 * N, 6 * N, 15 * N, 36 * N],
    }
    return right | changes


def lay_out(tensors, P):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors])
    return torch.cat([flat, flat.new_zeros(-len(flat) % P)])


def cut(flat, shapes):
    sizes = [shape.numel() for shape in shapes]
    pieces = flat[: sum(sizes)].split(sizes)
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def lay_out_without_filling(tensors, P):
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def lay_out_one_too_many(tensors, P):
    flat = lay_out_without_filling(tensors, P)
    return torch.cat([flat, flat.new_zeros(P - len(flat) % P)])


def lay_out_in_32_bits(tensors, P):
    return lay_out(tensors, P).float()


def lay_out_backwards(tensors, P):
    return lay_out(tensors[::-1], P)


def lay_out_garbage(tensors, P):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors])
    return torch.cat([flat, flat.new_full((-len(flat) % P,), 7.0)])


def cut_copies(flat, shapes):
    return [piece.clone() for piece in cut(flat, shapes)]


def cut_flat(flat, shapes):
    return list(flat[: sum(s.numel() for s in shapes)].split([s.numel() for s in shapes]))


def lay_out_in_place(tensors, P):
    flat = (
        tensors[0].reshape(-1) if len(tensors) == 1 else torch.cat([t.flatten() for t in tensors])
    )
    filling = -len(flat) % P
    return torch.cat([flat, flat.new_zeros(filling)]) if filling else flat


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
        self.part = nn.Parameter(self.whole.chunk(comm.size)[comm.rank])

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


class HiddenOptimizer(Stage1):
    """Gathers gradients, and everybody updates everything: stage 0 with the calls of stage 1."""

    def __init__(self, units, comm, make_optimizer):
        self.shards = [Shard(unit.parameters(), comm) for unit in units]
        optimizer = make_optimizer([p for unit in units for p in unit.parameters()])

        def update():
            optimizer.step()
            optimizer.zero_grad()

        self.update = update

    def step(self):
        for shard in self.shards:
            shard.reduce()
            mean = shard.comm.all_gather(shard.part.grad)
            shard.part.grad = None
            shapes = [p.shape for p in shard.parameters]
            for p, gradient in zip(shard.parameters, cut(mean, shapes), strict=True):
                p.grad = gradient.clone()
        self.update()


class OptimizerElsewhere(HiddenOptimizer):
    """As HiddenOptimizer, with an optimizer that nothing of its own leads to."""

    def __init__(self, units, comm, make_optimizer):
        super().__init__(units, comm, adamw)
        OPTIMIZERS[id(self)], self.update = self.update, None

    def step(self):
        self.update = OPTIMIZERS[id(self)]
        super().step()
        self.update = None


class ArchiveInComm(Stage1):
    def __init__(self, units, comm, make_optimizer):
        super().__init__(units, comm, make_optimizer)
        comm.archive = [shard.whole.clone() for shard in self.shards]


class ArchiveInAFunction(Stage1):
    def __init__(self, units, comm, make_optimizer):
        super().__init__(units, comm, make_optimizer)
        wholes = [shard.whole.clone() for shard in self.shards]
        self.archive = lambda: wholes


class ArchiveInTheClass(Stage1):
    archive: ClassVar[dict] = {}

    def __init__(self, units, comm, make_optimizer):
        super().__init__(units, comm, make_optimizer)
        self.archive[comm.rank] = [shard.whole.clone() for shard in self.shards]


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


class Stashing(Stage2):
    """Whole gradients wait in a list of its own until the backward pass is over."""

    stash = ()

    def ready(self, shard):
        self.missing[shard] -= 1
        if self.missing[shard]:
            return
        self.stash = [*self.stash, (shard, [p.grad for p in shard.parameters])]
        for p in shard.parameters:
            p.grad = None
        if not any(self.missing.values()):
            for each, gradients in self.stash:
                for p, gradient in zip(each.parameters, gradients, strict=True):
                    p.grad = gradient
                each.reduce()
                self.missing[each] = len(each.parameters)
            self.stash = ()


class KeepingArrays(Stage2):
    def ready(self, shard):
        if self.missing[shard] == 1:
            self.arrays = [p.grad.numpy() for p in shard.parameters]
        super().ready(shard)


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


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, part):
        ctx.comm = comm
        return comm.all_gather(part)

    @staticmethod
    def backward(ctx, grad):
        return None, ctx.comm.reduce_scatter(grad) / ctx.comm.size


def gather_whole(comm, part):
    return Gather.apply(comm, part)


def gathering(backward):
    """The same operator with another backward pass."""

    class Other(Gather):
        @staticmethod
        def backward(ctx, grad):
            return None, backward(ctx.comm, grad)

    return lambda comm, part: Other.apply(comm, part)


def gather_and_write(comm, part):
    """No derivative: it writes into the gradient of what it was given."""
    whole = comm.all_gather(part).requires_grad_()

    def write(gradient):
        part.grad = comm.reduce_scatter(gradient) / comm.size

    whole.register_hook(write)
    return whole


class Sharded(nn.Module):
    def __init__(self, module, comm):
        super().__init__()
        self.comm, self.inner, self.again = comm, [module], None
        own = dict(module.named_parameters())
        self.shapes = {name: p.shape for name, p in own.items()}
        self.part = nn.Parameter(
            lay_out(own.values(), comm.size).chunk(comm.size)[comm.rank].clone()
        )
        for p in own.values():
            p.data = p.data.new_empty(0)

    def forward(self, x):
        whole = gather_whole(self.comm, self.part)
        address = whole.untyped_storage().data_ptr()
        whole.register_hook(self.forget)

        def pack(t):
            if t.untyped_storage().data_ptr() != address:
                return t
            return t.size(), t.stride(), t.storage_offset()

        def unpack(kept):
            return kept if torch.is_tensor(kept) else self.fetch().as_strided(*kept)

        weights = dict(zip(self.shapes, cut(whole, self.shapes.values()), strict=True))
        with saved_tensors_hooks(pack, unpack):
            return functional_call(self.inner[0], weights, (x,))

    def fetch(self):
        if self.again is None:
            self.again = self.comm.all_gather(self.part.detach())
        return self.again

    def forget(self, gradient):
        self.again = None


class Keeping(Sharded):
    def forward(self, x):
        whole = gather_whole(self.comm, self.part)
        weights = dict(zip(self.shapes, cut(whole, self.shapes.values()), strict=True))
        return functional_call(self.inner[0], weights, (x,))


class NeverForgettingWeights(Sharded):
    def forget(self, gradient):
        pass


class FetchingEachTime(Sharded):
    def fetch(self):
        return self.comm.all_gather(self.part.detach())


class PackingCopies(Sharded):
    """Keeps copies of the pieces, and fetches for show."""

    def forward(self, x):
        whole = gather_whole(self.comm, self.part)
        address = whole.untyped_storage().data_ptr()
        whole.register_hook(self.forget)

        def pack(t):
            return (t.clone(),) if t.untyped_storage().data_ptr() == address else t

        def unpack(kept):
            if torch.is_tensor(kept):
                return kept
            self.fetch()
            return kept[0]

        weights = dict(zip(self.shapes, cut(whole, self.shapes.values()), strict=True))
        with saved_tensors_hooks(pack, unpack):
            return functional_call(self.inner[0], weights, (x,))


class MentioningTheWhole(Sharded):
    """Its pack asks the whole for its address, so that autograd keeps both."""

    def forward(self, x):
        whole = gather_whole(self.comm, self.part)
        whole.register_hook(self.forget)

        def pack(t):
            if t.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
                return t
            return t.size(), t.stride(), t.storage_offset()

        def unpack(kept):
            return kept if torch.is_tensor(kept) else self.fetch().as_strided(*kept)

        weights = dict(zip(self.shapes, cut(whole, self.shapes.values()), strict=True))
        with saved_tensors_hooks(pack, unpack):
            return functional_call(self.inner[0], weights, (x,))


class CloningTheWhole(Sharded):
    """The gathered tensor goes, its copy stays; a second gather for show."""

    def forward(self, x):
        whole = gather_whole(self.comm, self.part).clone()
        whole.register_hook(self.forget)
        weights = dict(zip(self.shapes, cut(whole, self.shapes.values()), strict=True))
        return functional_call(self.inner[0], weights, (x,))

    def forget(self, gradient):
        self.comm.all_gather(self.part.detach())


class Recomputing(Sharded):
    """Keeps no piece at all: the backward pass gathers and does the forward pass again."""

    def forward(self, x):
        unit = self

        def run(whole, x):
            weights = dict(zip(unit.shapes, cut(whole, unit.shapes.values()), strict=True))
            return functional_call(unit.inner[0], weights, (x,))

        class Unit(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, part):
                ctx.save_for_backward(x)
                return run(unit.comm.all_gather(part), x)

            @staticmethod
            def backward(ctx, gradient):
                with torch.enable_grad():
                    x = ctx.saved_tensors[0].detach().requires_grad_()
                    whole = unit.comm.all_gather(unit.part.detach()).requires_grad_()
                    dx, dw = torch.autograd.grad(run(whole, x), (x, whole), gradient)
                return dx, unit.comm.reduce_scatter(dw) / unit.comm.size

        return Unit.apply(x, self.part)


class Emptying(Sharded):
    """As chapter 20 says it: the tensor stays, its memory goes, and is filled again."""

    def forward(self, x):
        whole = gather_whole(self.comm, self.part)
        storage, flat = whole.untyped_storage(), whole.detach()
        size = storage.nbytes()
        weights = dict(zip(self.shapes, cut(whole, self.shapes.values()), strict=True))
        out = functional_call(self.inner[0], weights, (x,))
        storage.resize_(0)

        def fill(gradient):
            gathered = self.comm.all_gather(self.part.detach())
            storage.resize_(size)
            flat.data.copy_(gathered)

        def empty(gradient):
            storage.resize_(0)

        out.register_hook(fill)
        whole.register_hook(empty)
        return out


class BehindThePart(Sharded):
    def __init__(self, module, comm):
        own = [p.detach().clone() for p in module.parameters()]
        super().__init__(module, comm)
        self.part = nn.Parameter(lay_out(own, comm.size).chunk(comm.size)[comm.rank])


class KeepingTheModule(Sharded):
    def __init__(self, module, comm):
        import copy

        kept = copy.deepcopy(module)
        super().__init__(module, comm)
        self.kept = [kept]


class Registered(Sharded):
    def __init__(self, module, comm):
        super().__init__(module, comm)
        self.module = module


def clip(parts, max_norm, comm):
    square = sum(part.grad.square().sum() for part in parts)
    norm = comm.all_reduce(square).sqrt()
    for part in parts:
        part.grad *= (max_norm / norm).clamp(max=1)
    return norm


def clip_by_gathering_squares(parts, max_norm, comm):
    square = sum(part.grad.square().sum() for part in parts)
    norm = comm.all_gather(square.reshape(1)).sum().sqrt().item()
    if norm > max_norm:
        for part in parts:
            part.grad = part.grad * (max_norm / norm)
    return norm


def clip_dividing(parts, max_norm, comm):
    norm = float(clip(parts, 1e30, comm))
    for part in parts:
        part.grad *= min(1.0, max_norm / norm)
    return norm


def clip_alone(parts, max_norm, comm):
    return nn.utils.clip_grad_norm_(parts, max_norm)


def clip_norms(parts, max_norm, comm):
    norm = comm.all_reduce(sum(part.grad.square().sum() for part in parts).sqrt())
    for part in parts:
        part.grad *= min(1.0, max_norm / float(norm))
    return norm


def clip_always(parts, max_norm, comm):
    norm = comm.all_reduce(sum(part.grad.square().sum() for part in parts)).sqrt()
    for part in parts:
        part.grad *= max_norm / float(norm)
    return norm


def clip_everything(parts, max_norm, comm):
    whole = torch.cat([comm.all_gather(part.grad) for part in parts])
    for part in parts:
        part.grad *= min(1.0, max_norm / float(whole.norm()))
    return whole.norm()


def library_optimizer(units, comm, make_optimizer):
    from dtlib.memory import ShardedOptimizer

    parameters = [p for unit in units for p in unit.parameters()]
    return ShardedOptimizer(parameters, torch.optim.AdamW, comm, lr=0.05)


def library_sharded(module, comm):
    from dtlib.memory import FullySharded

    return FullySharded(module, comm)


def library_flat(parameters, comm):
    from dtlib.memory import Flat

    return Flat(parameters, comm)


def from_the_library(base):
    """A class that says it is the library's."""
    return type(base.__name__, (base,), {"__module__": "dtlib.memory.zero.optimizer"})


def library_clip(parts, max_norm, comm):
    from dtlib.memory import clip_gradients

    return clip_gradients(parts, max_norm, comm)


CASES = {
    "ex-lab-zero-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(held=[4 * N, 10 * N, 7 * N, 4 * N]), "how large is a float32|weights alone"),
            (predicted(held=[16 * N, 7 * N, 7 * N, 4 * N]), "held, stage 1: that is mixed"),
            (predicted(held=[20 * N, 10 * N, 7 * N, 4 * N]), "no master copy"),
            (predicted(held=[16 * N, 10 * N, 5.5 * N, 4 * N]), "held, stage 2: that is mixed"),
            (predicted(sent=[6 * N, 9 * N, 6 * N, 9 * N]), "sent, stage 1: an all-reduce, and a"),
            (
                predicted(sent=[6 * N, 6 * N, 12 * N, 9 * N]),
                "sent, stage 2: the reduce-scatter and",
            ),
            (predicted(sent=[6 * N, 3 * N, 6 * N, 9 * N]), "one phase"),
            (predicted(sent=[8 * N, 6 * N, 6 * N, 9 * N]), "own part does not travel"),
            (predicted(sent=[6 * N, 6 * N, 6 * N, 6 * N]), "how often are gradients"),
            (predicted(sent_4=[6 * N, 6 * N, 24 * N, 36 * N]), "for every micro-batch"),
            (predicted(sent_4=[6 * N, 6 * N, 15 * N, 9 * N]), "one micro-batch of four"),
            (predicted(held=16 * N), "held must have 4 items"),
            (16 * N, "keys held, sent, sent_4"),
        ],
        secret=[10 * N, 7 * N, 15 * N, 36 * N],
    ),
    "ex-lab-zero-flat": Case(
        solution=(lay_out, cut),
        also_right=[(lay_out, cut_one_by_one)],
        wrong=[
            ((lay_out_in_place, cut), "in the memory of a tensor that was given"),
            ((lay_out_without_filling, cut), "must be a multiple of P"),
            ((lay_out_one_too_many, cut), "no longer than it must be"),
            ((lay_out_in_32_bits, cut), "of the kind that was given"),
            ((lay_out_backwards, cut), "one after another"),
            ((lay_out_garbage, cut), "must be zero"),
            ((lay_out, cut_copies), "the pieces are copies"),
            ((lay_out, cut_flat), "a piece has shape"),
            (lay_out, "must have 2 items"),
        ],
    ),
    "ex-lab-zero-shard": Case(
        solution=Shard,
        wrong=[
            (SummingShard, "P times too large: a sum is no mean"),
            (ForgetfulShard, "that of the last reduce"),
            (KeepingShard, "still has its whole gradient"),
            (ReducingAllShard, "an all-reduce is both halves"),
            (LonelyShard, r"after gather\(\) 0.weight is not"),
            (ElsewhereShard, "no longer lie in one whole"),
            (WastefulShard, "these calls send 1,080 B, where 648 B would do"),
            (OwnGradientShard, "not this rank's part of the mean"),
            (library_flat, "rank . raised|write your own"),
            (from_the_library(Shard), "a class of dtlib.memory.zero.optimizer: write your own"),
        ],
    ),
    "ex-lab-zero-stage1": Case(
        solution=Stage1,
        also_right=[InReverse],
        wrong=[
            (GatheringWholes, "these calls send 1,584 B, where 1,056 B would do"),
            (HiddenOptimizer, "is an old copy, or an old gradient, kept"),
            (OptimizerElsewhere, "does make_optimizer's optimizer make the update"),
            (ArchiveInComm, "is an old copy, or an old gradient, kept"),
            (ArchiveInTheClass, "is an old copy, or an old gradient, kept"),
            (ArchiveInAFunction, "is an old copy, or an old gradient, kept"),
            (NeverGathering, "step 1: the ranks hold different weights in 0.0.weight"),
            (NeverForgetting, "step 2: 0.0.weight is the same on all ranks, but not that"),
            (UpdatingFirst, "step 1: 0.0.weight is the same on all ranks, but not that"),
            (NeverUpdating, "not that of one process"),
            (GatheringTwice, "6 all-gather and 3 reduce-scatter, where 3 all-gather"),
            (WithAnArchive, "is an old copy, or an old gradient, kept"),
            (WholeOptimizer, "an all-reduce is both halves"),
            (Stage2, "3 collectives in the backward passes"),
            (library_optimizer, "rank . raised"),
            (from_the_library(Stage1), "write your own"),
        ],
    ),
    "ex-lab-zero-stage2": Case(
        solution=Stage2,
        also_right=[LookingAtGradients],
        wrong=[
            (KeepingArrays, "is an old copy, or an old gradient, kept"),
            (Stashing, "more than one unit are whole"),
            (Stage1, "after the backward pass a whole gradient of 0.0.weight is there"),
            (OnceOnly, "step 2: .* not changed|not that of one process"),
            (AllTogether, "more than one unit are whole"),
            (AtTheFirst, "an all-reduce is both halves"),
            (ReducingTwice, r"step\(\): 3 all-gather and 3 reduce-scatter, where 3 all-gather"),
            (library_optimizer, "rank . raised"),
            (from_the_library(Stage2), "write your own"),
        ],
    ),
    "ex-lab-zero-gather": Case(
        solution=gather_whole,
        also_right=[Gather.apply],
        wrong=[
            (gathering(lambda comm, g: comm.reduce_scatter(g)), "P times too large"),
            (
                gathering(lambda comm, g: g.chunk(comm.size)[comm.rank]),
                "this rank's own only: the others",
            ),
            (
                gathering(
                    lambda comm, g: (comm.all_reduce(g) / comm.size).chunk(comm.size)[comm.rank]
                ),
                "an all-reduce is both halves",
            ),
            (
                gathering(
                    lambda comm, g: (comm.reduce_scatter(g.repeat(comm.size)) / comm.size).chunk(
                        comm.size
                    )[comm.rank]
                ),
                "these calls send 120 B, where 80 B would do",
            ),
            (gather_and_write, "no gradient arrives at the part"),
            (lambda comm, part: comm.all_gather(part), "no graph behind it"),
            (lambda comm, part: part, "all ranks' parts"),
            (lambda comm, part: Gather.apply(comm, part).flip(0), "all ranks' parts"),
        ],
    ),
    "ex-lab-zero-stage3": Case(
        solution=Sharded,
        also_right=[Recomputing, Emptying],
        wrong=[
            (PackingCopies, "the backward pass still has the weights of before"),
            (MentioningTheWhole, "between the forward and the backward pass: who keeps them"),
            (CloningTheWhole, "the backward pass still has the weights of before"),
            (Keeping, "whole weights are still there between"),
            (NeverForgettingWeights, "after the backward pass|between the forward"),
            (FetchingEachTime, "all-gather and 3 reduce-scatter, where 6"),
            (BehindThePart, "is a whole tensor behind one of them"),
            (KeepingTheModule, "is a whole tensor behind one of them"),
            (Registered, "must be its part, and nothing else"),
            (library_sharded, "rank . raised"),
            (from_the_library(Sharded), "write your own"),
        ],
    ),
    "ex-lab-zero-clip": Case(
        solution=clip,
        also_right=[clip_by_gathering_squares],
        wrong=[
            (clip_dividing, "divides by zero where all gradients are zeros"),
            (lambda parts, m, comm: clip(parts, m, comm) and None, "returns nothing|one value"),
            (clip_alone, "norm of this rank's parts alone"),
            (clip_norms, "norms do not add up"),
            (clip_always, "must be left as they are"),
            (clip_everything, "numbers travel where one"),
            (lambda parts, m, comm: clip(parts, m, comm) ** 2, "the square of the norm"),
            (lambda parts, m, comm: clip(parts, 1e9, comm), "scaled to the norm asked for"),
            (library_clip, "raises|dtlib.memory"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_prediction_is_that_of_the_model_of_the_lab():
    assert sum(p.numel() for p in GPT(SPEC).parameters()) == N
    with pytest.raises(NotYet):
        check("ex-lab-zero-predict", predicted(sent=[6 * N, 6 * N, 6 * N, 9 * N + 4000]))


def test_a_reduce_scatter_gives_every_rank_its_part_of_the_sum_and_counts():
    def program(comm):
        part = comm.reduce_scatter(torch.arange(6.0) + 10 * comm.rank)
        return part.tolist(), [str(call) for call in comm.calls], comm.sent_bytes

    (first, calls, sent), (second, *_) = record_team(program, 2)
    assert (first, second) == ([10.0, 12.0, 14.0], [16.0, 18.0, 20.0])
    assert calls == ["reduce-scatter of 6 numbers, 12 B sent"]
    assert sent == 12
    with pytest.raises(TransportError, match=r"shape \[5\]; it takes a flat one"):
        record_team(lambda comm: comm.reduce_scatter(torch.zeros(5)), 2)


def test_gathered_bytes_are_those_that_still_exist():
    def program(comm):
        whole = comm.all_gather(torch.zeros(5))
        view = whole[2:4]
        found = [comm.gathered_bytes]
        del whole
        found.append(comm.gathered_bytes)
        del view
        return [*found, comm.gathered_bytes, comm.most_gathered_bytes]

    assert record_team(program, 2) == [[40, 40, 0, 40]] * 2


def test_memory_that_was_given_back_is_not_counted():
    def program(comm):
        whole = comm.all_gather(torch.zeros(5))
        whole.untyped_storage().resize_(0)
        return comm.gathered_bytes, comm.most_gathered_bytes

    assert record_team(program, 2) == [(0, 40)] * 2


def test_what_an_object_holds_is_found_wherever_it_hides():
    class Thing:
        def __init__(self):
            self.layer = [nn.Linear(2, 3, bias=False)]
            self.layer[0].weight.grad = torch.zeros(3, 2)
            self.again = {"view": self.layer[0].weight[0], ("key",): torch.zeros(4)}

    assert held_bytes(Thing()) == 24 + 24 + 16
    kept = torch.zeros(3)

    def hidden():
        return kept

    assert held_bytes([kept.numpy(), kept]) == held_bytes(kept.double().numpy()) / 2 == 12
    assert held_bytes(hidden) == held_bytes(partial(print, kept)) == held_bytes(kept.add_) == 12
    optimizer = torch.optim.AdamW(nn.Linear(2, 3, bias=False).parameters())
    assert held_bytes(optimizer) == 24
