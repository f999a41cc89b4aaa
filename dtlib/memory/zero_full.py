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

from dtlib.foundations.require import require, require_count, require_type
from dtlib.memory.recompute import running_pieces
from dtlib.memory.zero_flat import (
    Flat,
    Reductions,
    check_dtypes,
    load_whole_state,
    of_one_kind,
    whole_state,
)
from dtlib.parallelism.data import broadcast_coalesced
from dtlib.parallelism.messages import ranks_of


class Unit:
    """A module and its flat tensors: gathered together, released together."""

    def __init__(self, name: str, module: nn.Module, flats: list[Flat], keep: bool):
        self.name, self.module, self.flats, self.keep = name, module, flats, keep
        self.gathered, self._works = False, None
        self.release()

    def start(self) -> None:
        """Begin to gather, and do not wait."""
        if not self.gathered and self._works is None:
            for flat in self.flats:
                flat.allocate()
            self._works = [flat.gather() for flat in self.flats]

    def gather(self) -> None:
        """Every rank has the unit's weights; nothing happens if it has them already."""
        self.start()
        for work in self._works or ():
            work.wait()
        if not self.gathered:
            for flat in self.flats:
                flat._sent = None
                flat.show()
        self.gathered, self._works = True, None

    def release(self) -> None:
        """Free the whole weights; each rank has its part."""
        for work in self._works or ():
            work.wait()
        for flat in self.flats:
            flat.release()
        self.gathered, self._works = False, None


class FullySharded(nn.Module):
    """A module of which each rank keeps 1/P: weights, gradients and optimizer state. ZeRO-3, FSDP.

    `parameters()` are the rank's own parts: any elementwise optimizer of them is a sharded one. A
    backward pass ends with each rank's part of the mean gradient in them.
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
    whose gradient is zero.
    Raises ValueError for a unit that is no part of the module, for no parameter to train, and for
    a prefetch or dtype that cannot be; TypeError for no group or module; RuntimeError in a forward
    pass for a unit that lies inside a recomputed piece.
    Source: Rajbhandari et al. 2020; Zhao et al. 2023.
    """

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
        self._listed = list(module.parameters())
        self._reductions = Reductions(1 / P if average else 1.0, reduce_dtype)
        keep_root = not (reshard if reshard_root is None else reshard_root)
        self.units = []
        for name, part, parameters in _divide(module, units):
            flats = [Flat(same, group, dtype=dtype, apart=True) for same in of_one_kind(parameters)]
            self.units.append(Unit(name, part, flats, keep_root if part is module else not reshard))
        for unit in self.units:
            before, after = partial(self._before_forward, unit), partial(self._after_forward, unit)
            unit.module.register_forward_pre_hook(before, with_kwargs=True)
            unit.module.register_forward_hook(after)
        self._sync, self._running, self._open = True, False, []
        self._order, self._passed, self._to_come = [], [], []

    def forward(self, *args, **kwargs):
        """The module's own, with floating-point arguments in `dtype` where one is given."""
        for unit in self.units:
            unit.release()  # what a pass without a backward pass has left
        self._reductions.forget()
        self._running, self._open, self._passed, self._to_come = False, [], [], []
        if self.dtype is not None:
            args, kwargs = tree_map(self._cast, (args, kwargs))
        result = self.module(*args, **kwargs)
        self._order = self._passed
        return result

    def _before_forward(self, unit, module, args, kwargs) -> None:
        if running_pieces:
            raise RuntimeError(
                f"FullySharded: unit {unit.name or 'root'!r} runs inside a piece that "
                f"{running_pieces[-1]} runs again, and would release its weights before their "
                "gradients are there. Recompute inside each unit: let its forward call checkpoint, "
                "or take Recomputed(model, 'selective')"
            )
        unit.gather()
        if self._running:  # a recomputation, within the backward pass
            return
        self._passed.append(unit)
        place = len(self._passed)
        if self._order[place - 1 : place] == [unit]:
            for ahead in self._order[place : place + self.prefetch]:
                ahead.start()
        inputs = [x for x in _differentiable((args, kwargs)) if not x.is_leaf]
        if inputs and torch.is_grad_enabled():
            register_multi_grad_hook(inputs, lambda gradients: self._after_backward(unit))

    def _after_forward(self, unit, module, args, output) -> None:
        if self._running:
            return
        outputs = [x for x in _differentiable(output) if not x.is_leaf]
        if torch.is_grad_enabled() and not outputs:
            _check_output(unit, output)
        for x in outputs:  # of its node, not of x: after the hooks of those that x is the input of
            x.grad_fn.register_prehook(lambda gradients: self._before_backward(unit))
        if outputs:
            self._to_come.append(unit)
        if not (unit.keep and outputs):
            unit.release()

    def _before_backward(self, unit: Unit) -> None:
        if not self._running:
            self._running = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        if unit not in self._open:
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
        unit.release()

    def _finish(self) -> None:
        """The backward pass is over: units whose input needs no gradient end with it.

        So do those whose gradients came from a graph of their own (torch's reentrant checkpoint).
        """
        late = [u for u in self.units if any(flat.has_gradients() for flat in u.flats)]
        self._open += [unit for unit in late if self._sync and unit not in self._open]
        for unit in list(self._open):
            self._after_backward(unit)
        self._reductions.finish()
        for unit in self.units:
            unit.release()
        self._running = False

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
        """This rank's parts: all that an optimizer may have."""
        dot = prefix and f"{prefix}."
        for unit in self.units:
            for i, flat in enumerate(unit.flats):
                yield f"{dot}{unit.name or 'root'}.part{i}", flat.own

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients: those of the parts, and whole ones of `no_sync`."""
        for flat in self._flats():
            flat.own.grad = None
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
        shapes = dict(pair for flat in self._flats() for pair in flat.shape_of.items())
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
        return whole_state(optimizer, self._flats(), [self._listed])

    def load_optimizer_state_dict(self, optimizer, state_dict: dict) -> None:
        """Take this rank's parts of a whole state."""
        load_whole_state(optimizer, self._flats(), [self._listed], state_dict)

    def _flats(self) -> list[Flat]:
        return [flat for unit in self.units for flat in unit.flats]

    def _cast(self, x):
        floating = torch.is_tensor(x) and x.is_floating_point()
        return x.to(self.dtype) if floating else x

    def _apply(self, fn, recurse=True):
        raise RuntimeError("FullySharded cannot be moved or cast: do so before it is wrapped")


def _differentiable(values) -> list[torch.Tensor]:
    return [x for x in tree_leaves(values) if torch.is_tensor(x) and x.requires_grad]


def _check_output(unit: Unit, output) -> None:
    """Raise TypeError for an object: nobody sees a tensor in it, or gathers before its backward."""
    for value in tree_leaves(output):
        if value is not None and not isinstance(value, torch.Tensor | bool | int | float | str):
            raise TypeError(
                f"FullySharded: unit {unit.name or 'root'!r} returns a {type(value).__name__}, but "
                "must return tensors, alone or in a tuple, a list or a dict"
            )


def _listed_members(module: nn.Module) -> Iterator[nn.Module]:
    """The members of the outermost module lists: layers, and not the experts of a layer."""
    if isinstance(module, nn.ModuleList):
        yield from module
    else:
        for child in module.children():
            yield from _listed_members(child)


def _divide(module: nn.Module, units) -> list[tuple[str, nn.Module, list[nn.Parameter]]]:
    """(name, module, parameters) of each unit: a parameter belongs to the innermost around it.

    One that several units share belongs to the module itself, the first of the list.
    """
    if units is None:
        units = list(_listed_members(module))
    units, names = list(units), {part: name for name, part in module.named_modules()}
    unknown = [unit for unit in units if unit not in names]
    if unknown:
        raise ValueError(f"units: a {type(unknown[0]).__name__} that is not part of the module")
    chosen = {names[unit]: unit for unit in units} | {"": module}
    home: dict[nn.Parameter, str] = {}
    for path, parameter in module.named_parameters(remove_duplicate=False):
        around = [name for name in chosen if not name or path.startswith(f"{name}.")]
        innermost = max(around, key=len)
        home[parameter] = innermost if home.get(parameter, innermost) == innermost else ""
    members = {name: [p for p in home if home[p] == name] for name in sorted(chosen, key=bool)}
    return [(name, chosen[name], held) for name, held in members.items() if held]
