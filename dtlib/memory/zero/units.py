"""What stage 3 gathers and releases at once: a unit, its flat tensors, and what is left of them.

The nouns:

- **Unit**: a module, such as a transformer block, whose weights come and go together.
- **Gathered**: a flat tensor whose whole comes and goes; this rank's part stays.
- **Piece**: what of one parameter lies in the part, perhaps nothing. It is what an optimizer gets.
- **Released**: a parameter whose numbers are not here. It says so, and does not count as empty.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from dtlib.memory.zero.parts import PartedFlat
from dtlib.parallelism.data.flat import by_kind
from dtlib.runtime.names import all_gather_single

# A NaN that no arithmetic gives, by the bytes of a number: who objects to a gather sends it.
OBJECTION = {
    2: (torch.int16, 0x7FD5),
    4: (torch.int32, 0x7FD5D7A1),
    8: (torch.int64, 0x7FF8D7A15EED0B1E),
}


class Released(nn.Parameter):
    """A parameter while its unit is released: what would be computed with it is refused.

    Its shape, its flags and its gradient may be looked at. Raises RuntimeError for all else.
    """

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        try:
            result = nn.Parameter.__torch_function__(func, types, args, kwargs or {})
        except Exception as error:
            raise _not_here(args) from error
        results = result if type(result) in (tuple, list) else [result]
        if func.__name__ != "__get__" and any(isinstance(x, torch.Tensor) for x in results):
            raise _not_here(args)
        return result

    def __deepcopy__(self, memo):
        raise _not_here([self])

    def __reduce_ex__(self, protocol):
        raise _not_here([self])


def _not_here(values) -> RuntimeError:
    flat = [x for value in values for x in (value if isinstance(value, tuple | list) else [value])]
    names = [getattr(x, "sharded_as", "a parameter") for x in flat if isinstance(x, Released)]
    return RuntimeError(
        f"FullySharded: {', '.join(names) or 'a parameter'} is not here now. A unit has its "
        "weights while its forward and its backward pass run, and all have them in "
        "`with net.gathered()`; a module whose weights are used without its forward can be no unit"
    )


class GatheredFlat(PartedFlat):
    """A flat tensor whose whole comes and goes. Its part is cut by parameter into ``pieces``.

    A piece has the numbers of one parameter that lie in this rank's part, and as many dimensions
    as the parameter, so that rules such as "decay for matrices only" find the same ones. All
    pieces are views of the part: messages are those of one flat tensor.
    """

    def __init__(self, parameters, group, dtype=None):
        super().__init__(parameters, group, dtype=dtype, apart=True)
        trains = self.own.requires_grad
        views = self.cut_part(self.own.detach())
        self.pieces = [nn.Parameter(view, requires_grad=trains) for view in views]
        self.piece_of = dict(zip(self.parameters, self.pieces, strict=True))
        self._nothing = self.whole.new_empty(0)

    def cut_part(self, part: torch.Tensor) -> list[torch.Tensor]:
        """Of a tensor like the part, one view for each parameter."""
        return [
            part[first : first + stop - start].view(stop - start, *[1] * (len(shape) - 1))
            for (first, start, stop), shape in zip(self.runs, self.shapes, strict=True)
        ]

    def own_of(self, value: torch.Tensor, i: int) -> torch.Tensor:
        """Of a tensor like the parameter of number `i`, what belongs to its piece."""
        _, start, stop = self.runs[i]
        return value.reshape(-1)[start:stop].view(self.pieces[i].shape)

    def lay_out_part(self, tensors: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """Tensors like the pieces, end to end, as a part has them; None counts as zeros."""
        dtype = next((x.dtype for x in tensors if x is not None), self.own.dtype)
        part = torch.zeros(self.part, dtype=dtype, device=self.own.device)
        for view, tensor in zip(self.cut_part(part), tensors, strict=True):
            if tensor is not None:
                view.copy_(tensor.detach())
        return part

    def join(self, part: torch.Tensor) -> None:
        """Each piece that is trained gets its gradient, a view of the part's, or adds it."""
        for piece, gradient in zip(self.pieces, self.cut_part(part), strict=True):
            if piece.requires_grad:
                piece.grad = gradient if piece.grad is None else piece.grad.add_(gradient)

    def join_nothing(self) -> None:
        """No rank had a gradient, which counts as zero."""
        if any(piece.requires_grad and piece.grad is None for piece in self.pieces):
            self.join(torch.zeros_like(self.own.detach()))

    def object(self) -> list[int]:
        """Take part in a gather that other ranks expect, with a part that says: not here.

        Returns the ranks that have said so.
        """
        sent = self.own.detach().to(self.whole.dtype, copy=True)
        if self.whole.itemsize in OBJECTION:
            kind, mark = OBJECTION[self.whole.itemsize]
            sent.view(kind).fill_(mark)
        received = sent.new_empty(self.length)
        all_gather_single(received, sent, group=self.group)
        return self.objectors(received)

    def objectors(self, received: torch.Tensor) -> list[int]:
        """The ranks that have sent no weights to a gather, as they run another unit."""
        if not (received.is_floating_point() and received.itemsize in OBJECTION and self.part):
            return []
        kind, mark = OBJECTION[received.itemsize]
        return (received.view(kind)[:: self.part] == mark).nonzero().flatten().tolist()

    def show(self) -> None:
        """The parameters are the whole's views."""
        for parameter in self.parameters:
            if type(parameter) is Released:
                parameter.__class__ = nn.Parameter
        super().show()

    def allocate(self) -> None:
        """Give the whole its memory back, for a gather to fill; views of it are valid again."""
        self.whole.untyped_storage().resize_(self.whole.numel() * self.whole.element_size())

    def release(self) -> None:
        """Free the whole. The parameters are empty until it is gathered again."""
        for parameter in self.parameters:
            parameter.data = self._nothing
            if type(parameter) is nn.Parameter:
                parameter.__class__ = Released
        self.whole.untyped_storage().resize_(0)


class Unit:
    """A module and its flat tensors: gathered together, released together."""

    def __init__(self, name: str, module: nn.Module, parameters, keep: bool, group, dtype=None):
        self.name, self.module, self.keep = name or "root", module, keep
        self.flats = [GatheredFlat(alike, group, dtype) for alike in by_kind(parameters)]
        self.gathered, self._works = False, None
        self.release()

    @property
    def under_way(self) -> bool:
        """Whether it is gathered, or being gathered."""
        return self.gathered or self._works is not None

    def start(self) -> None:
        """Begin to gather, and do not wait."""
        if not self.under_way:
            for flat in self.flats:
                flat.allocate()
            self._works = [flat.gather() for flat in self.flats]

    def gather(self) -> None:
        """Every rank has the unit's weights; nothing happens if it has them already.

        Raises RuntimeError where a rank has objected to the gather.
        """
        self.start()
        for flat, work in zip(self.flats, self._works or (), strict=False):
            work.wait()
            if not flat.whole.is_cuda and (ranks := flat.objectors(flat.whole)):
                raise RuntimeError(different(flat.rank, self, ranks))
        if not self.gathered:
            for flat in self.flats:
                flat.show()
        self.gathered, self._works = True, None

    def release(self) -> None:
        """Free the whole weights; each rank has its part."""
        for work in self._works or ():
            work.wait()
        for flat in self.flats:
            flat.release()
        self.gathered, self._works = False, None

    def object(self) -> list[int]:
        """Take part in its gather, for ranks that run it, without running it.

        Returns the ranks that did gather it.
        """
        objecting = {rank for flat in self.flats for rank in flat.object()}
        return sorted(set(range(self.flats[0].P)) - objecting) if objecting else []


def different(rank: int, unit: Unit | None, others) -> str:
    """What to say to ranks that run different units."""
    runs = f"unit {unit.name!r}" if unit else "no further unit"
    return (
        f"FullySharded: rank {rank} runs {runs}, and ranks {list(others)} of the group run "
        "another. All ranks gather a unit together, so all must run the same units in the same "
        "order: draw what is skipped from a generator with the same seed on every rank"
    )


def divide(module: nn.Module, units) -> list[tuple[str, nn.Module, list[nn.Parameter]]]:
    """(name, module, parameters) of each unit: a parameter belongs to the innermost around it.

    One that several units share belongs to the module itself, the first of the list.
    Raises ValueError for a unit that is no part of the module, or has no forward pass.
    """
    if units is None:
        units = list(_listed_members(module))
    units, names = list(units), {part: name for name, part in module.named_modules()}
    for unit in units:
        if unit not in names:
            kind = type(unit).__name__
            raise ValueError(f"units: a {kind} that is not part of the module")
        if getattr(unit.forward, "__func__", None) is nn.Module.forward:
            raise ValueError(
                f"units: {names[unit]!r} is a {type(unit).__name__}, which has no forward pass "
                "before which its weights could be gathered; list its members instead"
            )
    chosen = {names[unit]: unit for unit in units} | {"": module}
    home: dict[nn.Parameter, str] = {}
    for path, parameter in module.named_parameters(remove_duplicate=False):
        around = [name for name in chosen if not name or path.startswith(f"{name}.")]
        innermost = max(around, key=len)
        home[parameter] = innermost if home.get(parameter, innermost) == innermost else ""
    members = {name: [p for p in home if home[p] == name] for name in sorted(chosen, key=bool)}
    return [(name, chosen[name], held) for name, held in members.items() if held]


def _listed_members(module: nn.Module) -> Iterator[nn.Module]:
    """The members of the outermost module lists: layers, and not the experts of a layer."""
    if isinstance(module, nn.ModuleList):
        yield from module
    else:
        for child in module.children():
            yield from _listed_members(child)
