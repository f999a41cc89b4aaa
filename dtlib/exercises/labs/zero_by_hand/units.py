"""Units of ZeRO 3, and the slips that one makes in writing them."""

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from dtlib.exercises.labs.zero_by_hand.trainers import cut, gather_whole, lay_out


class Sharded(nn.Module):
    def __init__(self, module, comm):
        super().__init__()
        self.comm, self.inner, self.again = comm, [module], None
        own = dict(module.named_parameters())
        self.shapes = {name: p.shape for name, p in own.items()}
        self.part = nn.Parameter(
            lay_out(list(own.values()), comm.size).chunk(comm.size)[comm.rank].clone()
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


class Registered(Sharded):
    def __init__(self, module, comm):
        super().__init__(module, comm)
        self.module = module
