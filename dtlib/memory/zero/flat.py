"""What every ZeRO stage is made of: a flat tensor in P equal parts, of which each rank owns one.

The nouns:

- **Whole**: parameters laid end to end, and zeros up to a multiple of P.
- **Part**: one of the P equal pieces. Rank r owns part r: it alone updates it.
- **Gather**: every rank hands out its part, and all have the whole.
- **Reduce**: the ranks' gradients are added, and each rank gets the part that it owns.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from dtlib.formulas.require import require
from dtlib.parallelism.operators.messages import ranks_of
from dtlib.runtime.names import all_gather_single, reduce_scatter_single


class Flat:
    """Parameters of one kind, end to end in one tensor; this rank's part of it is ``own``.

    The parameters become views of ``whole``: who gathers into it has changed them all. ``own`` is
    what an optimizer is given. It is a view of ``whole`` too, unless it has another dtype (a
    master copy in 32 bits beside 16-bit weights) or is kept ``apart``, so that the whole can go.
    Arguments: `parameters`, at least one, of one dtype and device; `group`; `dtype` of the whole;
    `own_dtype` of the part, each as the parameters are where it is not given.
    Raises ValueError for parameters of several kinds or none, and for another dtype.
    """

    def __init__(self, parameters, group, *, dtype=None, own_dtype=None, apart=False):
        self.parameters, self.group = list(parameters), group
        self.rank, self.P = ranks_of(group)
        kinds = len(of_one_kind(self.parameters))
        allowed = "one: at least one parameter, all of one dtype and device, all trained or none"
        require(kinds == 1, "Flat", "the number of kinds of parameters", kinds, allowed)
        check_dtypes("Flat", dtype=dtype, own_dtype=own_dtype)
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.length = sum(self.sizes)
        self.part = -(-self.length // self.P)
        exact = self.lay_out([parameter.detach() for parameter in self.parameters])
        self.whole = exact.to(dtype or exact.dtype)
        own = exact[self.place].to(own_dtype or exact.dtype)
        trains = self.parameters[0].requires_grad
        self.own = nn.Parameter(own.clone() if apart else own, requires_grad=trains)
        self._views = self.cut(self.whole)
        self.show()

    @property
    def shape_of(self) -> dict[nn.Parameter, torch.Size]:
        """The shape of each parameter, also while it is empty."""
        return dict(zip(self.parameters, self.shapes, strict=True))

    @property
    def place(self) -> slice:
        """Where this rank's part lies in the whole."""
        return slice(self.rank * self.part, (self.rank + 1) * self.part)

    def cut(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """One view for each parameter, in its shape; what only fills up is left over."""
        pieces = whole[: self.length].split(self.sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def lay_out(self, tensors: Sequence[torch.Tensor | None], factor=1.0, dtype=None):
        """Tensors like the parameters, end to end, times ``factor``; None counts as zeros."""
        like = self.parameters[0]
        whole = torch.zeros(self.P * self.part, dtype=dtype or like.dtype, device=like.device)
        for view, tensor in zip(self.cut(whole), tensors, strict=True):
            if tensor is not None:
                torch.mul(tensor.detach(), factor, out=view)
        return whole

    def gather(self):
        """Start to fill the whole with all ranks' parts; wait for what it returns."""
        self._sent = self.own.detach().to(self.whole.dtype)
        return all_gather_single(self.whole, self._sent, group=self.group, async_op=True)

    def gathered(self, part: torch.Tensor) -> list[torch.Tensor]:
        """The ranks' tensors like ``own``, such as an optimizer's moments, cut by parameter."""
        whole = part.new_empty(self.P * self.part)
        all_gather_single(whole, part.detach().contiguous(), group=self.group)
        return self.cut(whole)

    def reduce(self, factor: float, dtype=None):
        """Take the gradients and start to add them, times ``factor``: (whole, part, handle)."""
        if any(p.grad is not None and p.grad.is_sparse for p in self.parameters):
            raise TypeError("a gradient is sparse; parts are cut from dense ones (sparse=False)")
        whole = self.lay_out([p.grad for p in self.parameters], factor, dtype)
        self.drop_gradients()
        part = whole.new_empty(self.part)
        return whole, part, reduce_scatter_single(part, whole, group=self.group, async_op=True)

    def join(self, part: torch.Tensor) -> None:
        """The reduced gradient is that of the part, or is added to it."""
        self.own.grad = part if self.own.grad is None else self.own.grad.add_(part)

    def has_gradients(self) -> bool:
        """Whether a whole gradient waits to be reduced."""
        return any(parameter.grad is not None for parameter in self.parameters)

    def drop_gradients(self) -> None:
        """No whole gradient is kept."""
        for parameter in self.parameters:
            parameter.grad = None

    def show(self) -> None:
        """The parameters are the whole's views."""
        for parameter, view in zip(self.parameters, self._views, strict=True):
            parameter.data = view

    def check_shown(self) -> None:
        """Raise RuntimeError unless they still are: else nothing would train them."""
        home = self.whole.untyped_storage()._cdata
        moved = sum(p.untyped_storage()._cdata != home for p in self.parameters)
        if moved:
            raise RuntimeError(
                f"Flat: {moved} of {len(self.parameters)} parameters lie in memory of their own "
                "again. Move or cast a module before its parameters are sharded, not afterwards"
            )

    def keep_changes(self) -> None:
        """The part is as the whole is now; a number that nobody changed keeps its precision."""
        now = self.whole[self.place]
        changed = now != self.own.to(now.dtype)
        self.own.copy_(torch.where(changed, now.to(self.own.dtype), self.own))


class Reductions:
    """Reduce-scatters, of which one at a time is under way: no second whole gradient is kept."""

    def __init__(self, factor: float, dtype=None):
        self.factor, self.dtype, self._under_way = factor, dtype, None

    def start(self, flat: Flat) -> None:
        """Wait for the one before, then start this one."""
        self.finish()
        self._under_way = flat, *flat.reduce(self.factor, self.dtype)

    def finish(self) -> None:
        """What has been added up joins the gradient of the part."""
        if self._under_way is None:
            return
        (flat, _, part, work), self._under_way = self._under_way, None
        work.wait()
        flat.join(part.to(flat.own.dtype))

    def forget(self) -> None:
        """What a backward pass that failed has left under way joins nothing."""
        if self._under_way is not None:
            self._under_way[-1].wait()
            self._under_way = None


def of_one_kind(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters that may lie in one flat tensor: one dtype, one device, all trained or none."""
    kinds: dict[tuple, list[nn.Parameter]] = {}
    for p in parameters:
        kinds.setdefault((p.dtype, p.device, p.requires_grad), []).append(p)
    return list(kinds.values())


def check_dtypes(owner: str, **dtypes) -> None:
    """Raise ValueError unless each is a floating-point dtype, or None."""
    for name, dtype in dtypes.items():
        good = dtype is None or (isinstance(dtype, torch.dtype) and dtype.is_floating_point)
        require(good, owner, name, dtype, "a floating-point torch.dtype, or None")


def whole_state(
    optimizer,
    flats: Iterable[Flat],
    groups: Sequence[Sequence[nn.Parameter]],
    masters: bool = False,
) -> dict:
    """The state of an optimizer of parts, as one of whole parameters would give it.

    Every rank calls it and gets the whole. `groups` lists the parameters of each parameter group,
    in the order in which an optimizer of whole parameters would number them. With `masters`, parts
    that are more precise than the weights are in it, under "master".
    Raises ValueError for an optimizer of something else.
    """
    flats = list(flats)
    _check_optimizer(optimizer, flats, groups)
    number = _numbers(groups)
    state: dict[int, dict] = {}
    for flat in flats:
        own_state = dict(optimizer.state.get(flat.own, {}))
        if masters and flat.own.dtype != flat.whole.dtype:
            own_state["master"] = flat.own
        for name, value in own_state.items():
            cut = _is_cut(name, value, flat.own)
            pieces = flat.gathered(value) if cut else [value] * len(flat.sizes)
            for parameter, piece in zip(flat.parameters, pieces, strict=True):
                kept = piece.detach().clone() if torch.is_tensor(piece) else piece
                state.setdefault(number[parameter], {})[name] = kept
    listed = [
        {**{key: group[key] for key in group if key != "params"}, "params": [number[p] for p in ps]}
        for group, ps in zip(optimizer.param_groups, groups, strict=True)
    ]
    return {"state": dict(sorted(state.items())), "param_groups": listed}


@torch.no_grad()
def load_whole_state(optimizer, flats, groups, state_dict: dict) -> None:
    """Give an optimizer of parts what `whole_state`, or one of whole parameters, has returned.

    Raises ValueError for an optimizer of something else, for other parameter groups, for another
    shape, and for counters that differ within one flat tensor, whose part has only one; then
    nothing is loaded.
    """
    _check_optimizer(optimizer, flats, groups)
    good = isinstance(state_dict, Mapping) and {"state", "param_groups"} <= set(state_dict)
    kind = list(state_dict) if isinstance(state_dict, Mapping) else type(state_dict).__name__
    require(good, "load_state_dict", "state_dict", kind, "a dict of 'state' and 'param_groups'")
    sizes = [len(group["params"]) for group in state_dict["param_groups"]]
    if sizes != [len(parameters) for parameters in groups]:
        raise ValueError(
            f"state_dict: parameter groups of {sizes} parameters; "
            f"here they have {[len(parameters) for parameters in groups]}"
        )
    number, loaded = _numbers(groups), {}
    for flat in flats:
        saved = [state_dict["state"].get(number[p], {}) for p in flat.parameters]
        names = dict.fromkeys(name for one in saved for name in one)
        loaded[flat.own] = {name: _loaded(name, saved, flat) for name in names}
    for own, state in loaded.items():
        if "master" in state:
            own.copy_(state.pop("master"))
        optimizer.state[own] = state
    for group, other in zip(optimizer.param_groups, state_dict["param_groups"], strict=True):
        group.update({key: value for key, value in other.items() if key != "params"})


def _check_optimizer(optimizer, flats, groups) -> None:
    parts = {flat.own for flat in flats}
    others = [p for group in optimizer.param_groups for p in group["params"] if p not in parts]
    if others:
        raise ValueError(
            f"optimizer: it has {len(others)} parameters that are no parts of the sharded ones; "
            "make it of FullySharded's own parameters()"
        )
    found, expected = len(optimizer.param_groups), len(groups)
    allowed = f"{expected}: a part mixes parameters, so that its groups are not theirs"
    require(found == expected, "optimizer", "the number of parameter groups", found, allowed)


def _numbers(groups) -> dict[nn.Parameter, int]:
    listed = [parameter for parameters in groups for parameter in parameters]
    return {parameter: i for i, parameter in enumerate(listed)}


def _is_cut(name: str, value, like: torch.Tensor) -> bool:
    """Whether it has a number for each number of the parameter; `step` is a counter for all."""
    return torch.is_tensor(value) and value.shape == like.shape and name != "step"


def _is_long(value) -> bool:
    return torch.is_tensor(value) and value.numel() != 1


def _loaded(name: str, saved: list[dict], flat: Flat):
    values = [one.get(name) for one in saved]
    shapes = [None if value is None else getattr(value, "shape", ()) for value in values]
    cut = name != "step" and all(
        s is None or s == shape for s, shape in zip(shapes, flat.shapes, strict=True)
    )
    if cut and all(value is None or torch.is_tensor(value) for value in values):
        return flat.lay_out(values, dtype=flat.own.dtype)[flat.place].clone()
    given = [value for value in values if value is not None]
    for value, shape in zip(values, flat.shapes, strict=True):
        if getattr(value, "shape", shape) != shape and any(map(_is_long, given)):
            raise ValueError(
                f"state_dict: {name!r} has shape {list(value.shape)}, but must have that of its "
                f"parameter, {list(shape)}"
            )
    if any(float(value) != float(given[0]) for value in given):
        raise ValueError(
            f"state_dict: {name!r} differs among parameters that lie in one flat tensor: "
            f"{sorted({float(value) for value in given})}; their part has only one"
        )
    return given[0].clone() if torch.is_tensor(given[0]) else given[0]
