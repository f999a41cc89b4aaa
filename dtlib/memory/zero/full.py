"""ZeRO, stage 3: a rank keeps its part of everything, and has whole weights while it needs them.

The nouns:

- **Unit**: a module, such as a transformer block, whose weights come and go together. What lies in
  no unit, or in two, belongs to the unit of the whole model.
- **Gather** before a unit's forward pass, and again before its backward pass.
- **Release** after each of the two.
- **Reduce** after the backward pass: the rank keeps its part of the mean gradient.

A released weight has no numbers and no memory, but autograd's graph still points to where they
were: gathering fills the same storage again.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves, tree_map

from dtlib.formulas.require import require, require_count, require_type
from dtlib.memory.pieces import running_pieces
from dtlib.memory.zero.order import RunOrder
from dtlib.memory.zero.parts import Reductions, check_dtypes
from dtlib.memory.zero.state import gather_optimizer_state, load_optimizer_state
from dtlib.memory.zero.units import GatheredFlat, Unit, divide
from dtlib.parallelism.data.alike import broadcast_coalesced
from dtlib.parallelism.data.backward import BackwardPass, with_graph
from dtlib.parallelism.operators.keeper import KeepsHooks
from dtlib.runtime.process_group import ranks_of


class FullySharded(KeepsHooks):
    """A module of which each rank keeps 1/P: weights, gradients and optimizer state. ZeRO-3, FSDP.

    `named_parameters()` have the module's names, and of each parameter the piece that this rank
    owns, perhaps nothing: any elementwise optimizer of them is a sharded one, with parameter groups
    by name or by number of dimensions. A backward pass ends with each rank's piece of the mean
    gradient in them. The module's own parameters are here while their unit runs, and all of them
    in `gathered()`; at other times they refuse to be computed with.
    Arguments: `module`, whose parameters and buffers become those of rank 0; `group`; `units`, the
    modules that are gathered one by one (None: the members of every outermost `nn.ModuleList`);
    `prefetch`, how many units ahead a gather starts, once a first pass has shown their order;
    `reshard=False` keeps a unit's weights from its forward to its backward pass, for one gather;
    `reshard_root`, the same for what lies in no unit (None: as `reshard`); `dtype` to compute and
    gather in, while the parts stay as they are; `reduce_dtype`, of gradients on their way;
    `average=False` adds the ranks' gradients and does not divide by P.
    Recomputation belongs inside a unit, whose weights are there for all of it. A unit is released
    when the gradients of all its inputs are there: decoder layers that read the output of one
    encoder stay whole until the last of them is done. A parameter without a gradient counts as one
    whose gradient is zero, also in a unit that did not run. Units may be skipped, by all ranks
    alike: in a first pass, and from the first one that differs from the one before, ranks tell
    each other what they run.
    Raises ValueError for a unit that is no part of the module or has no forward pass, for no
    parameter to train, for a prefetch or dtype that cannot be, and in a forward pass for a
    parameter that was frozen otherwise when the module was wrapped; TypeError for no group or
    module; RuntimeError for a unit that lies inside a recomputed piece, for ranks that run
    different units, and for a backward pass of which gradients are taken (`create_graph`).
    Source: Rajbhandari et al. 2020; Zhao et al. 2023.
    """

    instead = "load its state_dict() into a plain module, which can be copied, or wrapped again"
    releases_weights = True

    def __init__(
        self,
        module: nn.Module,
        group,
        *,
        units: Iterable[nn.Module] | None = None,
        prefetch: int = 1,
        reshard: bool = True,
        reshard_root: bool | None = None,
        dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
        average: bool = True,
    ):
        super().__init__()
        _, P = ranks_of(group)
        require_type("FullySharded", nn.Module, module=module)
        require_count("FullySharded", 0, prefetch=prefetch)
        check_dtypes("FullySharded", dtype=dtype, reduce_dtype=reduce_dtype)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise ValueError(
                "module: no parameter requires a gradient, so there is nothing to train"
            )
        broadcast_coalesced([*module.parameters(), *module.buffers()], group)
        self.module, self.group, self.prefetch, self.dtype = module, group, prefetch, dtype
        self._reductions = Reductions(1 / P if average else 1.0, reduce_dtype)
        keep_root = not (reshard if reshard_root is None else reshard_root)
        self.units = []
        for name, part, parameters in divide(module, units):
            keep = keep_root if part is module else not reshard
            self.units.append(Unit(name, part, parameters, keep, group, dtype))
        self._piece_of = {p: own for flat in self._flats() for p, own in flat.piece_of.items()}
        for name, parameter in module.named_parameters():
            parameter.sharded_as = repr(name)
        for unit in self.units:
            before, after = partial(self._before_forward, unit), partial(self._after_forward, unit)
            unit.module.register_forward_pre_hook(before, with_kwargs=True)
            unit.module.register_forward_hook(after)
        self._back = RunOrder(self.units, group)
        self._forth = RunOrder(self.units, group, then=self._back)
        self._sync, self._pass = True, None
        self._open, self._to_come, self._reduced = [], [], set()

    def forward(self, *args, **kwargs):
        """The module's own, with floating-point arguments in `dtype` where one is given."""
        self._check_frozen()
        for unit in self.units:
            unit.release()  # what a pass without a backward pass has left
        self._reductions.forget()
        self._pass, self._open, self._to_come = None, [], []
        if self.dtype is not None:
            args, kwargs = tree_map(self._cast, (args, kwargs))
        self._forth.begin()
        result = self.module(*args, **kwargs)
        self._forth.end()
        for unit in self.units:
            if unit.under_way and unit not in self._forth.ran:  # expected, and skipped
                unit.release()
        return result

    def _before_forward(self, unit, module, args, kwargs) -> None:
        if pieces := running_pieces():
            raise RuntimeError(
                f"FullySharded: unit {unit.name!r} runs inside a piece that "
                f"{pieces[-1]} runs again, and would release its weights before their "
                "gradients are there. Recompute inside each unit: let its forward call checkpoint, "
                "or take Recomputed(model, 'selective')"
            )
        if self._pass:  # a recomputation within it
            unit.gather()
            return
        self._forth.run(unit)
        unit.gather()
        for ahead in self._forth.ahead(self.prefetch):
            ahead.start()
        inputs = list(with_graph((args, kwargs)))
        if inputs and torch.is_grad_enabled():
            register_multi_grad_hook(inputs, lambda gradients: self._after_backward(unit))

    def _after_forward(self, unit, module, args, output) -> None:
        if self._pass:
            return
        outputs = list(with_graph(output))
        if torch.is_grad_enabled() and not outputs:
            _check_output(unit, output)
        for x in outputs:  # of its node, not of x: after the hooks of those that x is the input of
            x.grad_fn.register_prehook(lambda gradients: self._before_backward(unit))
        if outputs:
            self._to_come.append(unit)
        if not (unit.keep and outputs):
            unit.release()

    def _before_backward(self, unit: Unit) -> None:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "FullySharded: this backward pass has create_graph=True, but weights are released "
                "after it, and a gradient of gradients would need them. Take such a penalty of a "
                "replicated module: DataParallel, with ShardedOptimizer"
            )
        if not self._pass:
            self._pass, self._reduced = BackwardPass(self._finish), set()
            self._back.begin()
        if unit not in self._open:
            self._back.run(unit)
            self._open.append(unit)
        unit.gather()
        if unit in self._to_come:
            del self._to_come[self._to_come.index(unit) :]
            for ahead in self._to_come[::-1][: self.prefetch]:
                ahead.start()

    def _after_backward(self, unit: Unit) -> None:
        """The gradient of a unit's input is there, so those of its weights are."""
        if unit not in self._open:
            return
        self._open.remove(unit)
        for flat in unit.flats:
            if self._sync and flat.own.requires_grad:
                self._reductions.start(flat)
                self._reduced.add(flat)
        unit.release()

    def _finish(self) -> None:
        """The backward pass is over: units whose input needs no gradient end with it.

        So do those whose gradients came from a graph of their own (torch's reentrant checkpoint).
        Units that did not run have gradients of zero.
        """
        self._back.end()
        late = [u for u in self.units if any(flat.has_gradients() for flat in u.flats)]
        self._open += [unit for unit in late if self._sync and unit not in self._open]
        for unit in list(self._open):
            self._after_backward(unit)
        self._reductions.finish()
        for flat in self._flats() if self._sync else ():
            if flat not in self._reduced:
                flat.join_nothing()
        for unit in self.units:
            unit.release()
        self._pass = None

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here keep whole gradients, and the next one outside reduces all."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    @contextmanager
    def gathered(self, write: bool = False) -> Iterator[nn.Module]:
        """The module with all its weights; with `write`, what the block changes is kept.

        Every rank enters, and writes the same. With `dtype`, weights are seen as they compute; one
        that is not changed keeps the precision of its part.
        """
        for unit in self.units:
            unit.release()  # what a forward pass has kept may be older than the parts
            unit.gather()
        try:
            yield self.module
        finally:
            with torch.no_grad():
                for unit in self.units:
                    for flat in unit.flats if write else ():
                        flat.keep_changes()
                    unit.release()

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ):
        """The module's names, and what this rank owns: all that an optimizer may have."""
        named = self.module.named_parameters(prefix, recurse, remove_duplicate)
        return ((name, self._piece_of[parameter]) for name, parameter in named)

    def gradients(self) -> dict[str, torch.Tensor]:
        """The whole mean gradient of each parameter that has one, by the module's own names.

        Every rank calls it and gets all.
        """
        whole = {}
        for flat in self._flats():
            found = [piece.grad for piece in flat.pieces]
            pieces = flat.gathered(flat.lay_out_part(found))
            listed = zip(flat.parameters, pieces, found, strict=True)
            whole.update((p, piece) for p, piece, grad in listed if grad is not None)
        named = self.module.named_parameters()
        return {name: whole[parameter] for name, parameter in named if parameter in whole}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients: those of the parts, and whole ones of `no_sync`."""
        super().zero_grad(set_to_none)
        for flat in self._flats():
            flat.drop_gradients()

    def state_dict(self) -> dict:
        """The module's own, whole and in full precision, on every rank; every rank calls it."""
        pieces = {}
        for flat in self._flats():
            pieces.update(zip(flat.parameters, flat.gathered(flat.own), strict=True))
        state = self.module.state_dict(keep_vars=True)
        return {name: pieces.get(value, value).detach().clone() for name, value in state.items()}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict) -> None:
        """Take this rank's part of a whole state.

        Raises ValueError for other names or shapes, and has taken nothing then.
        """
        require_type("FullySharded.load_state_dict", Mapping, state_dict=state_dict)
        targets = self.module.state_dict(keep_vars=True)
        if different := sorted(map(str, set(targets) ^ set(state_dict))):
            raise ValueError(f"state_dict: names that only one of the two has: {different}")
        shapes = {}
        for flat in self._flats():
            shapes.update(zip(flat.parameters, flat.shapes, strict=True))
        for name, target in targets.items():
            found = getattr(state_dict[name], "shape", None)
            allowed = shapes.get(target, target.shape)
            require(found == allowed, "state_dict", f"the shape of {name!r}", found, f"{allowed}")
        values = {targets[name]: state_dict[name] for name in targets}
        for flat in self._flats():
            tensors = [values[p] for p in flat.parameters]
            flat.own.copy_(flat.lay_out(tensors, dtype=flat.own.dtype)[flat.place])
        for buffer in self.module.buffers():
            if buffer in values:
                buffer.copy_(values[buffer])

    def optimizer_state_dict(self, optimizer) -> dict:
        """The state of an optimizer of `parameters()`, as one of the plain module has it."""
        return gather_optimizer_state(optimizer, self._flats())

    def load_optimizer_state_dict(self, optimizer, state_dict: dict) -> None:
        """Take this rank's parts of a whole state."""
        load_optimizer_state(optimizer, self._flats(), state_dict)

    def _flats(self) -> list[GatheredFlat]:
        return [flat for unit in self.units for flat in unit.flats]

    def _check_frozen(self) -> None:
        """Raise ValueError for a parameter that was frozen, or trained, when it was wrapped."""
        for flat in self._flats():
            trains = flat.own.requires_grad
            for p, piece in flat.piece_of.items():
                if p.requires_grad != trains or piece.requires_grad > trains:
                    names = [name for name, q in self.module.named_parameters() if q is p]
                    was = "trained" if trains else "frozen"
                    raise ValueError(
                        f"FullySharded: {names[0]!r} was {was} when the module was wrapped. Set "
                        "requires_grad before; afterwards, this module's own parameters() can be "
                        "frozen, and trained again if they were"
                    )

    def _cast(self, x):
        floating = torch.is_tensor(x) and x.is_floating_point()
        return x.to(self.dtype) if floating else x

    def _apply(self, fn, recurse=True):
        raise RuntimeError("FullySharded cannot be moved or cast: do so before it is wrapped")


def _check_output(unit: Unit, output) -> None:
    """Raise TypeError for an object: nobody sees a tensor in it, or gathers before its backward."""
    for value in tree_leaves(output):
        if value is not None and not isinstance(value, torch.Tensor | bool | int | float | str):
            raise TypeError(
                f"FullySharded: unit {unit.name!r} returns a {type(value).__name__}, but "
                "must return tensors, alone or in a tuple, a list, a dict or a dataclass"
            )
